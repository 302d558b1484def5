"""Verdicts: what is decided for a partition or a table, why, and until when that holds.

A skip has a why too. The score is debt divided by its threshold in the policy; 1.0 or more is due.
"""

from dataclasses import dataclass
from enum import StrEnum

from isotherm.contract.identity import PartitionKey, TableId
from isotherm.core.model.jobs import Action, ExecutorName, Take


@dataclass(frozen=True, slots=True)
class Wake:
    """When a verdict could change by itself, without anything touching its partition."""

    at_ms: int | None = None
    """At this time."""
    boundary_ms: int | None = None
    """When the table's boundary reaches this event time."""
    commits: int | None = None
    """When the table's count of foreign commits reaches this number."""


NEVER = Wake()


def sooner(*wakes: Wake) -> Wake:
    """The first that comes of each kind."""
    wakes = tuple(one for one in wakes if one is not NEVER)
    if len(wakes) < 2:  # as nearly always, and it is asked of each partition more than once
        return wakes[0] if wakes else NEVER
    kinds = (
        [one.at_ms for one in wakes],
        [one.boundary_ms for one in wakes],
        [one.commits for one in wakes],
    )
    return Wake(*(min((at for at in kind if at is not None), default=None) for kind in kinds))


COMMIT_BYTES = 64 * 1024**2
"""What a commit costs, however little it rewrites: a process, manifests, a round through the catalog."""


class Verdict(StrEnum):
    """What is decided for one partition, or for the table."""

    DUE = "due"
    CLEAN = "clean"
    """Below every threshold."""
    RESTING = "resting"
    """It owes enough, but was compacted not long ago, and was written again since then."""
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
    """Files that the job would read."""
    bytes: int = 0
    saved_bytes: int = 0
    """What the job would save whoever reads the whole partition: bytes, and requests at their price."""
    take: Take | None = None
    """For a compaction: which files it would take."""
    option: str = ""
    """For work on the table as a whole: the field of the policy that its score comes from."""
    window_id: str = ""
    """For a compaction of what is hot otherwise: the window in which its writers leave it alone."""
    asks: bool = False
    """Whether its writers are asked for such a window."""


@dataclass(frozen=True, slots=True)
class Request:
    """Something due: a decision that became work, not yet bound to files."""

    table: TableId
    decision: Decision
    snapshots: tuple[int, ...] = ()
    """For expiry: the snapshots that go."""
    due_since_ms: int | None = None
    """Since when its partition has been due, or None where it has only just become so."""
    executor: ExecutorName = ExecutorName.LOCAL
    """Where a compaction would run."""

    @property
    def benefit(self) -> float:
        """Bytes saved at each reading for each byte rewritten: comparable between triggers, partitions and tables."""
        return self.decision.saved_bytes / (2 * self.decision.bytes + COMMIT_BYTES)


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
