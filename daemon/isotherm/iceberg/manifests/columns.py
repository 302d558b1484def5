"""A manifest's entries as Arrow columns: what a count of files needs, and nothing else.

DataFusion decodes the columns that are wanted and skips the statistics that most of a manifest consists of: three to
nine times as fast as PyIceberg for large manifests, and slower for small ones (a query costs a millisecond or two).
What it cannot read raises `NotReadError`; then PyIceberg must.

DataFusion never returns from a block whose announced entries are over before its bytes are, as one flipped bit may have
it. So it is given whole batches and then rubbish, in a block that announces more entries than it can hold: each reading
ends with an error, behind the last batch. What follows the entries to fill the last batch carries a number that nobody
knows, so entries that end elsewhere than their block are noticed.

Writes nothing but temporary files, because DataFusion reads paths.
"""

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.manifest import FileFormat, ManifestFile
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from isotherm.clients.manifests.avro import UnreadableError, file_of, number
from isotherm.clients.manifests.entry_projection import DATA_FILE, PARTITION_FIELD, UPPER_BOUNDS
from isotherm.clients.manifests.reading import Manifest
from isotherm.iceberg.manifests.event_time import TimeColumn

if TYPE_CHECKING:
    from datafusion import SessionContext

PIECE_BYTES = 8 * 1024 * 1024
"""Of entries that are read at once, unpacked: enough to sum up many of one partition."""
BATCH_ROWS = 1024
"""Entries that DataFusion hands over at once; the last ones are filled up to so many."""
MOST_FILLER_BYTES = 4096
"""Of the entries that fill up: they take some thirty, and a forged schema may ask for any number."""
_RUBBISH = b"\xff" * 16
"""No number ends here, nor does anything that begins with one."""
_NAMES: Final = {
    0: "status",
    1: "snapshot",
    134: "content",
    101: "format",
    103: "rows",
    104: "bytes",
    145: "blob",
}
"""Columns by the ids of their fields, as the specification has them."""
_SKIPPED = "_"


class NotReadError(Exception):
    """DataFusion cannot read this manifest, or does not read all of it."""


def read_columns(
    written: Manifest, manifest: ManifestFile, time_column: TimeColumn | None = None
) -> Iterator[pa.Table]:
    """The entries, batch by batch: `p0`, `p1`, … are the partition's values, in the order in which they are written.

    The others are `status`, `snapshot`, `content`, `puffin` (whether the file is one), `rows` and `bytes`; and
    `reached`, in milliseconds, the upper bound of a time column, null where none is asked for. Dates and times are
    ordinals, UUIDs their bytes. Only after the last batch it is known that nothing is missing.

    Raises:
        NotReadError: also after some batches.
        UnreadableError: nobody should read it.
    """
    try:
        flat = _flat(json.loads(written.avro_schema), with_bounds=time_column is not None)
        _check_sizes(flat)
        for count, entries in written.pieces(PIECE_BYTES):
            yield _table(_read(flat, count, entries), written, manifest, time_column)
    except UnreadableError:
        raise
    # DataFusion's errors have no class of their own, and PyArrow's are many.
    except Exception as err:
        raise NotReadError(str(err)) from err


@cache
def _datafusion() -> "SessionContext":
    # Imported when a large manifest is read: it takes a second, and whoever reads a few small ones has no use for it.
    from datafusion import SessionConfig, SessionContext

    # One thread reads one manifest; several manifests are read at once.
    return SessionContext(SessionConfig().with_target_partitions(1).with_batch_size(BATCH_ROWS))


def _read(flat: Mapping[str, Any], count: int, entries: bytes) -> pa.Table:
    """So many entries, which must end where their bytes do."""
    if count > len(entries):
        raise ValueError(f"{len(entries)} bytes announce {count} entries")
    mark = secrets.randbits(62)
    filler = b"".join(
        number(mark) if field["name"] == "rows" else _zero(field["type"]) for field in flat["fields"]
    )
    if len(filler) > MOST_FILLER_BYTES:
        raise ValueError(f"the shortest entry takes {len(filler)} bytes")
    fillers = BATCH_ROWS - count % BATCH_ROWS
    block = (entries, filler * fillers, _RUBBISH)
    table = pa.Table.from_batches(_batches(flat, block, (count + fillers) // BATCH_ROWS))
    marks = table.column("rows").slice(count)
    if len(marks) != fillers or marks.null_count or pc.unique(marks).to_pylist() != [mark]:
        raise ValueError(f"the {count} entries do not end where their bytes do")
    return table.slice(0, count)


def _batches(flat: Mapping[str, Any], block: Sequence[bytes], most: int) -> list[pa.RecordBatch]:
    """The first batches of a block, which announces one entry for each byte: they never run out before the bytes do."""
    names = [field["name"] for field in flat["fields"] if not field["name"].startswith(_SKIPPED)]
    # A name of our own: DataFusion takes some characters in a path for patterns.
    with NamedTemporaryFile(suffix=".avro") as file:
        file.writelines(file_of(json.dumps(flat), sum(map(len, block)), block))
        file.flush()
        batches = _datafusion().read_avro(file.name).select(*names).execute_stream()
        return [batch.to_pyarrow() for batch in islice(batches, most)]


def _check_sizes(kind: Any) -> None:
    """Check that no value has a size that the schema alone chose: for each null of such a type DataFusion takes as much.

    Where there is no memory for that it ends the process. Raises ValueError.
    """
    match kind:
        case {"type": "fixed", "size": size}:
            if not 0 <= size <= MOST_FILLER_BYTES:
                raise ValueError(f"values of {size} bytes")
        case Mapping():
            for inner in kind.values():
                _check_sizes(inner)
        case list():
            for inner in kind:
                _check_sizes(inner)


def _zero(kind: Any) -> bytes:
    """The shortest value of a type."""
    match kind:
        case "null":
            return b""
        case "float":
            return bytes(4)
        case "double":
            return bytes(8)
        case "boolean" | "int" | "long" | "bytes" | "string":
            return b"\0"
        case {"type": "array" | "map"}:
            return b"\0"
        case [first, *_]:
            return b"\0" + _zero(first)
        case {"type": "record", "fields": list(fields)}:
            return b"".join(_zero(field["type"]) for field in fields)
        case {"type": "fixed", "size": int(size)} if 0 <= size <= MOST_FILLER_BYTES:
            return bytes(size)
        case {"type": inner}:
            return _zero(inner)
        case _:
            raise ValueError(f"a field of type {kind}")


def _flat(schema: Mapping[str, Any], *, with_bounds: bool) -> dict[str, Any]:
    """The schema of a manifest with every field at the top, named by its id; a partition's values by their place.

    A record is written as its fields are, so the bytes mean the same. And DataFusion skips columns, not parts of
    them, and knows no struct without fields, as the partition of an unpartitioned table is.
    """
    fields: list[dict[str, Any]] = []
    for field in schema["fields"]:
        if field["field-id"] != DATA_FILE:
            fields.append(_named(field))
            continue
        for inner in field["type"]["fields"]:
            if with_bounds and inner["field-id"] == UPPER_BOUNDS:
                fields.append({"name": "upper", "type": inner["type"]})
                continue
            if inner["field-id"] != PARTITION_FIELD:
                fields.append(_named(inner))
                continue
            values = inner["type"]["fields"]
            fields += [{"name": f"p{place}", "type": one["type"]} for place, one in enumerate(values)]
    return {"type": "record", "name": "entry", "fields": fields}


def _named(field: Mapping[str, Any]) -> dict[str, Any]:
    name = _NAMES.get(field["field-id"], f"{_SKIPPED}{field['field-id']}")
    return {"name": name, "type": field["type"]}


def _table(
    batch: pa.Table, written: Manifest, manifest: ManifestFile, time_column: TimeColumn | None
) -> pa.Table:
    values = {
        f"p{place}": _plain(batch.column(f"p{place}"), one.field_type)
        for place, one in enumerate(written.layout.partition.fields)
    }
    # Version 1 may leave it out: there are only data files.
    is_told = "content" in batch.column_names
    size = batch.column("bytes")
    content = batch.column("content") if is_told else pa.nulls(batch.num_rows, pa.int32())
    return pa.table(
        {
            **values,
            "status": batch.column("status"),
            "snapshot": pc.fill_null(batch.column("snapshot"), manifest.added_snapshot_id),
            "content": pc.fill_null(content, 0),
            "puffin": pc.equal(pc.utf8_upper(batch.column("format")), FileFormat.PUFFIN.value),
            "rows": batch.column("rows"),
            "bytes": pc.coalesce(batch.column("blob"), size) if "blob" in batch.column_names else size,
            "reached": _reached(batch, time_column),
        }
    )


def _reached(batch: pa.Table, column: TimeColumn | None) -> pa.Array:
    """The upper bound of one column for each entry, in milliseconds."""
    nothing = pa.nulls(batch.num_rows, pa.int64())
    if column is None or "upper" not in batch.column_names:
        return nothing
    bounds = batch.column("upper").combine_chunks()
    if isinstance(bounds, pa.ChunkedArray):
        bounds = bounds.chunk(0) if bounds.num_chunks else pa.nulls(0, bounds.type)
    pairs = pc.list_flatten(bounds)
    keys, values = (pc.struct_field(pairs, place) for place in (0, 1))
    is_asked = pc.equal(keys, column.field_id)
    entries = pc.list_parent_indices(bounds).filter(is_asked).to_pylist()
    reached: list[int | None] = nothing.to_pylist()
    for entry, value in zip(entries, values.filter(is_asked).to_pylist(), strict=True):
        reached[entry] = column.bound_ms(value)
    return pa.array(reached, pa.int64())


def _plain(values: pa.Array, kind: IcebergType) -> pa.Array:
    """Partition values as the entries have them when PyIceberg reads them."""
    match kind:
        case IntegerType() | DateType():
            return values.cast(pa.int32())
        case LongType() | TimeType() | TimestampType() | TimestamptzType():
            return values.cast(pa.int64())
        case BooleanType() | FloatType() | DoubleType() | DecimalType():
            return values
        case StringType() | BinaryType() | FixedType() | UUIDType():
            return values
        case _:
            raise TypeError(f"a partition value of type {kind}")
