"""The fenced append of a changelog: every change, appended, if nobody else appended since the vector was read.

Plain `append` would let a second driver append the same rows. An overwrite of nothing, validated from the snapshot
at which the vector was read, is recorded as an append and refused after a foreign one; compaction and expiry are
no conflict.
"""
# ruff: noqa: S608 (every name in the SQL is quoted, every value a literal)

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql.functions import lit

from isotherm_ingest.sql.text import quoted
from isotherm_ingest.tables.lake import CHANGELOG_COLUMNS

_ABOUT = {name: name.removeprefix("_") for name in CHANGELOG_COLUMNS} | {"_topic_partition": "partition"}
"""The field of a change that becomes a column of a changelog."""


def changelog_sql(view: str, columns: Mapping[str, str]) -> str:
    """SQL of the rows to append."""
    rows = [f"row.{quoted(name)} AS {quoted(name)}" for name in columns if name not in CHANGELOG_COLUMNS]
    about = [f"change.{_ABOUT[name]} AS {name}" for name in CHANGELOG_COLUMNS if name in columns]
    return f"SELECT {', '.join([*rows, *about])} FROM {view} WHERE change.problem IS NULL"


def fenced_append(rows: DataFrame, target: str, read_at: int | None, summary: Mapping[str, str]) -> None:
    """Append the rows, with the summary, if the table is still as it was at `read_at`.

    Raises:
        Exception: Spark's; a message with `ValidationException` is a lost race.
    """
    writer = rows.writeTo(target).option("isolation-level", "serializable")
    if read_at is not None:
        writer = writer.option("validate-from-snapshot-id", str(read_at))
    for name, value in summary.items():
        writer = writer.option(f"snapshot-property.{name}", value)
    writer.overwrite(lit(False))
