"""Everything that touches Iceberg's tables: only this folder imports PyIceberg, PyArrow, DuckDB and DataFusion."""
