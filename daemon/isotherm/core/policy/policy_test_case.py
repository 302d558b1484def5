"""The `tests:` of a policy file: facts about one partition or table at one time, and what should be decided.

Only what a person writes stands here, and how it is read. `planner.run_policy_tests` turns a case into a view and judges it.
"""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from isotherm.contract.identity import UNPARTITIONED, PartitionKey, partition_key
from isotherm.core.model.decisions import Verdict
from isotherm.core.model.files import FileStats
from isotherm.core.model.jobs import Action
from isotherm.core.units import MAX_COUNT, Count, Size, Span, parse_size, parse_span_ms
from isotherm.runtime.strict_model import StrictModel

FIELD_ID = 1000


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


class Snapshots(StrictModel):
    """The table's snapshots, evenly spread from the oldest until now."""

    count: Annotated[Count, Field(ge=1, le=100_000)]
    """How many there are."""
    oldest: Span
    """How old the oldest is."""


class Case(StrictModel):
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
    """When a writer last wrote into it: `45m ago`; without it, none is on record. (The daemon always
    knows one, of an old partition the time of the oldest snapshot: say it where seven days of silence matter.)"""
    commits_since: Count = MAX_COUNT
    """Commits of the table since then; without it, very many."""
    appended: bool = False
    """Whether that was an append and nothing else. With `last_done`, or beside files that are not small, its
    small files came late: fewer are enough
    (`compact.min_files: learned`)."""
    boundary: Moment | None = None
    """The event time that the stream has reached; without it, `at`."""
    late: Span | None = None
    """How late its files come, as the table has shown: nearly all within this after the end of their partition. That is
    known in octaves (an hour counts as 64 minutes); `0s` means that none is late. Without it nothing is known of that yet.
    """
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
    """When `action` was last done, on the partition or on the table as a whole: `8d ago`; without it, never."""
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
