"""Clients that remember what they were told, or not told, in their first moment.

What is away while a client is made would be away for it as long as the process lives, though it is back since. So such a
client is refused, and whoever wanted it makes another one.
"""

import os
from collections.abc import Mapping
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.io import AWS_REGION, S3_ENDPOINT, S3_REGION
from pyiceberg.io import pyarrow as pyiceberg_files

REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
"""Environment variables that name a region."""


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


def check_region(properties: Mapping[str, Any], bucket: str | None) -> None:
    """Raises ConnectionError: nobody says in which region a bucket is, and S3 does not tell now."""
    is_said = any(properties.get(name) for name in (S3_REGION, AWS_REGION, S3_ENDPOINT))
    if bucket is None or is_said or any(os.environ.get(name) for name in REGIONS):
        return
    resolve = pyiceberg_files._cached_resolve_s3_region  # noqa: SLF001 (it keeps that it got no answer)
    if resolve(bucket=bucket) is None:
        resolve.cache_clear()
        raise ConnectionError(f"the region of bucket {bucket} cannot be found out now; s3.region says it")
