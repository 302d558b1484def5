"""The partitions of rows: their values, as Iceberg's JSON says them, and the folders of their files.

PyIceberg's own key of a partition knows one field for each column, and none of a column that is gone.
"""

import hashlib
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import quote_plus

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.conversions import to_json
from pyiceberg.partitioning import PartitionField, partition_record_value
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import TruncateTransform, VoidTransform
from pyiceberg.types import BinaryType, DecimalType, IcebergType, IntegerType, LongType, UUIDType

LONGEST_NAME = 255
"""Of a folder on a disk. 28 Chinese letters are as long, where each is written as nine."""
LONGEST_PATH = 700
"""Of all folders of a partition: S3 takes 1,024 bytes for everything behind the bucket."""
KEPT = 128
"""Letters of a path that is too long."""


@dataclass(frozen=True)
class Partition:
    """One partition of a table."""

    schema: Schema
    values: tuple[tuple[PartitionField, Any], ...]
    """As Python has them."""

    def to_path(self) -> str:
        """The folder of its files, as PyIceberg's locations ask for it.

        Nobody reads values from it. Where it is longer than stores take, it has their beginning, and a hash of all.
        """
        path = "/".join(
            f"{quote_plus(one.name, safe='')}={quote_plus(self._text(one, value), safe='')}"
            for one, value in self.values
        )
        if not is_long(path):
            return path
        begin = re.sub("%[0-9A-F]?$", "", path[:KEPT])
        return f"{begin}-{hashlib.sha256(path.encode()).hexdigest()[:32]}"

    def as_json(self) -> list[Any]:
        """The values in Iceberg's JSON; NaN and infinity are what Python writes for them."""
        return [
            None if value is None else to_json(_kind(self.schema, one), value) for one, value in self.values
        ]

    def _text(self, one: PartitionField, value: Any) -> str:
        if isinstance(one.transform, VoidTransform):
            return "null"
        kind = one.transform.result_type(self.schema.find_type(one.source_id))
        return one.transform.to_human_string(kind, partition_record_value(one, value, self.schema))


def is_long(path: str) -> bool:
    """Whether the folder of a partition is longer than stores take."""
    return len(path) > LONGEST_PATH or any(len(name) > LONGEST_NAME for name in path.split("/"))


def partition_columns(metadata: TableMetadata, rows: pa.Table) -> list[pa.Array]:
    """The partition values of rows, a column for each field of the spec."""
    return [values for _, values in _values(metadata, rows)]


def partitions(metadata: TableMetadata, rows: pa.Table) -> Iterator[tuple[Partition | None, pa.Table]]:
    """The rows of each partition. Grouped by what the values are, so that NaN is a partition like any other."""
    found = list(_values(metadata, rows))
    if not found:
        yield None, rows
        return
    schema = metadata.schema()
    names = [f"p{place}" for place in range(len(found))]
    keys = pa.Table.from_arrays([flat(values) for _, values in found], names=names)
    places = keys.append_column("place", pa.array(range(rows.num_rows), pa.int64()))
    groups = places.group_by(names, use_threads=False).aggregate([("place", "list")])
    for group in groups.to_pylist():
        values = (
            (one, _python(schema, one, group[name])) for (one, _), name in zip(found, names, strict=True)
        )
        mine = rows if len(groups) == 1 else rows.take(pa.array(group["place_list"], pa.int64()))
        yield Partition(schema, tuple(values)), mine


def without_partition(metadata: TableMetadata, rows: pa.StructArray) -> dict[int, str]:
    """Rows that no partition can hold, by their places, and the column of each: its truncated value does not fit its type.

    Iceberg's Java lets such a number become a large positive one, under which nobody looks for it, and Avro takes no decimal with
    more digits than its type has.
    """
    schema, found = metadata.schema(), dict[int, str]()
    for one in metadata.spec().fields:
        name = schema.find_column_name(one.source_id) or ""
        place = rows.type.get_field_index(name)
        if not isinstance(one.transform, TruncateTransform) or place < 0:
            continue
        kind, values = schema.find_type(one.source_id), rows.field(place)
        lowest, width = _lowest(kind), one.transform.width
        # Almost every column ends here: few values are so low.
        if (
            lowest is None
            or values.null_count == len(values)
            or _steps(pc.min(values).as_py()) >= lowest + width
        ):
            continue
        for row, value in enumerate(values.to_pylist()):
            steps = 0 if value is None else _steps(value)
            if steps - steps % width < lowest:
                found.setdefault(row, name)
    return found


def _lowest(kind: IcebergType) -> int | None:
    """The least value of a type, in steps from one value to the next; None where truncating never leaves the type."""
    match kind:
        case IntegerType():
            return -(2**31)
        case LongType():
            return -(2**63)
        case DecimalType():
            return 1 - int(10**kind.precision)
        case _:
            return None


def _steps(value: int | Decimal) -> int:
    """A number without its point: Python's decimals have no floor, and round what has more than 28 digits."""
    if isinstance(value, int):
        return value
    sign, digits, _ = value.as_tuple()
    number = int("".join(map(str, digits)))
    return -number if sign else number


def flat(values: pa.ChunkedArray | pa.Array) -> pa.Array:
    """One array, of a type that Arrow's functions take."""
    one = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return one.storage if isinstance(one, pa.ExtensionArray) else one


def _values(metadata: TableMetadata, rows: pa.Table) -> Iterator[tuple[PartitionField, pa.Array]]:
    schema = metadata.schema()
    for one in metadata.spec().fields:
        if isinstance(one.transform, VoidTransform):  # its column may be gone
            yield one, pa.nulls(rows.num_rows, pa.int8())
        else:
            values = flat(rows.column(schema.find_column_name(one.source_id) or ""))
            yield one, _transformed(one, schema.find_type(one.source_id), values)


def _transformed(one: PartitionField, kind: IcebergType, values: pa.Array) -> pa.Array:
    if isinstance(one.transform, TruncateTransform) and isinstance(kind, BinaryType):
        return pc.binary_slice(values, 0, one.transform.width)  # Iceberg's own in Rust takes text alone
    return one.transform.pyarrow_transform(kind)(values)


def _python(schema: Schema, one: PartitionField, value: Any) -> Any:
    """A partition value as PyIceberg has it."""
    if value is None:
        return None
    return uuid.UUID(bytes=value) if isinstance(_kind(schema, one), UUIDType) else value


def _kind(schema: Schema, one: PartitionField) -> Any:
    return one.transform.result_type(schema.find_type(one.source_id))
