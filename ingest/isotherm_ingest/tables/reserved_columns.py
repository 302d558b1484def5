"""Names that Iceberg keeps for itself."""

RESERVED_COLUMNS = frozenset(
    {"_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"}
)
"""Iceberg's metadata columns; a table with one of them can be made, and never read by Spark."""
