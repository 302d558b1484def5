"""The snapshot that swaps files: its manifests, its list, its summary, and what must hold for it.

Written for each attempt; what was rewritten for a lost one is used again where its source still stands. Everything
that is written is noted, so that whatever the commit comes to can say what it leaves behind.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pyiceberg.manifest import ManifestContent, ManifestEntry, ManifestEntryStatus, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.locations import SimpleLocationProvider
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertCurrentSchemaId,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
    ValidatableTableRequirement,
)

from isotherm.clients.manifests.reading import Manifest, entries, first_row_id, read_manifest_list
from isotherm.contract.summary import BEHIND_MS
from isotherm.core.model.files import NAMED_BY_PATH, FileKind
from isotherm.core.model.jobs import CompactionJob, Rewrite, WrittenFile
from isotherm.core.model.refusals import Reason, RefusalError
from isotherm.iceberg.compaction.assert_unmoved import AssertUnmoved
from isotherm.iceberg.compaction.replace_summary import no_numbers, summary
from isotherm.iceberg.manifests.deletes import DataFiles, is_over, oldest_data
from isotherm.iceberg.manifests.live import Known, LiveEntry, identity
from isotherm.iceberg.manifests.merging import groups, live_entries
from isotherm.iceberg.manifests.partition_values import entry_partition_key, partition_record
from isotherm.iceberg.manifests.regrouping import MOST_VALUES, alike, divided, values_in
from isotherm.iceberg.manifests.writing import (
    added,
    added_deletes,
    deleted,
    existing,
    next_row_id,
    write_manifest,
    write_manifest_list,
)
from isotherm.iceberg.values import name_mapping_of

_Which = tuple[str, int | None]
"""A manifest, by its path and the first of its row ids, which another commit may assign after a rollback."""
Leaving = Counter[tuple[str, int | None]]
"""The files that leave a manifest, by their identities, and how often each."""
_LeftBy = tuple[tuple[_Which, frozenset[tuple[tuple[str, int | None], int]]], ...]


@dataclass
class ReplaceSnapshot:
    """The requests of one commit, and what they share."""

    job: CompactionJob
    rewrite: Rewrite
    is_metastore: bool
    """PyIceberg itself applies the commit, and can be given a requirement of ours."""
    now_ms: int
    snapshot_id: int = 0
    """The same in every attempt, so that manifests that were written for a lost one can be used again."""
    known: Known = field(default_factory=dict)
    """The partition's live files by manifest; they never change."""
    restated: dict[tuple[str, int | None, frozenset[tuple[str, int | None]]], ManifestFile] = field(
        default_factory=dict
    )
    """What was written in the place of a manifest, by its path and the files that leave it: what applies elsewhere may
    leave in one attempt and stay in the next."""
    merged: dict[tuple[tuple[str, int | None], ...], ManifestFile] | None = None
    """What the first attempt wrote in the place of several manifests, by their paths and the first of their row ids, which
    another commit may assign after a rollback; None before it."""
    regrouped: dict[_LeftBy, list[ManifestFile]] | None = None
    """What the first attempt wrote in the place of several manifests that files leave, by these; None before it."""
    new: dict[ManifestContent, ManifestFile] = field(default_factory=dict)
    """What was written of the new files; they never change either."""
    written: list[str] = field(default_factory=list)
    """Every manifest and list that this commit wrote."""
    unmerged: str = ""
    """Why manifests that should have been merged stay as they are, if some do."""
    left_out: tuple[str, ...] = ()
    """Totals that the parent's summary has and that are no numbers: Iceberg's Java leaves them out as well."""

    def request(
        self, table: Table, live: list[LiveEntry], attempt: int
    ) -> tuple[tuple[TableRequirement, ...], tuple[TableUpdate, ...]]:
        """The snapshot, its manifests written, and what must hold for it."""
        metadata = table.metadata
        head = metadata.current_snapshot()
        if head is None:
            raise ValueError("the table has no current snapshot")
        if not self.snapshot_id:
            self.snapshot_id = metadata.new_snapshot_id()
        listed = list(read_manifest_list(table.io, head.manifest_list))
        leaving = self._leaving(live, listed)
        sequence_number = metadata.next_sequence_number()
        location = self._location(
            metadata, f"snap-{self.snapshot_id}-{attempt}-isotherm-{self.job.job_id}.avro"
        )
        before = {} if head.summary is None else head.summary.additional_properties
        self.left_out = no_numbers(before)
        manifests = self._manifests(table, listed, {entry.identity for entry in leaving})
        self.written.append(location)
        row_ids = write_manifest_list(
            table.io, metadata, location, self.snapshot_id, head.snapshot_id, sequence_number, manifests
        )
        first_row_id = next_row_id(metadata)
        snapshot = Snapshot(
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=head.snapshot_id,
            sequence_number=sequence_number,
            # A writer's clock may be ahead of ours; history must not run backwards. Where the metadata's own time stayed as
            # it was, PyIceberg would make it the present time, which may lie before that of the snapshot.
            timestamp_ms=max(self.now_ms - BEHIND_MS, head.timestamp_ms, metadata.last_updated_ms + 1),
            manifest_list=location,
            summary=summary(self.job, self.rewrite, leaving, before, self.now_ms),
            schema_id=metadata.current_schema_id,
            first_row_id=first_row_id,
            added_rows=None if first_row_id is None else row_ids,
        )
        return self._requirements(metadata, snapshot), (
            AddSnapshotUpdate(snapshot=snapshot),
            self._ref(metadata),
        )

    def told(self) -> str:
        """The snapshot in words, for people."""
        odd = (
            f"; its parent's {', '.join(self.left_out)} were no numbers, and are left out"
            if self.left_out
            else ""
        )
        return f"snapshot {self.snapshot_id} of {self.job.table.name}{odd}{self.unmerged}"

    def _leaving(self, live: list[LiveEntry], manifests: Sequence[ManifestFile]) -> list[LiveEntry]:
        """The job's data files, the deletes that it merged, and those that apply to nothing that stays."""
        job = self.job
        replaced, read = ({file.identity for file in files} for files in (job.data_files, job.delete_files))
        data = [entry for entry in live if entry.kind is FileKind.DATA and entry.identity not in replaced]
        # Of these it is written what the job's deletes say of them.
        said = {file.identity for file in job.staying} if job.merges_deletes else set()
        staying, unsaid = DataFiles(data), DataFiles(one for one in data if one.identity not in said)
        oldest = oldest_data(manifests)

        def leaves(entry: LiveEntry) -> bool:
            is_said = entry.identity in read
            if entry.kind in NAMED_BY_PATH:
                return not (unsaid if is_said else staying).may_be_named_by(entry)
            if entry.kind is FileKind.EQUALITY_DELETES:
                rest = unsaid if is_said and job.converts_equality else staying
                return is_over(entry, rest, job.partition, job.spec_id, oldest)
            return entry.identity in replaced

        return [entry for entry in live if leaves(entry)]

    def _manifests(
        self, table: Table, listed: Iterable[ManifestFile], leaving: set[tuple[str, int | None]]
    ) -> list[ManifestFile]:
        """The new list: our manifest, restated ones where files leave, and the rest as it is."""
        found = list(self._new_manifests(table))
        kept: list[ManifestFile] = []
        left: dict[_Which, tuple[ManifestFile, Leaving]] = {}
        for manifest in listed:
            if not manifest.has_added_files() and not manifest.has_existing_files():
                continue
            held = self.known.get(_which(manifest), ())
            if gone := Counter(entry.identity for entry in held if entry.identity in leaving):
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
            for group in alike(self._settled(table, (manifest for manifest, _ in left.values()))):
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
            for group in groups(self._settled(table, kept), table.metadata.properties):
                if (one := self._one_of(table, group)) is not None:
                    self.merged[tuple(_which(manifest) for manifest in group)] = one
        listed = {_which(manifest) for manifest in kept}
        gone: set[tuple[str, int | None]] = set()
        found: list[ManifestFile] = []
        for some, one in self.merged.items():
            # Where one of them is gone by now, or has lost a file, the others stay as they are.
            if listed.issuperset(some):
                found.append(one)
                gone.update(some)
        return found + [manifest for manifest in kept if _which(manifest) not in gone]

    def _settled(self, table: Table, manifests: Iterable[ManifestFile]) -> list[ManifestFile]:
        """Those whose rows have their ids: to what no commit of version 3 has listed yet, the next one assigns them.

        That may be another's.
        """
        has_ids = next_row_id(table.metadata) is not None
        return [
            one
            for one in manifests
            if not has_ids or one.content == ManifestContent.DELETES or first_row_id(one) is not None
        ]

    def _one_of(self, table: Table, group: Sequence[ManifestFile]) -> ManifestFile | None:
        """One manifest with the live entries of several, or None where that is not safe to say: then they stay."""
        live = (
            existing(entry)
            for manifest in group
            for entry in entries(
                Manifest.read(table.io, manifest.manifest_path, manifest.manifest_length), manifest
            )
            if entry.status != ManifestEntryStatus.DELETED
        )
        try:
            one = self._write(table, group[0].partition_spec_id, group[0].content, live)
        except Exception as err:  # noqa: BLE001 (a damaged one is no reason against a swap that does not concern it)
            why = f"{type(err).__name__}: {err}"
        else:
            if one.existing_files_count == live_entries(group):
                return one
            why = f"they hold {one.existing_files_count} files, their list says {live_entries(group)}"
        self.unmerged += f"; {len(group)} manifests from {group[0].manifest_path} on are not merged: {why}"
        return None

    def _new_manifests(self, table: Table) -> Iterator[ManifestFile]:
        job, rewrite = self.job, self.rewrite
        # Merged deletes say nothing of files that are younger than the youngest of them.
        merged = job.delete_files if job.converts_equality else job.position_deletes
        deleted_at = max((file.sequence_number for file in merged), default=job.base_sequence_number)
        data, deletes = ManifestContent.DATA, ManifestContent.DELETES
        if rewrite.files:
            yield self._new_manifest(table, data, rewrite.files, job.base_sequence_number)
        if rewrite.merged.files:
            yield self._new_manifest(table, deletes, rewrite.merged.files, deleted_at)

    def _new_manifest(
        self, table: Table, content: ManifestContent, files: Iterable[WrittenFile], sequence_number: int
    ) -> ManifestFile:
        if content not in self.new:
            spec_id = self.job.spec_id
            partition = partition_record(table.metadata, spec_id, self.job.partition)
            said = partition, self.snapshot_id, sequence_number
            if content is ManifestContent.DATA:
                new = [added(file, *said, self.rewrite.sort_order_id) for file in files]
            else:
                new = [added_deletes(file, *said) for file in files]
            self.new[content] = self._write(table, spec_id, content, new)
        return self.new[content]

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
        written = Manifest.read(table.io, manifest.manifest_path, manifest.manifest_length)
        for entry in entries(written, manifest):
            if entry.status == ManifestEntryStatus.DELETED:
                continue  # by an earlier snapshot: that is its news, not ours
            if identity(entry) not in leaving:
                yield existing(entry)
                continue
            key = entry_partition_key(table.metadata, manifest.partition_spec_id, entry)
            if key == self.job.partition:
                yield deleted(entry, self.snapshot_id)
            elif self.job.delete_files:
                why = f"{identity(entry)[0]} is live in {key} too, and deletes name it by its path"
                raise RefusalError(Reason.FILE_TWICE, why)
            else:
                yield existing(entry)

    def _write(
        self, table: Table, spec_id: int, content: ManifestContent, entries: Iterable[ManifestEntry]
    ) -> ManifestFile:
        location = self._location(table.metadata, f"isotherm-{self.job.job_id}-m{len(self.written)}.avro")
        self.written.append(location)
        return write_manifest(table.io, table.metadata, location, spec_id, content, self.snapshot_id, entries)

    def _location(self, metadata: TableMetadata, name: str) -> str:
        return SimpleLocationProvider(metadata.location, metadata.properties).new_metadata_location(name)

    def _requirements(self, metadata: TableMetadata, snapshot: Snapshot) -> tuple[TableRequirement, ...]:
        requirements: list[ValidatableTableRequirement] = [
            AssertTableUUID(uuid=metadata.table_uuid),
            AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=snapshot.parent_snapshot_id),
            AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),
        ]
        if self.is_metastore:
            requirements.append(
                AssertUnmoved(
                    next_sequence_number=metadata.next_sequence_number(),
                    next_row_id=next_row_id(metadata),
                    name_mapping=name_mapping_of(metadata),
                    stamped_at_ms=snapshot.timestamp_ms,
                )
            )
        return tuple(requirements)  # type: ignore[arg-type]  # PyIceberg's union is closed, its check is not

    def _ref(self, metadata: TableMetadata) -> SetSnapshotRefUpdate:
        """`main` at the new snapshot. What it says of retention is said again, or it would be wiped."""
        ref = metadata.refs.get(MAIN_BRANCH)
        return SetSnapshotRefUpdate(
            ref_name=MAIN_BRANCH,
            type=SnapshotRefType.BRANCH,
            snapshot_id=self.snapshot_id,
            max_ref_age_ms=ref.max_ref_age_ms if ref else None,
            max_snapshot_age_ms=ref.max_snapshot_age_ms if ref else None,
            min_snapshots_to_keep=ref.min_snapshots_to_keep if ref else None,
        )


def _which(manifest: ManifestFile) -> _Which:
    return manifest.manifest_path, first_row_id(manifest)


def _left_by(some: Iterable[tuple[ManifestFile, Leaving]]) -> _LeftBy:
    return tuple((_which(manifest), frozenset(leaving.items())) for manifest, leaving in some)


def _check_left(manifest: ManifestFile, leaving: Leaving, files: int) -> None:
    """Raises RefusalError: not exactly the files that were replaced leave a manifest."""
    if files != leaving.total():
        why = f"{files} files would leave {manifest.manifest_path}, and {leaving.total()} were replaced"
        raise RefusalError(Reason.MISMATCH, why)
