"""Manifests and their lists, read in bounded memory; both halves read them so."""
