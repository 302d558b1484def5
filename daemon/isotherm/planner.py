"""What should be done to a table now, and why not the rest.

`plan(view, policy, now)` is pure, total and independent of the order of its input: every partition in the view gets
a verdict and a why, and whatever is due becomes a request. A request is bound to files, and becomes a job, elsewhere.
`admit` then chooses among the requests of all tables within the budgets.

The score is debt divided by its threshold in the policy; 1.0 or more is due, and a job brings it below 1. The same
number stands in the metric, the command line, the log and the alert.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from isotherm.coldness import NEVER, Surroundings, Wake, findings, first_hot
from isotherm.model import Action, FileKind, FileStats, PartitionField, PartitionKey, TableId
from isotherm.partitions import label, size_text, span_text
from isotherm.policy import Compact, Expire, Policy
from isotherm.state import PartitionState

SMALL = 0.75
"""A file below this part of the target is small: Iceberg's own `min-file-size-bytes` (its 180 % has no use here,
files that are too large are not split)."""


class Verdict(StrEnum):
    """What is decided for one partition, or for the table."""

    DUE = "due"
    CLEAN = "clean"
    """Below every threshold."""
    HOT = "hot"
    """It would be due, or may become so, but the stream still writes it."""
    RUNNING = "running"
    QUARANTINED = "quarantined"
    """It failed repeatedly; tried again later."""
    UNSUPPORTED = "unsupported"
    """It would be due, but we cannot do it; counted, never silent."""
    HALTED = "halted"
    """A person must look."""
    OFF = "off"
    """The policy says no."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One snapshot of `main`, as far as expiry needs it."""

    snapshot_id: int
    sequence_number: int
    committed_at_ms: int
    has_token: bool = False
    """It carries a pipeline's newest ingest token."""


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What the table's metadata said when the catalog last confirmed its head."""

    location: str
    format_version: int
    fields: tuple[PartitionField, ...]
    """The unified partition type: the fields of all specs."""
    default_spec_id: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    snapshots: tuple[Snapshot, ...] = ()
    """The ancestors of the head that still exist, oldest first, the head last."""
    pinned: frozenset[int] = frozenset()
    """Snapshots that tags and branches (other than main) name, with all that these keep."""
    metadata_bytes: int = 0
    """Size of the manifests and manifest lists that the head needs, and of metadata.json."""
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
    """A partition that failed repeatedly, and until when it is left alone."""

    until_ms: int
    failures: int
    why: str


@dataclass(frozen=True, slots=True)
class View:
    """All that the planner may know of one table. `partitions` may be those alone whose verdict could have changed."""

    around: Surroundings
    facts: TableFacts
    partitions: Mapping[PartitionKey, PartitionState]
    flights: tuple[Flight, ...] = ()
    quarantined: Mapping[PartitionKey, Quarantine] = field(default_factory=dict)
    halted: str | None = None
    announced_sequence_number: int | None = None
    """Up to where this table's snapshots have been announced and consumed; None: nothing was."""

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
    decisions: tuple[Decision, ...]
    requests: tuple[Request, ...]


def plan(view: View, policy: Policy | None, now_ms: int) -> Plan:
    """A verdict for each partition in the view and for the table's snapshots; None as policy: only observed."""
    if policy is None:
        policy = Policy(compact=Compact(enabled=False), expire=Expire(enabled=False))
    flying = {flight.partition for flight in view.flights if flight.action is Action.COMPACT}
    decisions = [
        _decide_compaction(key, partition, view, policy, key in flying, now_ms)
        for key, partition in sorted(view.partitions.items())
    ]
    expiry, snapshots = _decide_expiry(view, policy.expire, now_ms)
    requests = [Request(view.table, decision) for decision in decisions if decision.verdict is Verdict.DUE]
    requests.sort(key=lambda request: (-request.benefit, request.decision.partition or ""))
    if expiry.verdict is Verdict.DUE:
        requests.insert(0, Request(view.table, expiry, snapshots))
    return Plan(view.table, (expiry, *decisions), tuple(requests))


def admit(
    plans: Iterable[Plan], running: int, jobs_at_once: int, bytes_left: int | None
) -> tuple[Request, ...]:
    """The requests to start now, out of all tables: expiry at once, compactions in turn from each table.

    Args:
        plans: one per table.
        running: compactions that run already.
        jobs_at_once: how many may run.
        bytes_left: what the budget still allows to read; None: no limit.
    """
    by_table = sorted(plans, key=lambda one: one.table.name)
    expiries = [
        request for one in by_table for request in one.requests if request.decision.action is Action.EXPIRE
    ]
    queues = [[r for r in one.requests if r.decision.action is Action.COMPACT] for one in by_table]
    chosen: list[Request] = []
    room = max(jobs_at_once - running, 0)
    while room and any(queues):
        # The best of each table in turn, so that a table with much debt does not starve the others.
        for queue in sorted((queue for queue in queues if queue), key=lambda queue: -queue[0].decision.score):
            request = queue.pop(0)
            if not room or (bytes_left is not None and request.decision.bytes > bytes_left):
                continue
            chosen.append(request)
            room -= 1
            bytes_left = None if bytes_left is None else bytes_left - request.decision.bytes
    return (*expiries, *chosen)


@dataclass(frozen=True, slots=True)
class Debt:
    """What a partition costs its readers, in the terms of a policy."""

    score: float
    why: str
    small: FileStats
    takes_deletes: bool


def debt(partition: PartitionState, compact: Compact) -> Debt:
    """The partition's debt: the trigger with the highest score speaks."""
    data, small = partition.data_total, partition.smaller_than(SMALL * compact.target_file_size)
    target = size_text(compact.target_file_size)
    delete_rows = partition.deletes_total.rows
    triggers = [
        (
            small.files / compact.min_files,
            f"{small.files} of {compact.min_files} files below {size_text(SMALL * compact.target_file_size)}",
        ),
        (
            min(small.files / compact.fill_files, small.bytes / compact.target_file_size),
            f"{small.files} small files hold {size_text(small.bytes)} of {target} (at {compact.fill_files} that fill one)",
        ),
    ]
    if delete_rows and data.rows:
        ratio = delete_rows / data.rows
        limit = compact.max_delete_ratio
        triggers.append((ratio / limit, f"{delete_rows} delete rows on {data.rows} rows, limit {limit:.0%}"))
    score, why = max(triggers)
    return Debt(score, why, small, takes_deletes=bool(delete_rows and data.rows))


def _decide_compaction(
    key: PartitionKey, partition: PartitionState, view: View, policy: Policy, is_flying: bool, now_ms: int
) -> Decision:
    owed = debt(partition, policy.compact)
    taken = partition.data_total if owed.takes_deletes else owed.small
    bytes_taken = taken.bytes + (partition.deletes_total.bytes if owed.takes_deletes else 0)

    def verdict(kind: Verdict, why: str, wake: Wake = NEVER) -> Decision:
        name = label(key, view.facts.fields)
        return Decision(
            Action.COMPACT, key, name, kind, round(owed.score, 4), why, wake, taken.files, bytes_taken
        )

    if view.halted is not None:
        return verdict(Verdict.HALTED, f"the table is halted: {view.halted}")
    if not policy.compact.enabled:
        return verdict(Verdict.OFF, "the policy does not compact this table")
    if is_flying:
        return verdict(Verdict.RUNNING, f"a job is running: {owed.why}")
    hot = first_hot(findings(key, partition, view.around, policy.cold, now_ms))
    if hot is not None:
        return verdict(Verdict.HOT, f"hot: {hot.why}; debt {owed.score:.2f}: {owed.why}", hot.wake)
    if owed.score < 1:
        return verdict(Verdict.CLEAN, f"cold and clean: {owed.why}")
    blocker = _unsupported(partition, view.facts)
    if blocker is not None:
        return verdict(Verdict.UNSUPPORTED, f"{blocker}; debt {owed.score:.2f}: {owed.why}")
    quarantine = view.quarantined.get(key)
    if quarantine is not None and quarantine.until_ms > now_ms:
        left = span_text(quarantine.until_ms - now_ms)
        why = f"failed {quarantine.failures} times ({quarantine.why}); tried again in {left}"
        return verdict(Verdict.QUARANTINED, why, Wake(at_ms=quarantine.until_ms))
    return verdict(Verdict.DUE, f"cold and due: {owed.why}")


def _unsupported(partition: PartitionState, facts: TableFacts) -> str | None:
    """What of a partition that is due keeps the executors from it."""
    if facts.format_version != 2:
        return f"format version {facts.format_version} is followed, not yet rewritten"
    for kind in (FileKind.EQUALITY_DELETES, FileKind.DELETION_VECTORS):
        if partition.deletes.get(kind):
            return f"{partition.deletes[kind].files} files of {kind.replace('_', ' ')} cannot be applied yet"
    return None


def _decide_expiry(view: View, expire: Expire, now_ms: int) -> tuple[Decision, tuple[int, ...]]:
    going, kept_why = expirable(view, expire, now_ms)
    score = round(len(going) / expire.at_once, 4)
    count = len(view.facts.snapshots)

    def verdict(kind: Verdict, why: str, wake: Wake = NEVER) -> tuple[Decision, tuple[int, ...]]:
        return Decision(Action.EXPIRE, None, "(table)", kind, score, why, wake, files=len(going)), going

    if view.halted is not None:
        return verdict(Verdict.HALTED, f"the table is halted: {view.halted}")
    if not expire.enabled:
        return verdict(Verdict.OFF, "the policy does not expire snapshots of this table")
    if any(flight.action is Action.EXPIRE for flight in view.flights):
        return verdict(Verdict.RUNNING, "an expiry is running")
    why = f"{len(going)} of {count} snapshots may go, due at {expire.at_once}{kept_why}"
    if score >= 1:
        return verdict(Verdict.DUE, why)
    ripening = [
        s.committed_at_ms + expire.keep_for for s in view.facts.snapshots if s.snapshot_id not in going
    ]
    later = sorted(at_ms for at_ms in ripening if at_ms > now_ms)
    missing = expire.at_once - len(going)
    wake = Wake(at_ms=later[missing - 1]) if len(later) >= missing else NEVER
    return verdict(Verdict.CLEAN, why, wake)


def expirable(view: View, expire: Expire, now_ms: int) -> tuple[tuple[int, ...], str]:
    """The snapshots of `main` that nobody needs any more, oldest first, and why others had to stay.

    Never: the head, the newest `keep_last`, those younger than `keep_for`, those that a tag or branch keeps, the base
    of a running job, what was not announced and consumed yet, and the newest snapshot with an ingest token.
    """
    snapshots = view.facts.snapshots
    old = [
        snapshot
        for snapshot in snapshots[: max(len(snapshots) - expire.keep_last, 0)]
        if now_ms - snapshot.committed_at_ms >= expire.keep_for
    ]
    bases = {flight.base_snapshot_id for flight in view.flights}
    newest_token = max((s.sequence_number for s in snapshots if s.has_token), default=-1)
    going: list[int] = []
    held: dict[str, int] = {}
    for snapshot in old:
        keeper = None
        if snapshot.snapshot_id in view.facts.pinned:
            keeper = "kept by tags or branches"
        elif snapshot.snapshot_id in bases:
            keeper = "read by a running job"
        elif (
            view.announced_sequence_number is None
            or snapshot.sequence_number > view.announced_sequence_number
        ):
            keeper = "not announced yet"
        elif snapshot.has_token and snapshot.sequence_number == newest_token:
            keeper = "holding the newest ingest token"
        if keeper is None:
            going.append(snapshot.snapshot_id)
        else:
            held[keeper] = held.get(keeper, 0) + 1
    why = "".join(f", {count} {keeper}" for keeper, count in sorted(held.items()))
    return tuple(going), why
