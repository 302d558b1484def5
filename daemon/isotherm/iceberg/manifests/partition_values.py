"""Partition values in manifests: from an entry to its key, from a key to its record, and whether a manifest may hold it."""

import math
import struct
import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import (
    ManifestEntry,
    ManifestFile,
    PartitionFieldSummary,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StructType,
    UnknownType,
    UUIDType,
)

from isotherm.clients.manifests.avro import UnreadableError
from isotherm.contract.identity import (
    UNPARTITIONED,
    PartitionKey,
    Scalar,
    partition_key,
    partition_values,
    scalar,
)

MAX_KEY_CHARS = 16 * 1024
"""Of a partition's key. A file's name in a store has a kilobyte, and holds such values as a rule; in JSON that may be six
thousand characters. Each key is in memory, in the fold and in events."""


def entry_partition_key(metadata: TableMetadata, spec_id: int, entry: ManifestEntry) -> PartitionKey:
    """The partition of an entry, as a key of the unified partition type."""
    fields = metadata.specs()[spec_id].fields
    if not fields:
        return UNPARTITIONED
    values = entry.data_file.partition
    return checked_key({field.field_id: scalar(values[place]) for place, field in enumerate(fields)})


def checked_key(values: Mapping[int, Scalar | None]) -> PartitionKey:
    """The key of a partition. Raises UnreadableError: it is longer than any that somebody needs."""
    key = partition_key(values)
    if len(key) > MAX_KEY_CHARS:
        raise UnreadableError(
            f"a partition's values have {len(key)} characters, more than {MAX_KEY_CHARS}: delete its rows, "
            "or partition by a part of them"
        )
    return key


def typed(value: Scalar | None, field_type: IcebergType) -> Any:
    """The opposite of `scalar`: the value as manifests hold it."""
    if value is None:
        return None
    match field_type:
        case DecimalType():
            return Decimal(str(value))
        case UUIDType():
            return uuid.UUID(str(value))
        case BinaryType() | FixedType():
            return bytes.fromhex(str(value))
        case _:
            return value


def partition_type(metadata: TableMetadata, spec: PartitionSpec) -> StructType:
    """The type of a spec's partition values.

    PyIceberg does not know the type of a field whose source column was dropped, and could then neither read the
    bounds of its values nor write them again; the newest schema that still has the column knows. Where none has,
    an hour or a bucket is a number all the same, and a value of the column itself is of no known type.
    """
    fields = []
    for field in spec.fields:
        source = column_type(metadata, field.source_id) or UnknownType()
        result = field.transform.result_type(source)
        fields.append(NestedField(field.field_id, field.name, result, required=False))
    return StructType(*fields)


def column_type(metadata: TableMetadata, field_id: int) -> IcebergType | None:
    """The type of a column in the newest schema that has it, or None where none has."""
    for schema in (
        metadata.schema(),
        *sorted(metadata.schemas, key=lambda one: one.schema_id, reverse=True),
    ):
        if field_id in schema._lazy_id_to_field:  # noqa: SLF001 (find_field raises instead)
            return schema.find_field(field_id).field_type
    return None


def partition_record(metadata: TableMetadata, spec_id: int, key: PartitionKey) -> Record:
    """The partition values of a key in the order of a spec."""
    values = partition_values(key)
    fields = partition_type(metadata, metadata.specs()[spec_id]).fields
    return Record(*(typed(values.get(field.field_id), field.field_type) for field in fields))


def may_hold(metadata: TableMetadata, manifest: ManifestFile, *keys: PartitionKey) -> bool:
    """Whether a manifest may hold files of one of some partitions, by its summaries; true where they do not tell.

    Raises:
        UnreadableError: the summaries are not those of the manifest's spec.
    """
    spec = metadata.specs()[manifest.partition_spec_id]
    known = {field.field_id for field in spec.fields}
    # With a value in a field that this spec does not have, it is of no file of it: they have no value there.
    wanted = [values for key in keys if (values := partition_values(key)).keys() <= known]
    if not wanted or not manifest.partitions:
        return bool(wanted)
    fields = partition_type(metadata, spec).fields
    try:
        return any(
            all(
                _summary_may_hold(summary, field.field_type, values.get(field.field_id))
                for field, summary in zip(fields, manifest.partitions, strict=True)
            )
            for values in wanted
        )
    except (struct.error, ArithmeticError, TypeError, ValueError) as err:
        raise UnreadableError(
            f"the summaries of {manifest.manifest_path} do not fit the partition spec {spec.spec_id}: {err}"
        ) from err


def _summary_may_hold(summary: PartitionFieldSummary, field_type: IcebergType, value: Scalar | None) -> bool:
    if value is None:
        return summary.contains_null
    if isinstance(value, float) and math.isnan(value):
        return summary.contains_nan is not False
    if isinstance(field_type, UnknownType):
        return True
    if summary.lower_bound is None or summary.upper_bound is None:
        # Nothing but nulls and NaN.
        return False
    low, high = (_bound(field_type, bound) for bound in (summary.lower_bound, summary.upper_bound))
    wanted = typed(value, field_type)
    if isinstance(field_type, UUIDType):
        # In the order of whoever wrote them: the specification's, or Java's.
        least, middle, greatest = map(signed_halves, (low, wanted, high))
        return bool(low <= wanted <= high) or least <= middle <= greatest
    return bool(low <= wanted <= high)


def signed_halves(value: uuid.UUID) -> tuple[int, ...]:
    """What Iceberg's Java orders UUIDs by (up to 1.12 at least); by the specification it is their bytes."""
    return struct.unpack(">qq", value.bytes)


def _bound(field_type: IcebergType, value: bytes) -> Any:
    """A bound of a summary. A column that was widened has bounds of four bytes in older manifests."""
    if isinstance(field_type, LongType) and len(value) == 4:
        field_type = IntegerType()
    elif isinstance(field_type, DoubleType) and len(value) == 4:
        field_type = FloatType()
    if isinstance(field_type, UUIDType):
        # PyIceberg's conversion leaves it as bytes.
        return uuid.UUID(bytes=value)
    if not isinstance(field_type, PrimitiveType):
        raise TypeError(f"a partition field of type {field_type}")
    return from_bytes(field_type, value)
