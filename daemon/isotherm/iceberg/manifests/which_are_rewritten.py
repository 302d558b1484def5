"""Which manifests become one when a table's manifests are rewritten: small ones whose partitions lie side by side.

A stream that only appends leaves a manifest with each commit, and each reader opens all of them. They are put in the order
of their partitions, and neighbours become one, up to the size of a well-filled manifest.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Self

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record
from pyiceberg.types import PrimitiveType

from isotherm.clients.manifests.reading import first_row_id
from isotherm.core.planner.whole_table import MANIFEST_BYTES
from isotherm.iceberg.manifests.merging import Limits, clear, packed
from isotherm.iceberg.manifests.partition_values import partition_type
from isotherm.iceberg.manifests.split_by_partition import Comparable, comparable
from isotherm.iceberg.manifests.writing import next_row_id

SMALL = 0.75
"""A manifest of less than this part of the target may become a part of another one."""
LIMITS = Limits(most=1_000, most_bytes=64 * 1024**2, most_entries=200_000)
"""Of one commit: a minute or two, most of it for the entries. What is left is due again."""
OF_ONE = Limits(most=1_000, most_bytes=MANIFEST_BYTES, most_entries=LIMITS.most_entries)


def groups_to_rewrite(
    metadata: TableMetadata, manifests: Iterable[ManifestFile]
) -> list[tuple[ManifestFile, ...]]:
    """Those of a table's manifests of which one each is to be made: of one spec and content, neighbours by partition.

    Args:
        metadata: of the table.
        manifests: those of its head that hold a live file.
    """
    found: list[tuple[ManifestFile, ...]] = []
    left = LIMITS
    manifests = with_ids(metadata, manifests)
    for (spec_id, _), small in _alike(manifests).items():
        ordered = sorted(small, key=lambda one: (_place(metadata, spec_id, one), *_age(one)))
        for group in packed(ordered, OF_ONE):
            if len(group) > 1 and left.hold(group):
                found.append(group)
                left = left.without(group)
    return found


def with_ids(metadata: TableMetadata, manifests: Iterable[ManifestFile]) -> list[ManifestFile]:
    """Those whose rows have their ids: to what no commit of version 3 has listed yet, the next one assigns them.

    That may be another's.
    """
    has_ids = next_row_id(metadata) is not None
    return [
        one
        for one in manifests
        if not has_ids or one.content == ManifestContent.DELETES or first_row_id(one) is not None
    ]


def needless(metadata: TableMetadata, manifests: Iterable[ManifestFile]) -> int:
    """How many fewer of a head's manifests there would be once all were rewritten that may be.

    It is counted in the order in which they are listed: with each commit, so it must be cheap. By partition it may be more,
    or less, where many of them are large.
    """
    listed = list(manifests)
    held = [one for one in listed if one.has_added_files() or one.has_existing_files()]
    small = _alike(with_ids(metadata, held)).values()
    merged = (len(group) - 1 for some in small for group in packed(some, OF_ONE))
    return len(listed) - len(held) + sum(merged)


def _alike(manifests: Iterable[ManifestFile]) -> dict[tuple[int, ManifestContent], list[ManifestFile]]:
    """Those that may become a part of another one, by spec and content."""
    found: dict[tuple[int, ManifestContent], list[ManifestFile]] = {}
    for manifest in clear(manifests):
        if manifest.manifest_length < SMALL * MANIFEST_BYTES:
            found.setdefault((manifest.partition_spec_id, manifest.content), []).append(manifest)
    return found


def _place(metadata: TableMetadata, spec_id: int, manifest: ManifestFile) -> tuple[Comparable, ...]:
    """The least values of a manifest's partitions, those that are not told last."""
    spec = metadata.specs().get(spec_id)
    fields = () if spec is None else partition_type(metadata, spec).fields
    found = []
    for place, field in enumerate(fields):
        summaries = manifest.partitions or []
        bound = summaries[place].lower_bound if place < len(summaries) else None
        found.append(comparable(_value(field.field_type, bound)))
    return tuple(found)


def _value(kind: Any, bound: bytes | None) -> Any:
    """A bound as a value; None where there is none, or where it is none of its type."""
    if bound is None or not isinstance(kind, PrimitiveType):
        return None
    try:
        return from_bytes(kind, bound)
    except Exception:  # noqa: BLE001 (whatever somebody wrote there: it only decides on an order)
        return None


def _age(manifest: ManifestFile) -> tuple[int, str]:
    return manifest.sequence_number or 0, manifest.manifest_path


@dataclass(slots=True)
class EntrySum:
    """A sum of what some entries say, in whatever order: two are equal where the entries are the same."""

    entries: int = 0
    hash: int = 0
    """Modulo 2^128."""

    @classmethod
    def of(cls, entries: Iterable[ManifestEntry]) -> Self:
        """The sum of all of these."""
        found = cls()
        for entry in entries:
            found.with_entry(entry)
        return found

    def with_entry(self, entry: ManifestEntry) -> ManifestEntry:
        """Count an entry; gives it back."""
        self.entries += 1
        self.hash = (self.hash + _hash(entry)) % 2**128
        return entry


def _hash(entry: ManifestEntry) -> int:
    """A hash of all that an entry says."""
    numbers = _plain(entry.status), entry.snapshot_id, entry.sequence_number, entry.file_sequence_number
    said = repr((*numbers, [_plain(value) for value in entry.data_file._data]))  # noqa: SLF001 (whatever it has)
    return int.from_bytes(hashlib.blake2b(said.encode(), digest_size=16).digest())


def _plain(value: Any) -> Any:
    """A value in a form that is the same for equal values: maps in the order of their keys, lists whatever holds them.

    PyIceberg gives a plain number where a manifest of version 1 does not say what kind of file it lists.
    """
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return sorted(value.items())
    if isinstance(value, Record):
        return [value[place] for place in range(len(value))]
    return list(value) if isinstance(value, list | tuple) else value
