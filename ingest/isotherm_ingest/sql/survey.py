"""The SQL that looks over decoded rows, and what it tells: counts, problems, and the event time that they reach."""

# ruff: noqa: S608 (every name in the SQL is quoted, every value a literal)
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from isotherm.contract.boundary import BOUNDARY_QUANTILE
from isotherm_ingest.sql.text import quoted
from isotherm_ingest.tables.offsets import Position


def survey_sql(view: str, event_time: tuple[str, str] | None) -> str:
    """SQL that looks over a decoded view: by Kafka partition, how many rows, what problems, which event time.

    Args:
        view: the decoded view.
        event_time: the column that `valid_through` speaks of, and its type.
    """
    fine = "FILTER (WHERE change.problem IS NULL)"
    if event_time is None:
        quantile = "CAST(NULL AS BIGINT)"
    else:
        name, kind = event_time
        column = f"row.{quoted(name)}"
        moment = column if kind == "TIMESTAMP" else f"CAST({column} AS TIMESTAMP)"
        quantile = f"percentile_approx(unix_millis({moment}), {BOUNDARY_QUANTILE}, 1000) {fine}"
    return f"""
        SELECT change.topic, change.partition, count(*) {fine} AS rows, count(change.problem) AS problems,
            array_distinct(flatten(collect_set(change.kept) {fine})) AS kept,
            array_distinct(flatten(collect_set(change.untold))) AS untold, unix_millis(max(change.ts)) AS newest_ms,
            {quantile} AS reached_ms
        FROM {view} GROUP BY change.topic, change.partition"""


@dataclass(frozen=True, slots=True)
class Survey:
    """What looking over the rows told."""

    rows: int
    problems: int
    kept: frozenset[str]
    """Columns whose value some row does not tell, so that the one in the table stays."""
    untold: frozenset[str]
    """Columns in which a null may stand for an unchanged large value."""
    newest_ms: int | None
    reached_ms: Mapping[Position, int]


def survey_of(rows: Sequence[Mapping[str, Any]] | Sequence[Any]) -> Survey:
    """One survey of the rows of all Kafka partitions."""
    return Survey(
        rows=sum(row["rows"] for row in rows),
        problems=sum(row["problems"] for row in rows),
        kept=frozenset(name for row in rows for name in row["kept"] or ()),
        untold=frozenset(name for row in rows for name in row["untold"] or ()),
        newest_ms=max((row["newest_ms"] for row in rows if row["newest_ms"] is not None), default=None),
        reached_ms={
            (row["topic"], row["partition"]): row["reached_ms"]
            for row in rows
            if row["reached_ms"] is not None
        },
    )
