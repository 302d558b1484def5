"""Rows along a curve through several columns (`zorder`), so that files and row groups are narrow in each of them.

The curve is Hilbert's. A z-order has jumps, and a file that lies across one is wide: of two columns and nineteen files
of equal size each was 0.29 and 0.42 of the whole, and is 0.3 and 0.28 here. What is followed are not values, but their
ranks among equal parts of a sample: of two columns the one of wider numbers would decide alone, and so would one whose
values lie close together.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata

from isotherm.core.model.files import LiveFile
from isotherm.core.model.jobs import AskedOrder, CompactionJob
from isotherm.iceberg.compaction.asked_order import path_of
from isotherm.iceberg.compaction.failures import blaming
from isotherm.iceberg.compaction.local_copy import in_turn
from isotherm.iceberg.compaction.projection import project
from isotherm.iceberg.compaction.sorting import ordered_by_bits, values_at
from isotherm.iceberg.compaction.source import Source, names

SAMPLED_FILES = 32
"""Of a job at most, from first to last; their key columns are read twice."""
SAMPLED_ROWS = 2048
"""Of each of them."""
MOST_BITS = 12
"""Of a rank: a column has 4,095 parts."""
PLACE_BITS = 62
TEXT_BYTES, SEEN_BYTES = 32, 128
"""Of a text so many are compared, behind what the texts of a sample have in common; of these, so many are looked at. What
stands behind tells no more where a row lies."""

Path = Sequence[int]
"""The place of a column in its row, then in each struct."""
Values = npt.NDArray[Any]
Ranks = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Curve:
    """Where rows lie on the curve."""

    paths: tuple[Path, ...]
    edges: tuple[Values, ...]
    """Of each column the values at which a part begins, rising, but for the first part."""
    skipped: tuple[int, ...]
    """Of each column how many bytes its texts have in common at their beginning."""

    @classmethod
    def of(
        cls,
        io: FileIO,
        job: CompactionJob,
        metadata: TableMetadata,
        constants: Mapping[int, Any],
        order: AskedOrder,
    ) -> "Curve":
        """The curve of a job, by a sample of its rows.

        Raises:
            RefusalError: a data file is missing or corrupt, or storage does not answer.
        """
        whole, ids = metadata.schema().as_struct(), [key.field_id for key in order.keys]
        paths = [path_of(whole, field_id) or () for field_id in ids]
        tops = {path[0] for path in paths}
        part = Schema(*(field for place, field in enumerate(whole.fields) if place in tops))
        inner = [path_of(part.as_struct(), field_id) or () for field_id in ids]
        sample = _sample(io, job.data_files, metadata, part, constants, inner)
        skipped = [_common(values) for values in sample]
        told = (_behind(values, skip) for values, skip in zip(sample, skipped, strict=True))
        return cls(tuple(paths), tuple(_edges(values, _bits(len(ids))) for values in told), tuple(skipped))

    def columns(self, rows: pa.Table) -> pa.Table:
        """What is compared of each row: its place on the curve. Rows without a value of a column come first in it."""
        bits = _bits(len(self.paths))
        ranks: list[Ranks] = []
        for path, edges, skip in zip(self.paths, self.edges, self.skipped, strict=True):
            values = values_at(rows, path)
            rank = np.searchsorted(edges, _ordered(values, skip, TEXT_BYTES), side="right") + 1
            rank[values.is_null().to_numpy()] = 0
            # To all bits: of three values each would be told apart by the lowest two alone.
            ranks.append(rank * ((1 << bits) - 1) // (len(edges) + 1))
        return pa.table({"place": places(ranks, bits)})

    def sorted(self, columns: pa.Table) -> pa.Array:
        """The places of rows in their order, by their `columns`."""
        return pc.sort_indices(columns, sort_keys=[(name, "ascending") for name in columns.column_names])


def _bits(columns: int) -> int:
    """Of a rank, where so many columns share a place."""
    return min(MOST_BITS, PLACE_BITS // columns)


def places(ranks: Sequence[Ranks], bits: int) -> Ranks:
    """The places of points on Hilbert's curve through a cube, of which each side has so many bits.

    J. Skilling, Programming the Hilbert curve, AIP Conference Proceedings 707 (2004): from the highest bit on, the part of
    the cube in which a point lies is turned as the curve runs through it.
    """
    sides = [np.array(one, np.int64) for one in ranks]
    for bit in reversed(range(1, bits)):
        half, below = 1 << bit, (1 << bit) - 1
        for number, side in enumerate(sides):
            is_far = side & half != 0
            swapped = np.where(is_far, 0, (sides[0] ^ side) & below)
            sides[0] = np.where(is_far, sides[0] ^ below, sides[0] ^ swapped)
            if number:
                sides[number] = side ^ swapped
    for number in range(1, len(sides)):
        sides[number] = sides[number] ^ sides[number - 1]
    turned = np.zeros_like(sides[0])
    for bit in reversed(range(1, bits)):
        turned ^= np.where(sides[-1] & 1 << bit != 0, (1 << bit) - 1, 0)
    place = np.zeros_like(sides[0])
    for bit in reversed(range(bits)):
        for side in sides:
            place = place << 1 | (side ^ turned) >> bit & 1
    return place


def _edges(values: Values, bits: int) -> Values:
    """Where to cut so that each part has as many of these values."""
    parts = (1 << bits) - 1
    places = np.arange(1, parts) * len(values) // parts
    return np.unique(np.sort(values)[places]) if len(values) else values


def _common(values: Values) -> int:
    """How many bytes all of some texts begin with alike: of addresses, most of what would be compared."""
    if values.dtype.kind != "S" or not len(values):
        return 0
    letters = _letters(values)[:, : SEEN_BYTES - TEXT_BYTES]
    is_alike = (letters == letters[0]).all(axis=0)
    return len(is_alike) if is_alike.all() else int(is_alike.argmin())


def _behind(values: Values, skip: int) -> Values:
    """What is compared of texts of which so many bytes are alike."""
    if values.dtype.kind != "S":
        return values
    letters = _letters(values)[:, skip : skip + TEXT_BYTES]
    texts: Values = np.ascontiguousarray(letters).view(f"S{TEXT_BYTES}").ravel()
    return texts


def _letters(values: Values) -> Values:
    return values.view(np.uint8).reshape(len(values), SEEN_BYTES)


def _ordered(values: pa.ChunkedArray, skip: int, length: int) -> Values:
    """Numbers, or so many bytes of texts behind others, in the order of these values; anything where there is none."""
    kind = values.type
    if pa.types.is_floating(kind):
        values = ordered_by_bits(values)
    elif pa.types.is_decimal(kind):
        values = values.cast(pa.float64())
    elif pa.types.is_date(kind):
        values = values.cast(pa.int32())
    elif not (pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_temporal(kind)):
        parts = pc.binary_slice(values.cast(pa.large_binary()), skip, skip + length).fill_null(b"")
        texts: Values = parts.to_numpy().astype(f"S{length}")
        return texts
    if not pa.types.is_floating(values.type):
        values = values.cast(pa.int64())
    numbers: Values = values.fill_null(0).to_numpy()
    return numbers


def _sample(
    io: FileIO,
    files: Sequence[LiveFile],
    metadata: TableMetadata,
    part: Schema,
    constants: Mapping[int, Any],
    paths: Sequence[Path],
) -> list[Values]:
    """What each column says in some rows of some of the files, where it says anything. Deleted rows are among them.

    Of each batch only that is kept: a struct, or a text, may be a thousand times as large.
    """
    arrow, mapping = schema_to_pyarrow(part), metadata.name_mapping()
    known = {field.field_id for field in part.fields}
    count = min(len(files), SAMPLED_FILES)
    chosen = [files[number * len(files) // count] for number in range(count)]
    found: list[list[Values]] = [[] for _ in paths]
    each = zip(chosen, in_turn(io, chosen, lambda footer: names(footer, known, mapping)), strict=True)
    for file, near in each:
        with blaming(file.path), near as path:
            source = Source(path, file, known, mapping)
            for some in _some(source, file.rows):
                rows = pa.Table.from_batches([project(some, source.columns, part, arrow, constants)])
                for values, at in zip(found, paths, strict=True):
                    values.append(_ordered(values_at(rows, at).drop_null(), 0, SEEN_BYTES))
    return [np.concatenate(values) if values else np.array([]) for values in found]


def _some(source: Source, rows: int) -> Iterator[pa.RecordBatch]:
    """Every so many-th row of a file."""
    step, start = max(rows // SAMPLED_ROWS, 1), 0
    for batch in source.batches():
        places = pa.array(np.arange(-start % step, batch.num_rows, step))
        yield batch.take(places)
        start += batch.num_rows
