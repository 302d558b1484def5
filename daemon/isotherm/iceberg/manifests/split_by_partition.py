"""Manifests that a commit has to write anew are regrouped by partition: they are no more than before, and share no partition.

Each commit of a stream leaves a manifest with files of every partition that it wrote. A swap of one partition has to write
all of these manifests anew, and without regrouping the next swap would do so again. Once entries lie by partition, a swap
writes one manifest or two. Readers, and the binding of a job, skip the others by their summaries.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from math import ceil
from typing import Any

from pyiceberg.manifest import ManifestContent, ManifestEntry, ManifestFile

from isotherm.iceberg.manifests.merging import live_entries

MOST_BYTES = 2 * 1024**2
MOST_ENTRIES = 20_000
MOST_VALUES = 400_000
"""What is held at once at most: bytes on disk, entries, and sizes, counts and bounds of columns in them. That is some 60 MB,
or 3,000 entries with twenty columns. Manifests that hold more are written anew one after the other, and not regrouped."""


Comparable = tuple[bool, str, bool, Any]


def alike(manifests: Iterable[ManifestFile]) -> list[tuple[ManifestFile, ...]]:
    """Those of some manifests whose entries may be put together: of one spec and content, two at least, and not too large.

    One that a list names twice stays by itself, and one of which it does not say how many files it holds.
    """
    found = list(manifests)
    times = Counter(one.manifest_path for one in found)
    groups: dict[tuple[int, ManifestContent], list[ManifestFile]] = {}
    for one in found:
        if times[one.manifest_path] == 1 and live_entries([one]) is not None:
            groups.setdefault((one.partition_spec_id, one.content), []).append(one)
    return [tuple(group) for group in groups.values() if len(group) > 1 and _fits(group)]


def divided(entries: Iterable[ManifestEntry], parts: int) -> list[list[ManifestEntry]]:
    """Entries of one spec in the order of their partitions, in so many parts at most; no partition is in two."""
    ordered = sorted(entries, key=_place)
    size, found = ceil(len(ordered) / parts), list[list[ManifestEntry]]()
    for number, entry in enumerate(ordered):
        is_new = number == 0 or _place(entry) != _place(ordered[number - 1])
        if not found or (is_new and len(found[-1]) >= size):
            found.append([])
        found[-1].append(entry)
    return found


def values_in(entry: ManifestEntry) -> int:
    """How many sizes, counts and bounds an entry holds, of all its columns, and the entry itself."""
    return 1 + sum(len(one) for one in entry.data_file._data if isinstance(one, dict))  # noqa: SLF001 (whatever it has)


def _place(entry: ManifestEntry) -> tuple[Comparable, ...]:
    """A partition's values, those that are null last. No two of different types are compared, and no NaN with a number."""
    record = entry.data_file.partition
    return tuple(map(comparable, (record[place] for place in range(len(record)))))


def comparable(value: Any) -> Comparable:
    """A value of a partition by which it is put in order, or None: that comes last."""
    is_null, is_nan = value is None, value != value  # noqa: PLR0124 (which NaN alone is)
    return is_null, type(value).__name__, is_nan, 0 if is_null or is_nan else value


def _fits(group: Sequence[ManifestFile]) -> bool:
    entries = sum((live_entries([one]) or 0) + (one.deleted_files_count or 0) for one in group)
    return entries <= MOST_ENTRIES and sum(one.manifest_length for one in group) <= MOST_BYTES
