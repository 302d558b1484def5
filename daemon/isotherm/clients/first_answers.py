"""Clients that remember what they were told, or not told, in their first moment.

What is away while a client is made would be away for it as long as the process lives, though it is back since. So such a
client is refused, and whoever wanted it makes another one.
"""

from typing import Any

from pyiceberg.catalog import Catalog


def check_sql_schema(catalog: Catalog) -> None:
    """Have no client take its tables for others than they are.

    PyIceberg takes any error of its first question for tables that are not there, and those that it makes have a column more
    than the tables that others have made. So it takes an error for the column's being added, where it was to add that.

    Raises:
        ConnectionError: that question was lost.
        PermissionError: the column was not added.
    """
    # Only such catalogs need SQLAlchemy.
    from pyiceberg.catalog.sql import SqlCatalog
    from sqlalchemy import inspect

    if not isinstance(catalog, SqlCatalog):
        return
    questions = inspect(catalog.engine)
    if not questions.has_table("iceberg_tables"):
        return
    found = any(column["name"] == "iceberg_type" for column in questions.get_columns("iceberg_tables"))
    if not found and catalog.properties.get("schema_version") == "v1":
        raise PermissionError(
            "its table iceberg_tables has no column iceberg_type, and schema_version (v1) could not add it: grant ALTER, add "
            "the column (VARCHAR(5)), or leave schema_version out"
        )
    if found != (catalog._schema_version == "v1"):  # noqa: SLF001 (PyIceberg asks it alone)
        raise ConnectionError("its database gave no answer for a moment while it was opened")


def check_keys(session: Any) -> None:
    """Raises ConnectionError: a session of AWS has found no keys, as where a machine's role is not known yet."""
    if session.get_credentials() is None:
        raise ConnectionError(
            "no keys for AWS are found: in its properties, the environment, or the machine's role"
        )
