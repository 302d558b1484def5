"""A catalog whose database finds names in any case."""

import sqlite3


def any_case(path):
    """Have an SQL catalog find names in any case, as MySQL, Glue and Hive do."""
    with sqlite3.connect(path) as catalog:
        catalog.execute("ALTER TABLE iceberg_tables RENAME TO exact")
        catalog.execute(
            "CREATE TABLE iceberg_tables (catalog_name TEXT, table_namespace TEXT COLLATE NOCASE, "
            "table_name TEXT COLLATE NOCASE, metadata_location TEXT, previous_metadata_location TEXT, iceberg_type TEXT)"
        )
        catalog.execute(
            "INSERT INTO iceberg_tables SELECT catalog_name, table_namespace, table_name, metadata_location, "
            "previous_metadata_location, iceberg_type FROM exact"
        )
    catalog.close()
