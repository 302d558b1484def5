"""Policies: what should be maintained, never how. Validated values with units, and which of them win.

A policy file names tables by pattern and sets some fields; a table's policy is the built-in defaults, overruled
field by field by the table's own properties, then by the files that match it, the most specific last. Only a table
that some file matches is maintained. Where a table property and a policy speak about deletion, the stricter wins.
"""

import fnmatch
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, ByteSize, Field, PlainSerializer, model_validator

from isotherm.config import Settings
from isotherm.model import Action
from isotherm.windows import checked_cron

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_SPAN = re.compile(r"(\d+)\s*(ms|[smhdw])\s*")


def parse_span_ms(value: Any) -> int:
    """`15m`, `1h 30m`, `7d` in milliseconds.

    Raises:
        ValueError: it is not a span; a bare number has no unit.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value == 0:
        return 0
    text = value.strip() if isinstance(value, str) else ""
    if not text or _SPAN.sub("", text):
        raise ValueError("expected a span with a unit, such as `30s`, `15m`, `6h`, `7d`")
    return sum(int(count) * _UNITS_MS[unit] for count, unit in _SPAN.findall(text))


Span = Annotated[
    int, BeforeValidator(parse_span_ms), PlainSerializer(lambda ms: f"{ms}ms", when_used="json"), Field(ge=0)
]
"""A span of time, written with its unit, held in milliseconds."""

Cron = Annotated[str, AfterValidator(checked_cron)]
"""A cron expression of five fields, in UTC."""


class Epoch(StrEnum):
    """How a partition field that is no time for Iceberg holds one."""

    SECONDS = "s"
    """Whole seconds since 1970, UTC."""
    MILLISECONDS = "ms"
    MICROSECONDS = "us"
    DAYS = "d"
    """Days since 1970."""
    YYYYMMDD = "yyyymmdd"
    """`20261121`, as a number or as text."""
    ISO_DATE = "yyyy-mm-dd"
    """`2026-11-21`, as text."""


class Cold(Settings):
    """When a partition counts as left behind by the stream. All conditions must agree."""

    after: float = Field(2, ge=0)
    """Intervals of the partition (hours of an hourly one, …) that must lie between its end and the event time that
    the stream has reached. More where rows come late as a rule."""
    after_at_most: Span = 7 * 86_400_000
    """Caps `after` as a span of event time, so that monthly partitions do not wait for two months."""
    quiet_for: Span = 15 * 60_000
    """Nobody wrote into the partition for this long. Longer where writers pause in the middle of their work."""
    quiet_commits: int = Field(10, ge=0)
    """Nor within the last so many commits of the table. The main rule for buckets."""
    quiet_at_most: Span = 86_400_000
    """Caps `quiet_commits`: after this long, the number of commits does not matter any more."""
    late_write_risk: float = Field(0.001, gt=0, le=1)
    """Cold only where the table's own history says that a write into a partition of that age, before a job would
    end, is less likely than this. 1 switches the rule off."""
    writer_silent_for: Span = 3_600_000
    """A writer that has said nothing for this long is retired: its last open window binds nobody any more."""
    epochs: dict[str, Epoch] = Field(default_factory=dict)
    """Partition fields (of `identity` or `truncate`) that hold a time as a number or as text, and how:
    `{event_day: yyyymmdd}`."""


class Compact(Settings):
    """When small files and delete files are rewritten."""

    enabled: bool = True
    """Whether partitions of this table are compacted."""
    target_file_size: Annotated[ByteSize, Field(ge=1024)] = ByteSize(128 * 1024**2)
    """Size that new files should have. Larger for tables that are read whole, smaller for selective reads."""
    min_files: int = Field(100, ge=2)
    """Due at this many data files below three quarters of the target in one partition."""
    fill_files: int = Field(5, ge=2)
    """Due also at this many small files, where together they fill one of the target size."""
    max_delete_ratio: float = Field(0.1, gt=0)
    """Due also when rows in position deletes and deletion vectors reach this part of the partition's rows."""
    max_equality_deletes: int = Field(10, ge=1)
    """Due also at this many equality-delete files: each reader joins every one of them with all older rows."""
    max_deletion_vectors: int = Field(100, ge=1)
    """Due also at this many deletion vectors: each is one more request for every reader."""


class Expire(Settings):
    """Which snapshots go, and when the files that only they needed follow."""

    enabled: bool = True
    """Whether snapshots of this table are expired."""
    keep_for: Span = 7 * 86_400_000
    """Snapshots younger than this stay. Longer than the longest query and the longest time travel that is needed."""
    keep_last: int = Field(20, ge=1)
    """So many of the newest stay, however old they are."""
    at_once: int = Field(10, ge=1)
    """Due when so many snapshots may go; one commit takes them all."""
    at_latest: Span = 86_400_000
    """Due also when the oldest snapshot is this much older than `keep_for`, however few may go."""
    max_metadata_size: Annotated[ByteSize, Field(ge=1024)] = ByteSize(32 * 1024**2)
    """Due also when metadata.json is larger than this and any snapshot may go: every commit writes it anew."""
    delete_after: Span = 3_600_000
    """Files of expired snapshots are deleted this long after the expiry: the grace of queries that still run."""


class Manifests(Settings):
    """When manifests are regrouped by partition, so that a reader opens few of them."""

    enabled: bool = True
    """Whether manifests of this table are regrouped."""
    min_count: int = Field(100, ge=2)
    """Never due below this many manifests."""
    max_per_partition: float = Field(4, gt=0)
    """Due when there are this many manifests to a partition, on the average."""


class Metadata(Settings):
    """When old metadata.json files are removed."""

    enabled: bool = True
    """Whether Isotherm does it, where the table does not do it itself (write.metadata.delete-after-commit.enabled)."""
    keep_last: int = Field(100, ge=1)
    """So many of the old ones stay: the way back after a bad commit. Iceberg's write.metadata.previous-versions-max."""
    at_once: int = Field(100, ge=1)
    """Due when so many may go."""


class Mode(StrEnum):
    """What becomes of orphans."""

    OFF = "off"
    REPORT = "report"
    APPLY = "apply"


class Orphans(Settings):
    """Files under the table's location that no snapshot knows."""

    mode: Mode = Mode.REPORT
    """`off`, `report` (count them, delete nothing), or `apply`."""
    older_than: Span = 3 * 86_400_000
    """Younger ones stay: a writer may be about to commit them. Longer than the longest job of any writer."""
    every: Span = 7 * 86_400_000
    """Due when nobody looked for this long: the whole location is listed."""


class Window(Settings):
    """A time in which work may begin."""

    cron: Cron
    """When it opens, in UTC: minute, hour, day of month, month, day of week."""
    lasts: Span = Field(ge=60_000)
    """How long it stays open."""


class Schedule(Window):
    """A time in which less debt than usual is enough."""

    name: str = ""
    """What plans call it: `nightly`."""
    do: tuple[Action, ...] = Field(min_length=1)
    """What it is for: `compact`, `expire`, `rewrite_manifests`, `trim_metadata`, `remove_orphans`."""
    from_score: float = Field(0.1, gt=0, le=1)
    """Due from this score on, instead of from 1. Where nothing would be gained, nothing is done."""


class Work(Settings):
    """When work may be done, and how much of it; isotherm.yaml's budgets hold too, and the tighter wins."""

    priority: int = 0
    """Tables of a higher priority come first; among equals it goes in turn."""
    jobs_at_once: int | None = Field(None, ge=0)
    """Compactions of this table at the same time; unset: as many as isotherm.yaml allows."""
    bytes_per_hour: ByteSize | None = None
    """What compaction may read of this table in any hour; unset: no limit."""
    bytes_per_day: ByteSize | None = None
    """What compaction may read of this table in any day; unset: no limit."""
    windows: tuple[Window, ...] = ()
    """Work begins only inside one of these; without any, at all times."""
    schedules: tuple[Schedule, ...] = ()
    """Times at which less debt is enough, beside the thresholds, which hold at all times."""


class Policy(Settings):
    """The whole policy of one table: every field has a value."""

    cold: Cold = Cold()
    compact: Compact = Compact()
    expire: Expire = Expire()
    manifests: Manifests = Manifests()
    metadata: Metadata = Metadata()
    orphans: Orphans = Orphans()
    work: Work = Work()

    @property
    def hash(self) -> str:
        """Twelve hexadecimal digits that change when any value does; it stands in every snapshot of ours."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


class PolicyFile(Settings):
    """One YAML file in the folder of policies."""

    tables: list[str] = Field(min_length=1)
    """Names or patterns of tables: `shop.orders`, `shop.*`, `*`."""
    cold: Cold = Cold()
    compact: Compact = Compact()
    expire: Expire = Expire()
    manifests: Manifests = Manifests()
    metadata: Metadata = Metadata()
    orphans: Orphans = Orphans()
    work: Work = Work()

    @model_validator(mode="before")
    @classmethod
    def _one_name_is_enough(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(data.get("tables"), str):
            return {**data, "tables": [data["tables"]]}
        return data

    def rules(self) -> dict[str, Any]:
        """Only what the file says, nested by section."""
        return {
            name: {rule: getattr(section, rule) for rule in section.model_fields_set}
            for name in Policy.model_fields
            if name in self.model_fields_set and (section := getattr(self, name)) is not None
        }


@dataclass(frozen=True, slots=True)
class Resolved:
    """A table's policy, and where each value of it comes from (`cold.after` → `shop.yaml`)."""

    policy: Policy
    origins: Mapping[str, str] = field(default_factory=dict)


def matches(pattern: str, table: str) -> bool:
    """Whether a pattern names a table; `*` crosses dots, case counts."""
    return fnmatch.fnmatchcase(table, pattern)


def specificity(pattern: str) -> tuple[bool, int]:
    """Orders patterns from the most general to the most specific: exact names last, then by literal characters."""
    literal = re.sub(r"[*?\[\]]", "", pattern)
    return literal == pattern, len(literal)


def resolve(
    table: str, properties: Mapping[str, str], files: Iterable[tuple[str, PolicyFile]]
) -> Resolved | None:
    """The policy of a table, from its properties and the named policy files; None where no file matches it."""
    matching = sorted(
        (max(specificity(p) for p in policy.tables if matches(p, table)), name, policy)
        for name, policy in _only_matching(table, files)
    )
    if not matching:
        return None
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    _overlay(values, origins, _from_properties(properties), "table property")
    for (is_exact, _), name, policy in matching:
        rules = policy.rules()
        if not is_exact:
            rules = _stricter(values, rules)
        _overlay(values, origins, rules, name)
    if properties.get("gc.enabled", "true").lower() == "false":
        kept = {"expire": {"enabled": False}, "metadata": {"enabled": False}, "orphans": {"mode": Mode.OFF}}
        _overlay(values, origins, kept, "table property gc.enabled")
    # Every value was validated where it came from; copies are not validated again.
    defaults = Policy()
    sections = {
        name: getattr(defaults, name).model_copy(update=values.get(name, {})) for name in Policy.model_fields
    }
    return Resolved(Policy.model_construct(**sections), origins)


def _only_matching(table: str, files: Iterable[tuple[str, PolicyFile]]) -> Iterable[tuple[str, PolicyFile]]:
    return ((name, policy) for name, policy in files if any(matches(p, table) for p in policy.tables))


def _stricter(values: Mapping[str, Any], rules: dict[str, Any]) -> dict[str, Any]:
    """A pattern's rules, without those for expiry that keep less than the table's own properties."""
    kept = values.get("expire", {})
    expire = {
        name: value
        for name, value in rules.get("expire", {}).items()
        if name not in ("keep_for", "keep_last") or value > kept.get(name, -1)
    }
    return {**{name: fields for name, fields in rules.items() if name != "expire"}, "expire": expire}


def _overlay(values: dict[str, Any], origins: dict[str, str], rules: Mapping[str, Any], origin: str) -> None:
    for section, fields in rules.items():
        for name, value in fields.items():
            values.setdefault(section, {})[name] = value
            origins[f"{section}.{name}"] = origin


def _from_properties(properties: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Iceberg's own table properties, as rules; what is no number is left to Iceberg to complain about."""
    known = {
        "write.target-file-size-bytes": ("compact", "target_file_size"),
        "history.expire.max-snapshot-age-ms": ("expire", "keep_for"),
        "history.expire.min-snapshots-to-keep": ("expire", "keep_last"),
        "write.metadata.previous-versions-max": ("metadata", "keep_last"),
    }
    rules: dict[str, dict[str, Any]] = {}
    for name, (section, rule) in known.items():
        if (text := properties.get(name, "")).isdecimal() and int(text) > 0:
            rules.setdefault(section, {})[rule] = int(text)
    if properties.get("write.metadata.delete-after-commit.enabled", "false").lower() == "true":
        rules.setdefault("metadata", {})["enabled"] = False
    return rules
