"""Deletes as merge-on-read and writers of upserts leave them, without a JVM."""

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
)
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, SetSnapshotRefUpdate

from isotherm.clients.manifests.reading import read_manifest_list
from isotherm.iceberg.manifests.live import DELETE_FILE_PATH
from isotherm.iceberg.manifests.partition_values import partition_record
from isotherm.iceberg.manifests.writing import write_manifest, write_manifest_list
from support.lab import event_of


def delete_row(lab, table, path, position, key, *, announce=True, says_of=False):
    """A position-delete file for one row, in a commit of its own, as merge-on-read writes it; with bounds it says of which file."""
    bound = {DELETE_FILE_PATH: path.encode()} if says_of else {}
    rows = pa.table({"file_path": [path], "pos": pa.array([position], pa.int64())})
    _commit(lab, table, key, rows, announce, lower_bounds=bound, upper_bounds=bound)


def delete_ids(lab, table, ids, key, *, announce=True, spec_id=0, said=None):
    """An equality-delete file, as a writer of upserts leaves it; `said` stands in the snapshot's summary."""
    table.refresh()
    _commit_files(lab, table, [_file(table, key, _by_id(ids), spec_id, **BY_ID)], announce, spec_id, said)


def delete_row_and_ids(lab, table, path, position, ids, key, *, announce=False):
    """Both in one manifest, as Flink writes them."""
    rows = pa.table({"file_path": [path], "pos": pa.array([position], pa.int64())})
    table.refresh()
    files = [_file(table, key, rows), _file(table, key, _by_id(ids), **BY_ID)]
    _commit_files(lab, table, files, announce)


BY_ID = {"content": DataFileContent.EQUALITY_DELETES, "equality_ids": [1]}


def _by_id(ids):
    field = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})
    return pa.table([ids], schema=pa.schema([field]))


def _commit(lab, table, key, rows, announce, **fields):
    table.refresh()
    _commit_files(lab, table, [_file(table, key, rows, **fields)], announce)


def _file(table, key, rows, spec_id=0, **fields):
    metadata = table.metadata
    place = f"{metadata.location}/data/deletes-{metadata.new_snapshot_id()}.parquet"
    with table.io.new_output(place).create() as out:
        pq.write_table(rows, out)
    return DataFile.from_args(
        3,
        file_path=place,
        file_format=FileFormat.PARQUET,
        partition=partition_record(metadata, spec_id, key),
        record_count=rows.num_rows,
        file_size_in_bytes=len(table.io.new_input(place)),
        **{"content": DataFileContent.POSITION_DELETES, **fields},
    )


def _commit_files(lab, table, files, announce, spec_id=0, said=None):
    metadata, head = table.metadata, table.metadata.current_snapshot()
    snapshot_id, number = metadata.new_snapshot_id(), metadata.next_sequence_number()
    entries = [
        ManifestEntry.from_args(
            3, status=ManifestEntryStatus.ADDED, snapshot_id=snapshot_id, sequence_number=None, data_file=file
        )
        for file in files
    ]
    manifest = write_manifest(
        table.io,
        metadata,
        f"{metadata.location}/metadata/deletes-{snapshot_id}.avro",
        spec_id,
        ManifestContent.DELETES,
        snapshot_id,
        entries,
    )
    listing = f"{metadata.location}/metadata/snap-{snapshot_id}.avro"
    manifests = [manifest, *read_manifest_list(table.io, head.manifest_list)]
    write_manifest_list(table.io, metadata, listing, snapshot_id, head.snapshot_id, number, manifests)
    snapshot = Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=head.snapshot_id,
        sequence_number=number,
        timestamp_ms=max(lab.now_ms(), head.timestamp_ms + 1),
        manifest_list=listing,
        summary=Summary(Operation.DELETE, **(said or {})),
        schema_id=metadata.current_schema_id,
    )
    ref = SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=snapshot_id)
    head_stays = AssertRefSnapshotId(ref="main", snapshot_id=head.snapshot_id)
    table.catalog.commit_table(table, (head_stays,), (AddSnapshotUpdate(snapshot=snapshot), ref))
    event = event_of(table.refresh())
    if announce:
        lab.announce(event)
