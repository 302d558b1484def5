"""Which position deletes may apply to which data files, without holding each one against each.

By the specification a position-delete file applies to data files that are not younger than it. It names one of them, or
any of its own spec and partition within the bounds of the paths that it names. A partition may have ten thousand of
both: data files are sorted by path, and what lies within two bounds is found by searching.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

from isotherm.contract.identity import PartitionKey
from isotherm.contract.paths import normalised
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
        """Whether a position-delete file may name rows of one of the files, as far as manifests tell."""
        if delete.referenced_data_file is not None:
            return any(True for _ in self._referenced(delete))
        partition = self._partitions.get((delete.spec_id, delete.partition))
        return partition is not None and partition.has_one_before(delete)

    def named_by(self, deletes: Iterable[LiveEntry]) -> set[_Identity]:
        """Those of the files of which one of these position-delete files may name rows."""
        found: set[_Identity] = set()
        wide: dict[tuple[int, PartitionKey], list[LiveEntry]] = {}
        for delete in deletes:
            if delete.referenced_data_file is not None:
                found.update(self._referenced(delete))
            else:
                wide.setdefault((delete.spec_id, delete.partition), []).append(delete)
        for key, of_partition in wide.items():
            if key in self._partitions:
                found.update(self._partitions[key].before(of_partition))
        return found

    def _referenced(self, delete: LiveEntry) -> Iterator[_Identity]:
        for entry in self._by_path.get(normalised(delete.referenced_data_file or ""), ()):
            if entry.sequence_number <= delete.sequence_number:
                yield entry.identity


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
