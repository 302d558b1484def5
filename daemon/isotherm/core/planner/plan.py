"""What should be done to a table now, and why not the rest.

`plan(view, policy, now)` is pure, total and independent of the order of its input: every partition in the view gets
a verdict and a why, and whatever is due becomes a request. A request is bound to files, and becomes a job, elsewhere.
`admission` then chooses among the requests of all tables, within the budgets.

The score is debt divided by its threshold in the policy; 1.0 or more is due, and a job brings it below 1. The same
number stands in the metric, the command line, the log and the alert.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from isotherm.contract.identity import PartitionKey, TableId
from isotherm.core.model import Action, FileKind, Hold, PartitionField
from isotherm.core.partitions import HOUR_MS, label, size_text, span_text
from isotherm.core.planner.coldness import NEVER, Surroundings, Wake, first_hot
from isotherm.core.planner.debt import Trigger, debt
from isotherm.core.planner.schedules import Pace, earlier
from isotherm.core.policy.policy import Compact, Expire, Manifests, Metadata, Mode, Orphans, Policy
from isotherm.core.state import PartitionState


class Verdict(StrEnum):
    """What is decided for one partition, or for the table."""

    DUE = "due"
    CLEAN = "clean"
    """Below every threshold."""
    HOT = "hot"
    """It would be due, or may become so, but the stream still writes it."""
    RUNNING = "running"
    WAITING = "waiting"
    """It is due, and must wait: for a window, for a budget, for a moment after a failure."""
    QUARANTINED = "quarantined"
    """It failed repeatedly; tried again later."""
    UNSUPPORTED = "unsupported"
    """It would be due, but we cannot do it; counted, never silent."""
    HALTED = "halted"
    """A person must look."""
    OFF = "off"
    """The policy says no."""


CAPABLE = frozenset({Action.EXPIRE, Action.COMPACT})
"""What this version can do; the rest is judged, explained and counted, but not done."""
DELETING = frozenset({Action.EXPIRE, Action.TRIM_METADATA, Action.REMOVE_ORPHANS})
"""What takes something away that a lost ledger might still have needed."""
QUARANTINE_FAILURES = 3
"""From so many failures in a row on, a partition counts as quarantined; before, it only waits a moment."""
WHOLE = {
    Action.EXPIRE: "(snapshots)",
    Action.REWRITE_MANIFESTS: "(manifests)",
    Action.TRIM_METADATA: "(metadata)",
    Action.REMOVE_ORPHANS: "(orphans)",
}
"""What verdicts on the table as a whole are called, where those on partitions have a label."""
MANIFEST_BYTES = 8 * 1024**2
"""Size of a well-filled manifest: Iceberg's default of `commit.manifest.target-size-bytes`."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One snapshot of `main`, as far as expiry needs it."""

    snapshot_id: int
    sequence_number: int
    committed_at_ms: int
    token: str = ""
    """Whose place in its source it keeps: a pipeline of ingest, a sink of Kafka Connect; empty: nobody's."""
    is_pinned: bool = False
    """A tag or a branch other than main names it."""


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What the table's metadata said when the catalog last confirmed its head, apart from its log of snapshots."""

    location: str
    format_version: int
    fields: tuple[PartitionField, ...]
    """The unified partition type: the fields of all specs."""
    default_spec_id: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    snapshots: int = 0
    """How many ancestors of the head still exist, the head included."""
    manifests: int = 0
    """Manifests that the head needs."""
    metadata_bytes: int = 0
    """Size of these manifests."""
    metadata_file_bytes: int = 0
    """Size of metadata.json."""
    metadata_versions: int = 0
    """Old metadata.json files that the metadata still names."""
    has_ours: bool = False
    """A job of Isotherm's committed one of the snapshots in its metadata."""
    confirmed_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class Flight:
    """A job that runs."""

    job_id: str
    action: Action
    partition: PartitionKey | None
    base_snapshot_id: int
    started_at_ms: int
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Quarantine:
    """A partition, or an action on a table, that failed: how often in a row, and until when it is left alone."""

    until_ms: int
    failures: int
    why: str


@dataclass(frozen=True, slots=True)
class View:
    """All that the planner may know of one table. `partitions` may be those alone whose verdict could have changed."""

    around: Surroundings
    facts: TableFacts
    partitions: Mapping[PartitionKey, PartitionState]
    snapshots: tuple[Snapshot, ...] | None = None
    """The ancestors of the head that still exist, oldest first, the head last; None: not looked at this time, and
    then nothing is decided of the table as a whole."""
    flights: tuple[Flight, ...] = ()
    quarantined: Mapping[PartitionKey, Quarantine] = field(default_factory=dict)
    setbacks: Mapping[Action, Quarantine] = field(default_factory=dict)
    """The same of actions on the table as a whole."""
    halted: str | None = None
    pause: Hold | None = None
    """A person's wish that the table be left alone; it may be over."""
    deletions_held: str | None = None
    """Why this daemon deletes nothing: what would be deleted is only told."""
    announced_sequence_number: int | None = None
    """Up to where this table's snapshots have been announced and consumed; None: nothing was."""
    last_done_ms: Mapping[Action, int] = field(default_factory=dict)
    """When each action on the table as a whole was last done."""
    hour_budget_bytes: int | None = None
    """What isotherm.yaml lets all compactions read in an hour; None: no limit."""

    @property
    def table(self) -> TableId:
        """The table."""
        return self.around.state.table


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict with its why."""

    action: Action
    partition: PartitionKey | None
    label: str
    verdict: Verdict
    score: float
    why: str
    wake: Wake = NEVER
    files: int = 0
    """Files that the job would take: small ones, and those with deletes."""
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Request:
    """Something due: a decision that became work, not yet bound to files."""

    table: TableId
    decision: Decision
    snapshots: tuple[int, ...] = ()
    """For expiry: the snapshots that go."""

    @property
    def benefit(self) -> float:
        """Debt removed per byte rewritten; what costs nothing comes first."""
        return self.decision.score / max(self.decision.bytes, 1)


@dataclass(frozen=True, slots=True)
class Plan:
    """Every verdict, and the requests in the order in which they should be done."""

    table: TableId
    of_table: tuple[Decision, ...]
    """On the table as a whole, in the order of `Action`; empty where the view did not hold its snapshots."""
    of_partitions: tuple[Decision, ...]
    """In the order of their keys."""
    requests: tuple[Request, ...]

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """All of them."""
        return self.of_table + self.of_partitions

    def on_table(self, action: Action) -> Decision | None:
        """The verdict on one action on the table as a whole."""
        return next((decision for decision in self.of_table if decision.action is action), None)


NOTHING_SAID = Policy(
    compact=Compact(enabled=False),
    expire=Expire(enabled=False),
    manifests=Manifests(enabled=False),
    metadata=Metadata(enabled=False),
    orphans=Orphans(mode=Mode.OFF),
)
"""A table that no policy matches is only observed."""


def plan(view: View, policy: Policy | None, now_ms: int) -> Plan:
    """A verdict for each partition in the view, and for the table as a whole; None as policy: only observed."""
    policy = policy or NOTHING_SAID
    pace = Pace.at(policy, now_ms)
    flying = {flight.partition for flight in view.flights if flight.action is Action.COMPACT}
    of_partitions = tuple(
        _decide_compaction(key, partition, view, policy, pace, key in flying, now_ms)
        for key, partition in sorted(view.partitions.items())
    )
    requests = [
        Request(view.table, decision) for decision in of_partitions if decision.verdict is Verdict.DUE
    ]
    requests.sort(key=lambda request: (-request.benefit, request.decision.partition or ""))
    of_table: list[Decision] = []
    if view.snapshots is not None:
        expiry, snapshots = _decide_expiry(view, view.snapshots, policy.expire, pace, now_ms)
        others = (_decide_manifests, _decide_metadata, _decide_orphans)
        of_table = [expiry, *(decide(view, policy, pace, now_ms) for decide in others)]
        whole = [
            Request(view.table, decision, snapshots if decision is expiry else ())
            for decision in of_table
            if decision.verdict is Verdict.DUE
        ]
        requests = whole + requests
    return Plan(view.table, tuple(of_table), of_partitions, tuple(requests))


# --- partitions ----------------------------------------------------------------------------------------------


def _decide_compaction(
    key: PartitionKey,
    partition: PartitionState,
    view: View,
    policy: Policy,
    pace: Pace,
    is_flying: bool,
    now_ms: int,
) -> Decision:
    owed = debt(partition, policy.compact)

    def verdict(kind: Verdict, why: str, wake: Wake = NEVER) -> Decision:
        name = label(key, view.facts.fields)
        return Decision(
            Action.COMPACT,
            key,
            name,
            kind,
            round(owed.score, 4),
            why,
            wake,
            owed.taken.files,
            owed.taken.bytes,
        )

    if (held := _held(view, now_ms)) is not None:
        return verdict(*held)
    if not policy.compact.enabled:
        return verdict(Verdict.OFF, "the policy does not compact this table")
    if is_flying:
        return verdict(Verdict.RUNNING, f"a job is running: {owed.why}")
    hot = first_hot(key, partition, view.around, policy.cold, now_ms)
    if hot is not None:
        return verdict(Verdict.HOT, f"hot: {hot.why}; debt {owed.score:.2f}: {owed.why}", hot.wake)
    threshold, schedule = pace.threshold(Action.COMPACT)
    if owed.score < threshold or not owed.has_gain:
        wake = pace.opens(Action.COMPACT, owed.score) if owed.has_gain else NEVER
        return verdict(Verdict.CLEAN, f"cold and clean: {owed.why}", wake)
    until = pace.closes(Action.COMPACT, owed.score)
    blocker = _unsupported(partition, view.facts)
    if blocker is not None:
        return verdict(Verdict.UNSUPPORTED, f"{blocker}; debt {owed.score:.2f}: {owed.why}", until)
    failed = _after_failures(view.quarantined.get(key), now_ms)
    if failed is not None:
        kind, why, wake = failed
        return verdict(kind, why, earlier(wake, until))
    waits = _over_budget(owed.taken.bytes, view, policy, now_ms) or pace.waits(now_ms)
    if waits is not None:
        why = f"cold and due, but {waits[0]}: {owed.why}"
        return verdict(Verdict.WAITING, why, earlier(waits[1], until))
    by = f" by the schedule {schedule} (from {threshold:g} on)" if owed.score < 1 else ""
    return verdict(Verdict.DUE, f"cold and due{by}: {owed.why}")


def _unsupported(partition: PartitionState, facts: TableFacts) -> str | None:
    """What of a partition that is due keeps the executors from it."""
    if facts.format_version != 2:
        return f"format version {facts.format_version} is followed, not yet rewritten"
    for kind in (FileKind.EQUALITY_DELETES, FileKind.DELETION_VECTORS):
        if partition.deletes.get(kind):
            return f"{partition.deletes[kind].files} files of {kind.replace('_', ' ')} cannot be applied yet"
    return None


def _held(view: View, now_ms: int) -> tuple[Verdict, str, Wake] | None:
    """Whether the table stands still, and until when."""
    if view.halted is not None:
        return Verdict.HALTED, f"the table is halted: {view.halted}", NEVER
    pause = view.pause
    if pause is None or not pause.holds(now_ms):
        return None
    left = "" if pause.until_ms is None else f", for another {span_text(pause.until_ms - now_ms)}"
    return Verdict.OFF, f"paused{left}: {pause.why}", Wake(at_ms=pause.until_ms)


def _after_failures(quarantine: Quarantine | None, now_ms: int) -> tuple[Verdict, str, Wake] | None:
    if quarantine is None or quarantine.until_ms <= now_ms:
        return None
    kind = Verdict.QUARANTINED if quarantine.failures >= QUARANTINE_FAILURES else Verdict.WAITING
    times = "once" if quarantine.failures == 1 else f"{quarantine.failures} times in a row"
    left = span_text(quarantine.until_ms - now_ms)
    return kind, f"failed {times} ({quarantine.why}); tried again in {left}", Wake(at_ms=quarantine.until_ms)


def _over_budget(size_bytes: int, view: View, policy: Policy, now_ms: int) -> tuple[str, Wake] | None:
    """Whether one job would be more than a budget ever allows: then it would wait for ever, and must say so."""
    limits = {
        "budgets.bytes_per_hour": view.hour_budget_bytes,
        "work.bytes_per_hour": policy.work.bytes_per_hour,
        "work.bytes_per_day": policy.work.bytes_per_day,
    }
    for name, limit in limits.items():
        if limit is not None and size_bytes > limit:
            # The daemon may be started anew with another budget, which touches nothing.
            wake = Wake(at_ms=now_ms + HOUR_MS)
            return f"its {size_text(size_bytes)} are more than {name} ever allows ({size_text(limit)})", wake
    return None


# --- the table as a whole ------------------------------------------------------------------------------------


def _decide_whole(
    action: Action,
    triggers: Iterable[Trigger],
    view: View,
    pace: Pace,
    now_ms: int,
    *,
    off: str | None,
    files: int = 0,
    wake: Wake = NEVER,
) -> Decision:
    """The verdict on one action on the whole table, from its triggers; `off` says why it is not wanted at all."""
    speaker = max(triggers, key=lambda trigger: trigger.score)

    def verdict(kind: Verdict, why: str, wake: Wake = NEVER) -> Decision:
        return Decision(action, None, WHOLE[action], kind, round(speaker.score, 4), why, wake, files=files)

    if (held := _held(view, now_ms)) is not None:
        return verdict(*held)
    if off is not None:
        return verdict(Verdict.OFF, off)
    if any(flight.action is action for flight in view.flights):
        return verdict(Verdict.RUNNING, f"it is running: {speaker.why}")
    threshold, schedule = pace.threshold(action)
    if speaker.score < threshold:
        return verdict(Verdict.CLEAN, speaker.why, earlier(wake, pace.opens(action, speaker.score)))
    until = pace.closes(action, speaker.score)
    if action not in CAPABLE:
        what = action.replace("_", " ")
        return verdict(Verdict.UNSUPPORTED, f"due, but this version cannot {what} yet: {speaker.why}", until)
    if view.deletions_held is not None and action in DELETING:
        return verdict(Verdict.HALTED, f"due, but nothing is deleted: {view.deletions_held}: {speaker.why}")
    if (failed := _after_failures(view.setbacks.get(action), now_ms)) is not None:
        kind, why, wake = failed
        return verdict(kind, why, earlier(wake, until))
    if (waits := pace.waits(now_ms)) is not None:
        return verdict(Verdict.WAITING, f"due, but {waits[0]}: {speaker.why}", earlier(waits[1], until))
    by = f"by the schedule {schedule}: " if speaker.score < 1 else ""
    return verdict(Verdict.DUE, f"{by}{speaker.why}")


def _decide_expiry(
    view: View, snapshots: tuple[Snapshot, ...], expire: Expire, pace: Pace, now_ms: int
) -> tuple[Decision, tuple[int, ...]]:
    going, kept_why = expirable(view, expire, now_ms)
    gone = set(going)
    why = f"{len(going)} of {len(snapshots)} snapshots may go, due at {expire.at_once}{kept_why}"
    triggers = [Trigger("expire.at_once", len(going) / expire.at_once, why)]
    overdue_at_ms = None
    if going:
        oldest_ms = next(s.committed_at_ms for s in snapshots if s.snapshot_id in gone)
        overdue_ms = max(now_ms - oldest_ms - expire.keep_for, 0)
        overdue_at_ms = oldest_ms + expire.keep_for + expire.at_latest
        said = f"the oldest could have gone {span_text(overdue_ms)} ago, {span_text(expire.at_latest)} at the latest"
        triggers.append(
            Trigger("expire.at_latest", overdue_ms / expire.at_latest if expire.at_latest else 1.0, said)
        )
        size, limit = view.facts.metadata_file_bytes, int(expire.max_metadata_size)
        said = f"metadata.json has {size_text(size)} of {size_text(limit)}, and {len(going)} snapshots may go"
        triggers.append(Trigger("expire.max_metadata_size", size / limit, said))
    ripening = sorted(
        at_ms
        for s in snapshots
        if s.snapshot_id not in gone and (at_ms := s.committed_at_ms + expire.keep_for) > now_ms
    )
    missing = expire.at_once - len(going)
    times = [ripening[missing - 1]] if 0 < missing <= len(ripening) else []
    if ripening:
        is_large = view.facts.metadata_file_bytes >= expire.max_metadata_size
        times.append(ripening[0] + (0 if is_large else expire.at_latest))
    if overdue_at_ms is not None and overdue_at_ms > now_ms:
        times.append(overdue_at_ms)
    decision = _decide_whole(
        Action.EXPIRE,
        triggers,
        view,
        pace,
        now_ms,
        off=None if expire.enabled else "the policy does not expire snapshots of this table",
        files=len(going),
        wake=Wake(at_ms=min(times)) if times else NEVER,
    )
    return decision, going


def _decide_manifests(view: View, policy: Policy, pace: Pace, now_ms: int) -> Decision:
    count, partitions = view.facts.manifests, max(view.around.state.partitions, 1)
    # So many there must be, however they are grouped.
    needed = max(math.ceil(view.facts.metadata_bytes / MANIFEST_BYTES), 1)
    limits = policy.manifests
    many = max(count - needed, 0) / limits.min_count
    spread = count / (limits.max_per_partition * partitions)
    why = (
        f"{count} manifests for {partitions} partitions, {needed} would do "
        f"(due {limits.min_count} above that, at {limits.max_per_partition:g} to a partition)"
    )
    option = "manifests.min_count" if many < spread else "manifests.max_per_partition"
    return _decide_whole(
        Action.REWRITE_MANIFESTS,
        [Trigger(option, min(many, spread), why)],
        view,
        pace,
        now_ms,
        off=None if limits.enabled else "the policy does not regroup manifests of this table",
    )


def _decide_metadata(view: View, policy: Policy, pace: Pace, now_ms: int) -> Decision:
    limits, versions = policy.metadata, view.facts.metadata_versions
    going = max(versions - limits.keep_last, 0)
    why = f"{going} of {versions} old metadata.json files may go, due at {limits.at_once}"
    return _decide_whole(
        Action.TRIM_METADATA,
        [Trigger("metadata.at_once", going / limits.at_once, why)],
        view,
        pace,
        now_ms,
        off=None
        if limits.enabled
        else "the policy, or the table itself, looks after old metadata.json files",
        files=going,
    )


def _decide_orphans(view: View, policy: Policy, pace: Pace, now_ms: int) -> Decision:
    orphans, done_ms = policy.orphans, view.last_done_ms.get(Action.REMOVE_ORPHANS)
    if done_ms is None:
        score, why, wake = 1.0, "nobody has looked for orphans yet", NEVER
    else:
        ago_ms = max(now_ms - done_ms, 0)
        score = ago_ms / orphans.every if orphans.every else 1.0
        why = f"looked for {span_text(ago_ms)} ago, every {span_text(orphans.every)}"
        wake = Wake(at_ms=done_ms + orphans.every)
    return _decide_whole(
        Action.REMOVE_ORPHANS,
        [Trigger("orphans.every", score, why)],
        view,
        pace,
        now_ms,
        off="the policy does not look for orphans" if orphans.mode is Mode.OFF else None,
        wake=wake,
    )


def expirable(view: View, expire: Expire, now_ms: int) -> tuple[tuple[int, ...], str]:
    """The snapshots of `main` that nobody needs any more, oldest first, and why others had to stay.

    Never: the head, the newest `keep_last`, those younger than `keep_for`, those that a tag or branch keeps, the base
    of a running job, what was not announced and consumed yet, and the newest snapshot that keeps a writer's place.
    """
    snapshots = view.snapshots or ()
    old = [
        snapshot
        for snapshot in snapshots[: max(len(snapshots) - expire.keep_last, 0)]
        if now_ms - snapshot.committed_at_ms >= expire.keep_for
    ]
    bases = {flight.base_snapshot_id for flight in view.flights}
    newest = {s.token: s.snapshot_id for s in snapshots if s.token}
    going: list[int] = []
    held: dict[str, int] = {}
    for snapshot in old:
        keeper = None
        if snapshot.is_pinned:
            keeper = "kept by tags or branches"
        elif snapshot.snapshot_id in bases:
            keeper = "read by a running job"
        elif (
            view.announced_sequence_number is None
            or snapshot.sequence_number > view.announced_sequence_number
        ):
            keeper = "not announced yet"
        elif newest.get(snapshot.token) == snapshot.snapshot_id:
            keeper = "keeping a writer's place"
        if keeper is None:
            going.append(snapshot.snapshot_id)
        else:
            held[keeper] = held.get(keeper, 0) + 1
    why = "".join(f", {count} {keeper}" for keeper, count in sorted(held.items()))
    return tuple(going), why
