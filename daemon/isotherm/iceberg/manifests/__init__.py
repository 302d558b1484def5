"""Manifests: written as bytes, counted, and searched for the files that are live."""
