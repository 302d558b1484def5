"""The SQL that looks over decoded rows, and what it tells: counts, problems, and the partitions that are touched.

Partition values are counted by Iceberg's own functions, so that nobody counts differently.
"""

# ruff: noqa: S608 (every name in the SQL is quoted, every value a literal)
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from isotherm.contract.boundary import BOUNDARY_QUANTILE
from isotherm.contract.identity import Scalar
from isotherm_ingest.sql.mirror import Touched
from isotherm_ingest.sql.text import quoted
from isotherm_ingest.tables.lake import SpecField
from isotherm_ingest.tables.offsets import Position


def survey_sql(
    view: str,
    event_time: tuple[str, str] | None,
    partitioned_by: Sequence[tuple[SpecField, str]],
    catalog: str,
) -> str:
    """SQL that looks over a decoded view: by Kafka partition, how many rows, what problems, which partitions.

    Args:
        view: the decoded view.
        event_time: the column that `valid_through` speaks of, and its type.
        partitioned_by: the fields of the spec and the types of their columns, where their columns never change for
            a key. Empty if the partitions are not wanted.
        catalog: the catalog's name, for Iceberg's own functions.
    """
    fine = "FILTER (WHERE change.problem IS NULL)"
    if event_time is None:
        quantile = "CAST(NULL AS BIGINT)"
    else:
        name, kind = event_time
        column = f"row.{quoted(name)}"
        moment = column if kind == "TIMESTAMP" else f"CAST({column} AS TIMESTAMP)"
        quantile = f"percentile_approx(unix_millis({moment}), {BOUNDARY_QUANTILE}, 1000) {fine}"
    touched = before = "CAST(NULL AS ARRAY<STRING>)"
    unknown = moved = "0L"
    if partitioned_by:
        row = [
            _ordinal(field, kind, f"row.{quoted(field.column)}", catalog) for field, kind in partitioned_by
        ]
        old = [
            _ordinal(field, kind, f"before.{quoted(field.column)}", catalog) for field, kind in partitioned_by
        ]
        columns = {field.column: None for field, _ in partitioned_by}
        null_in_row = " OR ".join(f"row.{quoted(name)} IS NULL" for name in columns)
        no_old = " OR ".join(f"before.{quoted(name)} IS NULL" for name in columns)
        differs = " OR ".join(f"NOT row.{quoted(name)} <=> before.{quoted(name)}" for name in columns)
        touched = f"collect_set(struct({', '.join(row)})) {fine}"
        before = (
            f"collect_set(struct({', '.join(old)})) FILTER (WHERE change.problem IS NULL AND NOT ({no_old}))"
        )
        unknown = f"count_if({null_in_row}) {fine}"
        moved = f"count_if(change.op = 'u' AND NOT ({no_old}) AND ({differs})) {fine}"
    return f"""
        SELECT change.topic, change.partition, count(*) {fine} AS rows, count(change.problem) AS problems,
            count_if(size(change.kept) > 0) {fine} AS unavailable,
            array_distinct(flatten(collect_set(change.untold))) AS untold, unix_millis(max(change.ts)) AS newest_ms,
            {quantile} AS reached_ms, {unknown} AS unknown, {moved} AS moved,
            {touched} AS touched, {before} AS touched_before
        FROM {view} GROUP BY change.topic, change.partition"""


def _ordinal(field: SpecField, kind: str, column: str, catalog: str) -> str:
    """SQL of a partition value, as manifests hold it: Iceberg's own functions, so that nobody counts differently."""
    functions = f"{quoted(catalog)}.system"
    match field.transform:
        case "hours" | "months" | "years":
            value = f"{functions}.{field.transform}({column})"
        case "days":
            value = f"unix_date({functions}.days({column}))"
        case "bucket" | "truncate":
            value = f"{functions}.{field.transform}({field.width}, {column})"
        case _:
            value = f"unix_date({column})" if kind == "DATE" else column
    return f"{value} AS p{field.field_id}"


def can_name_partitions(field: SpecField, kind: str) -> bool:
    """Whether the values of this field can be said as JSON in the one way that everybody says them."""
    match field.transform:
        case "hours" | "days" | "months" | "years" | "bucket":
            return True
        case "truncate":
            return kind in {"STRING", "INT", "BIGINT"}
        case "identity":
            return kind in {"STRING", "INT", "BIGINT", "BOOLEAN", "DATE"}
        case _:
            return False


@dataclass(frozen=True, slots=True)
class Survey:
    """What looking over the rows told."""

    rows: int
    problems: int
    unavailable: int
    untold: frozenset[str]
    """Columns in which a null may stand for an unchanged large value."""
    newest_ms: int | None
    reached_ms: Mapping[Position, int]
    touched: Touched | None
    """None where a row does not tell its partition, or a column changed that should not."""


def survey_of(
    rows: Sequence[Mapping[str, Any]] | Sequence[Any], fields: tuple[tuple[SpecField, str], ...]
) -> Survey:
    """One survey of the rows of all Kafka partitions."""
    touched: Touched | None = None
    if fields and not any(row["unknown"] or row["moved"] for row in rows):
        values: set[tuple[Scalar, ...]] = {
            tuple(one) for row in rows for name in ("touched", "touched_before") for one in row[name] or ()
        }
        touched = Touched(fields, frozenset(values))
    return Survey(
        rows=sum(row["rows"] for row in rows),
        problems=sum(row["problems"] for row in rows),
        unavailable=sum(row["unavailable"] for row in rows),
        untold=frozenset(name for row in rows for name in row["untold"] or ()),
        newest_ms=max((row["newest_ms"] for row in rows if row["newest_ms"] is not None), default=None),
        reached_ms={
            (row["topic"], row["partition"]): row["reached_ms"]
            for row in rows
            if row["reached_ms"] is not None
        },
        touched=touched,
    )
