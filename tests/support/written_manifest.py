"""A manifest written by PyIceberg's Avro layer, and how both of our readers count it."""

import uuid

from pyiceberg.avro.file import AvroOutputFile
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
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField

from isotherm.iceberg.manifests.counts import ENTRY_BY_ENTRY, Question, census

AS_COLUMNS, AS_ENTRIES = 0, ENTRY_BY_ENTRY
ADDED, EXISTING, DELETED = (
    ManifestEntryStatus.ADDED,
    ManifestEntryStatus.EXISTING,
    ManifestEntryStatus.DELETED,
)
STAGE = 77
"""The snapshot that added the manifest."""


class Written:
    """A manifest written by PyIceberg's Avro layer, and the metadata of a table that has it."""

    def __init__(self, folder, fields=(), codec="deflate", in_block=3):
        """`fields`: (source type, transform) of each partition field."""
        self.io = PyArrowFileIO()
        columns = [NestedField(1 + at, f"c{at}", source) for at, (source, _) in enumerate(fields)]
        self.schema = Schema(NestedField(100, "id", LongType()), *columns)
        parts = [
            PartitionField(1 + at, 1000 + at, transform, f"p {at}")
            for at, (_, transform) in enumerate(fields)
        ]
        self.spec = PartitionSpec(*parts)
        self.metadata = new_table_metadata(
            self.schema, self.spec, UNSORTED_SORT_ORDER, f"file://{folder}", {"format-version": "3"}
        )
        # The metadata gives columns and fields new numbers.
        self.spec = self.metadata.specs()[0]
        self.path = folder / f"a manifest [{uuid.uuid4()}].avro"
        self.codec, self.in_block = codec, in_block

    def write(self, *written, version=2, without=()):
        partition = self.spec.partition_type(self.metadata.schema())
        data_file = data_file_with_partition(partition, version)
        data_file = type(data_file)(*(one for one in data_file.fields if one.name not in without))
        schema = manifest_entry_schema_with_data_file(version, data_file)
        with AvroOutputFile(
            self.io.new_output(str(self.path)),
            schema,
            "manifest_entry",
            manifest_entry_schema_with_data_file(3, data_file_with_partition(partition, 3)),
            {"avro.codec": self.codec},
        ) as avro:
            for start in range(0, len(written), self.in_block):
                avro.write_block(list(written[start : start + self.in_block]))
        return self.listed()

    def listed(self):
        return ManifestFile.from_args(
            manifest_path=str(self.path),
            manifest_length=self.path.stat().st_size,
            partition_spec_id=0,
            content=ManifestContent.DATA,
            sequence_number=5,
            min_sequence_number=5,
            added_snapshot_id=STAGE,
        )

    def counted(self, manifest, question=None, large_bytes=AS_COLUMNS):
        question = question or Question()
        return census(self.metadata, self.io, [manifest], question, large_bytes)


def entry(
    *values,
    status=ADDED,
    snapshot=None,
    size=1000,
    rows=10,
    content=DataFileContent.DATA,
    file_format=FileFormat.PARQUET,
    upper=None,
):
    file = DataFile.from_args(
        3,
        content=content,
        file_path=f"s3://shop/{uuid.uuid4()}",
        file_format=file_format,
        partition=Record(*values),
        record_count=rows,
        file_size_in_bytes=size,
        column_sizes={1: 2, 2: 3},
        value_counts={1: 10},
        null_value_counts={},
        nan_value_counts=None,
        lower_bounds={1: b"a"},
        upper_bounds={1: b"b" * 40} if upper is None else upper,
        split_offsets=[4],
        sort_order_id=0,
    )
    return ManifestEntry.from_args(3, status=status, snapshot_id=snapshot, data_file=file)


def plainly(census):
    return dict(sorted(census.partitions.items()))
