"""The snapshot that swaps files: its manifests, its list, its summary, and what must hold for it.

It may swap the files of several jobs, each of a partition of its own, all or none of them. It is written for each attempt.
Everything that is written is noted, so that whatever the commit comes to can say what it leaves behind.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertCurrentSchemaId,
    AssertDefaultSpecId,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
    ValidatableTableRequirement,
)

from isotherm.clients.manifests.reading import read_manifest_list
from isotherm.contract.summary import BEHIND_MS, COMMITTED_AT
from isotherm.core.model.jobs import Swap
from isotherm.core.model.refusals import Reason, RefusalError
from isotherm.iceberg.compaction.assert_unmoved import AssertUnmoved
from isotherm.iceberg.compaction.leaving_files import leaving_files
from isotherm.iceberg.compaction.replace_summary import no_numbers, summary
from isotherm.iceberg.compaction.replaced_manifests import ReplacedManifests, metadata_location
from isotherm.iceberg.manifests.live import Known, LiveEntry, by_partition
from isotherm.iceberg.manifests.reachability import last_sequence_number
from isotherm.iceberg.manifests.writing import next_row_id, write_manifest_list
from isotherm.iceberg.stopping import IsStopped, Stopped, never
from isotherm.iceberg.values import name_mapping_of


@dataclass
class ReplaceSnapshot:
    """The requests of one commit, and what they share."""

    swaps: Sequence[Swap]
    is_metastore: bool
    """PyIceberg itself applies the commit, and can be given a requirement of ours."""
    known: Known = field(default_factory=dict)
    """The live files of the jobs' partitions by manifest; they never change."""
    written: list[str] = field(default_factory=list)
    """Every manifest and list that this commit wrote."""
    is_stopped: IsStopped = never
    manifests: ReplacedManifests = field(init=False)
    format_version: int | None = None
    """That in which its manifests are written; None before the first attempt."""
    left_out: tuple[str, ...] = ()
    """Totals that the parent's summary has and that are no numbers: Iceberg's Java leaves them out as well."""

    def __post_init__(self) -> None:
        self.manifests = ReplacedManifests(self.swaps, self.known, self.written, self.is_stopped)

    @property
    def snapshot_id(self) -> int:
        """The same in every attempt; 0 before the first one."""
        return self.manifests.snapshot_id

    @property
    def moves(self) -> bool:
        """Whether it puts files into another partition spec, which it asserts then."""
        return any(swap.job.output_spec_id is not None for swap in self.swaps)

    def is_of_another_format(self, metadata: TableMetadata) -> bool:
        """Whether the table was upgraded since: what was written names no numbers that its readers ask for."""
        return self.format_version not in (None, metadata.format_version)

    def request(
        self, table: Table, live: list[LiveEntry], attempt: int, now_ms: int
    ) -> tuple[tuple[TableRequirement, ...], tuple[TableUpdate, ...]]:
        """The snapshot, its manifests written, and what must hold for it."""
        metadata = table.metadata
        head = metadata.current_snapshot()
        if head is None:
            raise ValueError("the table has no current snapshot")
        self.format_version = metadata.format_version
        if not self.snapshot_id:
            self.manifests.snapshot_id = metadata.new_snapshot_id()
        listed = list(read_manifest_list(table.io, head.manifest_list))
        of_partition = by_partition(live, (swap.job.partition for swap in self.swaps))
        leaving = {
            swap.job.job_id: leaving_files(swap.job, of_partition[swap.job.partition], listed)
            for swap in self.swaps
        }
        sequence_number = metadata.next_sequence_number()
        name = f"snap-{self.snapshot_id}-{attempt}-isotherm-{self.swaps[0].job.job_id}.avro"
        location = metadata_location(metadata, name)
        before = {} if head.summary is None else head.summary.additional_properties
        self.left_out = no_numbers(before)
        manifests = self.manifests.replaced(table, listed, leaving)
        counted = self._counted(listed, manifests) if self.swaps[0].job.is_on_manifests else {}
        if self.is_stopped():
            raise Stopped
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
            timestamp_ms=max(now_ms - BEHIND_MS, head.timestamp_ms, metadata.last_updated_ms + 1),
            manifest_list=location,
            summary=summary(self.swaps, chain.from_iterable(leaving.values()), before, now_ms, counted),
            schema_id=metadata.current_schema_id,
            first_row_id=first_row_id,
            added_rows=None if first_row_id is None else row_ids,
        )
        return self._requirements(metadata, snapshot), (
            AddSnapshotUpdate(snapshot=snapshot),
            self._ref(metadata),
        )

    def _counted(self, listed: Sequence[ManifestFile], manifests: Sequence[ManifestFile]) -> dict[str, str]:
        """What the summary says of manifests, in the words of Iceberg's own rewrite of them.

        Raises:
            RefusalError: there are no fewer than before.
        """
        before, after = ({one.manifest_path for one in some} for some in (listed, manifests))
        if len(manifests) >= len(listed):
            if self.manifests.merged:
                raise RefusalError(Reason.CONFLICT, "other commits have replaced its manifests meanwhile")
            why = f"of {len(listed)} manifests no two can be made one{self.manifests.unmerged}"
            raise RefusalError(Reason.UNEXPECTED if self.manifests.unmerged else Reason.NOTHING_TO_DO, why)
        processed = sum(one.existing_files_count or 0 for one in manifests if one.manifest_path not in before)
        return {
            "manifests-created": str(len(after - before)),
            "manifests-kept": str(len(after & before)),
            "manifests-replaced": str(len(before - after)),
            "entries-processed": str(processed),
        }

    def told(self) -> str:
        """The snapshot in words, for people."""
        odd = (
            f"; its parent's {', '.join(self.left_out)} were no numbers, and are left out"
            if self.left_out
            else ""
        )
        return f"snapshot {self.snapshot_id} of {self.swaps[0].job.table.name}{odd}{self.manifests.unmerged}"

    def _requirements(self, metadata: TableMetadata, snapshot: Snapshot) -> tuple[TableRequirement, ...]:
        requirements: list[ValidatableTableRequirement] = [
            AssertTableUUID(uuid=metadata.table_uuid),
            AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=snapshot.parent_snapshot_id),
            AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),
        ]
        if self.moves:
            # Else a spec in which nothing lies yet might be replaced, and cleaned away, before this is heard.
            requirements.append(AssertDefaultSpecId(default_spec_id=metadata.default_spec_id))
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


def made_for(metadata: TableMetadata) -> tuple[int | None, ...]:
    """What a request is made for: where it differs by now, the request comes too late."""
    head_id, schema_id = metadata.current_snapshot_id, metadata.current_schema_id
    return metadata.format_version, head_id, schema_id, last_sequence_number(metadata)


def made_at(updates: Sequence[TableUpdate], now_ms: int) -> tuple[TableUpdate, ...]:
    """The same updates, made later: by the time of the last look a commit is judged, and its manifests took a while."""
    return tuple(
        AddSnapshotUpdate(snapshot=_made_at(one.snapshot, now_ms))
        if isinstance(one, AddSnapshotUpdate)
        else one
        for one in updates
    )


def _made_at(snapshot: Snapshot, now_ms: int) -> Snapshot:
    said = {} if snapshot.summary is None else snapshot.summary.additional_properties
    summary = Summary(operation=Operation.REPLACE, **{**said, COMMITTED_AT: str(now_ms)})
    timestamp_ms = max(now_ms - BEHIND_MS, snapshot.timestamp_ms)
    return snapshot.model_copy(update={"timestamp_ms": timestamp_ms, "summary": summary})


def beside(metadata: TableMetadata) -> tuple[int, int, int]:
    """What a request asserts beside its head, the partition spec only where it moves files.

    An upgrade refuses it where PyIceberg commits, and elsewhere its sequence number is one of another version.
    """
    return metadata.current_schema_id, metadata.format_version, metadata.default_spec_id
