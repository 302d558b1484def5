"""How far a stream has come, by the rows of one commit: in event time, at a high quantile of them."""

from collections.abc import Iterable, Mapping

from isotherm.contract.boundary import BOUNDARY_QUANTILE
from isotherm.contract.identity import PartitionKey
from isotherm.core.model.changes import PartitionDelta
from isotherm.core.model.tables import PartitionField
from isotherm.core.partitions import time_span


def by_rows(reached: Iterable[tuple[int, int]]) -> int | None:
    """The time before which nearly all rows lie, of groups of rows by the time that each group reaches (ms, rows).

    Returns None where there are no rows. A few rows from the future, or a file with a handful of them, do not count.
    """
    sorted_groups = sorted([group for group in reached if group[1] > 0])
    below = BOUNDARY_QUANTILE * sum([rows for _, rows in sorted_groups])
    for reached_ms, rows in sorted_groups:
        below -= rows
        if below <= 0:
            return reached_ms
    return None


def boundary_of_rows(
    partitions: Mapping[PartitionKey, PartitionDelta], fields: Iterable[PartitionField], committed_at_ms: int
) -> int | None:
    """How far one commit's rows say that the stream has come; None where they say nothing of event time.

    Of a partition whose files have no bounds nothing is known but that it has begun. A bound counts up to the end of its
    partition, and up to the commit: a row of tonight that was written at noon has the clock of a device that is wrong.
    So a few rows from the future, or a backfill of last year, do not move the boundary.
    """
    fields = tuple(fields)
    groups = []
    for key, delta in partitions.items():
        if not delta.added.rows or (span := time_span(key, fields)) is None:
            continue
        reached_ms = span.start_ms
        if delta.reached_ms is not None:
            reached_ms = max(span.start_ms, min(delta.reached_ms, span.end_ms))
        groups.append((min(reached_ms, committed_at_ms), delta.added.rows))
    return by_rows(groups)
