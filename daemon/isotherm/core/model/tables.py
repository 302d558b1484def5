"""A table as its metadata describes it: its partition fields, its facts, its snapshots."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from isotherm.core.units import DAY_MS

COMPACTED = (1, 2, 3)
"""The format versions of tables that are compacted."""
UPGRADE = "set its property format-version to 2: that changes metadata alone, and readers of today know it"
"""What to do about a table of format version 1."""
WITH_NUMBERS = 2
"""From this one on snapshots and files have sequence numbers. In version 1 nothing tells which of two files came first, so
old files are not merged beside writers."""
WITH_ROW_IDS = 3
"""From this one on rows have ids, which a rewrite must keep. Deletes of rows are deletion vectors from then on: no new
position-delete file may be written."""


@dataclass(frozen=True, slots=True)
class PartitionField:
    """One field of a partition spec, as far as decisions need it."""

    field_id: int
    name: str
    transform: str
    """As Iceberg writes it: `hour`, `day`, `month`, `year`, `identity`, `bucket[16]`, `truncate[4]`, `void`."""
    source_type: str
    """Iceberg's name of the source column's type: `timestamptz`, `date`, `int`, …"""
    epoch: str | None = None
    """How a number or a text in it holds a time, where the policy says that it does (`policy.Epoch`)."""
    is_current: bool = True
    """Whether the default spec has it, so that what is written now is divided by it."""
    source_id: int | None = None
    """The source column's field id, or None where an older version did not keep it."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One snapshot of `main`, as far as expiry needs it."""

    snapshot_id: int
    sequence_number: int
    committed_at_ms: int
    token: str = ""
    """The pipeline of ingest or the sink of Kafka Connect whose place it keeps, or empty if it keeps none."""
    is_pinned: bool = False
    """A tag or a branch keeps it, whatever its age."""
    kept_until_ms: int = 0
    """A branch keeps it until then, by the age that the branch itself states."""
    left_at_ms: int = 0
    """When it stopped being the newest, where that was later than the next one's commit: a branch was published, or a
    rollback taken back. 0 where the next one's commit tells."""
    is_rewrite: bool = False
    """It has the rows of the one before it (`replace`): who reads bit by bit finds nothing new in it."""


@dataclass(frozen=True, slots=True)
class Astray:
    """A snapshot that no branch has in its history and no tag names: left by a rollback, or staged to be published."""

    snapshot_id: int
    sequence_number: int
    since_ms: int
    """When it was first seen so, or committed, whichever came later: a rollback may be taken back."""
    token: str = ""
    """As of any other snapshot."""
    is_staged: bool = False
    """It was written to be looked at before it is published (`wap.id`)."""
    left_at_ms: int = 0
    """When `main` last left it, as far as the table's own log says; it counts from then. 0 where that says nothing."""


@dataclass(frozen=True, slots=True)
class RefEnd:
    """A branch or a tag that the table's owner has given an age (`max-ref-age-ms`)."""

    name: str
    over_at_ms: int
    """From then on the specification has it dropped by whoever expires snapshots."""


UNPUBLISHED_FOR_MS = DAY_MS
"""What is older is forgotten, or will not be published: a branch that stays must not keep a table from being compacted."""


@dataclass(frozen=True, slots=True)
class Unpublished:
    """What somebody has written beside `main`, to look at it first, and can publish only while `main` stays where it is."""

    why: str
    """What would be lost for its writer if `main` moved now: a sentence for a person."""
    written_at_ms: int

    @property
    def until_ms(self) -> int:
        """When nobody waits for it any more."""
        return self.written_at_ms + UNPUBLISHED_FOR_MS

    def waits(self, now_ms: int) -> bool:
        """Whether it is young enough; one of a clock that is far ahead is not."""
        return abs(now_ms - self.written_at_ms) < UNPUBLISHED_FOR_MS


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
    needless_manifests: int | None = None
    """How many fewer there would be once all were rewritten that may be; None where that is not known."""
    metadata_file_bytes: int = 0
    """Size of metadata.json."""
    metadata_versions: int = 0
    """Old metadata.json files that the metadata still names."""
    rewritten_in: int | None = None
    """The newest snapshot by which somebody else has rewritten data files, or None if there is none: of those in its
    metadata, and of those that are remembered (`rewriters`)."""
    rewritten_by: str = ""
    """Who has, by name, as long as that snapshot is in its metadata and tells; empty otherwise."""
    watched_since_ms: int | None = None
    """Since when it was watched for such a snapshot, or None where that is long enough."""
    oldest_job: str = ""
    """The job that committed the oldest snapshot of Isotherm's in its metadata, or empty if there is none."""
    own_snapshots: int = 0
    """How many of the snapshots in its metadata are Isotherm's."""
    unsupported: str = ""
    """Why nothing of it can be compacted by this version, or empty where it can."""
    sortable: tuple[str, ...] | None = None
    """The names of the columns by which rows can be sorted; None where that is not known, or they are too many."""
    unpublished: tuple[Unpublished, ...] = ()
    """Of what waits to be published, newest first: some, of which one waits whenever any does."""
    ref_ends: tuple[RefEnd, ...] = ()
    """Of the branches and tags with an age of their own, those that are over first, the soonest first."""
    whole_until_ms: int = 0
    """Until when all ancestors of the head must stay, because Flink's sink needs them, in milliseconds since the epoch."""
    schemas: int = 0
    """In its metadata, the current one included; 0 where that is not known yet."""
    specs: int = 0
    """The same of partition specs."""
    not_moved: str = ""
    """Why files of older partition specs cannot be written in the current one, or empty where they can."""
    has_undivided: bool = False
    """Whether it has live files of a spec that divides nothing. Their partition's key is that of rows without a value, so it
    does not tell."""
    confirmed_at_ms: int = 0
