"""After a job that failed: whether its partition waits, for how long, and whether it is to blame. No clock, no I/O."""

from isotherm.contract.identity import PartitionKey, TableId
from isotherm.core.model.holds import Hold, HoldKind
from isotherm.core.model.jobs import NOTHING_READ, JobRead
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.core.part_size import FAILED_BEFORE, after_failure, last_failure

RETRY_MS = 60_000
"""The first failure of a partition costs it a minute, each further one in a row twice as long, at most a day."""
MAX_RETRY_MS = 86_400_000
EXCUSED = frozenset(
    {
        Reason.FORMAT,
        Reason.GONE,
        Reason.HALTED,
        Reason.LOST,
        Reason.OWNER,
        Reason.PAUSED,
        Reason.POLICY,
        Reason.SCHEMA,
        Reason.STOPPED,
        Reason.TOPIC,
    }
)
"""Ends of a job for which its partition is not to blame, and after which it may be tried again at once."""
OUTAGES = frozenset(
    {
        Reason.CATALOG,
        Reason.CLOCK,
        Reason.CONTENTION,
        Reason.INTENT,
        Reason.STAGED,
        Reason.STORAGE,
        Reason.UNAVAILABLE,
        Reason.UPGRADED,
    }
)
"""Ends for which the store, the catalog, this machine's clock, an upgrade of the code that runs here or the traffic on the
table is to blame: the partition waits, and no failure of its own is counted. A writer's intent is such traffic: where one
comes every few minutes, and names all partitions, a job that is begun again at once reads the same files all day for nothing.
So is what a writer has staged."""
MAX_OUTAGE_MS = 3_600_000
"""The longest wait after an outage; like that after a failure it begins with a minute and doubles."""
IN_VAIN = frozenset(
    {
        Reason.CANCELLED,
        Reason.CONFLICT,
        Reason.HOT,
        Reason.NOTHING_TO_DO,
        Reason.OUTPUT_SPEC,
        Reason.WINDOW,
    }
)
"""Ends of a job because a writer came back to its partition, or its window was too short, or because there was nothing in it to do (deletes that
name no file any more): what was read was read in vain, and nothing failed. The partition waits, each time twice as long,
so that a job which never fits between two writes is not begun for ever."""
IN_VAIN_PART = 24
"""The first wait is such a part of the policy's `compact.rest`, and no wait is longer than that; of a day at least, where
there was nothing to do, and of a day, where nothing could be moved into another partition spec."""


def setback(
    table: TableId,
    partition: PartitionKey,
    refusal: Refusal,
    before: Hold | None,
    rest_ms: int,
    now_ms: int,
    read: JobRead = NOTHING_READ,
) -> Hold | None:
    """What holds a partition back after a job of it failed, or None where nothing does.

    Args:
        table: the table.
        partition: the partition.
        refusal: why the job failed.
        before: what held the partition back before.
        rest_ms: the policy's `compact.rest`.
        now_ms: the time.
        read: what the job was to read.
    """
    if refusal.reason in EXCUSED:
        return None
    failures = 0 if before is None else before.failures
    waited_ms = 0 if before is None or before.until_ms is None else before.until_ms - before.at_ms
    is_of_move = refusal.reason is Reason.OUTPUT_SPEC
    if before is not None and before.why.startswith(f"{Reason.OUTPUT_SPEC}: ") != is_of_move:
        waited_ms = 0  # for something else
    why = str(refusal)
    if (is_of_move or refusal.reason in OUTAGES) and (failed_as := last_failure(before)):
        why += FAILED_BEFORE + failed_as
    if refusal.reason in OUTAGES:
        span_ms = min(max(RETRY_MS, 2 * waited_ms), MAX_OUTAGE_MS)
    elif refusal.reason in IN_VAIN:
        # Where there is nothing to do there will be nothing as long as nobody writes, whatever the policy says of rest.
        most_ms = max(rest_ms, MAX_RETRY_MS) if refusal.reason is Reason.NOTHING_TO_DO else rest_ms
        most_ms = MAX_RETRY_MS if is_of_move else most_ms
        if not most_ms:
            return None
        # That nothing can be moved says nothing of the other jobs: one that fails is begun between two such answers.
        failures = failures if is_of_move else 0
        if before is None or (before.until_ms or 0) + most_ms <= now_ms:
            waited_ms = 0  # that was long ago
        span_ms = min(max(most_ms // IN_VAIN_PART, 2 * waited_ms), most_ms)
    else:
        failures += 1
        span_ms = min(RETRY_MS << min(failures - 1, 20), MAX_RETRY_MS)
        if refusal.reason is Reason.CRASHED and failures == 1:
            span_ms = 0  # most daemons that die do not die of their job
    return Hold(
        HoldKind.QUARANTINE,
        table.uuid,
        table.name,
        why,
        now_ms,
        partition=partition,
        until_ms=now_ms + span_ms,
        failures=failures,
        part=after_failure(before, refusal.reason, read, now_ms),
    )
