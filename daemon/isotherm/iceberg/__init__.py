"""Everything the daemon does to Iceberg's tables.

Of the daemon, only this folder and `clients`, `parquet`, `audit` and `demo` import PyIceberg, PyArrow, DuckDB or DataFusion.
"""
