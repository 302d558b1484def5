"""Policies: what their files may say, which of them holds for a table, and where two of them clash."""
