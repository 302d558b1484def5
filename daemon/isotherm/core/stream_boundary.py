"""How far a stream has come, in event time: by its writer's word, or at a high quantile of the rows of one commit."""

from collections.abc import Iterable, Mapping

from isotherm.contract.boundary import BOUNDARY_QUANTILE, MAX_AHEAD_MS
from isotherm.contract.identity import PartitionKey
from isotherm.core.model.changes import Change, PartitionDelta
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


def boundary_after(before_ms: int | None, change: Change, fields: tuple[PartitionField, ...]) -> int | None:
    """The boundary after a change: by the writer's word, else by its rows, and never further back than it was."""
    if not change.is_foreign_write:
        return before_ms
    reached_ms = change.valid_through_ms
    if reached_ms is None:
        reached_ms = boundary_of_rows(change.partitions, fields, change.committed_at_ms)
    if reached_ms is None:
        return before_ms
    capped_ms = min(reached_ms, change.committed_at_ms + MAX_AHEAD_MS)
    return capped_ms if before_ms is None else max(before_ms, capped_ms)
