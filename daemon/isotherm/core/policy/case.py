"""The `tests:` of a policy file: facts about one partition or table at one time, and what should be decided.

A case is turned into the planner's own view of the world and judged by the planner itself, so a test that passes
says what the daemon will do. What a case does not say is ordinary: nobody is about to write, nothing runs, the
stream has come as far as the clock, and many commits went by since the partition was last written.
"""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from isotherm.contract.events import Intent
from isotherm.contract.identity import UNPARTITIONED, PartitionKey, TableId, partition_key
from isotherm.core.model.decisions import Decision, Verdict
from isotherm.core.model.files import FileKind, FileStats, size_bucket
from isotherm.core.model.jobs import Action
from isotherm.core.model.tables import PartitionField, Snapshot, TableFacts
from isotherm.core.partitions import with_epochs
from isotherm.core.planner.plan import plan
from isotherm.core.planner.view import Surroundings, View
from isotherm.core.policy.policy import Policy
from isotherm.core.state import PartitionState, TableState
from isotherm.core.units import MAX_COUNT, Count, Size, Span, parse_size, parse_span_ms
from isotherm.runtime.settings import Settings

FIELD_ID = 1000
ROWS_PER_FILE = 1000
MANIFEST_BYTES = 8 * 1024
ORDINARY_COMMITS = 1_000_000
"""Foreign commits of the table: more than any `commits_since` that a rule could wait for."""


def _moment_ms(value: Any) -> int:
    """`2026-01-01T12:00:00Z` in milliseconds since 1970."""
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        at = None
    if at is None:
        raise ValueError("expected a time such as `2026-01-01T12:00:00Z`")
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return round((at - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)


Moment = Annotated[
    int,
    BeforeValidator(_moment_ms),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})?)?$",
        }
    ),
]
"""A point in time, ISO 8601, UTC where it does not say otherwise; held in milliseconds."""


def _ago_ms(value: Any) -> int:
    match = re.fullmatch(r"(.*\S)\s+ago\s*", value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("expected a span and `ago`, such as `45m ago`")
    return parse_span_ms(match[1])


Ago = Annotated[
    int, BeforeValidator(_ago_ms), WithJsonSchema({"type": "string", "pattern": r"^\s*\d.*\s+ago\s*$"})
]
"""How long ago, `45m ago`; held in milliseconds."""


@dataclass(frozen=True, slots=True)
class Files:
    """So many files of a size."""

    count: int
    size: int


def _files(value: Any) -> tuple[Files, ...]:
    """`120 of 1MiB`, or several of these."""
    found = []
    for one in value if isinstance(value, list) else [value]:
        match = re.fullmatch(r"\s*([0-9]{1,9})\s+of\s+(.*)", one, re.ASCII) if isinstance(one, str) else None
        if match is None:
            raise ValueError("expected a count and a size, such as `120 of 1MiB`, or a list of these")
        found.append(Files(int(match[1]), parse_size(match[2])))
    return tuple(found)


def _one_or_many(pattern: str) -> dict[str, Any]:
    one = {"type": "string", "pattern": pattern}
    return {"anyOf": [one, {"type": "array", "items": one}]}


ManyFiles = Annotated[
    tuple[Files, ...], BeforeValidator(_files), WithJsonSchema(_one_or_many(r"^\s*\d+\s+of\s+\d.*$"))
]
"""Data files: `120 of 1MiB`, or a list of these."""


def _deletes(value: Any) -> FileStats:
    """`50 rows in 3 files`."""
    pattern = r"\s*([0-9]{1,12})\s+rows?\s+in\s+([0-9]{1,9})\s+files?\s*"
    match = re.fullmatch(pattern, value, re.ASCII) if isinstance(value, str) else None
    if match is None:
        raise ValueError("expected rows and files, such as `50 rows in 3 files`")
    rows, files = int(match[1]), int(match[2])
    return FileStats(files, rows, 10 * rows + 1000 * files)


Deletes = Annotated[
    FileStats,
    BeforeValidator(_deletes),
    WithJsonSchema({"type": "string", "pattern": r"^\s*\d+\s+rows?\s+in\s+\d+\s+files?\s*$"}),
]
"""Delete files: `50 rows in 3 files`."""


def _transform(value: str) -> str:
    if not re.fullmatch(_TRANSFORM, value):
        raise ValueError("expected hour, day, month, year, identity, bucket[16], truncate[4] or none")
    return value


_TRANSFORM = r"hour|day|month|year|identity|none|bucket\[\d{1,6}\]|truncate\[\d{1,6}\]"
Transform = Annotated[
    str, AfterValidator(_transform), WithJsonSchema({"type": "string", "pattern": f"^({_TRANSFORM})$"})
]
"""A partition transform as Iceberg writes it, or `none`."""


class Snapshots(Settings):
    """The table's snapshots, evenly spread from the oldest until now."""

    count: Annotated[Count, Field(ge=1, le=100_000)]
    """How many there are."""
    oldest: Span
    """How old the oldest is."""


class Case(Settings):
    """One test: what is given, and what is expected."""

    name: str = Field(min_length=1, max_length=200)
    """The rule that it shows, as a sentence: `an hour that is over for six hours is compacted`."""
    at: Moment = _moment_ms("2026-01-01T12:00:00Z")
    """When it is decided."""
    table: str | None = Field(None, min_length=1, max_length=1000)
    """The table; without it, one that the file's first pattern names."""
    properties: dict[str, str] = Field(default_factory=dict)
    """Properties of the table: `{gc.enabled: "false"}`."""
    action: Action = Action.COMPACT
    """What is decided: `compact` is about the partition, anything else about the table."""
    spec: Transform = "hour"
    """How the table is partitioned."""
    field: str = Field("part", min_length=1, max_length=200)
    """The partition field, as `cold.epochs` may name it."""
    partition: str | int | None = None
    """The partition, as `isotherm plan` writes its value: `2026-01-01-08`, `2026-01-01`, `2026-01`, `7`."""
    files: ManyFiles = ()
    """Its data files: `120 of 1MiB`, or a list of these."""
    rows: Count | None = None
    """Rows in them; without it, a thousand in each."""
    deletes: Deletes | None = None
    """Its position deletes: `50 rows in 3 files`. With them, say `rows`."""
    equality_deletes: Deletes | None = None
    """Its equality deletes."""
    deletion_vectors: Deletes | None = None
    """Its deletion vectors."""
    last_write: Ago | None = None
    """When a writer last wrote into it: `45m ago`; without it, none is on record."""
    commits_since: Count = MAX_COUNT
    """Commits of the table since then; without it, very many."""
    boundary: Moment | None = None
    """The event time that the stream has reached; without it, `at`."""
    intent: bool = False
    """Whether a writer has announced that it may write to it."""
    snapshots: Snapshots | None = None
    """The table's snapshots, evenly spread: `{count: 500, oldest: 10d}`; without it, a single new one."""
    partitions: Annotated[Count, Field(ge=1)] = 1
    """How many partitions the table has."""
    manifests: Count = 1
    """How many manifests its newest snapshot has, of 8 KiB each."""
    metadata_size: Size = 0
    """Size of its metadata.json."""
    metadata_versions: Count = 0
    """How many old metadata.json files it names."""
    last_done: Ago | None = None
    """When `action` was last done on the table as a whole: `8d ago`; without it, never."""
    expect: Verdict
    """What should be decided."""
    why: str = ""
    """Words that the decision's reason must contain."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if (self.spec == "none") != (self.partition is None):
            raise ValueError("`partition` is needed, but for `spec: none`")
        if any((self.deletes, self.equality_deletes, self.deletion_vectors)) and self.rows is None:
            raise ValueError("with deletes, say how many `rows` the files hold")
        self.key()
        return self

    def key(self) -> PartitionKey:
        """The partition's key.

        Raises:
            ValueError: the partition is none of its transform.
        """
        if self.partition is None:
            return UNPARTITIONED
        return partition_key({FIELD_ID: _ordinal(self.spec, self.partition)})

    def judged(self, policy: Policy | None) -> "Judged":
        """What the planner decides under a policy; None: no file names the table."""
        decision = self._decision(policy)
        is_expected = decision.verdict is self.expect and self.why in decision.why
        return Judged(self.name, is_expected, str(self.expect), self.why, str(decision.verdict), decision.why)

    def _decision(self, policy: Policy | None) -> Decision:
        key = self.key() if self.action is Action.COMPACT else None
        planned = plan(self.view(policy), policy, self.at)
        return next(one for one in planned.decisions if one.action is self.action and one.partition == key)

    def view(self, policy: Policy | None) -> View:
        """The facts as the planner sees them."""
        table = TableId("00000000-0000-0000-0000-000000000000", self.table or "test")
        kind = "string" if isinstance(self.partition, str) else "int"
        field = PartitionField(FIELD_ID, self.field, self.spec, _SOURCES.get(self.spec, kind))
        epochs = {} if policy is None else policy.cold.epochs
        fields = () if self.spec == "none" else with_epochs((field,), epochs)
        snapshots = self._snapshots()
        boundary_ms = self.at if self.boundary is None else self.boundary
        state = TableState(
            table=table,
            head=snapshots[-1].snapshot_id,
            boundary_ms=boundary_ms,
            foreign_commits=ORDINARY_COMMITS,
            partitions=self.partitions,
        )
        intent = Intent(
            table_uuid=table.uuid,
            table=table.name,
            intent_id="test",
            writer="test",
            state="open",
            at_ms=self.at,
            expires_at_ms=self.at + 60_000,
            partitions=None,
        )
        return View(
            around=Surroundings(state, fields, (intent,) if self.intent else ()),
            facts=TableFacts(
                location="",
                format_version=3 if self.deletion_vectors else 2,
                fields=fields,
                properties=self.properties,
                snapshots=len(snapshots),
                manifests=self.manifests,
                metadata_bytes=MANIFEST_BYTES * self.manifests,
                metadata_file_bytes=self.metadata_size,
                metadata_versions=self.metadata_versions,
                confirmed_at_ms=self.at,
            ),
            partitions={self.key(): self._partition()},
            snapshots=snapshots,
            last_done_ms={} if self.last_done is None else {self.action: self.at - self.last_done},
            announced_sequence_number=len(snapshots),
        )

    def _partition(self) -> PartitionState:
        count = sum(one.count for one in self.files)
        rows = ROWS_PER_FILE * count if self.rows is None else self.rows
        data: dict[int, FileStats] = {}
        placed = 0
        for one in self.files:
            placed += one.count
            # Rows are spread evenly, and none is lost to rounding.
            share = rows * placed // count - rows * (placed - one.count) // count if count else 0
            bucket = size_bucket(one.size)
            data[bucket] = data.get(bucket, FileStats()) + FileStats(one.count, share, one.count * one.size)
        deletes = {
            FileKind.POSITION_DELETES: self.deletes,
            FileKind.EQUALITY_DELETES: self.equality_deletes,
            FileKind.DELETION_VECTORS: self.deletion_vectors,
        }
        written_at_ms = None if self.last_write is None else self.at - self.last_write
        return PartitionState(
            data={bucket: stats for bucket, stats in data.items() if stats},
            deletes={kind: stats for kind, stats in deletes.items() if stats},
            first_write_at_ms=written_at_ms,
            last_write_at_ms=written_at_ms,
            last_write_number=ORDINARY_COMMITS - min(self.commits_since, ORDINARY_COMMITS),
        )

    def _snapshots(self) -> tuple[Snapshot, ...]:
        if self.snapshots is None:
            return (Snapshot(1, 1, self.at),)
        apart_ms = self.snapshots.oldest / max(self.snapshots.count - 1, 1)
        return tuple(
            Snapshot(number + 1, number + 1, self.at - self.snapshots.oldest + round(number * apart_ms))
            for number in range(self.snapshots.count)
        )


_SOURCES = {"hour": "timestamptz", "day": "timestamptz", "month": "timestamptz", "year": "timestamptz"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _ordinal(transform: str, value: str | int) -> str | int:
    """The value of a partition as Iceberg holds it."""
    text = str(value)
    try:
        match transform:
            case "hour":
                at = datetime.strptime(text, "%Y-%m-%d-%H").replace(tzinfo=UTC)
                return (at - _EPOCH) // timedelta(hours=1)
            case "day":
                return (date.fromisoformat(text) - _EPOCH.date()).days
            case "month":
                year, month = (int(part) for part in re.fullmatch(r"(\d{4})-(\d\d)", text).groups())  # type: ignore[union-attr]
                return 12 * (year - 1970) + month - 1
            case "year":
                return int(text) - 1970
            case _ if transform.startswith("bucket"):
                return int(text)
            case _:
                return value
    except (ValueError, AttributeError):
        example = {"hour": "2026-01-01-08", "day": "2026-01-01", "month": "2026-01", "year": "2026"}
        raise ValueError(
            f"{text[:40]!r} is no partition of `{transform}`, such as `{example.get(transform, '7')}`"
        ) from None


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of a case."""

    name: str
    ok: bool
    expected: str
    expected_why: str
    verdict: str
    why: str
