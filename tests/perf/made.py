"""Tables of any size, made directly: manifests, a manifest list and metadata, and no commit at all.

The entries of a table repeat those of a template, block by block; a reader cannot tell. Files are not there.
"""

import struct
from dataclasses import dataclass, replace
from math import gcd
from pathlib import Path
from uuid import uuid4

from pyiceberg.avro.file import SYNC_SIZE, AvroOutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, SnapshotLogEntry, Summary
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.transforms import HourTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

from isotherm.contract.events import AddedManifest, CommitEvent, encode
from isotherm.iceberg.manifests.writing import write_manifest_list

ROWS, BYTES = 1000, 1024**2
"""Of every data file."""
FIRST_HOUR = 490_000
MINUTE_MS = 60_000
EVENT_FILES = 10
FEW_FILES = 2
"""What a commit of most streams adds: one file to each of the newest two partitions."""


@dataclass
class Made:
    """A table, and what the next event of it says."""

    name: str
    uuid: str
    folder: Path
    head: int
    sequence_number: int
    at_ms: int
    files: int
    blocks: dict[int, "Blocks"]
    """Of manifests with so many files, each in a partition of its own."""

    def event(self, now_ms, files=EVENT_FILES):
        """The message of one more commit: a manifest of so many files in as many partitions, which is written."""
        number = self.sequence_number + 1
        path = self.folder / f"event-{number}.avro"
        path.write_bytes(self.blocks[files].manifest(files))
        parent, self.head, self.sequence_number = self.head, self.head + 1, number
        self.files += files
        manifest = AddedManifest(
            path=str(path),
            length=path.stat().st_size,
            spec_id=0,
            content="data",
            added_files=files,
            deleted_files=0,
        )
        event = CommitEvent(
            table_uuid=self.uuid,
            table=self.name,
            snapshot_id=self.head,
            parent_id=parent,
            sequence_number=number,
            timestamp_ms=now_ms,
            operation="append",
            origin="foreign",
            writer="bench",
            added_manifests=(manifest,),
            added_manifests_complete=True,
            summary=totals(self.files),
        )
        return encode(event)[1]


def totals(files):
    return {
        "total-data-files": str(files),
        "total-records": str(files * ROWS),
        "total-files-size": str(files * BYTES),
        "total-delete-files": "0",
        "total-position-deletes": "0",
        "total-equality-deletes": "0",
    }


class Blocks:
    """Blocks of manifest entries, written once, from which manifests of any length are put together."""

    def __init__(self, folder, metadata, partitions, in_block, codec="deflate"):
        io_path = folder / f"template-{partitions}-{in_block}.avro"
        partition = metadata.spec().partition_type(metadata.schema())
        schema = manifest_entry_schema_with_data_file(2, data_file_with_partition(partition, 2))
        columns = len(metadata.schema().fields)
        # As many entries as make both whole blocks and every partition as often as the others.
        count = partitions * in_block // gcd(partitions, in_block)
        io = PyArrowFileIO()
        with AvroOutputFile(
            io.new_output(str(io_path)), schema, "manifest_entry", schema, {"avro.codec": codec}
        ) as avro:
            for start in range(0, count, in_block):
                avro.write_block([_entry(at, partitions, columns) for at in range(start, start + in_block)])
        # An Avro file is a header and blocks, and each of them ends with the same sixteen bytes.
        data = io_path.read_bytes()
        sync = data[-SYNC_SIZE:]
        self.header, *self.blocks = (part + sync for part in data.split(sync)[:-1])
        self.in_block = in_block

    def manifest(self, entries, start=0):
        """The bytes of a manifest; `start` says with which block it begins."""
        count, left = divmod(entries, self.in_block)
        assert left == 0, f"{entries} entries are no whole number of blocks of {self.in_block}"
        blocks = [self.blocks[(start + at) % len(self.blocks)] for at in range(count)]
        return b"".join((self.header, *blocks))


def _entry(at, partitions, columns, path=None):
    low = struct.pack("<q", at)
    text = f"value-{at:08d}".encode()
    bounds = {column: text if column % 2 else low for column in range(1, columns + 1)}
    file = DataFile.from_args(
        2,
        content=DataFileContent.DATA,
        # About as long as Spark's: a bucket, a table, a partition, a task and a UUID.
        file_path=path
        or f"s3://warehouse/shop.db/orders/data/at_hour=2025-11-24-{at % 24:02d}/{at:05d}-{at}-"
        f"8d5a3f0e-9c1b-4e07-a3d2-{at * 7919:012x}-00001.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record(FIRST_HOUR + at % partitions),
        record_count=ROWS,
        file_size_in_bytes=BYTES,
        column_sizes={column: 1000 + (at * column) % 5000 for column in bounds},
        value_counts=dict.fromkeys(bounds, ROWS),
        null_value_counts={column: (at + column) % 3 for column in bounds},
        nan_value_counts={},
        lower_bounds=bounds,
        upper_bounds=bounds,
        split_offsets=[4],
        sort_order_id=0,
    )
    return ManifestEntry.from_args(2, status=ManifestEntryStatus.ADDED, snapshot_id=None, data_file=file)


def make(lab, name, *, files, manifests=10, snapshots=100, partitions=100, columns=20, in_block=None, now_ms):
    """A table registered in the lab's catalog."""
    folder, metadata = _begun(lab, name, columns)
    per_manifest = files // manifests
    blocks = Blocks(folder, metadata, partitions, in_block or gcd(per_manifest, 50))
    listed = []
    for at in range(manifests):
        path = folder / f"manifest-{at}.avro"
        path.write_bytes(blocks.manifest(per_manifest, start=at * per_manifest // blocks.in_block))
        # Long ago: a full scan reads what the newest snapshots added once more, to see who writes where.
        listed.append(_listed(path, per_manifest, 10**15 + 1, 1))
    head, sequence_number = _published(lab, name, folder, metadata, listed, snapshots, files, now_ms)
    written = {size: Blocks(folder, metadata, size, size) for size in (FEW_FILES, EVENT_FILES)}
    return Made(name, str(metadata.table_uuid), folder, head, sequence_number, now_ms, files, written)


def of_files(lab, name, paths, *, manifests, columns=20, now_ms):
    """A table of one snapshot, whose manifests name these files."""
    folder, metadata = _begun(lab, name, columns)
    partition = metadata.spec().partition_type(metadata.schema())
    schema = manifest_entry_schema_with_data_file(2, data_file_with_partition(partition, 2))
    each, listed = -(-len(paths) // manifests), []
    for start in range(0, len(paths), each):
        some, manifest = paths[start : start + each], folder / f"manifest-{start}.avro"
        with AvroOutputFile(
            PyArrowFileIO().new_output(str(manifest)),
            schema,
            "manifest_entry",
            schema,
            {"avro.codec": "deflate"},
        ) as avro:
            avro.write_block([_entry(start + at, 24, columns, path) for at, path in enumerate(some)])
        listed.append(_listed(manifest, len(some), 10**15 + 1, 1))
    _published(lab, name, folder, metadata, listed, 1, len(paths), now_ms)


def _begun(lab, name, columns):
    """The folder of a table, and its metadata without a snapshot."""
    folder = lab.root / "made" / name
    folder.mkdir(parents=True)
    fields = [NestedField(1, "at", TimestamptzType())]
    fields += [
        NestedField(at, f"c{at}", StringType() if at % 2 else LongType()) for at in range(2, columns + 1)
    ]
    spec = PartitionSpec(PartitionField(1, 1000, HourTransform(), "at_hour"))
    return folder, new_table_metadata(Schema(*fields), spec, UNSORTED_SORT_ORDER, f"file://{folder}", {})


def _published(lab, name, folder, metadata, listed, snapshots, files, now_ms):
    """Register a table whose snapshots all have these manifests. Returns the id and the number of the newest one."""
    head, sequence_number = 10**15 + snapshots, snapshots
    location = f"{folder}/list.avro"
    io = PyArrowFileIO()
    write_manifest_list(io, metadata, location, head, head - 1, sequence_number, listed)
    begin_ms = now_ms - snapshots * MINUTE_MS
    summary = totals(files)
    log = [
        Snapshot(
            snapshot_id=10**15 + at,
            parent_snapshot_id=10**15 + at - 1 if at > 1 else None,
            sequence_number=at,
            timestamp_ms=begin_ms + at * MINUTE_MS,
            manifest_list=location,
            summary=Summary(Operation.APPEND, **summary),
            schema_id=0,
        )
        for at in range(1, snapshots + 1)
    ]
    metadata = metadata.model_copy(
        update={
            "snapshots": log,
            "current_snapshot_id": head,
            "last_sequence_number": sequence_number,
            "last_updated_ms": now_ms,
            "refs": {"main": SnapshotRef(snapshot_id=head, snapshot_ref_type=SnapshotRefType.BRANCH)},
            "snapshot_log": [
                SnapshotLogEntry(snapshot_id=one.snapshot_id, timestamp_ms=one.timestamp_ms) for one in log
            ],
        }
    )
    lab.catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
    _register(lab, name, folder, metadata)
    return head, sequence_number


def with_history(lab, name, *, snapshots, listed, now_ms):
    """A table in which each snapshot has a manifest list and a manifest of its own; its name.

    Lists name so many of the newest manifests. Ten snapshots share the bytes of a list, and all those of a manifest.
    """
    made = make(lab, name, files=EVENT_FILES, manifests=1, snapshots=snapshots, columns=20, now_ms=now_ms)
    table = lab.catalog.load_table(name)
    bytes_of_one = made.blocks[EVENT_FILES].manifest(EVENT_FILES)
    manifests, log, lists = [], [], []
    metadata_folder = made.folder / "metadata"  # elsewhere the daemon deletes nothing
    metadata_folder.mkdir()
    for number, snapshot in enumerate(table.metadata.snapshots, 1):
        path = metadata_folder / f"commit-{number}.avro"
        path.write_bytes(bytes_of_one)
        manifests.append(_listed(path, EVENT_FILES, snapshot.snapshot_id, number))
        location = metadata_folder / f"list-{number}.avro"
        if number % 10 == 1:
            ids = snapshot.snapshot_id, snapshot.snapshot_id - 1
            write_manifest_list(table.io, table.metadata, str(location), *ids, number, manifests[-listed:])
            lists.append(location)
        else:
            location.hardlink_to(lists[-1])
        log.append(snapshot.model_copy(update={"manifest_list": str(location)}))
    lab.catalog.drop_table(name)
    Path(table.metadata_location).unlink()
    _register(lab, name, made.folder, table.metadata.model_copy(update={"snapshots": log}))
    return name


def copies(lab, made, count):
    """A table and others like it, to `count` altogether; the manifests that they begin with are the same files."""
    metadata = lab.catalog.load_table(made.name).metadata
    tables = [made]
    for number in range(1, count):
        folder = made.folder.with_name(f"{made.folder.name}-{number}")
        folder.mkdir()
        uuid = uuid4()
        copied = metadata.model_copy(update={"table_uuid": uuid, "location": f"file://{folder}"})
        name = f"{made.name}_{number}"
        _register(lab, name, folder, copied)
        tables.append(replace(made, name=name, uuid=str(uuid), folder=folder))
    return tables


def _register(lab, name, folder, metadata):
    location = f"{folder}/00001-made.metadata.json"
    ToOutputFile.table_metadata(metadata, PyArrowFileIO().new_output(location))
    lab.catalog.register_table(name, location)


def _listed(path, entries, snapshot_id, sequence_number):
    return ManifestFile.from_args(
        manifest_path=str(path),
        manifest_length=path.stat().st_size,
        partition_spec_id=0,
        content=ManifestContent.DATA,
        sequence_number=sequence_number,
        min_sequence_number=1,
        added_snapshot_id=snapshot_id,
        added_files_count=entries,
        existing_files_count=0,
        deleted_files_count=0,
        added_rows_count=entries * ROWS,
        existing_rows_count=0,
        deleted_rows_count=0,
        partitions=[],
    )
