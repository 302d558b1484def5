"""Which deletes may apply to which data files, without holding each one against each.

By the specification a position-delete file applies to data files that are not younger than it. It names one of them, or
any of its own spec and partition within the bounds of the paths that it names. A partition may have ten thousand of
both: data files are sorted by path, and what lies within two bounds is found by searching.

An equality-delete file applies to all data files of its own spec and partition that are older than it; one of a spec that
divides nothing, to all older data files of the table.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import accumulate, takewhile

from pyiceberg.manifest import ManifestContent, ManifestFile

from isotherm.contract.identity import PartitionKey
from isotherm.contract.paths import normalised
from isotherm.core.model.files import FileKind
from isotherm.core.model.job_limits import MAX_JOB_FILES
from isotherm.core.model.jobs import Take
from isotherm.iceberg.manifests.live import LiveEntry

_Identity = tuple[str, int | None]


class DataFiles:
    """Some data files, as deletes can name them."""

    def __init__(self, data: Iterable[LiveEntry]) -> None:
        self._by_path: dict[str, list[LiveEntry]] = {}
        partitions: dict[tuple[int, PartitionKey], list[tuple[str, int, _Identity]]] = {}
        for entry in data:
            path = normalised(entry.path)
            self._by_path.setdefault(path, []).append(entry)
            files = partitions.setdefault((entry.spec_id, entry.partition), [])
            files.append((path, entry.sequence_number, entry.identity))
        self._partitions = {key: _Partition(files) for key, files in partitions.items()}

    def may_be_named_by(self, delete: LiveEntry) -> bool:
        """Whether a delete file may name rows of one of the files, as far as manifests tell."""
        if delete.kind is FileKind.EQUALITY_DELETES:
            return any(of.least < delete.sequence_number for of in self._in_scope_of(delete))
        if delete.referenced_data_file is not None:
            return any(True for _ in self._referenced(delete))
        partition = self._partitions.get((delete.spec_id, delete.partition))
        return partition is not None and partition.has_one_before(delete)

    def named_by(self, deletes: Iterable[LiveEntry]) -> set[_Identity]:
        """Those of the files of which one of these delete files may name rows."""
        found: set[_Identity] = set()
        youngest: dict[_Partition, int] = {}
        wide: dict[tuple[int, PartitionKey], list[LiveEntry]] = {}
        for delete in deletes:
            if delete.kind is FileKind.EQUALITY_DELETES:
                for of in self._in_scope_of(delete):
                    youngest[of] = max(delete.sequence_number, youngest.get(of, 0))
            elif delete.referenced_data_file is not None:
                found.update(self._referenced(delete))
            else:
                wide.setdefault((delete.spec_id, delete.partition), []).append(delete)
        for key, of_partition in wide.items():
            if key in self._partitions:
                found.update(self._partitions[key].before(of_partition))
        for of, number in youngest.items():
            found.update(of.older_than(number))
        return found

    def _in_scope_of(self, delete: LiveEntry) -> Iterable["_Partition"]:
        """The partitions to which an equality-delete file applies."""
        if delete.is_global:
            return self._partitions.values()
        partition = self._partitions.get((delete.spec_id, delete.partition))
        return () if partition is None else (partition,)

    def _referenced(self, delete: LiveEntry) -> Iterator[_Identity]:
        for entry in self._by_path.get(normalised(delete.referenced_data_file or ""), ()):
            if entry.sequence_number <= delete.sequence_number:
                yield entry.identity


def mergeable(
    deletes: Iterable[LiveEntry], live: Iterable[LiveEntry], spec_id: int, take: Take
) -> Sequence[LiveEntry]:
    """Those of a partition's position-delete files of which one can be made: the oldest, two at least or none.

    What is made belongs to one spec, and applies to data of that spec alone. A file that names a single data file applies
    to it by its path, also where that belongs to another spec: such a file stays as it is.

    Args:
        deletes: position-delete files of the partition.
        live: all live files of the partition.
        spec_id: the spec to which it will belong.
        take: how large they may be, and how much may be read.
    """
    others = {
        normalised(entry.path) for entry in live if entry.kind is FileKind.DATA and entry.spec_id != spec_id
    }
    ours = [
        delete
        for delete in sorted(deletes, key=lambda entry: (entry.sequence_number, entry.path))
        if delete.spec_id == spec_id and normalised(delete.referenced_data_file or "") not in others
    ]
    small = [
        delete
        for delete in ours
        if take.deletes_below_bytes is None or delete.size_bytes < take.deletes_below_bytes
    ]
    # Sizes are those of all specs together: of this one there may be a single small file.
    return _as_many(small, take.merged_bytes) or _as_many(ours, take.merged_bytes)


def _as_many(deletes: Sequence[LiveEntry], at_most_bytes: int | None) -> Sequence[LiveEntry]:
    """The first of these files, as many as may be read, two at least or none."""
    found = deletes if at_most_bytes is None else deletes[:MAX_JOB_FILES]
    if at_most_bytes is not None:
        sums = accumulate(delete.size_bytes for delete in found)
        found = found[: max(sum(1 for _ in takewhile(lambda size: size <= at_most_bytes, sums)), 2)]
    return found if len(found) > 1 else []


def oldest_data(manifests: Iterable[ManifestFile]) -> dict[int, int]:
    """The sequence number of the oldest live data file of each spec that has some, or one below it."""
    found: dict[int, int] = {}
    for manifest in manifests:
        if manifest.content == ManifestContent.DATA and (
            manifest.has_added_files() or manifest.has_existing_files()
        ):
            spec_id, number = manifest.partition_spec_id, manifest.min_sequence_number
            found[spec_id] = min(number, found.get(spec_id, number))
    return found


def is_over(
    delete: LiveEntry, staying: DataFiles, partition: PartitionKey, spec_id: int, oldest: Mapping[int, int]
) -> bool:
    """Whether an equality-delete file applies to nothing any more.

    Args:
        delete: the file.
        staying: the data files of a partition that stay.
        partition: this partition. Deletes that apply everywhere come with each, and belong to one.
        spec_id: the spec of a job. Of deletes of another one, or of another partition, nothing is known.
        oldest: the oldest data of every spec, by `oldest_data`.
    """
    if (delete.spec_id, delete.partition) != (spec_id, partition) or staying.may_be_named_by(delete):
        return False
    return not delete.is_global or all(
        number >= delete.sequence_number for of, number in oldest.items() if of != spec_id
    )


class _Partition:
    """The data files of one spec and partition, sorted by path."""

    def __init__(self, files: list[tuple[str, int, _Identity]]) -> None:
        files.sort(key=lambda file: file[0])
        self._paths = [path for path, _, _ in files]
        self._numbers = [number for _, number, _ in files]
        self._identities = [identity for _, _, identity in files]
        # The least sequence number of every run of 1, 2, 4, … files.
        self._least = [self._numbers]
        while (length := 1 << (len(self._least) - 1)) * 2 <= len(files):
            runs = self._least[-1]
            self._least.append(list(map(min, runs, runs[length:])))
        self.least = min(self._numbers)
        """The sequence number of the oldest file. Each of ten thousand equality deletes asks for it."""

    def older_than(self, number: int) -> Iterator[_Identity]:
        """The files that are older than a sequence number."""
        for identity, of in zip(self._identities, self._numbers, strict=True):
            if of < number:
                yield identity

    def has_one_before(self, delete: LiveEntry) -> bool:
        """Whether a file within the bounds of a delete file is not younger than it."""
        start, end = self._within(delete)
        if start >= end:
            return False
        power = (end - start).bit_length() - 1
        runs = self._least[power]
        return min(runs[start], runs[end - (1 << power)]) <= delete.sequence_number

    def before(self, deletes: Iterable[LiveEntry]) -> Iterator[_Identity]:
        """The files that lie within the bounds of a delete file and are not younger than it."""
        spans = sorted((*self._within(delete), delete.sequence_number) for delete in deletes)
        spans.reverse()
        # Those that have begun, the youngest first: as long as it lasts, it alone decides.
        begun: list[tuple[int, int]] = []
        for place, number in enumerate(self._numbers):
            while spans and spans[-1][0] <= place:
                _, end, deleted_at = spans.pop()
                heappush(begun, (-deleted_at, end))
            while begun and begun[0][1] <= place:
                heappop(begun)
            if begun and number <= -begun[0][0]:
                yield self._identities[place]

    def _within(self, delete: LiveEntry) -> tuple[int, int]:
        """The places of the files that lie within the bounds of a delete file."""
        low, high = delete.path_bounds
        if low is None or high is None or not _is_comparable(low, high):
            return 0, len(self._paths)
        return bisect_left(self._paths, normalised(low)), bisect_right(self._paths, normalised(high))


def _is_comparable(low: str, high: str) -> bool:
    """Whether the order of paths tells something: not if a file spells them in two ways, or a bound is cut too short."""
    return all(":" in bound or bound.startswith("/") for bound in (low, high)) and _spelling(
        low
    ) == _spelling(high)


def _spelling(location: str) -> str:
    """How a location begins."""
    return location.removesuffix(normalised(location).lstrip("/"))
