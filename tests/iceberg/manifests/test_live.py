"""Reading what is live: every kind of partition value finds its files, and whole manifests are skipped for it."""

import datetime as dt
import math
import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
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
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestamptzType,
    UUIDType,
)

from isotherm.contract.identity import PartitionKey
from isotherm.core.model.files import FileKind
from isotherm.core.model.jobs import OutcomeKind, WrittenFile
from isotherm.iceberg.manifests.avro import MAX_BYTES, UnreadableError
from isotherm.iceberg.manifests.live import (
    DELETE_FILE_PATH,
    entry_partition_key,
    live_files,
    may_hold,
    partition_record,
)
from isotherm.iceberg.manifests.reading import Manifest, entries, read_manifest_list
from isotherm.iceberg.manifests.writing import added, write_manifest, write_manifest_list
from support.rewriting import compacted


@dataclass
class Counting:
    """The real FileIO, and what was read through it."""

    io: Any
    read: list[str] = field(default_factory=list)

    def new_input(self, location: str) -> Any:
        self.read.append(location)
        return self.io.new_input(location)


def read(io: Any, manifest: ManifestFile) -> list[ManifestEntry]:
    return list(entries(Manifest.read(io, manifest.manifest_path), manifest))


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Table]:
    catalog = load_catalog(
        "lake", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w"
    )
    catalog.create_namespace("db")

    def table(source: IcebergType, transform: Transform[Any, Any]) -> Table:
        schema = Schema(
            NestedField(1, "v", source, required=False), NestedField(2, "id", LongType(), required=False)
        )
        spec = PartitionSpec(PartitionField(1, 1000, transform, "p"))
        return catalog.create_table("db.t", schema, partition_spec=spec, properties={"format-version": "2"})

    return table


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


ONE, MIDDLE, LAST = (uuid.UUID(int=number) for number in (1, 2**127, 2**128 - 1))


@pytest.mark.parametrize(
    ("low", "high", "holds"),
    [
        # Unsigned, as the specification says; signed, as older Java has it; neither of both.
        (ONE, LAST, [True, True, True]),
        (MIDDLE, ONE, [True, True, True]),
        (LAST, LAST, [False, False, True]),
    ],
)
def test_summaries_of_uuids_are_read_in_both_orders(
    make: Callable[..., Table], low: uuid.UUID, high: uuid.UUID, holds: list[bool]
) -> None:
    metadata = make(UUIDType(), IdentityTransform()).metadata
    summary = PartitionFieldSummary(False, False, low.bytes, high.bytes)
    manifest = ManifestFile.from_args(partition_spec_id=0, partitions=[summary])

    found = [may_hold(metadata, manifest, PartitionKey(f'{{"1000":"{one}"}}')) for one in (ONE, MIDDLE, LAST)]

    assert holds == found


SEVEN = (7).to_bytes(8, "little")


@pytest.mark.parametrize(
    "summaries",
    [
        [PartitionFieldSummary(False, False, bytes(3), bytes(3))],
        [PartitionFieldSummary(False, False, bytes(8), b"")],
        [PartitionFieldSummary(False, False, SEVEN, SEVEN)] * 2,
    ],
    ids=["too short", "empty", "too many"],
)
def test_a_manifest_whose_summaries_do_not_fit_its_spec_is_refused_by_its_name(
    make: Callable[..., Table], summaries: list[PartitionFieldSummary]
) -> None:
    metadata = make(LongType(), IdentityTransform()).metadata
    manifest = ManifestFile.from_args(manifest_path="/w/m.avro", partition_spec_id=0, partitions=summaries)

    with pytest.raises(UnreadableError, match=r"the summaries of /w/m\.avro do not fit the partition spec 0"):
        may_hold(metadata, manifest, PartitionKey('{"1000":7}'))


def test_a_partition_that_is_a_uuid_is_written_and_found(make: Callable[..., Table]) -> None:
    """PyIceberg's own append cannot write one."""
    table = make(UUIDType(), IdentityTransform())
    metadata, location = table.metadata, f"{table.location()}/m.avro"
    keys = [PartitionKey(f'{{"1000":"{one}"}}') for one in (ONE, LAST)]
    file = WrittenFile("x", 1, 1, {}, {}, {}, {}, {}, {}, ())
    new = [added(file, partition_record(metadata, 0, key), 1, 1) for key in keys]

    manifest = write_manifest(table.io, metadata, location, 0, ManifestContent.DATA, 1, new)

    assert keys == [entry_partition_key(metadata, 0, one) for one in read(table.io, manifest)]
    assert [True, True] == [may_hold(metadata, manifest, key) for key in keys]


@pytest.mark.parametrize(
    ("held", "has_summaries"),
    [
        ([ONE], True),
        ([LAST], True),
        ([MIDDLE, LAST], True),
        ([ONE, MIDDLE], False),
        ([ONE, MIDDLE, LAST], False),
    ],
)
@pytest.mark.parametrize("order", [">QQ", ">qq"])
def test_no_reader_passes_over_a_manifest_of_uuids_that_it_needs(
    make: Callable[..., Table], held: list[uuid.UUID], has_summaries: bool, order: str
) -> None:
    """Iceberg's Java compares UUIDs as two signed numbers, PyIceberg as bytes. Without summaries a manifest is read."""
    table = make(UUIDType(), IdentityTransform())
    metadata, location = table.metadata, f"{table.location()}/m.avro"
    file = WrittenFile("x", 1, 1, {}, {}, {}, {}, {}, {}, ())
    new = [added(file, Record(one), 1, 1) for one in held]

    manifest = write_manifest(table.io, metadata, location, 0, ManifestContent.DATA, 1, new)

    assert has_summaries is bool(manifest.partitions)
    for summary in manifest.partitions or ():
        low, high = (struct.unpack(order, one) for one in (summary.lower_bound, summary.upper_bound))
        assert all(low <= struct.unpack(order, one.bytes) <= high for one in held)


@pytest.mark.parametrize("kind", [(FloatType(), "<f"), (DoubleType(), "<d")], ids=["float", "double"])
@pytest.mark.parametrize("held", [[0.0, -0.0], [-0.0, 0.0], [1.5, 0.0, -0.0], [-1.5, -0.0, 0.0]])
def test_no_reader_passes_over_a_manifest_of_zeros_that_it_needs(
    make: Callable[..., Table], kind: tuple[PrimitiveType, str], held: list[float]
) -> None:
    """To Iceberg's Java -0.0 is less than 0.0, to Python they are the same."""
    type_, layout = kind
    table = make(type_, IdentityTransform())
    file = WrittenFile("x", 1, 1, {}, {}, {}, {}, {}, {}, ())
    new = [added(file, Record(one), 1, 1) for one in held]

    manifest = write_manifest(
        table.io, table.metadata, f"{table.location()}/m.avro", 0, ManifestContent.DATA, 1, new
    )

    (summary,) = manifest.partitions or ()
    ends = [struct.unpack(layout, one)[0] for one in (summary.lower_bound, summary.upper_bound)]
    least, *_, greatest = sorted(held, key=lambda one: (one, math.copysign(1, one)))
    assert list(map(str, (least, greatest))) == list(map(str, ends))


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


@dataclass
class Metered:
    """A file of which no more is kept than was asked for, and how much that was."""

    begin: bytes
    size: int
    read_bytes: int = 0

    def new_input(self, _: str) -> Any:
        return self

    def open(self) -> Any:
        return self

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None: ...

    def read(self, count: int = -1) -> bytes:
        count = min(count if count >= 0 else self.size, self.size - self.read_bytes)
        part = self.begin[self.read_bytes :][:count]
        self.read_bytes += count
        return part + bytes(count - len(part))


AVRO, PARQUET = b"Obj\x01", b"PAR1"
GIGABYTE = 1 << 30


@pytest.mark.parametrize(
    ("begin", "said", "at_most"),
    [
        (PARQUET, 5000, 4),
        (PARQUET, None, 4),
        (AVRO, 5000, 5001),
        (AVRO, None, MAX_BYTES + 1),
        (AVRO, GIGABYTE, 0),
    ],
)
def test_of_a_large_file_that_is_named_as_a_manifest_little_is_read(
    begin: bytes, said: int | None, at_most: int
) -> None:
    file: Any = Metered(begin, GIGABYTE)

    with pytest.raises(UnreadableError):
        Manifest.read(file, "data.parquet", said)

    assert file.read_bytes <= at_most


def test_a_manifest_of_another_length_than_listed_is_refused(make: Callable[..., Table]) -> None:
    table = make(LongType(), IdentityTransform())
    table.append(pa.table({"v": [1], "id": [1]}))
    head = table.metadata.current_snapshot()
    assert head is not None
    (listed,) = read_manifest_list(table.io, head.manifest_list)
    length = listed.manifest_length
    assert len(read(table.io, listed)) == 1

    for wrong in (length - 1, length + 1):
        with pytest.raises(UnreadableError, match="bytes"):
            Manifest.read(table.io, listed.manifest_path, wrong)


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
