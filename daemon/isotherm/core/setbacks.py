"""After a job that failed: whether its partition waits, for how long, and whether it is to blame. No clock, no I/O."""

from isotherm.contract.identity import PartitionKey, TableId
from isotherm.core.model.holds import Hold, HoldKind

RETRY_MS = 60_000
"""The first failure of a partition costs it a minute, each further one in a row twice as long, at most a day."""
MAX_RETRY_MS = 86_400_000
EXCUSED = frozenset(
    {
        "cancelled",
        "conflict",
        "format",
        "gone",
        "halted",
        "hot",
        "lost",
        "owner",
        "paused",
        "policy",
        "schema",
        "stopped",
        "topic",
    }
)
"""Ends of a job for which its partition is not to blame, and after which it may be tried again at once."""
OUTAGES = frozenset({"catalog", "clock", "contention", "storage", "unavailable"})
"""Ends for which the store, the catalog, this machine's clock or the traffic on the table is to blame: the partition
waits, and no failure of its own is counted."""
MAX_OUTAGE_MS = 3_600_000
"""The longest wait after an outage; like that after a failure it begins with a minute and doubles."""


def setback(
    table: TableId, partition: PartitionKey, reason: str, why: str, before: Hold | None, now_ms: int
) -> Hold | None:
    """What holds a partition back after a job of it failed, or None where nothing does.

    Args:
        table: the table.
        partition: the partition.
        reason: the outcome's one word.
        why: the outcome's sentence; a refused commit's begins with the word.
        before: what held the partition back before.
        now_ms: the time.
    """
    if reason in EXCUSED:
        return None
    failures = 0 if before is None else before.failures
    if reason in OUTAGES:
        waited_ms = 0 if before is None else (before.until_ms or 0) - before.at_ms
        span_ms = min(max(RETRY_MS, 2 * waited_ms), MAX_OUTAGE_MS)
    else:
        failures += 1
        span_ms = min(RETRY_MS << min(failures - 1, 20), MAX_RETRY_MS)
        if reason == "crashed" and failures == 1:
            span_ms = 0  # most daemons that die do not die of their job
    return Hold(
        HoldKind.QUARANTINE,
        table.uuid,
        table.name,
        f"{reason}: {why.removeprefix(f'{reason}: ')}",
        now_ms,
        partition=partition,
        until_ms=now_ms + span_ms,
        failures=failures,
    )
