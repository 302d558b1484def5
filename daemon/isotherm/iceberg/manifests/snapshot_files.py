"""The manifests that some snapshots name, and the files that these name: many of them read together.

A store takes some 30 ms for each file, so some are read together: the larger they are, the fewer. A list or manifest that
cannot be read raises an error; it never makes the answer shorter.
"""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from types import MappingProxyType
from typing import TypeVar

from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, ManifestEntryStatus
from pyiceberg.table.snapshots import Snapshot

from isotherm.clients.manifests.avro import (
    ALONE_BYTES,
    MAX_BYTES,
    MAX_LIST_BYTES,
    TooLargeError,
    UnreadableError,
)
from isotherm.clients.manifests.reading import Manifest, manifests_listed
from isotherm.clients.storage import REQUESTS_AT_ONCE
from isotherm.contract.paths import taken_for
from isotherm.iceberg.stopping import IsStopped, Stopped
from isotherm.iceberg.threads import Threads

_DAMAGED = (FileNotFoundError, UnreadableError)
"""What no second try mends."""
Read = TypeVar("Read")
LARGE_BYTES = 1024 * 1024
"""A manifest with more counts as large."""
LARGE_AT_ONCE = 8
"""Large manifests that are read together: 64 MiB with files of the usual size."""
SIZES = ((LARGE_BYTES, REQUESTS_AT_ONCE), (ALONE_BYTES, LARGE_AT_ONCE), (MAX_BYTES, 1))
"""How many manifests of up to a size are read together, or of one event: 128 MiB of them, or one."""
LIST_SIZES = (*SIZES[:-1], (MAX_LIST_BYTES, 1))
"""The same of manifest lists."""
MOST_NAMED = 1_000_000
"""Manifests that all lists of one question name together, of half a kilobyte each in memory."""


def among(locations: Iterable[str], wanted: Container[str]) -> set[str]:
    """Which of these files, normalised, some locations may mean."""
    return {path for location in locations for path in taken_for(location) if path in wanted}


@dataclass(frozen=True, slots=True)
class Named:
    """A manifest as a list names it."""

    path: str
    length: int
    """In bytes; as somebody wrote it, so it decides how many are tried together at first, and that fewer are no proof."""
    has_existing_files: bool
    added_snapshot_id: int | None


@dataclass(frozen=True, slots=True)
class SnapshotFiles:
    """The manifest lists and manifests of a table, some of them read together; it stops between two.

    They are decoded one at a time: that is all Python's, and many threads of it would leave none of it to the loop.
    """

    io: FileIO
    is_stopped: IsStopped
    threads: Threads
    decoding: Lock = field(default_factory=Lock)

    def named(
        self,
        snapshots: Sequence[Snapshot],
        known: Mapping[str, Named] = MappingProxyType({}),
        if_damaged: dict[str, Named] | None = None,
    ) -> dict[str, Named]:
        """The manifests of some snapshots that are not known, by their paths as they are spelled.

        Two spellings of one are two here: to read it twice costs less than to take two for one, as two clusters of HDFS
        may have them. A damaged list names those that are given in its place, or is an error.

        Raises:
            UnreadableError: more of them are named than may be in memory.
        """
        found: dict[str, Named] = {}

        def read(location: str, limit: int) -> dict[str, Named]:
            manifests = manifests_listed(self.io, location, limit)
            # One after another: a list of a wide table has tens of thousands, of which most are found by then.
            with self.decoding:
                return {
                    path: Named(
                        path,
                        one.manifest_length,
                        one.has_existing_files(),
                        one.added_snapshot_id,
                    )
                    for one in manifests
                    if (path := one.manifest_path) not in found and path not in known
                }

        # Whoever writes the metadata may name one list as that of every snapshot.
        lists = list(dict.fromkeys(one.manifest_list for one in snapshots))
        # The first one alone: a history shares most of its manifests, and only what is new of the others is kept.
        for some in (lists[:1], lists[1:]):
            for new in self._by_size(read, some, LIST_SIZES, if_damaged):
                found |= new
                if len(found) + len(known) > MOST_NAMED:
                    raise UnreadableError(f"the snapshots name more than {MOST_NAMED} manifests together")
        return found

    def specs(self, snapshots: Sequence[Snapshot]) -> Iterator[frozenset[int]]:
        """The partition specs of the manifests that each of some manifest lists names."""

        def read(location: str, limit: int) -> frozenset[int]:
            manifests = manifests_listed(self.io, location, limit)
            with self.decoding:
                return frozenset(one.partition_spec_id for one in manifests)

        return self._by_size(read, list(dict.fromkeys(one.manifest_list for one in snapshots)), LIST_SIZES)

    def live(
        self, manifests: Sequence[str], if_damaged: Sequence[str] | None = None
    ) -> Iterator[Sequence[str]]:
        """The live files of each manifest; those given in the place of a damaged one, which else is an error."""
        return self._by_size(
            lambda location, limit: self._live(location, limit, _paths), manifests, SIZES[1:], if_damaged
        )

    def reach(self, manifests: Collection[Named], wanted: Container[str]) -> Iterator[set[str]]:
        """Which of these files, normalised, are live in each manifest."""
        return self._of_each(manifests, lambda live: among((one.file_path for one in live), wanted))

    def sizes(self, manifests: Collection[Named], wanted: Container[str]) -> Iterator[set[tuple[str, int]]]:
        """Of the same the sizes that each manifest says."""
        return self._of_each(
            manifests,
            lambda live: {
                (path, one.file_size_in_bytes)
                for one in live
                for path in taken_for(one.file_path)
                if path in wanted
            },
        )

    def _of_each(
        self, manifests: Collection[Named], take: Callable[[Iterator[DataFile]], Read]
    ) -> Iterator[Read]:
        """What is made of the live files of each manifest."""
        lengths = {one.path: one.length for one in manifests}

        def read(location: str, limit: int) -> Read:
            return self._live(location, limit, take, lengths[location])

        small = [one.path for one in manifests if one.length <= LARGE_BYTES]
        large = [one.path for one in manifests if one.length > LARGE_BYTES]
        yield from self._by_size(read, small, SIZES)
        yield from self._by_size(read, large, SIZES[1:])

    def _live(
        self, location: str, limit: int, take: Callable[[Iterator[DataFile]], Read], least: int = 0
    ) -> Read:
        """What is made of the live files of a manifest, one after another."""
        manifest = Manifest.read(self.io, location, max_bytes=limit)
        if len(manifest.data) < least:
            # Cut off between two blocks, it would read as a whole one that names fewer files.
            raise UnreadableError(f"{location} has {len(manifest.data)} bytes, and should have {least}")
        with self.decoding:
            return take(entry.data_file for entry in manifest if entry.status != ManifestEntryStatus.DELETED)

    def _by_size(
        self,
        read: Callable[[str, int], Read],
        locations: Sequence[str],
        sizes: Sequence[tuple[int, int]],
        if_damaged: Read | None = None,
    ) -> Iterator[Read]:
        """The same for each file; those that are larger than allowed are read again, fewer of them together."""
        damaged = None if if_damaged is None else [if_damaged]
        for limit, at_once in sizes:
            larger: list[str] = []
            is_last = limit == sizes[-1][0]
            attempt: Callable[[str], list[Read]] = partial(_attempt, read, limit, None if is_last else larger)
            for results in self._each(attempt, locations, damaged, at_once):
                yield from results
            locations = larger

    def _each(
        self,
        read: Callable[[str], Read],
        locations: Sequence[str],
        if_damaged: Read | None = None,
        at_once: int = REQUESTS_AT_ONCE,
    ) -> Iterator[Read]:
        def work(location: str) -> Read:
            if self.is_stopped():
                raise Stopped
            try:
                return read(location)
            except _DAMAGED:
                if if_damaged is None:
                    raise
                return if_damaged

        return self.threads.each(work, locations, at_once)


def _paths(live: Iterator[DataFile]) -> list[str]:
    return [one.file_path for one in live]


def _attempt(
    read: Callable[[str, int], Read], limit: int, larger: list[str] | None, location: str
) -> list[Read]:
    """A file of at most so many bytes, or nothing after its name was noted among the larger ones."""
    try:
        return [read(location, limit)]
    except TooLargeError:
        if larger is None:
            raise
        larger.append(location)
        return []
