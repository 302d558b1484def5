"""Equality deletes with Arrow: the positions of rows whose key a younger delete file names.

A row is gone where all its key columns equal those of a row of the delete file, null and null included, and the delete
file is younger than the data file. So of each key that was ever named the highest sequence number is enough. A key of
several columns is a number: that of the first column's value, with that of the second, and so on.

What it finds is found again by DuckDB (`row_sums`), which shares no code with this.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table.name_mapping import NameMapping

from isotherm.core.model.files import LiveFile
from isotherm.core.model.refusals import Reason, RefusalError
from isotherm.iceberg.compaction.key_columns import KeyColumn
from isotherm.iceberg.compaction.projection import Node, project
from isotherm.iceberg.compaction.source import BATCH_BYTES, Source


class Keys:
    """What some equality-delete files name by the same columns."""

    def __init__(self, columns: Sequence[KeyColumn], mapping: NameMapping | None) -> None:
        self.columns = tuple(columns)
        self._arrow = [schema_to_pyarrow(column.schema, include_field_ids=False) for column in columns]
        self._mapping = mapping
        self._ids = {column.field_id for column in columns}
        self._parts: list[tuple[list[pa.Array], int]] = []
        """Of each delete file its columns, and its sequence number."""
        self._index: _Index | None = None

    def add(self, path: str, delete: LiveFile) -> int:
        """Take the keys of a delete file that can be read at this path, and tell what they take in memory, in bytes.

        Raises:
            RefusalError: it does not have the columns by which it is said to name rows, or not for each reader.
        """
        source = Source(path, delete, self._ids, self._mapping)
        if self._mapping is not None and not source.has_ids:
            # Iceberg's Java takes them by their order, whatever names the table has for them; others may not.
            why = f"{delete.path} does not say the ids of its columns, and readers find them in several ways"
            raise RefusalError(Reason.EQUALITY_DELETES, why)
        for column in self.columns:
            if all(held.field_id != column.field_id for held in source.columns):
                why = f"{delete.path} lacks the column {column.field_id} by which its manifest says that it names rows"
                raise RefusalError(Reason.CORRUPT_FILE, why)
        taken = 0
        for batch in source.batches():
            arrays = self._of(batch, source.columns, {})
            self._parts.append((arrays, delete.sequence_number))
            taken += sum(array.nbytes for array in arrays)
        self._index = None
        return taken

    def found_in(self, path: str, file: LiveFile, constants: Mapping[int, Any]) -> Iterator[pa.Array]:
        """The positions of the rows of a data file that these deletes remove, piece by piece.

        Raises:
            RefusalError: its rows have another value in a key column than their partition has.
        """
        if not self._parts:
            return
        if self._index is None:
            self._index = _Index(self._parts)
        source = Source(path, file, self._ids, self._mapping)
        start = 0
        for rows in _together(self._of(batch, source.columns, constants) for batch in source.batches()):
            self._check_constants(rows, file, constants)
            is_gone = pc.greater(self._index.deleted_at(rows), file.sequence_number)
            positions = pc.indices_nonzero(pc.fill_null(is_gone, fill_value=False)).cast(pa.int64())
            yield pc.add(positions, start)
            start += len(is_gone)

    def _of(
        self, batch: pa.RecordBatch, columns: Sequence[Node], constants: Mapping[int, Any]
    ) -> list[pa.Array]:
        """The key columns of some rows, in the table's types."""
        return [
            _stored(project(batch, columns, column.schema, arrow, constants).column(0))
            for column, arrow in zip(self.columns, self._arrow, strict=True)
        ]

    def _check_constants(
        self, rows: Sequence[pa.Array], file: LiveFile, constants: Mapping[int, Any]
    ) -> None:
        """Iceberg's Java compares with the partition's value, and others with what the file holds."""
        for column, arrow, values in zip(self.columns, self._arrow, rows, strict=True):
            if column.field_id not in constants:
                continue
            said = _stored(pa.repeat(pa.scalar(constants[column.field_id], arrow.field(0).type), 1))[0]
            same = pc.equal(values, said) if said.is_valid else values.is_null()
            if not pc.all(pc.fill_null(same, fill_value=False)).as_py():
                why = f"{file.path} has rows whose {column.name} is not that of their partition"
                raise RefusalError(Reason.EQUALITY_DELETES, f"{why}, and readers compare keys with either")


def _stored(array: pa.Array) -> pa.Array:
    """The values of a column as Arrow can compare them."""
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def _together(parts: Iterator[list[pa.Array]]) -> Iterator[list[pa.Array]]:
    """The same rows in fewer pieces: for each piece all keys are hashed again."""
    pending: list[list[pa.Array]] = []
    size_bytes = 0
    for part in parts:
        pending.append(part)
        size_bytes += sum(array.nbytes for array in part)
        if size_bytes >= BATCH_BYTES:
            yield _joined(pending)
            pending, size_bytes = [], 0
    if pending:
        yield _joined(pending)


def _joined(parts: Sequence[Sequence[pa.Array]]) -> list[pa.Array]:
    return [pa.concat_arrays(arrays) for arrays in zip(*parts, strict=True)]


class _Index:
    """Keys by number, and when each was deleted last."""

    def __init__(self, parts: Sequence[tuple[Sequence[pa.Array], int]]) -> None:
        self._levels: list[tuple[pa.Array, pa.Array | None]] = []
        """For each column its values, and from the second on the numbers that key and value make together."""
        codes: pa.Array | None = None
        for column in _joined([arrays for arrays, _ in parts]):
            values = pc.unique(column)
            here = _places(column, values)
            pairs = None
            if codes is not None:
                both = _both(codes, here, values)
                pairs = pc.unique(both)
                here = _places(both, pairs)
            self._levels.append((values, pairs))
            codes = here
        numbers = [pa.repeat(pa.scalar(number, pa.int64()), len(arrays[0])) for arrays, number in parts]
        last = pa.table({"code": codes, "number": pa.concat_arrays(numbers)}).group_by("code")
        self._deleted_at = (
            last.aggregate([("number", "max")]).sort_by("code").column("number_max").combine_chunks()
        )

    def deleted_at(self, columns: Sequence[pa.Array]) -> pa.Array:
        """For each row the highest sequence number at which its key was deleted, or null where it never was."""
        codes: pa.Array | None = None
        for column, (values, pairs) in zip(columns, self._levels, strict=True):
            here = _places(column, values)
            codes = here if codes is None else _places(_both(codes, here, values), pairs)
        return self._deleted_at.take(codes)


def _places(array: pa.Array, values: pa.Array) -> pa.Array:
    """Where each value stands among others, a null too if it is one of them; null where it does not."""
    return pc.index_in(array, value_set=values).cast(pa.int64())


def _both(codes: pa.Array, here: pa.Array, values: pa.Array) -> pa.Array:
    """One number for two: as many as there are delete rows, times as many, fit."""
    return pc.add(pc.multiply(codes, len(values)), here)
