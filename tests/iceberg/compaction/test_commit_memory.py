"""A commit holds a bounded part of the manifests that it reads and writes, however many files they name."""

import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.manifest import ManifestContent
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField

from isotherm.clients.manifests.reading import Manifest, entries, read_manifest_list
from isotherm.contract.identity import PartitionKey
from isotherm.core.model.jobs import OutcomeKind, WrittenFile
from isotherm.iceberg.manifests.partition_values import partition_record
from isotherm.iceberg.manifests.writing import added, existing, write_manifest, write_manifest_list
from support.rewriting import bound, commit, rewritten

NAME = "db.t"
OURS = PartitionKey('{"1000":1}')
COLUMNS = range(100, 140)
"""Ids that the schema does not know: nobody reads the bounds."""
MIB = 1024 * 1024


def in_few_manifests(root: Path, files: int, count: int) -> tuple[Any, Table]:
    """A table of so many manifests: three files of one partition, and many files, which nobody reads, of others."""
    catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{root}/c.db", warehouse=f"file://{root}/w")
    catalog.create_namespace("db")
    schema = Schema(
        NestedField(1, "id", LongType(), required=False),
        NestedField(2, "part", IntegerType(), required=False),
    )
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))
    table = catalog.create_table(NAME, schema, partition_spec=spec, properties={"format-version": "2"})
    for number in range(3):
        table.append(pa.table({"id": [number], "part": pa.array([1], pa.int32())}))
    metadata, head = table.metadata, table.current_snapshot()
    assert head is not None

    def some(part: int) -> Any:
        for manifest in read_manifest_list(table.io, head.manifest_list)[part::count]:
            yield from map(existing, entries(Manifest.read(table.io, manifest.manifest_path), manifest))
        numbers = {number: 1_000_000 + number for number in COLUMNS}
        texts = dict.fromkeys(COLUMNS, b"a bound of sixteen")
        for number in range(part, files, count):
            file = WrittenFile(
                f"file:///nowhere/{number}.parquet", 1, 1, numbers, numbers, numbers, {}, texts, texts, ()
            )
            other = PartitionKey(f'{{"1000":{number // count % 2 * 2}}}')
            yield added(file, partition_record(metadata, 0, other), head.snapshot_id, 1)

    snapshot_id, folder = metadata.new_snapshot_id(), f"{table.location()}/metadata"
    number = metadata.next_sequence_number()
    merged = [
        write_manifest(
            table.io,
            metadata,
            f"{folder}/merged{part}.avro",
            0,
            ManifestContent.DATA,
            snapshot_id,
            some(part),
        )
        for part in range(count)
    ]
    write_manifest_list(
        table.io, metadata, f"{folder}/merged-list.avro", snapshot_id, head.snapshot_id, number, merged
    )
    snapshot = Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=head.snapshot_id,
        sequence_number=number,
        timestamp_ms=metadata.last_updated_ms + 1,
        manifest_list=f"{folder}/merged-list.avro",
        summary=Summary(Operation.REPLACE),
        schema_id=metadata.current_schema_id,
    )
    ref = SetSnapshotRefUpdate(ref_name=MAIN_BRANCH, type=SnapshotRefType.BRANCH, snapshot_id=snapshot_id)
    catalog.commit_table(table, (), (AddSnapshotUpdate(snapshot=snapshot), ref))
    return catalog, catalog.load_table(NAME)


def peak_of_a_commit(catalog: Any, table: Table, files: int) -> int:
    """What a swap held at most, in bytes; afterwards the table has so many files."""
    job = bound(table, OURS)
    rewrite = rewritten(table, job)

    tracemalloc.start()
    outcome = commit(catalog, job, rewrite)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert OutcomeKind.DONE is outcome.kind
    assert table.refresh().inspect.files().num_rows == files
    return peak


def test_a_commit_holds_a_few_entries_of_a_manifest_of_many(tmp_path: Path) -> None:
    """All entries of 2,000 files with the statistics of 40 columns take 30 MiB, and are 0.3 MiB on disk."""
    assert peak_of_a_commit(*in_few_manifests(tmp_path, 2_000, 1), 2_001) < 16 * MIB


def test_manifests_are_regrouped_only_where_what_they_hold_has_room(tmp_path: Path) -> None:
    """All entries of 6,000 such files would take 90 MiB; what was read of them by then is let go."""
    assert peak_of_a_commit(*in_few_manifests(tmp_path, 6_000, 3), 6_001) < 60 * MIB
