"""Old small files of a partition that is still written, merged where the table's writers only append.

An append names no file that is there, so it never conflicts with a rewrite of older ones. The policy must allow it
(`compact.minor_after`), and what the table's writers did must prove it: every commit of others for that long was an
append. The first one that is not makes the partition hot at once, and ends a job in flight. An open intent does too:
nobody announces an append.

A file that came within the margin (`cold.quiet_for`, an hour at most) is never taken.
"""

from dataclasses import dataclass, replace

from isotherm.core.appends import ARRIVAL_MS, ARRIVALS
from isotherm.core.model.decisions import Wake
from isotherm.core.partition_state import PartitionState
from isotherm.core.planner.coldness import Finding
from isotherm.core.policy.policy import Cold, Policy
from isotherm.core.state import TableState
from isotherm.core.units import DAY_MS, span_text
from isotherm.runtime.text import counted

MARGIN_AT_MOST_MS = (ARRIVALS - 1) * ARRIVAL_MS
"""Arrivals are kept apart for so long."""

ENOUGH_APPENDS = 20
"""So many appends must be on record: of a table that is seldom written, a week says little."""

OPTION = "compact.minor_after"

WRITTEN_FOR_MS = DAY_MS
"""A partition that has been written for longer will be for longer still: whoever waits for it to cool waits in vain."""

SHOWS_MS = 7 * DAY_MS
"""Appends alone for so long show weekly jobs."""


@dataclass(frozen=True, slots=True)
class Old:
    """The old files of a partition that is hot."""

    partition: PartitionState
    """As if nothing else were in it."""
    through_number: int
    """They came with this sequence number of the table, or an earlier one."""
    age: str
    """How old they are, in words."""
    proof: str
    """What shows that nobody is disturbed."""
    wake: Wake
    """When there will be more of them, if nothing happens before."""


def margin_ms(cold: Cold) -> int:
    """How old a file must be."""
    return min(cold.quiet_for, MARGIN_AT_MOST_MS)


def proof(state: TableState, policy: Policy, now_ms: int) -> Finding | None:
    """Whether the table's writers are proved to append only, `is_hot` where not. Returns None where nobody asks."""
    needed_ms = policy.compact.minor_after
    if needed_ms is None:
        return None
    count, since_ms = state.appends.count, state.appends.since_ms
    for_ms = 0 if since_ms is None else max(now_ms - since_ms, 0)
    why = "no append is on record since the last write of another kind"
    if count:
        why = f"the table's {counted(count, 'write')} of the last {span_text(for_ms)} only appended"
    if count >= ENOUGH_APPENDS and for_ms >= needed_ms:
        return Finding("minor", False, why, option=OPTION)
    why += f", {ENOUGH_APPENDS} in {span_text(needed_ms)} are needed"
    wake = Wake(
        at_ms=None if since_ms is None or for_ms >= needed_ms else since_ms + needed_ms,
        commits=state.foreign_commits + ENOUGH_APPENDS - count if count < ENOUGH_APPENDS else None,
    )
    return Finding("minor", True, why, wake, OPTION)


def on_record(state: TableState, policy: Policy) -> int | None:
    """Since when the table's writers only append, where that may allow a job; None where it may not.

    Once it is another time, what was decided with it holds no more, in no partition.
    """
    is_enough = policy.compact.minor_after is not None and state.appends.count >= ENOUGH_APPENDS
    return state.appends.since_ms if is_enough else None


def old_files(
    partition: PartitionState, state: TableState, policy: Policy, hot: Finding | None, now_ms: int
) -> Old | Finding | None:
    """The files of a hot partition that may be merged though it is hot, or what keeps them from it.

    Returns None where the policy does not allow it. `hot` is what keeps it hot, if anything does.
    """
    proved = proof(state, policy, now_ms)
    if proved is None:
        return None
    if partition.deletes:
        count = counted(partition.deletes_total.files, "delete file")
        return Finding("minor", True, f"it holds {count}, which only a cold partition gets rid of")
    if hot is not None and hot.rule == "intent":
        return Finding(
            "minor", True, "an open intent names it, and a writer that only appends sends no intent", hot.wake
        )
    if proved.is_hot:
        return proved
    partition, margin = partition.as_of(now_ms), margin_ms(policy.cold)
    through, age = _through(partition, state, now_ms - margin), f"older than {span_text(margin)}"
    wake = Wake(at_ms=_next_old_ms(partition, margin, now_ms))
    if through is None:
        return Finding("minor", True, f"no file is surely {age}", wake)
    old = replace(partition, data=partition.came_by(through), arrivals=())
    return Old(old, through, age, proved.why, wake)


def advice(partition: PartitionState, state: TableState, hot: Finding, now_ms: int) -> str:
    """That the policy could allow it, for a partition that is written on and on, and owes what is due; or nothing."""
    begun_ms, since_ms = partition.first_write_at_ms, state.appends.since_ms
    if begun_ms is None or now_ms - begun_ms < WRITTEN_FOR_MS or partition.deletes or hot.rule == "intent":
        return ""
    if since_ms is None or now_ms - since_ms < SHOWS_MS or state.appends.count < ENOUGH_APPENDS:
        return ""
    return f"; writers have only appended for {span_text(now_ms - since_ms)}: {OPTION} would have its old files merged"


def why_not(
    partition: PartitionState, state: TableState, policy: Policy, hot: Finding, now_ms: int
) -> str | None:
    """Why a job may not merge old files of a hot partition at this moment, or None where it may."""
    found = old_files(partition, state, policy, hot, now_ms)
    if isinstance(found, Old):
        return None
    return hot.why if found is None else f"{hot.why}; {found.why}"


def _next_old_ms(partition: PartitionState, margin: int, now_ms: int) -> int | None:
    """When more of its files will be old, if nothing happens before."""
    times = [one.before_ms + margin for one in partition.arrivals]
    if partition.last_write_at_ms is not None:
        times.append(partition.last_write_at_ms + margin)
    return min((at_ms for at_ms in times if at_ms > now_ms), default=None)


def _through(partition: PartitionState, state: TableState, until_ms: int) -> int | None:
    """The sequence number up to which all of a partition's files came by a time; None where nothing is known so old."""
    if partition.last_write_at_ms is None or partition.last_write_at_ms <= until_ms:
        return state.sequence_number
    # Files of a table that was of version 1 have no number.
    old = [one.before_number for one in partition.arrivals if one.before_ms <= until_ms and one.before_number]
    return max(old, default=None)
