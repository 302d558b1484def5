"""Isotherm keeps stream-written Apache Iceberg tables fast.

This is the daemon's package. `docs/design.md` is the map. import-linter checks the order of the imports.
"""
