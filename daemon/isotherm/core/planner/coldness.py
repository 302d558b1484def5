"""Hot or cold: a partition is cold only when every rule that applies to it agrees.

Each rule is a small function that answers with a sentence a person can act on and, where it says *hot*, with what
would have to happen before it could say otherwise (a time, a boundary, a number of commits), so that a decision is
kept until then. What only an event says may make a partition hot, never cold, but for a window that its writers grant to
this daemon: while it is open they commit nothing, and only an intent speaks against it (docs/designs/granted-windows.md).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from isotherm.contract.identity import UNPARTITIONED, PartitionKey
from isotherm.core.model.decisions import NEVER, Wake, sooner
from isotherm.core.model.job_limits import MAX_JOB_BYTES, job_ms
from isotherm.core.partition_state import PartitionState
from isotherm.core.partitions import TimeSpan, time_span
from isotherm.core.planner import pauses
from isotherm.core.planner.view import Surroundings
from isotherm.core.policy.cold_after import LEARNED, UNTAUGHT_INTERVALS
from isotherm.core.policy.policy import Cold
from isotherm.core.units import HOUR_MS, MINUTE_MS, clock_text, span_text
from isotherm.core.visits import PAUSE_FROM_MS

HEAR_AGAIN_MS = 60_000
"""A partition in a writer's open window is looked at again after this."""

LEARN_ON_MS = 10 * MINUTE_MS
"""A partition that the stream may be past is looked at again after this, for how late rows come is learned."""

LAST_PART = 60
"""A stream that has reached the last minute of an hour, or the last hour of a year, is at its end where no files come
late."""

RARE_PART, MOST_PART = 12, 8
"""Writers who stay away for longer than a twelfth of `silent_for` come in visits, where no pause within these is as long. A
silence says that one is over where it is twice as long as those, or an eighth of `silent_for`, which is half as long again
as any of them."""

LEARN_AGAIN_MS = 6 * HOUR_MS
"""A partition that is held back for late writes is looked at again after this, for the history fades."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one rule says of one partition."""

    rule: str
    is_hot: bool
    why: str
    wake: Wake = NEVER
    option: str = ""
    """The field of the policy that it rests on, where that is not the rule's own."""


JobBytes = Callable[[PartitionState], int]
"""What a job of a partition would read, if one began now."""

Rule = Callable[[PartitionKey, PartitionState, Surroundings, Cold, int], Finding]


def findings(
    key: PartitionKey,
    partition: PartitionState,
    around: Surroundings,
    cold: Cold,
    now_ms: int,
    job_bytes: JobBytes | None = None,
) -> tuple[Finding, ...]:
    """What every rule says, in the order of `RULES`."""
    partition = partition.as_of(now_ms)
    return tuple(
        rule(key, partition, around, cold, now_ms) for rule in _rules(key, around, now_ms, job_bytes)
    )


def first_hot(
    key: PartitionKey,
    partition: PartitionState,
    around: Surroundings,
    cold: Cold,
    now_ms: int,
    job_bytes: JobBytes | None = None,
) -> Finding | None:
    """What the first rule says that finds the partition hot. Returns None where it is cold.

    `job_bytes` says what a job would read, which may be a small part of the partition.
    """
    partition = partition.as_of(now_ms)
    for rule in _rules(key, around, now_ms, job_bytes):
        finding = rule(key, partition, around, cold, now_ms)
        if finding.is_hot:
            return finding
    return None


def _rules(
    key: PartitionKey, around: Surroundings, now_ms: int, job_bytes: JobBytes | None
) -> tuple[Rule, ...]:
    """The rules that apply: in a window that its writers have granted, none of those that guess what they will do."""
    if around.grants and around.grant_of(key, now_ms) is not None:
        return intent_rule, grant_rule
    return RULES if job_bytes is None else (*RULES[:-1], partial(lateness_rule, job_bytes=job_bytes))


def intent_rule(
    key: PartitionKey, partition: PartitionState, around: Surroundings, cold: Cold, now_ms: int
) -> Finding:
    """No open intent names the partition."""
    del partition, cold
    for intent, named in zip(around.intents, around.named, strict=True):
        if intent.expires_at_ms > now_ms and (named is None or key in named):
            what = "any partition" if named is None else "this partition"
            why = (
                f"writer {intent.writer} means to write {what} "
                f"(intent of {span_text(max(now_ms - intent.at_ms, 0))} ago, holds {span_text(intent.expires_at_ms - now_ms)} more)"
            )
            return Finding("intent", True, why, Wake(at_ms=intent.expires_at_ms))
    return Finding("intent", False, "no open intent names it")


def grant_rule(
    key: PartitionKey, partition: PartitionState, around: Surroundings, cold: Cold, now_ms: int
) -> Finding:
    """Its writers leave the partition alone for a while, as they have said to this daemon."""
    del partition, cold
    grant = around.grant_of(key, now_ms)
    if grant is None:
        return Finding("grant", False, "no window is granted")
    left = span_text(grant.until_ms - now_ms)
    why = f"{grant.who} leaves it alone for another {left} (window {grant.window_id[:8]})"
    return Finding("grant", False, why.replace("leaves", "leave") if len(grant.writers) > 1 else why)


def window_rule(
    key: PartitionKey, partition: PartitionState, around: Surroundings, cold: Cold, now_ms: int
) -> Finding:
    """No writer's open window, in its newest event, reaches the partition."""
    del partition
    span = time_span(key, around.fields)
    for word, in_flight in zip(around.words, around.in_flight, strict=True):
        if now_ms - word.at_ms >= cold.writer_silent_for:
            continue
        # The writer's next word may close it any moment, and touches only what it names.
        retired = Wake(at_ms=min(word.at_ms + cold.writer_silent_for, now_ms + HEAR_AGAIN_MS))
        if word.is_unreadable:
            why = f"what writer {word.writer} said last cannot be read: it may write any partition"
            return Finding("window", True, why, retired)
        if key in in_flight:
            return Finding("window", True, f"writer {word.writer} has rows for it in flight", retired)
        if word.window.from_ms is not None and span is not None and span.end_ms > word.window.from_ms:
            why = f"writer {word.writer} may still write from {clock_text(word.window.from_ms)} on, it ends {clock_text(span.end_ms)}"
            return Finding("window", True, why, retired)
    return Finding("window", False, "no writer has it in its open window")


def boundary_rule(
    key: PartitionKey, partition: PartitionState, around: Surroundings, cold: Cold, now_ms: int
) -> Finding:
    """A partition with a time transform must end well behind the event time that the stream has reached.

    Or nobody wrote to it for so long that the stream will not say more: it has ended, or it writes one partition for
    a month.
    """
    span = time_span(key, around.fields)
    if span is None:
        return Finding("boundary", False, "it carries no time")
    needed_silent_ms, reason = _silence(partition, cold)
    silent_at_ms = (
        None if partition.last_write_at_ms is None else partition.last_write_at_ms + needed_silent_ms
    )
    if silent_at_ms is not None and silent_at_ms <= now_ms:
        silent_ms = now_ms - silent_at_ms + needed_silent_ms
        why = f"nobody wrote to it for {span_text(silent_ms)}, {span_text(needed_silent_ms)} needed{reason}"
        return Finding("boundary", False, why, option="cold.silent_for")
    boundary_ms = around.state.boundary_ms
    needed_ms, reason = _needed(span, boundary_ms, around, cold)
    wake = Wake(at_ms=silent_at_ms, boundary_ms=span.end_ms + needed_ms)
    least_ms = needed_ms if cold.after != LEARNED else _least(span)
    if boundary_ms is None:
        # With one, as much may be known at once as was learned before.
        wake = Wake(silent_at_ms, span.end_ms + least_ms)
        return Finding("boundary", True, "nothing says yet how far the stream has come", wake)
    behind_ms = boundary_ms - span.end_ms
    if behind_ms < least_ms:
        wake = Wake(silent_at_ms, span.end_ms + least_ms)
    elif behind_ms < needed_ms:
        # With each commit less may be needed.
        again_ms = now_ms + LEARN_ON_MS
        wake = Wake(again_ms if silent_at_ms is None else min(again_ms, silent_at_ms), wake.boundary_ms)
    place = (
        f"ends {span_text(behind_ms)} behind the stream"
        if behind_ms >= 0
        else "the stream is still in or before it"
        if behind_ms < needed_ms
        else "the stream is at its end"
    )
    why = f"{place} (boundary {clock_text(boundary_ms)}), {span_text(max(needed_ms, 0))} needed{reason}"
    return Finding("boundary", behind_ms < needed_ms, why, wake)


def _silence(partition: PartitionState, cold: Cold) -> tuple[int, str]:
    """How long nobody must have written to a partition that the stream has not left, in milliseconds.

    And why, where that is less than `silent_for`. With a batch each night into the present month, a day of silence is over
    when the next batch is due. A batch may be several commits, with shorter pauses between them.
    """
    rare_ms = cold.silent_for // RARE_PART
    within_ms = partition.visits.longest_within_ms(rare_ms)
    if within_ms is None or within_ms > rare_ms:
        return cold.silent_for, ""
    early_ms = max(cold.quiet_for, PAUSE_FROM_MS, min(2 * within_ms, cold.silent_for // MOST_PART))
    if early_ms > cold.silent_for:
        return cold.silent_for, ""
    return early_ms, f": its writers stay away for longer than {span_text(rare_ms)} again and again"


def _needed(span: TimeSpan, boundary_ms: int | None, around: Surroundings, cold: Cold) -> tuple[int, str]:
    """How far behind the stream a partition must end, in milliseconds, and why where the policy does not say it."""
    if cold.after != LEARNED:
        return cold.least_after_ms(span.length_ms), ""
    most_ms = cold.intervals_ms(UNTAUGHT_INTERVALS, span.length_ms)
    learned_ms = None if boundary_ms is None else around.state.lateness.over_after_ms(boundary_ms, most_ms)
    if learned_ms is None:
        return most_ms, ": how late its rows come is not known yet"
    needed_ms = learned_ms or _least(span)
    return min(needed_ms, most_ms), f": 49 of 50 files come within {span_text(learned_ms)}"


def _least(span: TimeSpan) -> int:
    """How far behind the stream a partition must end where nothing comes late, in milliseconds, below zero.

    The last row of an hour is never of its last moment.
    """
    return -min(span.length_ms // LAST_PART, HOUR_MS)


def quiet_rule(
    key: PartitionKey, partition: PartitionState, around: Surroundings, cold: Cold, now_ms: int
) -> Finding:
    """Nobody but us wrote to the partition for a while, in time and in commits."""
    if partition.last_write_at_ms is None:
        return Finding("quiet", False, "no write to it is on record")
    quiet_ms = now_ms - partition.last_write_at_ms
    if quiet_ms < cold.quiet_for:
        why = f"quiet for {span_text(quiet_ms)} of {span_text(cold.quiet_for)}"
        if quiet_ms < 0:
            why = f"its last write is stamped {span_text(-quiet_ms)} ahead of this machine's clock"
        return Finding("quiet", True, why, Wake(at_ms=partition.last_write_at_ms + cold.quiet_for))
    if key == UNPARTITIONED and not any(field.is_current for field in around.fields):
        # Each commit writes the only partition: others that went by say nothing. Where the table is divided, this is
        # the partition of rows without a value, which others do go by.
        return Finding("quiet", False, f"quiet for {span_text(quiet_ms)}")
    pause_ms = max(cold.quiet_for, PAUSE_FROM_MS)
    are_long = pauses.are_longer(partition, pause_ms)
    if are_long and quiet_ms >= pause_ms:
        # Nor do they where each commit writes all partitions, or this one comes once in a while.
        why = f"quiet for {span_text(quiet_ms)}, and each pause of its writers was longer than {span_text(pause_ms)}"
        return Finding("quiet", False, why)
    commits = around.state.foreign_commits - partition.last_write_number
    if commits < cold.quiet_commits and quiet_ms < cold.quiet_at_most:
        why = f"quiet for {commits} of {cold.quiet_commits} commits of the table"
        enough_ms = min(cold.quiet_at_most, pause_ms) if are_long else cold.quiet_at_most
        wake = Wake(
            at_ms=partition.last_write_at_ms + enough_ms,
            commits=partition.last_write_number + cold.quiet_commits,
        )
        return Finding("quiet", True, why, wake)
    return Finding("quiet", False, f"quiet for {span_text(quiet_ms)} and {commits} commits")


def lateness_rule(
    key: PartitionKey,
    partition: PartitionState,
    around: Surroundings,
    cold: Cold,
    now_ms: int,
    job_bytes: JobBytes | None = None,
) -> Finding:
    """The table's own history says that a write before a job would end is unlikely.

    A job of small files may read a hundredth of a large partition. Where nobody says what it would read, it is all.
    """
    span, boundary_ms = time_span(key, around.fields), around.state.boundary_ms
    if span is None:
        return Finding("lateness", False, "it carries no time")
    if boundary_ms is None:
        return Finding("lateness", False, "how far the stream has come is not known")
    if around.words and all(word.announces for word in around.words):
        return Finding("lateness", False, "every known writer says beforehand what it will touch")
    whole = partition.data_total.bytes + partition.deletes_total.bytes
    # What is larger is done in parts.
    size = min(whole if job_bytes is None else job_bytes(partition), MAX_JOB_BYTES)
    horizon_ms = job_ms(size)
    if pauses.are_sure(partition, horizon_ms, now_ms):
        return Finding(
            "lateness",
            False,
            "in each known pause that lasted as long as this one its writers stayed away for longer",
        )
    risk = around.state.lateness.risk(span, boundary_ms, horizon_ms)
    if risk is None:
        return Finding("lateness", False, "no partition of its age was watched yet")
    since_ms = now_ms - (around.state.lateness.since_ms or now_ms)
    parts = ", each partition of an interval for its part" if around.state.lateness.width >= 1.5 else ""
    why = (
        f"the stream came back to partitions {risk.youngest} to {risk.oldest} intervals old "
        f"{risk.returns:.0f} times in {span_text(max(since_ms, 0))}{parts}: the risk of a write "
        f"within the {span_text(horizon_ms)} of a job is at most {risk.probability:.2%}, limit {cold.late_write_risk:.2%}"
    )
    if risk.probability <= cold.late_write_risk:
        return Finding("lateness", False, why)
    if not risk.is_known_hot:
        return Finding("lateness", False, f"too little is known yet to hold it back: {why}")
    # Once it has outlasted a pause that is known, the next longer one may be sure.
    again = sooner(Wake(at_ms=now_ms + LEARN_AGAIN_MS), Wake(at_ms=pauses.next_end_ms(partition, now_ms)))
    wake = replace(again, boundary_ms=span.end_ms + risk.oldest * span.length_ms)
    return Finding("lateness", True, why, wake)


RULES: tuple[Rule, ...] = (intent_rule, window_rule, boundary_rule, quiet_rule, lateness_rule)
"""From the most urgent to the ordinary."""
