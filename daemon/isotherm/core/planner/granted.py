"""Windows that writers grant: whom the planner wants to ask for one, when, and what fits into one that is open.

A partition that its stream never leaves would never be compacted. Where the policy allows it (`compact.ask_writer`), its
writers are asked to leave the table alone for a while. Asked is only where each of them is known to grant windows: somebody
else would write in the middle of it.
"""

from dataclasses import dataclass

from isotherm.core.model.decisions import NEVER, Wake
from isotherm.core.model.job_limits import job_ms
from isotherm.core.model.windows import Grant
from isotherm.core.model.writers import UNHEARD
from isotherm.core.partition_state import PartitionState
from isotherm.core.planner import pauses
from isotherm.core.planner.view import Surroundings
from isotherm.core.policy.policy import Policy
from isotherm.core.units import MINUTE_MS, span_text

OPTION = "compact.ask_writer"

IN_WINDOW = "the window that its writers grant"

MARGIN_MS = 5_000
"""The last part of a window, in which no request of a job goes out any more: one that is on its way takes so long at most, as
a rule."""

LOOK_AGAIN_MS = 15 * MINUTE_MS
"""A writer that grants nothing may be gone, or grant by now, and no event of the partition says so."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Whether the writers of a partition are asked for a window, and why not."""

    asks: bool = False
    why: str = ""
    """For its verdict; empty where there is nothing to say."""
    wake: Wake = NEVER


def granters(around: Surroundings, policy: Policy, now_ms: int) -> tuple[str, ...] | str:
    """The writers of a table, where all that are known grant windows. Else why nobody is asked, in words.

    A writer counts for as long as `cold.silent_for`. A commit of an ingest that was found before its event came counts until
    that ingest has spoken: as a rule, that was its event.
    """
    silent_ms = policy.cold.silent_for
    spoke_ms = {UNHEARD + word.writer: word.at_ms for word in around.words}
    known = [
        word
        for word in around.words
        if now_ms - word.at_ms < silent_ms and word.at_ms > spoke_ms.get(word.writer, -1)
    ]
    for word in known:
        if not word.grants or word.is_unreadable:
            ago = span_text(max(now_ms - word.at_ms, 0))
            return f"the writer {word.writer} wrote {ago} ago, and grants none"
    if not known:
        return f"no writer that grants any was heard of for {span_text(silent_ms)}"
    return tuple(sorted(word.writer for word in known))


def asking(
    partition: PartitionState,
    writers: tuple[str, ...] | str,
    policy: Policy,
    now_ms: int,
    *,
    is_urgent: bool,
) -> Ask:
    """Whether the writers of a hot partition (`granters`) are asked for a window in which it would be due.

    Not before they have written it for as long as it would rest from a job (`compact.rest`), unless that `is_urgent`: most
    partitions are left by their stream before.
    """
    length_ms = policy.compact.ask_writer or 0
    begun_ms, rest_ms = partition.first_write_at_ms, policy.compact.rest
    if begun_ms is not None and 0 <= now_ms - begun_ms < rest_ms and not is_urgent:
        for_ms = now_ms - begun_ms
        why = f"; no window is asked for yet: it is written for {span_text(for_ms)} of {span_text(rest_ms)} (compact.rest)"
        return Ask(False, why, Wake(at_ms=begun_ms + rest_ms))
    if isinstance(writers, str):
        return Ask(False, f"; no window is asked for: {writers}", Wake(at_ms=now_ms + LOOK_AGAIN_MS))
    who = f"its writer {writers[0]} is" if len(writers) == 1 else f"its writers {', '.join(writers)} are"
    return Ask(True, f"; {who} asked for a window of {span_text(length_ms)} ({OPTION})")


def limits_in(grant: Grant, now_ms: int) -> dict[str, int]:
    """What one job reads at most in what is left of a window, by the name of that limit."""
    return {IN_WINDOW: pauses.most_bytes(grant.until_ms - now_ms)}


def as_if_granted(around: Surroundings, policy: Policy, now_ms: int) -> Grant:
    """A window of the length for which the writers may be asked, as if it began now."""
    return Grant("", (), now_ms + (policy.compact.ask_writer or 0) - MARGIN_MS, around.state.foreign_commits)


def due_in(grant: Grant) -> str:
    """That a hot partition is due in a window, in words."""
    return f"left alone by {grant.who} in window {grant.window_id[:8]} and due"


def too_long(grant: Grant | None, size_bytes: int, now_ms: int) -> tuple[str, Wake] | None:
    """Whether a job that reads so much would not end within what is left of a window."""
    if grant is None:
        return None
    left_ms = grant.until_ms - now_ms
    if job_ms(size_bytes) <= left_ms:
        return None
    why = f"{IN_WINDOW} is open for another {span_text(left_ms)}, and a job takes {span_text(job_ms(size_bytes))}"
    return why, Wake(at_ms=grant.until_ms)
