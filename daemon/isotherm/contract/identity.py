"""Who a table is, and what a partition is called: the same in events, in stored rows and in both halves.

A partition's key is text. It is compared and stored, and nobody but these functions takes it apart.
"""

import json
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NewType

PartitionKey = NewType("PartitionKey", str)
"""A value of the *unified* partition type, as canonical JSON: `{"1000":494350}`.

The keys are partition field ids, the values what the transform gave (ordinals for year, month, day and hour).
Nulls are left out: a field that a file's spec does not have and a field that is null are one and the same in
the unified type, so a key stays the same when a spec evolves (and counts cannot go negative, iceberg#17915).
"""

UNPARTITIONED = PartitionKey("{}")

Scalar = str | int | float | bool

_encode = json.JSONEncoder(separators=(",", ":")).encode
"""Kept, for `json.dumps` makes an encoder of its own for every key."""


def partition_key(values: Mapping[int, Scalar | None]) -> PartitionKey:
    """The key of a partition, from its values by partition field id."""
    present = {str(field_id): values[field_id] for field_id in sorted(values) if values[field_id] is not None}
    return PartitionKey(_encode(present))


def partition_values(key: PartitionKey) -> dict[int, Scalar]:
    """The values of a partition by partition field id; nulls are absent."""
    return {int(field_id): value for field_id, value in json.loads(key).items()}


@dataclass(frozen=True, slots=True)
class TableId:
    """A table: its uuid, which never changes, and the name by which the catalog knows it now."""

    uuid: str
    name: str

    def __str__(self) -> str:
        return self.name


_LIKE_WRITTEN = re.compile(r"%(?=2E|2e|25)")
_WRITTEN = re.compile(r"%2E|%2e|%25")


def name_from(levels: Iterable[str]) -> str:
    """The name of a table or a namespace, from its levels: `shop.orders`.

    A dot within a level is written `%2E`, because `b.c` in `a` would otherwise have the name of `c` in `a.b`. So a level
    that has `%2E` or `%25` in it gets `%25` for the percent sign. No two tables have one name.
    """
    return ".".join(_LIKE_WRITTEN.sub("%25", level).replace(".", "%2E") for level in levels)


def levels_of(name: str) -> tuple[str, ...]:
    """The levels of a table or a namespace, from its name."""
    return tuple(
        _WRITTEN.sub(lambda written: "%" if written[0] == "%25" else ".", level) for level in name.split(".")
    )


def scalar(value: Any) -> Scalar | None:
    """A partition value as manifests hold it, in a form that JSON can carry.

    Dates, times and timestamps are ordinals already; decimals keep their scale, binary becomes hexadecimal digits,
    as in Iceberg's own JSON form of single values.
    """
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Decimal() | uuid.UUID():
            return str(value)
        case bytes():
            return value.hex()
        case _:
            raise TypeError(f"a partition value of type {type(value).__name__}")
