"""Rows in the order that the table asks for (its sort order), with little of them in memory.

What fits is sorted there. Of more, parts are sorted and put aside in a file without a name, and merged in the end: chunk
by chunk, in the order of their first rows. What comes before the first row of the next chunk can be given on.

Values are compared as Iceberg's own comparators do, because a reader may rely on what a manifest says of a file's order:
-0 comes before 0, and NaN after all numbers. Where that is not so with Arrow, as for UUIDs, nothing is sorted.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField
from pyiceberg.transforms import BucketTransform, IdentityTransform, TimeTransform, TruncateTransform
from pyiceberg.types import DoubleType, FloatType, PrimitiveType

from isotherm.core.model.jobs import AskedOrder
from isotherm.core.model.refusals import Reason, RefusalError
from isotherm.iceberg.compaction.asked_order import COMPARED, path_of

SORTED_BYTES = 64 * 1024**2
"""What is sorted at a time; some three times as much is in memory then."""
CHUNK_BYTES = 128 * 1024
"""Of what is put aside, so much is read at a time. Of 64 GiB of rows there are a thousand parts: 64 MiB of halves of chunks
are in memory."""
COLUMN_BYTES, MOST_CHUNK_BYTES = 2 * 1024, 1024**2
"""Of each column so much, where that is more, and no more of all: a piece of one costs as much as some hundred values. Of a
thousand columns there were 16 rows in a chunk."""

_TRANSFORMS = (IdentityTransform, BucketTransform, TruncateTransform, TimeTransform)


@dataclass(frozen=True, slots=True)
class _Key:
    """A field of a sort order."""

    path: tuple[int, ...]
    """Where its column is: the place in the row, then in each struct."""
    field: SortField
    source: PrimitiveType


@dataclass(frozen=True, slots=True)
class Ordering:
    """By what rows are sorted."""

    order_id: int
    keys: tuple[_Key, ...]

    @classmethod
    def of(cls, metadata: TableMetadata, order_id: int) -> "Ordering | None":
        """A sort order of a table; None where there is none, or it has a field that cannot be compared here as Java does."""
        order = next((one for one in metadata.sort_orders if one.order_id == order_id), None)
        if order is None or order.is_unsorted:
            return None
        return cls._by(metadata, order_id, order.fields)

    @classmethod
    def asked(cls, metadata: TableMetadata, order: AskedOrder) -> "Ordering | None":
        """An order for which a policy asks: none of the table's own, so files do not say that they are in it."""
        fields = [
            SortField(
                key.field_id,
                direction=SortDirection.DESC if key.is_falling else SortDirection.ASC,
                null_order=NullOrder.NULLS_LAST if key.are_nulls_last else NullOrder.NULLS_FIRST,
            )
            for key in order.keys
        ]
        return cls._by(metadata, 0, fields)

    @classmethod
    def _by(cls, metadata: TableMetadata, order_id: int, fields: Sequence[SortField]) -> "Ordering | None":
        keys = [_key(metadata.schema(), field) for field in fields]
        known = [key for key in keys if key is not None]
        return cls(order_id, tuple(known)) if len(known) == len(keys) else None

    def columns(self, rows: pa.Table) -> pa.Table:
        """What is compared of each row: of each field whether it is null, and its value."""
        columns: dict[str, pa.ChunkedArray] = {}
        for number, key in enumerate(self.keys):
            values = _values(rows, key)
            nulls_last = key.field.null_order == NullOrder.NULLS_LAST
            columns[f"null{number}"] = pc.cast(pc.xor(values.is_null(), not nulls_last), pa.int8())
            columns[f"value{number}"] = values
        return pa.table(columns)

    def sorted(self, columns: pa.Table) -> pa.Array:
        """The places of rows in their order, by their `columns`."""
        falling = {
            f"value{number}"
            for number, key in enumerate(self.keys)
            if key.field.direction == SortDirection.DESC
        }
        names = columns.column_names
        by = [(name, "descending" if name in falling else "ascending") for name in names]
        return pc.sort_indices(columns, sort_keys=by)


class Comparing(Protocol):
    """By what rows are compared."""

    def columns(self, rows: pa.Table) -> pa.Table:
        """What is compared of each row."""
        ...

    def sorted(self, columns: pa.Table) -> pa.Array:
        """The places of rows in their order, by their `columns`, and by any that stand behind these."""
        ...


class Sorted:
    """Takes rows, and gives all of them in their order."""

    def __init__(
        self,
        ordering: Comparing,
        schema: pa.Schema,
        memory_bytes: int = SORTED_BYTES,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        self._ordering, self._schema = ordering, schema
        self._memory_bytes, self._chunk_bytes = memory_bytes, chunk_bytes
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0
        self._firsts: list[pa.Table] = []
        """Of each part that was put aside, the first rows of its chunks: what is compared of them."""
        self._file: IO[bytes] | None = None
        """All parts, one behind the other: a job may have a thousand, and a process as many open files."""
        self._writer: pa.RecordBatchFileWriter | None = None

    def add(self, rows: pa.RecordBatch) -> None:
        """Take some rows. Raises RefusalError: they cannot be put aside."""
        self._pending.append(rows)
        self._pending_bytes += rows.nbytes
        if self._pending_bytes >= self._memory_bytes:
            self._put_aside()

    def rows(self) -> Iterator[pa.RecordBatch]:
        """All rows, in order; once. Raises RefusalError: they cannot be read again."""
        if not self._firsts:
            yield from self._taken().to_batches()
            return
        self._put_aside()
        yield from self._merged()

    def close(self) -> None:
        """Let go of what was put aside."""
        if self._file is not None:
            with suppress(OSError):  # what is still to be written to a full disk is wanted no more
                self._file.close()

    def _taken(self) -> pa.Table:
        """What waits, sorted."""
        rows = pa.Table.from_batches(self._pending, schema=self._schema).combine_chunks()
        self._pending, self._pending_bytes = [], 0
        return rows.take(self._ordering.sorted(self._ordering.columns(rows)))

    def _put_aside(self) -> None:
        if not self._pending:
            return
        rows = self._taken()
        chunk_bytes = max(self._chunk_bytes, min(COLUMN_BYTES * rows.num_columns, MOST_CHUNK_BYTES))
        count = max(rows.num_rows * chunk_bytes // max(rows.nbytes, 1), 1)
        try:
            if self._writer is None:
                self._file = tempfile.TemporaryFile(prefix="isotherm-")  # noqa: SIM115 (closed by `close`)
                packed = pa.ipc.IpcWriteOptions(compression="lz4")
                self._writer = pa.ipc.new_file(self._file, self._schema, options=packed)
            self._writer.write_table(rows, max_chunksize=count)
        except OSError as err:
            raise RefusalError(Reason.STORAGE, f"putting rows aside while they are sorted: {err}") from err
        starts = pa.array(range(0, rows.num_rows, count), pa.int64())
        self._firsts.append(self._ordering.columns(rows.take(starts)))

    def _merged(self) -> Iterator[pa.RecordBatch]:
        chunks, firsts = self._chunks(), pa.concat_tables(self._firsts)
        # The next one last: there may be a hundred thousand.
        turns = self._ordering.sorted(firsts).to_pylist()[::-1]
        rest = pa.Table.from_batches([], schema=self._schema)
        while turns:
            # As much that is new as stays from before, at least. The rest is half a chunk of each part; of a thousand parts
            # it was sorted again for each chunk.
            some, left = [rest], max(self._memory_bytes - rest.nbytes, rest.nbytes, 1)
            while turns and left > 0:
                some.append(self._chunk(chunks, turns.pop()))
                left -= some[-1].nbytes
            rows = pa.concat_tables(some).combine_chunks()
            places, count = self._up_to(rows, firsts.slice(turns[-1], 1) if turns else None)
            yield from rows.take(places[:count]).to_batches()
            rest = rows.take(places[count:])

    def _chunks(self) -> pa.RecordBatchFileReader:
        """All that was put aside."""
        try:
            if self._writer is not None and self._file is not None:
                self._writer.close()
                self._file.seek(0)
            return pa.ipc.open_file(self._file)
        except (OSError, pa.ArrowInvalid) as err:
            raise RefusalError(Reason.STORAGE, f"putting rows aside while they are sorted: {err}") from err

    @staticmethod
    def _chunk(chunks: pa.RecordBatchFileReader, number: int) -> pa.Table:
        try:
            return pa.Table.from_batches([chunks.get_batch(number)])
        except (OSError, pa.ArrowInvalid) as err:  # or other bytes come back
            raise RefusalError(Reason.STORAGE, f"reading rows that were put aside: {err}") from err

    def _up_to(self, rows: pa.Table, next_row: pa.Table | None) -> tuple[pa.Array, int]:
        """The places of rows in their order, and how many of them come no later than the next row."""
        columns = self._ordering.columns(rows)
        if next_row is None:
            return self._ordering.sorted(columns), rows.num_rows
        both = pa.concat_tables([columns, next_row])
        # After all that are equal to it.
        is_next = np.zeros(both.num_rows, np.int8)
        is_next[-1] = 1
        places = self._ordering.sorted(both.append_column("is_next", pa.array(is_next)))
        count = pc.index(places, pa.scalar(rows.num_rows, places.type)).as_py()
        return pa.concat_arrays([places[:count], places[count + 1 :]]), count


def _key(schema: Schema, field: SortField) -> _Key | None:
    try:
        source = schema.find_type(field.source_id)
    except ValueError:
        return None  # the column was dropped
    path = path_of(schema.as_struct(), field.source_id)
    if path is None or not isinstance(source, COMPARED):
        return None
    key = _Key(path, field, source)
    return key if _is_computed(key) else None


def _is_computed(key: _Key) -> bool:
    """Whether the library that computes transforms knows this one, of values of this type."""
    if not isinstance(key.field.transform, _TRANSFORMS):
        return False
    try:
        _transformed(pa.chunked_array([[]], schema_to_pyarrow(key.source)), key)
    except ValueError:
        return False
    return True


def _values(rows: pa.Table, key: _Key) -> pa.ChunkedArray:
    return _transformed(values_at(rows, key.path), key)


def values_at(rows: pa.Table, path: Sequence[int]) -> pa.ChunkedArray:
    """The values of a column: its place in the row, then in each struct."""
    place, *inner = path
    values = rows.column(place)
    return pc.struct_field(values, inner) if inner else values


def _transformed(values: pa.ChunkedArray, key: _Key) -> pa.ChunkedArray:
    if isinstance(key.field.transform, IdentityTransform):
        return ordered_by_bits(values) if isinstance(key.source, (FloatType, DoubleType)) else values
    transform = key.field.transform.pyarrow_transform(key.source)
    return pa.chunked_array([transform(values.combine_chunks())])


def ordered_by_bits(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Numbers that are ordered as Java's `Double.compare` does."""
    array = values.combine_chunks()
    numbers = pc.cast(array, pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False).copy()
    numbers[np.isnan(numbers)] = np.nan
    bits = numbers.view(np.int64)
    ordered = np.where(bits < 0, bits ^ np.int64(0x7FFF_FFFF_FFFF_FFFF), bits)
    return pa.chunked_array(
        [pa.array(ordered, pa.int64(), mask=array.is_null().to_numpy(zero_copy_only=False))]
    )
