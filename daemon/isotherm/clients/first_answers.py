"""Clients that remember what they were told, or not told, in their first moment.

What is away while a client is made would be away for it as long as the process lives, though it is back since. So such a
client is refused, and whoever wanted it makes another one.
"""

from typing import Any

from pyiceberg.catalog import Catalog


def check_sql_schema(catalog: Catalog) -> None:
    """Raises ConnectionError: the client takes its tables for others than they are, because its first question was lost.

    PyIceberg takes any error of that question for tables that are not there, and those that it makes have a column more
    than the tables that others have made.
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
    if found != (catalog._schema_version == "v1"):  # noqa: SLF001 (PyIceberg asks it alone)
        raise ConnectionError("its database gave no answer for a moment while it was opened")


def check_keys(session: Any) -> None:
    """Raises ConnectionError: a session of AWS has found no keys, as where a machine's role is not known yet."""
    if session.get_credentials() is None:
        raise ConnectionError(
            "no keys for AWS are found: in its properties, the environment, or the machine's role"
        )
