"""Isotherm: maintenance for Apache Iceberg tables that streams write.

The daemon's package. `docs/design.md` is the map; the order of the imports is held by import-linter.
"""
