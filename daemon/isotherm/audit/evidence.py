"""What the audit judges, and what it answers: values, made by a reader or by the demo's witness.

They repeat what the daemon's own values say of partitions and time, on purpose: a judge shares nothing with the judged.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from isotherm.contract.events import Intent, Window
from isotherm.contract.identity import PartitionKey

ANNOUNCE_WITHIN_MS = 120_000
"""A snapshot younger than this may still be on its way to the control topic; it is not judged yet. The daemon
republishes what it finds after half a minute, and its broker may be slow."""

INTENT_CAP_MS = 900_000
"""No intent counts longer than this after its last word, whatever it says (the daemon's default cap)."""


class Promise(StrEnum):
    """The five promises."""

    COLD_ONLY = "cold_only"
    WRITER_WINS = "writer_wins"
    SAME_ROWS = "same_rows"
    NOTHING_NEEDED_DELETED = "nothing_needed_deleted"
    NOTHING_UNSEEN = "nothing_unseen"


class Judged(StrEnum):
    """What can be said of a promise afterwards."""

    PROVED = "proved"
    BROKEN = "broken"
    NOT_PROVABLE = "not provable any more"
    """What it rests on is gone for good."""
    NOT_LOOKED_AT = "not looked at"
    """What it rests on cannot be read now. Another audit may."""


@dataclass(frozen=True, slots=True)
class Touch:
    """What one snapshot did to the files of one partition, of every kind."""

    partition: PartitionKey
    added: int
    removed: int
    newest_removed: int | None = None
    """The highest sequence number of a file that it removed, or None where it removed none."""


@dataclass(frozen=True, slots=True)
class Commit:
    """One snapshot of `main`."""

    snapshot_id: int
    parent_id: int | None
    committed_at_ms: int
    operation: str
    job_id: str | None = None
    """Set where the snapshot is ours."""
    policy_hash: str | None = None
    sequence_number: int = 0
    valid_through_ms: int | None = None
    touches: tuple[Touch, ...] | None = ()
    """The partitions that it wrote to, or None where its manifests cannot be read any more."""
    window_ids: tuple[str, ...] = ()
    """The windows in which it was made, as it says itself."""

    @property
    def is_ours(self) -> bool:
        """Whether the daemon made it."""
        return self.job_id is not None

    @property
    def is_write(self) -> bool:
        """Whether it counts as a write of somebody else: not ours, and no rewrite of what was there."""
        return not self.is_ours and self.operation != "replace"

    @property
    def is_idle(self) -> bool:
        """Whether it touched no file, as a rewrite of manifests does."""
        return self.operation == "replace" and self.touches == ()

    @property
    def is_append(self) -> bool:
        """Whether it is somebody else's, and only added files."""
        only_added = all(touch.removed == 0 for touch in self.touches or ())
        return not self.is_ours and self.operation == "append" and only_added


@dataclass(frozen=True, slots=True)
class ColdRule:
    """When a partition counted as cold, as far as the policy says."""

    after_ms: Callable[[int], int]
    """The least that must lie between a partition's end and the boundary, by the length of the partition.
    Zero where the policy leaves it to be learned: what was learned cannot be held against anything."""
    quiet_for_ms: int
    silent_for_ms: int
    """Nobody wrote into it for so long: then the boundary does not matter."""
    minor_after_ms: int | None = None
    """Where everybody else only appended for so long, old files of hot partitions may be merged, or None where they never may."""


@dataclass(frozen=True, slots=True)
class Said:
    """One intent message, with the broker's time."""

    at_ms: int
    intent: Intent


@dataclass(frozen=True, slots=True)
class SaidOfWindow:
    """One message about a window, with the broker's time."""

    at_ms: int
    event: Window


@dataclass(frozen=True, slots=True)
class Recomputed:
    """An upsert that was computed again, as the writer's log says."""

    at_ms: int
    intent_id: str
    base_id: int | None
    """The snapshot from which it had been planned."""
    head_id: int | None
    """The head that it ran into."""


@dataclass(frozen=True, slots=True)
class FailedBatch:
    """A batch of the writer that failed, as its log says."""

    at_ms: int
    started_at_ms: int
    error: str


@dataclass(frozen=True, slots=True)
class RowsCompared:
    """The rows of what one commit of ours touched, counted and summed before and after."""

    snapshot_id: int
    before: tuple[int, int]
    after: tuple[int, int]


@dataclass(frozen=True, slots=True)
class SourceCompared:
    """The rows of the source and of the table, at rest."""

    source_rows: int
    lake_rows: int
    equal: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class FilesChecked:
    """Whether the files that snapshots reach are there."""

    snapshots: int
    files: int
    missing: tuple[str, ...] = ()
    """`path (needed by snapshot …)`: taken away by the daemon, or nobody can tell by whom."""
    failed_scans: tuple[str, ...] = ()
    """Scans of readable snapshots that failed while the table was maintained."""
    scans: int = 0
    unread: tuple[str, ...] = ()
    """What is there and cannot be read now, and why: what it names was not looked for."""
    missing_by_others: tuple[str, ...] = ()
    """Those that are missing too, and of which the daemon's ledger does not say that it took them away."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known of a table's past."""

    table: str
    transforms: Mapping[int, str]
    """Partition field id → Iceberg's name of the transform, over all specs; `date` for identity of a date."""
    commits: tuple[Commit, ...]
    """The ancestry of `main`, oldest first, as far as it is known."""
    rules: Mapping[str, ColdRule]
    """Policy hash → the rule that it stood for."""
    now_ms: int
    intents: tuple[Said, ...] = ()
    windows: tuple[SaidOfWindow, ...] = ()
    """In the order of the topic."""
    announced: frozenset[int] = frozenset()
    accounted_since_ms: int | None = None
    """When the daemon first looked at the table: what stood in it by then nobody had to announce to it."""
    announced_since_ms: int | None = None
    """The control topic is known from this time on, or from its beginning where this is None."""
    topic_is_known: bool = True
    accounted: frozenset[int] | None = None
    """Snapshots in the daemon's ledger, or None where no ledger knows the table."""
    heard: frozenset[int] = frozenset()
    """Snapshots of which the ledger says that an event brought them, or that they stood in the table before."""
    seen: frozenset[int] = frozenset()
    """Further snapshots that were seen to be current by somebody who looked on."""
    recomputed: tuple[Recomputed, ...] = ()
    failed_batches: tuple[FailedBatch, ...] = ()
    rows: tuple[RowsCompared, ...] = ()
    source: SourceCompared | None = None
    files: FilesChecked = FilesChecked(0, 0)
    lost_commits_until_ms: tuple[int, ...] = ()
    """When the commits of ours were made that the ledger knows and the table has forgotten."""
    announce_within_ms: int = ANNOUNCE_WITHIN_MS
    intent_cap_ms: int = INTENT_CAP_MS


@dataclass(frozen=True, slots=True)
class Judgement:
    """What can be said of one promise."""

    promise: Promise
    verdict: Judged
    from_ms: int | None
    """The answer covers history from here …"""
    to_ms: int | None
    """… to here. Both are None where there is no history."""
    why: str
    evidence: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
