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
from typing import Annotated, Any

from pydantic import BeforeValidator, ByteSize, Field, PlainSerializer, model_validator

from isotherm.config import Settings

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
    """Due also when rows in delete files reach this part of the partition's rows."""


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
    delete_after: Span = 3_600_000
    """Files of expired snapshots are deleted this long after the expiry: the grace of queries that still run."""


class Policy(Settings):
    """The whole policy of one table: every field has a value."""

    cold: Cold = Cold()
    compact: Compact = Compact()
    expire: Expire = Expire()

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

    @model_validator(mode="before")
    @classmethod
    def _one_name_is_enough(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(data.get("tables"), str):
            return {**data, "tables": [data["tables"]]}
        return data

    def rules(self) -> dict[str, Any]:
        """Only what the file says, nested by section."""
        return self.model_dump(exclude={"tables"}, exclude_unset=True)


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
        _overlay(values, origins, {"expire": {"enabled": False}}, "table property gc.enabled")
    # Every value was validated where it came from; copies are not validated again.
    resolved = Policy(
        cold=Cold().model_copy(update=values.get("cold", {})),
        compact=Compact().model_copy(update=values.get("compact", {})),
        expire=Expire().model_copy(update=values.get("expire", {})),
    )
    return Resolved(resolved, origins)


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
    }
    rules: dict[str, dict[str, Any]] = {}
    for name, (section, rule) in known.items():
        if (text := properties.get(name, "")).isdecimal() and int(text) > 0:
            rules.setdefault(section, {})[rule] = int(text)
    return rules
