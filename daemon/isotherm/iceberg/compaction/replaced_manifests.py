"""The manifests of a snapshot that swaps files: new ones, those that files leave, and small ones that are merged along.

What was written for an attempt that was lost is used again where its source still stands.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pyiceberg.manifest import ManifestContent, ManifestEntry, ManifestEntryStatus, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.locations import SimpleLocationProvider
from pyiceberg.table.metadata import TableMetadata

from isotherm.clients.manifests.reading import Manifest, entries, first_row_id
from isotherm.contract.identity import PartitionKey
from isotherm.core.model.jobs import CompactionJob, Swap
from isotherm.core.model.refusals import Reason, Refusal, RefusalError
from isotherm.iceberg.manifests.fetching import fetched
from isotherm.iceberg.manifests.live import Known, LiveEntry, identity
from isotherm.iceberg.manifests.merging import groups, live_entries
from isotherm.iceberg.manifests.partition_values import entry_partition_key, partition_record
from isotherm.iceberg.manifests.split_by_partition import MOST_VALUES, alike, divided, values_in
from isotherm.iceberg.manifests.which_are_rewritten import EntrySum, groups_to_rewrite, with_ids
from isotherm.iceberg.manifests.writing import (
    added,
    added_deletes,
    as_listed,
    deleted,
    existing,
    next_row_id,
    write_manifest,
)
from isotherm.iceberg.stopping import IsStopped, Stopped, never

_Which = tuple[str, int | None]
"""A manifest, by its path and the first of its row ids, which another commit may assign after a rollback."""
_File = tuple[str, int | None]
"""A file, by its identity."""
Leaving = Counter[tuple[PartitionKey, _File]]
"""The files that leave a manifest, each with the partition that it leaves, and how often."""
_LeftBy = tuple[tuple[_Which, frozenset[tuple[tuple[PartitionKey, _File], int]]], ...]


class OneRefusedError(RefusalError):
    """One of several jobs cannot be committed, and the others can."""

    def __init__(self, job_id: str, refusal: Refusal) -> None:
        super().__init__(refusal.reason, refusal.why)
        self.job_id = job_id


@dataclass
class ReplacedManifests:
    """The manifests of one commit, over all its attempts."""

    swaps: Sequence[Swap]
    known: Known
    """The live files of the jobs' partitions by manifest; they never change."""
    written: list[str]
    """Every manifest and list that was written."""
    is_stopped: IsStopped = never
    snapshot_id: int = 0
    """The same in every attempt, so that manifests that were written for a lost one can be used again."""
    restated: dict[tuple[str, int | None, frozenset[tuple[PartitionKey, _File]]], ManifestFile] = field(
        default_factory=dict
    )
    """What was written in the place of a manifest, by its path and the files that leave it: what applies elsewhere may
    leave in one attempt and stay in the next."""
    merged: dict[tuple[_Which, ...], ManifestFile] | None = None
    """What the first attempt wrote in the place of several manifests; None before it."""
    regrouped: dict[_LeftBy, list[ManifestFile]] | None = None
    """What the first attempt wrote in the place of several manifests that files leave, by these; None before it."""
    new: list[ManifestFile] | None = None
    """What was written of the new files; they never change either."""
    with_deletes: Mapping[_File, str] = field(default_factory=dict)
    """Files that leave with deletes that name them, and the job of each."""
    unmerged: str = ""
    """Why manifests that should have been merged stay as they are, if some do."""

    @property
    def rewrites(self) -> bool:
        """Whether the manifests themselves are what the commit is about: then as many are merged as there are reasons for."""
        return self.swaps[0].job.is_on_manifests

    def replaced(
        self, table: Table, listed: Iterable[ManifestFile], leaving: Mapping[str, Iterable[LiveEntry]]
    ) -> list[ManifestFile]:
        """The new list: our manifests, restated ones where files leave, and the rest as it is.

        Args:
            table: as it is now.
            listed: the manifests of its head.
            leaving: by job: the files that leave.

        Raises:
            OneRefusedError: the manifests speak against one of the jobs.
            RefusalError: they speak against all.
        """
        jobs = {swap.job.job_id: swap.job for swap in self.swaps}
        self.with_deletes = {
            entry.identity: job_id
            for job_id, some in leaving.items()
            if jobs[job_id].delete_files
            for entry in some
        }
        gone_from = {(entry.partition, entry.identity) for some in leaving.values() for entry in some}
        if self.new is None:
            self.new = list(self._new(table))
        found = list(self.new)
        kept: list[ManifestFile] = []
        left: dict[_Which, tuple[ManifestFile, Leaving]] = {}
        for manifest in listed:
            if not manifest.has_added_files() and not manifest.has_existing_files():
                continue
            held = ((entry.partition, entry.identity) for entry in self.known.get(_which(manifest), ()))
            if gone := Counter(one for one in held if one in gone_from):
                if _which(manifest) in left:  # a list may name one twice
                    found.append(self._restated(table, manifest, gone))
                left[_which(manifest)] = manifest, gone
            else:
                kept.append(manifest)
        return found + self._without(table, left) + self._merged(table, kept)

    def _without(
        self, table: Table, left: Mapping[_Which, tuple[ManifestFile, Leaving]]
    ) -> list[ManifestFile]:
        """What is written in the place of manifests that files leave: by partition, where they can be held at once.

        The first attempt alone regroups: in a later one, those that have changed meanwhile would be read with all others.
        """
        if self.regrouped is None:
            self.regrouped = {}
            for group in alike(with_ids(table.metadata, (manifest for manifest, _ in left.values()))):
                some = [left[_which(manifest)] for manifest in group]
                if (stated := self._held(table, some)) is not None:
                    self.regrouped[_left_by(some)] = self._by_partition(table, some, stated)
        found: list[ManifestFile] = []
        gone: set[_Which] = set()
        for key, written in self.regrouped.items():
            names = [which for which, _ in key]
            if all(which in left and frozenset(left[which][1].items()) == files for which, files in key):
                found += written
                gone.update(names)
        return found + [self._restated(table, *one) for which, one in left.items() if which not in gone]

    def _held(self, table: Table, some: Sequence[tuple[ManifestFile, Leaving]]) -> list[ManifestEntry] | None:
        """What several manifests say without the files that leave, or None where that is too much to be held at once."""
        every: list[ManifestEntry] = []
        values = 0
        for manifest, leaving in some:
            files = 0
            for entry in self._stated(table, manifest, leaving):
                every.append(entry)
                files += entry.status == ManifestEntryStatus.DELETED
                values += values_in(entry)
                if values > MOST_VALUES:
                    return None
            _check_left(manifest, leaving, files)
        return every

    def _by_partition(
        self, table: Table, some: Sequence[tuple[ManifestFile, Leaving]], every: Sequence[ManifestEntry]
    ) -> list[ManifestFile]:
        """Manifests with these entries, in the order of their partitions."""
        first = some[0][0]
        found = [
            self._write(table, first.partition_spec_id, first.content, part)
            for part in divided(every, len(some))
        ]
        written = sum((one.existing_files_count or 0) + (one.deleted_files_count or 0) for one in found)
        if written != len(every):
            why = f"{len(every)} entries from {first.manifest_path} on were read, and {written} written"
            raise RefusalError(Reason.MISMATCH, why)
        return found

    def _merged(self, table: Table, kept: list[ManifestFile]) -> list[ManifestFile]:
        """The other manifests, of which small ones are merged where they are many.

        The first attempt alone takes the time for that: a stream whose commits come faster would win each race.
        """
        if self.merged is None:
            self.merged = {}
            for group in self._groups(table, kept):
                for some, one in self._made_one(table, group):
                    self.merged[tuple(_which(manifest) for manifest in some)] = one
        listed = {_which(manifest) for manifest in kept}
        gone: set[tuple[str, int | None]] = set()
        found: list[ManifestFile] = []
        for names, one in self.merged.items():
            # Where one of them is gone by now, or has lost a file, the others stay as they are.
            if listed.issuperset(names):
                found.append(one)
                gone.update(names)
        return found + [manifest for manifest in kept if _which(manifest) not in gone]

    def _groups(self, table: Table, kept: list[ManifestFile]) -> list[tuple[ManifestFile, ...]]:
        """Those of which one each is to be made."""
        if self.rewrites:
            return groups_to_rewrite(table.metadata, kept)
        return groups(with_ids(table.metadata, kept), table.metadata.properties)

    def _made_one(
        self, table: Table, group: tuple[ManifestFile, ...]
    ) -> Iterator[tuple[tuple[ManifestFile, ...], ManifestFile]]:
        """One manifest for those of a group that can be made one, with these; none where that is not safe to say.

        What cannot be read keeps only itself from being rewritten, or all others would wait for a person. A commit that swaps
        files is in a hurry, and leaves the whole group as it is.
        """
        one = self._one_of(table, group)
        if isinstance(one, str) and self.rewrites:
            whys = {_which(manifest): self._why_unsound(table, manifest) for manifest in group}
            sound = tuple(manifest for manifest in group if whys[_which(manifest)] is None)
            if len(group) > len(sound):
                first = next(manifest for manifest in group if whys[_which(manifest)] is not None)
                self._stays(len(group) - len(sound), first, whys[_which(first)])
                group = sound
                one = self._one_of(table, group) if len(group) > 1 else ""
        if isinstance(one, ManifestFile):
            yield group, one
        elif one:
            self._stays(len(group), group[0], one)

    def _stays(self, count: int, first: ManifestFile, why: str | None) -> None:
        of = "" if count == 1 else f" and {count - 1} more"
        self.unmerged += f"; {first.manifest_path}{of} stay as they are: {why}"

    def _why_unsound(self, table: Table, manifest: ManifestFile) -> str | None:
        """Why a manifest cannot become a part of another one, or None where it can."""
        try:
            written = Manifest.read(table.io, manifest.manifest_path, manifest.manifest_length)
            live = sum(
                entry.status != ManifestEntryStatus.DELETED for entry in self._entries_of(manifest, written)
            )
        except Stopped:
            raise
        except Exception as err:  # noqa: BLE001 (whatever is wrong with it)
            return f"{type(err).__name__}: {err}"
        said = live_entries([manifest])
        return None if live == said else f"it holds {live} files, its list says {said}"

    def _one_of(self, table: Table, group: Sequence[ManifestFile]) -> ManifestFile | str:
        """One manifest with the live entries of several; or why that is not safe to say, and they stay."""
        said = EntrySum()
        live = (
            said.with_entry(existing(entry)) if self.rewrites else existing(entry)
            for manifest, written in zip(group, fetched(table.io, group), strict=True)
            for entry in self._entries_of(manifest, written)
            if entry.status != ManifestEntryStatus.DELETED
        )
        try:
            one = self._write(table, group[0].partition_spec_id, group[0].content, live)
            written = EntrySum.of(self._read_back(table, one)) if self.rewrites else said
        except Stopped:
            raise
        except Exception as err:  # noqa: BLE001 (a damaged one is no reason against a swap that does not concern it)
            return f"{type(err).__name__}: {err}"
        if written != said:
            return f"read back, {one.manifest_path} does not say what they say"
        if one.existing_files_count != live_entries(group):
            return f"they hold {one.existing_files_count} files, their list says {live_entries(group)}"
        return one

    def _entries_of(self, manifest: ManifestFile, written: Manifest) -> Iterator[ManifestEntry]:
        if self.is_stopped():
            raise Stopped
        return entries(written, manifest)

    def _read_back(self, table: Table, manifest: ManifestFile) -> Iterator[ManifestEntry]:
        """What readers will find in a manifest that was written, once it is listed."""
        number, first = table.metadata.next_sequence_number(), next_row_id(table.metadata)
        (listed,), _ = as_listed([manifest], number, first)
        return _entries(table, listed)

    def _new(self, table: Table) -> Iterator[ManifestFile]:
        """What the jobs have written, a manifest for each spec, of data and of deletes."""
        found: dict[tuple[ManifestContent, int], list[ManifestEntry]] = {}
        for swap in self.swaps:
            job, rewrite = swap.job, swap.rewrite
            if job.is_on_manifests:
                continue  # it has no partition, and writes no file of one
            partition = partition_record(table.metadata, job.spec_id, job.partition)
            data_spec_id = job.spec_id if job.output_spec_id is None else job.output_spec_id
            data = found.setdefault((ManifestContent.DATA, data_spec_id), [])
            number, order = job.base_sequence_number, rewrite.sort_order_id
            for file in rewrite.files:
                where = partition
                if file.partition is not None:
                    where = partition_record(table.metadata, data_spec_id, file.partition)
                data.append(added(file, where, self.snapshot_id, number, order))
            deletes = found.setdefault((ManifestContent.DELETES, job.spec_id), [])
            number = _deleted_at(job)
            deletes += [
                added_deletes(file, partition, self.snapshot_id, number) for file in rewrite.merged.files
            ]
        for (content, spec_id), some in sorted(found.items(), key=lambda one: one[0]):
            if some:
                yield self._write(table, spec_id, content, some)

    def _restated(self, table: Table, manifest: ManifestFile, leaving: Leaving) -> ManifestFile:
        """A manifest without the files that leave, written as it is read: a few entries are in memory."""
        # Row ids are assigned to a manifest of version 2 by the first commit of version 3: meanwhile, perhaps.
        which = *_which(manifest), frozenset(leaving)
        if which in self.restated:
            return self.restated[which]

        stated = self._stated(table, manifest, leaving)
        one = self._write(table, manifest.partition_spec_id, manifest.content, stated)
        _check_left(manifest, leaving, one.deleted_files_count or 0)
        self.restated[which] = one
        return one

    def _stated(self, table: Table, manifest: ManifestFile, leaving: Leaving) -> Iterator[ManifestEntry]:
        """What a manifest says without the files that leave.

        A file may be live in two partitions, as where two of Hive's had one folder. It leaves the job's alone: of the other
        one no row was written. Which deletes apply to it there, readers do not agree about.
        """
        files = {file for _, file in leaving}
        for entry in _entries(table, manifest):
            if entry.status == ManifestEntryStatus.DELETED:
                continue  # by an earlier snapshot: that is its news, not ours
            if identity(entry) not in files:
                yield existing(entry)
                continue
            key = entry_partition_key(table.metadata, manifest.partition_spec_id, entry)
            if (key, identity(entry)) in leaving:
                yield deleted(entry, self.snapshot_id)
            elif (job_id := self.with_deletes.get(identity(entry))) is not None:
                why = f"{identity(entry)[0]} is live in {key} too, and deletes name it by its path"
                raise OneRefusedError(job_id, Refusal(Reason.FILE_TWICE, why))
            else:
                yield existing(entry)

    def _write(
        self, table: Table, spec_id: int, content: ManifestContent, entries: Iterable[ManifestEntry]
    ) -> ManifestFile:
        name = f"isotherm-{self.swaps[0].job.job_id}-m{len(self.written)}.avro"
        location = metadata_location(table.metadata, name)
        if self.is_stopped():
            raise Stopped
        self.written.append(location)
        return write_manifest(table.io, table.metadata, location, spec_id, content, self.snapshot_id, entries)


def _entries(table: Table, manifest: ManifestFile) -> Iterator[ManifestEntry]:
    return entries(Manifest.read(table.io, manifest.manifest_path, manifest.manifest_length), manifest)


def metadata_location(metadata: TableMetadata, name: str) -> str:
    """Where a file of the table's metadata with this name lies."""
    return SimpleLocationProvider(metadata.location, metadata.properties).new_metadata_location(name)


def _deleted_at(job: CompactionJob) -> int:
    """Merged deletes say nothing of files that are younger than the youngest of them."""
    merged = job.delete_files if job.converts_equality else job.position_deletes
    return max((file.sequence_number for file in merged), default=job.base_sequence_number)


def _which(manifest: ManifestFile) -> _Which:
    return manifest.manifest_path, first_row_id(manifest)


def _left_by(some: Iterable[tuple[ManifestFile, Leaving]]) -> _LeftBy:
    return tuple((_which(manifest), frozenset(leaving.items())) for manifest, leaving in some)


def _check_left(manifest: ManifestFile, leaving: Leaving, files: int) -> None:
    """Raises RefusalError: not exactly the files that were replaced leave a manifest."""
    if files != leaving.total():
        why = f"{files} files would leave {manifest.manifest_path}, and {leaving.total()} were replaced"
        raise RefusalError(Reason.MISMATCH, why)
