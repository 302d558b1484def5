"""What should be done to a table now, and why not the rest.

`plan(view, policy, now)` is pure, total and independent of the order of its input: every partition in the view gets
a verdict and a why, and whatever is due becomes a request. A request is bound to files, and becomes a job, elsewhere.
`turns` then chooses among the requests of all tables, within the budgets.

The score is debt divided by its threshold in the policy; 1.0 or more is due, unless the partition rests from its last
job, and the jobs that it takes bring it below 1. The metric, the command line, the log and the alert say the same number.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from isotherm.contract.identity import PartitionKey
from isotherm.core.model.decisions import NEVER, Decision, Plan, Request, Verdict, Wake, sooner
from isotherm.core.model.files import FileStats
from isotherm.core.model.job_limits import job_ms
from isotherm.core.model.jobs import Action, ExecutorName, Take
from isotherm.core.model.tables import UPGRADE, WITH_NUMBERS, TableFacts
from isotherm.core.model.windows import Grant
from isotherm.core.partition_state import PartitionState
from isotherm.core.partitions import is_whole_interval, label, time_span
from isotherm.core.planner import pauses
from isotherm.core.planner.coldness import Finding, first_hot
from isotherm.core.planner.debt import Debt, debt
from isotherm.core.planner.expiry import decide_expiry
from isotherm.core.planner.file_selection import taken, taken_and_saved_bytes
from isotherm.core.planner.granted import as_if_granted, asking, due_in, granters, too_long
from isotherm.core.planner.held import after_failures, standstill, table_waits
from isotherm.core.planner.job_size import (
    convertible,
    in_parts,
    job_bytes,
    limits,
    most_bytes,
    not_converted,
    over_budget,
    why_in_parts,
)
from isotherm.core.planner.minor import Old, advice, old_files
from isotherm.core.planner.older_spec_moves import NO_MOVE, Move, flying_into, move_of, moved_first
from isotherm.core.planner.rest import REST_SCORE, ends, rest_text, rests_until
from isotherm.core.planner.schedules import Pace
from isotherm.core.planner.turns import rank
from isotherm.core.planner.view import View
from isotherm.core.planner.whole_table import decide_manifests, decide_metadata, decide_orphans
from isotherm.core.policy.policy import Compact, Expire, Manifests, Metadata, Mode, Orphans, Policy
from isotherm.core.policy.sort_text import why_not
from isotherm.core.units import clock_text, size_text, span_text
from isotherm.runtime.text import counted

RULES = 54
"""One more with each change of the planner that makes another verdict of the same facts: verdicts are kept."""

NOTHING_SAID = Policy(
    compact=Compact(enabled=False),
    expire=Expire(enabled=False),
    manifests=Manifests(enabled=False),
    metadata=Metadata(enabled=False),
    orphans=Orphans(mode=Mode.OFF),
)
"""A table that no policy matches is left alone: its state is kept where events come, and nothing is done to it."""


def plan(view: View, policy: Policy | None, now_ms: int) -> Plan:
    """A verdict for each partition in the view, and for the table as a whole; None as policy: it is left alone."""
    policy, view = policy or NOTHING_SAID, replace(view, findings={})
    pace = Pace.at(policy, now_ms)
    flying = {flight.partition for flight in view.flights if flight.action is Action.COMPACT}
    flying |= flying_into(view, policy)
    asks = policy.compact.ask_writer is not None
    writers = granters(view.around, policy, now_ms) if asks else None
    each = (
        _decide(key, partition, view, policy, pace, writers, key in flying, now_ms)
        for key, partition in sorted(view.partitions.items())
    )
    of_partitions = moved_first(view, each, now_ms)
    requests = [
        Request(
            view.table,
            decision,
            due_since_ms=view.due_since_ms.get(decision.partition or PartitionKey("")),
            executor=_executor(decision, policy, view, pace, now_ms),
        )
        for decision in of_partitions
        if decision.verdict is Verdict.DUE
    ]
    requests.sort(key=lambda request: (-rank(request, now_ms), request.decision.partition or ""))
    of_table: list[Decision] = []
    if view.snapshots is not None:
        expiry, snapshots = decide_expiry(view, view.snapshots, policy.expire, pace, now_ms)
        found = (decide_metadata, decide_orphans)
        of_table = [
            expiry,
            decide_manifests(view, policy, pace, now_ms),
            *(decide(view, view.snapshots, policy, pace, now_ms) for decide in found),
        ]
        whole = [
            Request(view.table, decision, snapshots if decision is expiry else ())
            for decision in of_table
            if decision.verdict is Verdict.DUE
        ]
        requests = whole + requests
    return Plan(view.table, tuple(of_table), of_partitions, tuple(requests))


def _executor(decision: Decision, policy: Policy, view: View, pace: Pace, now_ms: int) -> ExecutorName:
    """Where a compaction runs: where the policy says, and else where its size belongs.

    What is only smaller because a larger job failed runs where that ran: a cluster that was slow gives no work to this machine.
    """
    if view.cluster_from_bytes is None:
        return ExecutorName.LOCAL
    key, size_bytes = decision.partition, decision.bytes
    if key is not None and in_parts(view.quarantined.get(key), now_ms):
        anew = replace(view, quarantined={})
        size_bytes = _decide_compaction(key, view.partitions[key], anew, policy, pace, False, now_ms).bytes
    by_size = ExecutorName.SPARK if size_bytes >= view.cluster_from_bytes else ExecutorName.LOCAL
    return policy.compact.executor or by_size


def _decide(
    key: PartitionKey,
    partition: PartitionState,
    view: View,
    policy: Policy,
    pace: Pace,
    writers: tuple[str, ...] | str | None,
    is_flying: bool,
    now_ms: int,
) -> Decision:
    """The verdict on a partition, and whether its writers are asked for a window in which it would be due.

    `writers` grant windows, or the reason why nobody is asked; None where the policy asks nobody.
    """
    decision = _decide_compaction(key, partition, view, policy, pace, is_flying, now_ms)
    if decision.verdict is not Verdict.HOT or writers is None:
        return decision
    around = view.around
    if isinstance(writers, str):
        # The verdict in a window costs as much as this one, and nothing would come of it.
        if decision.score < 1:
            return decision
        ask = asking(partition, writers, policy, now_ms, is_urgent=decision.score >= REST_SCORE)
        return replace(decision, why=decision.why + ask.why, wake=sooner(decision.wake, ask.wake))
    granted = replace(view, around=replace(around, grants=(as_if_granted(around, policy, now_ms),)))
    then = _decide_compaction(key, partition, granted, policy, pace, is_flying, now_ms)
    if then.verdict is not Verdict.DUE:
        return decision
    ask = asking(partition, writers, policy, now_ms, is_urgent=decision.score >= REST_SCORE)
    return replace(decision, why=decision.why + ask.why, asks=ask.asks, wake=sooner(decision.wake, ask.wake))


def _decide_compaction(
    key: PartitionKey,
    partition: PartitionState,
    view: View,
    policy: Policy,
    pace: Pace,
    is_flying: bool,
    now_ms: int,
) -> Decision:
    threshold, schedule = pace.threshold(Action.COMPACT)
    hot, grant = _hot(key, partition, view, policy, now_ms)
    rests_until_ms = rests_until(key, partition, view.around, policy, now_ms, is_hot=hot is not None)
    beside = _beside(partition, hot, rests_until_ms, view, policy, pace, now_ms)
    old = beside.old
    move = NO_MOVE if hot is not None or grant else move_of(key, partition, view, policy, now_ms)
    full = _full(key, partition, old, move, policy, view, now_ms)
    owed = convertible(full, view.facts)
    allowed, later = limits(key, partition, owed, view, policy, grant, now_ms, is_beside=old is not None)
    take, rests_until_ms, owed_why = _take(
        partition, owed, threshold, rests_until_ms, most_bytes(allowed), most_bytes(later)
    )
    take = take if old is None else replace(take, through_number=old.through_number)
    job, saved = taken_and_saved_bytes(partition, take, int(policy.compact.target_file_size))
    stamp = sooner(_stamp(partition, now_ms), Wake(full.settles_at_ms, ends(key, partition, view.around)))

    def verdict(kind: Verdict, why: str, wake: Wake = NEVER) -> Decision:
        wake = sooner(wake, stamp, move.wake)
        said = (kind, round(owed.score, 4), why + move.said, wake, job.files, job.bytes, saved, take)
        window = "" if grant is None else grant.window_id
        return Decision(Action.COMPACT, key, label(key, view.facts.fields), *said, window_id=window)

    if (held := standstill(view, now_ms) or _off_or_running(policy, owed, is_flying=is_flying)) is not None:
        return verdict(*held)
    blocker = view.facts.unsupported or _unsortable(take, policy, view.facts)
    # Said before it is due: whoever asks what this version can do for a table need not wait for its stream to leave.
    not_then = "" if not blocker else f"; not to be compacted then: {blocker}"
    if hot is not None and old is None:
        why = f"hot: {hot.why}; debt {owed.score:.2f}: {owed.why}{not_then}{beside.why}"
        return verdict(Verdict.HOT, why, sooner(hot.wake, beside.wake))
    if (little := _too_little(owed, rests_until_ms, pace)) is not None:
        return verdict(move.kind or little[0], f"{little[1]}: {owed.why}{not_then}", little[2])
    until = pace.closes(Action.COMPACT, owed.score)
    if blocker:
        return verdict(Verdict.UNSUPPORTED, f"{blocker}; debt {owed.score:.2f}: {owed.why}", until)
    if (failed := after_failures(view.quarantined.get(key), now_ms)) is not None:
        return verdict(failed[0], failed[1], sooner(failed[2], until, beside.wake))
    waits = (
        over_budget(partition, owed, take, view, policy, threshold, now_ms)
        or pace.waits(Action.COMPACT, now_ms)
        or table_waits(view, policy, now_ms)
        or too_long(grant, job.bytes, now_ms)
        or (_writers_are_near(partition, job.bytes, now_ms) if old is None and grant is None else None)
    )
    ripe = "minor" if old is not None else "cold and due" if grant is None else due_in(grant)
    if waits is not None:
        wake = sooner(waits[1], until, beside.wake)
        return verdict(Verdict.WAITING, f"{ripe}, but {waits[0]}: {owed_why}{beside.why}", wake)
    price = _price(job, take, allowed) + not_converted(full, take, threshold, allowed, view.facts)
    by = f" by the schedule {schedule} (from {threshold:g} on)" if owed.score < 1 else ""
    return verdict(Verdict.DUE, f"{ripe}{by}: {owed_why}{beside.why}; {price}")


def _full(
    key: PartitionKey,
    partition: PartitionState,
    old: Old | None,
    move: Move,
    policy: Policy,
    view: View,
    now_ms: int,
) -> Debt:
    """The debt of what may be done now: of old files alone beside writers, and with what is moved."""
    if old is not None:
        return debt(old.partition, policy.compact, format_version=view.facts.format_version)
    owed = owed_now(key, partition, policy, view, now_ms)
    return owed if move.take is None else owed.moving(move.take, move.why)


def _hot(
    key: PartitionKey, partition: PartitionState, view: View, policy: Policy, now_ms: int
) -> tuple[Finding | None, Grant | None]:
    """What keeps a partition hot, and the window in which its writers leave it alone where nothing else makes it cold."""
    around, of_job = view.around, job_bytes(policy, view.facts)
    hot = first_hot(key, partition, around, policy.cold, now_ms, of_job)
    grant = around.grant_of(key, now_ms) if around.grants and hot is None else None
    without = replace(around, grants=())
    if grant is not None and first_hot(key, partition, without, policy.cold, now_ms, of_job) is None:
        return None, None
    return hot, grant


def _unsortable(take: Take, policy: Policy, facts: TableFacts) -> str:
    """Why what is taken cannot be sorted as the policy says, as far as that is known."""
    return (
        ""
        if facts.sortable is None or not take.rewrites_data
        else why_not(policy.compact.sort, facts.sortable)
    )


def owed_now(key: PartitionKey, partition: PartitionState, policy: Policy, view: View, now_ms: int) -> Debt:
    """The debt of a partition of this table, by what it is about, and when it was written."""
    fields = view.around.fields
    return debt(
        partition,
        policy.compact,
        has_time=time_span(key, fields) is not None,
        is_whole_interval=is_whole_interval(key, fields),
        format_version=view.facts.format_version,
        now_ms=now_ms,
    )


def _off_or_running(policy: Policy, owed: Debt, *, is_flying: bool) -> tuple[Verdict, str, Wake] | None:
    """What is said of a partition, however cold it is, that nobody compacts, or that somebody does."""
    if not policy.compact.enabled:
        return Verdict.OFF, "the policy does not compact this table", NEVER
    return (Verdict.RUNNING, f"a job is running: {owed.why}", NEVER) if is_flying else None


def _stamp(partition: PartitionState, now_ms: int) -> Wake:
    """When this machine's clock shows the last write's own time, which lies ahead of it: then that one counts."""
    at_ms = partition.stamped_at_ms
    return NEVER if at_ms is None or at_ms <= now_ms else Wake(at_ms=at_ms)


def _take(
    partition: PartitionState,
    owed: Debt,
    threshold: float,
    rests_until_ms: int | None,
    at_most_bytes: int,
    later_bytes: int,
) -> tuple[Take, int | None, str]:
    """What a job would take, until when it rests, and why.

    Data rests from being rewritten, and a merge of deletes rewrites none. But a schedule does not end a rest: deletes
    would be merged every few minutes for as long as it is open.
    """
    if rests_until_ms is None:
        take = _now_or_later(owed, threshold, at_most_bytes, later_bytes)
        is_too_large = take.with_deletes and taken(partition, take).bytes > at_most_bytes
        alone = owed.files_alone(threshold, at_most_bytes) if is_too_large else None
        return (take, None, owed.why) if alone is None else (alone, None, owed.of_files[0].why)
    merge = owed.merge(at_most_bytes) if owed.score < REST_SCORE else None
    if merge is None:
        return _now_or_later(owed, REST_SCORE, at_most_bytes, later_bytes), rests_until_ms, owed.why
    return merge, None, f"{owed.why_merge}, while its data rests until {clock_text(rests_until_ms)}"


def _now_or_later(owed: Debt, threshold: float, at_most_bytes: int, later_bytes: int) -> Take:
    """What a job would take now, or in its writers' next pause where position deletes can be made only then.

    In the rest of this one equality deletes would be applied to a part of their data, which takes none of them away.
    """
    take = owed.take(threshold, at_most_bytes)
    if not take.with_deletes or later_bytes <= at_most_bytes:
        return take
    later = owed.take(threshold, later_bytes)
    return later if later.converts_equality else take


@dataclass(frozen=True, slots=True)
class _Beside:
    """What may be done in a hot partition, beside its writers."""

    old: Old | None = None
    """The old files where they are worth a job, or None where nothing is done."""
    why: str = ""
    wake: Wake = NEVER


_NOT_BESIDE = _Beside()


def _beside(
    partition: PartitionState,
    hot: Finding | None,
    rests_until_ms: int | None,
    view: View,
    policy: Policy,
    pace: Pace,
    now_ms: int,
) -> _Beside:
    """Whether old files of a hot partition are merged, and why not."""
    if hot is None or view.facts.unsupported:
        return _NOT_BESIDE
    if view.facts.format_version < WITH_NUMBERS:
        why = f"; no minor compaction: in format version 1 nothing tells which files came first; {UPGRADE}"
        return _Beside(None, why if policy.compact.minor_after is not None else "")
    old = old_files(partition, view.around.state, policy, hot, now_ms)
    if old is None:
        owes = debt(replace(partition, arrivals=()), policy.compact).of_files[0].score >= 1
        return _Beside(None, advice(partition, view.around.state, hot, now_ms)) if owes else _NOT_BESIDE
    if not isinstance(old, Old):
        return _Beside(None, f"; no minor compaction: {old.why}", old.wake)
    owed = convertible(debt(old.partition, policy.compact), view.facts)
    little = _too_little(owed, rests_until_ms, pace)
    if little is None:
        # While it waits, the next commit of the table may be no append.
        wake = sooner(old.wake, Wake(commits=view.around.state.foreign_commits + 1))
        return _Beside(old, f" {old.age}, in a partition that is still written; {old.proof}", wake)
    kind, _, again = little
    rests = ", and it rests from its last job" if kind is Verdict.RESTING else ""
    why = f"; no minor compaction yet: {owed.why} {old.age}{rests}"
    return _Beside(None, why, sooner(again, old.wake))


def _price(job: FileStats, take: Take, allowed: Mapping[str, int]) -> str:
    """What a job reads, in words. Which files deletes name is known once their manifests are read."""
    at_most = "at most " if take.with_deletes else ""
    work = "read" if take.converts_equality and not take.rewrites_data else "rewrite"
    if take.converts_equality:
        merged = ", equality deletes become position deletes"
    else:
        merged = ", deletes are merged" if take.merges_deletes else ""
    return f"{at_most}{counted(job.files, 'file')}, {size_text(job.bytes)} to {work}{merged}{why_in_parts(allowed)}"


def _too_little(owed: Debt, rests_until_ms: int | None, pace: Pace) -> tuple[Verdict, str, Wake] | None:
    """Whether a partition's debt is not worth a job now, and until when that holds."""
    if not owed.has_gain:
        return Verdict.CLEAN, "cold and clean", NEVER
    if owed.score < pace.threshold(Action.COMPACT)[0]:
        return Verdict.CLEAN, "cold and clean", pace.opens(Action.COMPACT, owed.score)
    if rests_until_ms is None or owed.score >= REST_SCORE:
        return None
    wake = sooner(Wake(at_ms=rests_until_ms), pace.closes(Action.COMPACT, owed.score))
    return Verdict.RESTING, f"cold, but {rest_text(rests_until_ms, owed.score)}", wake


def _writers_are_near(partition: PartitionState, size_bytes: int, now_ms: int) -> tuple[str, Wake] | None:
    """Whether a writer would come back before a job has ended, as it did before."""
    left_ms = pauses.left_ms(partition, now_ms)
    if left_ms is None or job_ms(size_bytes) <= left_ms:
        return None
    why = f"its writers come back in {span_text(left_ms)} as a rule, and a job takes {span_text(job_ms(size_bytes))}"
    return why, Wake(at_ms=pauses.next_end_ms(partition, now_ms))
