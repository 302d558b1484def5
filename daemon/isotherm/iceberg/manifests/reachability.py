"""Finds the files that a table's snapshots reach, by reading manifest lists and manifests.

It answers two questions. Before an expiry: which files will probably be unreachable (`left_behind`)? Before a deletion,
as its proof: which of these files are still reachable (`reached`)? It only reads, and decides nothing. A list or
manifest that cannot be read raises an error; it never makes the answer shorter.
"""

from collections.abc import Collection, Container, Iterator
from itertools import chain, pairwise

from pyiceberg.io import FileIO
from pyiceberg.table.metadata import TableMetadata, TableMetadataV1
from pyiceberg.table.snapshots import Snapshot

from isotherm.contract.paths import normalised
from isotherm.contract.summary import PICKED_FROM
from isotherm.core.deletion import Seen
from isotherm.iceberg.fingerprints import Numbered
from isotherm.iceberg.manifests.snapshot_files import Named, SnapshotFiles, among
from isotherm.iceberg.stopping import IsStopped, never
from isotherm.iceberg.threads import THREADS, Threads

LISTS_AT_ONCE = 256
"""Manifest lists of a proof that are read before the manifests that they name, which are in memory until then."""


def last_sequence_number(metadata: TableMetadata) -> int | None:
    """How far the table has come, or None where its format has no sequence numbers."""
    return None if isinstance(metadata, TableMetadataV1) else metadata.last_sequence_number


def left_behind(
    metadata: TableMetadata,
    io: FileIO,
    going: Collection[int],
    is_stopped: IsStopped = never,
    threads: Threads = THREADS,
) -> list[str]:
    """Every file that nothing reaches once these snapshots are gone, as their manifests spell it, and a few more.

    These are manifest lists, manifests, data files, delete files and statistics. The cost depends on what goes, not on
    what stays. A snapshot has the manifests of its parent and those that it wrote. So whatever a staying snapshot
    shares with the going ones is also in one of the nearest staying snapshots. The nearest are:

    - children and parents of going snapshots,
    - snapshots whose parent is not in the table any more,
    - snapshots that were cherry-picked from a going one.

    They are compared with the going ones. A manifest is read only if one side alone has it. What the staying ones have is
    held as numbers, and the manifests of the going ones are read against them, one after another.

    A file may be listed wrongly where manifests name it twice, or where a younger snapshot added it again. So this is no
    proof: `reached` must show of each file that nothing needs it. Files that a damaged list or manifest of a going
    snapshot names are missing here. They stay until orphan removal finds them.

    Raises:
        OSError, UnreadableError: a list or manifest of one of the nearest cannot be read, or storage does not answer.
        Stopped: so it was wanted.
    """
    leaving = [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id in going]
    nearest = _nearest(metadata, going)
    is_line = len(nearest) == 1 and sum(one.parent_snapshot_id not in going for one in leaving) == 1
    files = SnapshotFiles(io, is_stopped, threads)
    theirs = files.named(leaving, if_damaged={})
    near = files.named(nearest)
    needed = Numbered(map(normalised, near))
    needed.add_all(
        normalised(one.manifest_list) for one in metadata.snapshots if one.snapshot_id not in going
    )
    needed.add_all(
        normalised(path) for snapshot_id, path in _statistics(metadata) if snapshot_id not in going
    )
    may_share = [
        path
        for path, manifest in near.items()
        if path not in theirs or _may_have_carried(manifest, going, is_line)
    ]
    # After a rewrite of the manifests these are all files of the table.
    for paths in files.live(may_share):
        needed.add_all(map(normalised, paths))
    alone = list(theirs.keys() - near.keys())
    found: dict[str, str] = {}
    """Whatever a file is named as: once."""
    for paths in chain(
        [[snapshot.manifest_list for snapshot in leaving]],
        [[path for snapshot_id, path in _statistics(metadata) if snapshot_id in going]],
        [alone],
        files.live(alone, if_damaged=()),
    ):
        found.update((name, path) for path in paths if (name := normalised(path)) not in needed)
    return sorted(found.values())


def _may_have_carried(shared: Named, going: Collection[int], is_line: bool) -> bool:
    """Whether a manifest that both sides have may hold files that a going snapshot has in another one.

    It does where it was written in the place of others. If the going snapshots follow one another, without branches or
    gaps, one of them must have written it.
    """
    return shared.has_existing_files and (not is_line or shared.added_snapshot_id in going)


def _nearest(metadata: TableMetadata, going: Collection[int]) -> list[Snapshot]:
    """The staying snapshots that may share something with going ones that no other staying one does."""
    staying = {one.snapshot_id for one in metadata.snapshots if one.snapshot_id not in going}
    parents = {one.parent_snapshot_id for one in metadata.snapshots if one.snapshot_id in going}
    return [
        snapshot
        for snapshot in metadata.snapshots
        if snapshot.snapshot_id in staying
        and (
            snapshot.parent_snapshot_id not in staying
            or snapshot.snapshot_id in parents
            or _picked_from(snapshot) in going
        )
    ]


def _picked_from(snapshot: Snapshot) -> int | None:
    """The staged snapshot whose files this one has added once more, or None where it picked none."""
    said = {} if snapshot.summary is None else snapshot.summary.additional_properties
    source = said.get(PICKED_FROM, "")
    return int(source) if source.isdecimal() and len(source) < len(str(2**64)) else None


def reached(
    metadata: TableMetadata,
    io: FileIO,
    paths: Collection[str],
    seen: Seen | None,
    is_stopped: IsStopped = never,
    threads: Threads = THREADS,
) -> frozenset[str]:
    """Of some files, normalised, those that a retained snapshot or statistics file of the table reaches.

    Args:
        metadata: the table as it is now.
        io: its files.
        paths: the files.
        seen: no snapshot up to this one reaches any of them. If the table still has it, only younger snapshots are
            read, and of their manifests only those that no older one has; else everything is read.
        is_stopped: asked between two files.
        threads: how files are read together.

    Raises:
        OSError, UnreadableError: a list or manifest cannot be read.
        Stopped: so it was wanted.
    """
    wanted, found = {normalised(path) for path in paths}, set[str]()
    for some in reaching(metadata, io, wanted, seen, is_stopped, threads):
        found |= some
        if len(found) == len(wanted):
            break
    return frozenset(found)


def reaching(
    metadata: TableMetadata,
    io: FileIO,
    wanted: Container[str],
    seen: Seen | None,
    is_stopped: IsStopped = never,
    threads: Threads = THREADS,
) -> Iterator[set[str]]:
    """The same as `reached`, some at a time and some more than once. `wanted` is asked by several threads.

    Raises:
        OSError, UnreadableError: a list or manifest cannot be read.
        Stopped: so it was wanted.
    """
    named = [snapshot.manifest_list for snapshot in metadata.snapshots]
    named += [path for _, path in _statistics(metadata)]
    yield among(named, wanted)
    anchor, young = _young(metadata, seen)
    files = SnapshotFiles(io, is_stopped, threads)
    looked_at = files.named([anchor]) if young and anchor is not None else {}
    for start in range(0, len(young), LISTS_AT_ONCE):
        manifests = files.named(young[start : start + LISTS_AT_ONCE], looked_at)
        looked_at |= manifests
        yield among(manifests, wanted)
        yield from files.reach(manifests.values(), wanted)


def sizes_named(
    metadata: TableMetadata,
    io: FileIO,
    wanted: Container[str],
    is_stopped: IsStopped = never,
    threads: Threads = THREADS,
) -> Iterator[tuple[str, int]]:
    """Of files that retained snapshots reach, the sizes that manifests, their lists, and the metadata say; some more than once.

    Raises:
        OSError, UnreadableError: a list or manifest cannot be read.
        Stopped: so it was wanted.
    """
    for one in (*metadata.statistics, *metadata.partition_statistics):
        yield from ((path, one.file_size_in_bytes) for path in among([one.statistics_path], wanted))
    files = SnapshotFiles(io, is_stopped, threads)
    looked_at: dict[str, Named] = {}
    for start in range(0, len(metadata.snapshots), LISTS_AT_ONCE):
        manifests = files.named(metadata.snapshots[start : start + LISTS_AT_ONCE], looked_at)
        looked_at |= manifests
        yield from ((path, one.length) for path, one in manifests.items() if path in wanted)
        for some in files.sizes(manifests.values(), wanted):
            yield from some


def _young(metadata: TableMetadata, seen: Seen | None) -> tuple[Snapshot | None, list[Snapshot]]:
    """The snapshot up to which everything was seen, if the table still has it, and the snapshots behind it."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    anchor = None if seen is None else by_id.get(seen.snapshot_id)
    number = 0 if anchor is None else anchor.sequence_number or 0
    if (
        seen is None
        or anchor is None
        or number != seen.sequence_number
        or isinstance(metadata, TableMetadataV1)
        or not _rises(metadata)
    ):
        return None, list(metadata.snapshots)
    # One without a parent may come with any number (a table that was replaced), so it is never taken for seen.
    young = [
        one
        for one in metadata.snapshots
        if one.snapshot_id != anchor.snapshot_id
        and ((one.sequence_number or 0) > number or one.parent_snapshot_id is None)
    ]
    return anchor, young


def _rises(metadata: TableMetadata) -> bool:
    """Whether each snapshot has a higher number than those that came before it, and than its parent.

    A snapshot without a parent (a table that was replaced while a stream wrote to it) may set the numbers back. What
    comes after it then has numbers that were used before, and would be taken for seen.
    """
    numbers = {one.snapshot_id: one.sequence_number or 0 for one in metadata.snapshots}
    return all(one < next_one for one, next_one in pairwise(numbers.values())) and all(
        numbers.get(one.parent_snapshot_id or 0, -1) < numbers[one.snapshot_id] for one in metadata.snapshots
    )


def youngest(metadata: TableMetadata, going: Collection[int] = ()) -> Seen | None:
    """How far a table's history goes, for what is marked now: the youngest snapshot that stays."""
    staying = [one for one in metadata.snapshots if one.snapshot_id not in going]
    if isinstance(metadata, TableMetadataV1) or not staying:
        return None
    newest = max(staying, key=lambda snapshot: snapshot.sequence_number or 0)
    return Seen(newest.snapshot_id, newest.sequence_number or 0)


def _statistics(metadata: TableMetadata) -> Iterator[tuple[int, str]]:
    """Statistics files of both kinds, with the snapshot that each belongs to."""
    for table_statistics in metadata.statistics:
        yield table_statistics.snapshot_id, table_statistics.statistics_path
    for partition_statistics in metadata.partition_statistics:
        yield partition_statistics.snapshot_id, partition_statistics.statistics_path
