"""Reading what is live: every kind of partition value finds its files, and whole manifests are skipped for it."""

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestamptzType,
)

from isotherm.clients.manifests.reading import read_manifest_list
from isotherm.contract.identity import PartitionKey
from isotherm.core.model.files import FileKind
from isotherm.core.model.jobs import OutcomeKind
from isotherm.iceberg.manifests.live import DELETE_FILE_PATH, live_files
from isotherm.iceberg.manifests.partition_values import partition_record
from isotherm.iceberg.manifests.writing import write_manifest, write_manifest_list
from support.manifest_entries import read
from support.rewriting import compacted


@dataclass
class Counting:
    """The real FileIO, and what was read through it."""

    io: Any
    read: list[str] = field(default_factory=list)

    def new_input(self, location: str) -> Any:
        self.read.append(location)
        return self.io.new_input(location)


UTC = dt.UTC
KINDS: dict[str, tuple[IcebergType, Transform[Any, Any], list[Any], list[str]]] = {
    "long": (LongType(), IdentityTransform(), [1, -5, None], ['{"1000":1}', '{"1000":-5}', "{}"]),
    "boolean": (
        BooleanType(),
        IdentityTransform(),
        [True, False, None],
        ['{"1000":true}', '{"1000":false}', "{}"],
    ),
    "string": (
        StringType(),
        IdentityTransform(),
        ["a", 'q"ü', ""],
        ['{"1000":"a"}', '{"1000":"q\\"\\u00fc"}', '{"1000":""}'],
    ),
    "decimal": (
        DecimalType(9, 2),
        IdentityTransform(),
        [Decimal("1.50"), Decimal("-0.01"), None],
        ['{"1000":"1.50"}', '{"1000":"-0.01"}', "{}"],
    ),
    "date": (
        DateType(),
        IdentityTransform(),
        [dt.date(1970, 1, 2), dt.date(1969, 12, 31), None],
        ['{"1000":1}', '{"1000":-1}', "{}"],
    ),
    "day": (
        TimestamptzType(),
        DayTransform(),
        [dt.datetime(1970, 1, 3, 5, tzinfo=UTC), dt.datetime(1969, 12, 31, 5, tzinfo=UTC), None],
        ['{"1000":2}', '{"1000":-1}', "{}"],
    ),
    "bucket": (LongType(), BucketTransform(2), [1, 2, 3, None], ['{"1000":0}', '{"1000":1}', "{}"]),
    "truncate": (
        StringType(),
        TruncateTransform(1),
        ["ab", "ac", "b", None],
        ['{"1000":"a"}', '{"1000":"b"}', "{}"],
    ),
    "float": (
        FloatType(),
        IdentityTransform(),
        [1.5, -2.0, None],
        ['{"1000":1.5}', '{"1000":-2.0}', "{}"],
    ),
    "binary": (
        BinaryType(),
        IdentityTransform(),
        [b"\x00\xff", b"", None],
        ['{"1000":"00ff"}', '{"1000":""}', "{}"],
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_partition_has_its_own_files(make: Callable[..., Table], kind: str) -> None:
    source, transform, values, keys = KINDS[kind]
    table = make(source, transform)
    schema = table.schema().as_arrow()
    for number, value in enumerate(values):
        table.append(pa.Table.from_pylist([{"v": value, "id": number}], schema=schema))
    head = table.metadata.current_snapshot()
    assert head is not None
    every = live_files(table.metadata, table.io, head)
    assert sorted(keys) == sorted({entry.partition for entry in every})

    for key in keys:
        io = Counting(table.io)
        found = live_files(table.metadata, io, head, PartitionKey(key))  # type: ignore[arg-type]

        wanted = {entry.identity for entry in every if entry.partition == key}
        assert wanted == {entry.identity for entry in found}
        # Every append has a manifest of its own; beside the list, only those of this partition are read.
        assert len(wanted) == len(io.read) - 1
        record = partition_record(table.metadata, 0, PartitionKey(key))
        manifests = head.manifests(table.io)
        values = [
            entry.data_file.partition[0]
            for manifest in manifests
            for entry in read(table.io, manifest)
            if entry.data_file.file_path == found[0].path
        ]
        assert [str(record[0])] == list(map(str, values))


def test_a_partition_column_that_was_widened_finds_older_files(make: Callable[..., Table]) -> None:
    table = make(IntegerType(), IdentityTransform())
    table.append(pa.table({"v": pa.array([1], pa.int32()), "id": [1]}))
    with table.update_schema() as update:
        update.update_column("v", field_type=LongType())
    table.append(pa.table({"v": [1], "id": [2]}))
    table.append(pa.table({"v": [2**40], "id": [2]}))
    head = table.metadata.current_snapshot()
    assert head is not None

    found = [
        len(live_files(table.metadata, table.io, head, PartitionKey(f'{{"1000":{one}}}')))
        for one in (1, 2**40, 3)
    ]

    assert found == [2, 1, 0]


def test_a_partition_column_that_was_dropped_still_tells_partitions_apart(make: Callable[..., Table]) -> None:
    table = make(StringType(), IdentityTransform())
    table.append(pa.table({"v": ["a"], "id": [1]}))
    table.append(pa.table({"v": ["b"], "id": [2]}))
    with table.update_spec() as spec:
        spec.remove_field("p")
    with table.update_schema() as update:
        update.delete_column("v")
    table.append(pa.table({"id": [3]}))
    head = table.metadata.current_snapshot()
    assert head is not None

    found = [
        len(live_files(table.metadata, table.io, head, PartitionKey(key)))
        for key in ('{"1000":"a"}', '{"1000":"b"}', "{}")
    ]

    assert found == [1, 1, 1]


@pytest.mark.parametrize(
    ("asked", "written"),
    [
        ("GZIP", b"deflate"),
        ("snappy", b"deflate"),
        ("Uncompressed", b"null"),
        ("zstd", b"zstandard"),
        ("x", b"deflate"),
    ],
)
def test_a_codec_that_java_takes_ends_no_compaction(
    make: Callable[..., Table], asked: str, written: bytes
) -> None:
    table = make(LongType(), IdentityTransform())
    for number in range(2):
        table.append(pa.table({"v": [1], "id": [number]}))
    table.transaction().set_properties({"write.avro.compression-codec": asked}).commit_transaction()

    outcome = compacted(table.catalog, "db.t", PartitionKey('{"1000":1}'))

    assert OutcomeKind.DONE is outcome.kind, outcome
    table.refresh()
    assert [0, 1] == sorted(table.scan().to_arrow()["id"].to_pylist())
    head = table.metadata.current_snapshot()
    assert head is not None
    assert written in Path(head.manifest_list.removeprefix("file://")).read_bytes()[:5000]


def test_a_bound_of_paths_that_is_cut_within_a_character_tells_nothing(make: Callable[..., Table]) -> None:
    table = make(LongType(), IdentityTransform())
    metadata, path = table.metadata, "file:///w/ä.parquet".encode()
    record = partition_record(metadata, 0, PartitionKey('{"1000":1}'))
    snapshot_id, folder = 7, f"{table.location()}/metadata"
    cut = {DELETE_FILE_PATH: path[:11]}
    delete = DataFile.from_args(
        3,
        content=DataFileContent.POSITION_DELETES,
        file_path="file:///w/d.parquet",
        file_format=FileFormat.PARQUET,
        partition=record,
        record_count=1,
        file_size_in_bytes=1,
        lower_bounds=cut,
        upper_bounds={DELETE_FILE_PATH: path},
    )
    entry = ManifestEntry.from_args(
        3, status=ManifestEntryStatus.ADDED, snapshot_id=snapshot_id, sequence_number=1, data_file=delete
    )
    manifest = write_manifest(
        table.io, metadata, f"{folder}/d.avro", 0, ManifestContent.DELETES, snapshot_id, [entry]
    )
    write_manifest_list(table.io, metadata, f"{folder}/list.avro", snapshot_id, 1, 1, [manifest])
    snapshot = Snapshot(
        snapshot_id=snapshot_id, sequence_number=1, timestamp_ms=1, manifest_list=f"{folder}/list.avro"
    )

    (found,) = live_files(metadata, table.io, snapshot)

    assert (None, path.decode()) == found.path_bounds
    assert found.referenced_data_file is None


VOID = PartitionField(1, 1000, VoidTransform(), "p")
BY_ID = PartitionField(2, 1001, IdentityTransform(), "id")


@pytest.mark.parametrize(
    ("fields", "is_everywhere"),
    [((), True), ((VOID,), True), ((VOID, BY_ID), False)],
    ids=["no field", "a void one", "a void one and another"],
)
def test_equality_deletes_of_a_spec_that_divides_nothing_come_with_every_partition(
    make: Callable[..., Table], fields: tuple[PartitionField, ...], is_everywhere: bool
) -> None:
    """Version 1 keeps a dropped field as a void one. Without its deletes a rewrite would bring rows back."""
    table = make(LongType(), IdentityTransform())
    for value in (1, 2):
        table.append(pa.table({"v": [value], "id": [7]}))
    specs = [*table.metadata.partition_specs, PartitionSpec(*fields, spec_id=1)]
    metadata = table.metadata.model_copy(update={"partition_specs": specs})
    key, folder = PartitionKey('{"1001":7}' if BY_ID in fields else "{}"), f"{table.location()}/metadata"
    delete = DataFile.from_args(
        3,
        content=DataFileContent.EQUALITY_DELETES,
        file_path="file:///w/d.parquet",
        file_format=FileFormat.PARQUET,
        partition=partition_record(metadata, 1, key),
        record_count=1,
        file_size_in_bytes=1,
        equality_ids=[2],
    )
    entry = ManifestEntry.from_args(
        3, status=ManifestEntryStatus.ADDED, snapshot_id=9, sequence_number=3, data_file=delete
    )
    manifest = write_manifest(table.io, metadata, f"{folder}/d.avro", 1, ManifestContent.DELETES, 9, [entry])
    head = metadata.current_snapshot()
    assert head is not None
    manifests = [*read_manifest_list(table.io, head.manifest_list), manifest]
    write_manifest_list(table.io, metadata, f"{folder}/list.avro", 9, head.snapshot_id, 3, manifests)
    snapshot = Snapshot(snapshot_id=9, sequence_number=3, timestamp_ms=1, manifest_list=f"{folder}/list.avro")

    found = {
        value: live_files(metadata, table.io, snapshot, PartitionKey(f'{{"1000":{value}}}'))
        for value in (1, 2)
    }

    kinds = [FileKind.DATA, FileKind.EQUALITY_DELETES] if is_everywhere else [FileKind.DATA]
    assert [kinds, kinds] == [sorted(one.kind for one in found[value]) for value in (1, 2)]
    (alone,) = (one for one in live_files(metadata, table.io, snapshot, key) if one.kind is not FileKind.DATA)
    assert (alone.is_global, alone.partition) == (is_everywhere, key)
