"""Whether a commit of ours may have touched a hot partition: old files alone, beside writers that only append."""

from collections.abc import Sequence

from isotherm.audit.evidence import ColdRule, Commit, Evidence, Touch
from isotherm.audit.intents import open_meanwhile

YOUNG_AT_MOST_MS = 45 * 60_000
"""A file that is as old as this is old, however long the partition must be quiet to be cold."""
ENOUGH_APPENDS = 20


def why_not_beside(
    history: Evidence, commit: Commit, touch: Touch, before: Sequence[Commit], rule: ColdRule
) -> tuple[str | None, str | None]:
    """Why a commit of ours broke the rule, and, where it did not as far as we see, why that is not known.

    Args:
        history: all evidence.
        commit: ours.
        touch: what it did to the partition that was hot.
        before: its ancestors, newest first.
        rule: what the policy said.
    """
    for_ms = 0 if rule.minor_after_ms is None else rule.minor_after_ms
    line = [one for one in before if not one.is_ours]
    late = [one for one in line if commit.committed_at_ms - one.committed_at_ms < for_ms]
    proof = line[: max(len(late), ENOUGH_APPENDS)]
    if (other := next((one for one in proof if not one.is_append and not one.is_idle), None)) is not None:
        ago_ms = commit.committed_at_ms - other.committed_at_ms
        return f"snapshot {other.snapshot_id}, {ago_ms} ms before, was no append ({other.operation})", None
    young_ms = min(rule.quiet_for_ms, YOUNG_AT_MOST_MS)
    newest = touch.newest_removed
    for other in _written_since(line, touch, commit.committed_at_ms - young_ms):
        if newest is not None and other.sequence_number <= newest:
            return f"it removed files that snapshot {other.snapshot_id} had only just brought", None
    if (complaint := open_meanwhile(history, touch.partition, commit)) is not None:
        return complaint, None
    oldest = before[-1] if before else commit
    if any(one.touches is None for one in proof):
        return None, "nobody can say any more whether the table's writers only appended"
    if len(proof) < ENOUGH_APPENDS or len(late) == len(line):
        # The line ends within the span.
        if oldest.parent_id is None:
            return f"only {len(line)} appends in a shorter time were on record", None
        return None, "the snapshots that show whether the table's writers only appended have expired"
    return None, None


def _written_since(line: Sequence[Commit], touch: Touch, since_ms: int) -> Sequence[Commit]:
    """The writes into a partition after a time."""
    return [one for one in line if one.committed_at_ms > since_ms and _wrote(one, touch)]


def _wrote(commit: Commit, touch: Touch) -> bool:
    return any(one.partition == touch.partition for one in commit.touches or ())
