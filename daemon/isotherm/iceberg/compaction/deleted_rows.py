"""The rows that a job's deletes remove, as positions in its data files.

Position deletes say them, by path; equality deletes name them by the values of columns (`equality_keys`). Memory holds
the positions, and the keys of some delete files at a time; it does not grow with the partition.
"""

from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.table.metadata import TableMetadata

from isotherm.contract.paths import normalised
from isotherm.core.model.files import LiveFile
from isotherm.core.model.jobs import CompactionJob
from isotherm.core.model.refusals import Reason, RefusalError
from isotherm.iceberg.compaction.deletion_vectors import positions_in
from isotherm.iceberg.compaction.equality_keys import Keys
from isotherm.iceberg.compaction.failures import blaming
from isotherm.iceberg.compaction.key_columns import key_columns
from isotherm.iceberg.compaction.local_copy import Columns, in_turn
from isotherm.iceberg.compaction.row_sums import RowSums
from isotherm.iceberg.compaction.source import names

KEY_ROWS = 2_000_000
"""Of so many rows of equality deletes the keys are held at once: a hundred bytes each, in either engine."""

KEY_BYTES = 64 * 1024 * 1024
"""And of files of this size together: of long keys a hundred bytes are not enough. In memory they are some times as large."""


@dataclass
class Deleted:
    """The positions that deletes remove, by data file: distinct, in order."""

    by_path: dict[str, "array[int]"] = field(default_factory=dict)

    def staying(self, file: LiveFile, start: int, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Array]:
        """The rows that no delete removes, of those that begin at a position; and the position of each."""
        positions: Sequence[int] = self.by_path.get(normalised(file.path), ())
        end = start + rows.num_rows
        low, high = bisect_left(positions, start), bisect_left(positions, end)
        places = pa.arange(start, end)
        if low == high:
            return rows, places
        keep = pc.invert(pc.is_in(places, value_set=pa.array(positions[low:high], type=pa.int64())))
        return rows.filter(keep), places.filter(keep)

    def positions(self, file: LiveFile) -> "array[int]":
        """The positions of a data file that are deleted; those behind its end delete nothing."""
        positions = self.by_path.get(normalised(file.path), array("q"))
        return positions[bisect_left(positions, 0) : bisect_left(positions, file.rows)]

    def count(self, file: LiveFile) -> int:
        """How many rows of a data file are deleted."""
        positions: Sequence[int] = self.by_path.get(normalised(file.path), ())
        return bisect_left(positions, file.rows) - bisect_left(positions, 0)


def deleted_rows(
    io: FileIO, job: CompactionJob, metadata: TableMetadata, constants: Mapping[int, Any], sums: RowSums
) -> Deleted:
    """What the job's delete files say about the files that they may name, and not about younger ones.

    The sums read the same files, and find out for themselves.

    Args:
        io: the table's files.
        job: what is read.
        metadata: of the table.
        constants: values of columns that data files lack, by field id.
        sums: of the job's files.

    Raises:
        RefusalError: a delete file cannot be read, or spells the path of such a file in another way than manifests do.
    """
    named = job.named_files
    # Eight bytes for a position: there may be a hundred million.
    found = [array("q") for _ in named]
    for number, positions in _by_vectors(io, job, sums):
        found[number].extend(positions)
    # Of a data file with a vector readers ask no position-delete file: the vector says it all.
    have_none = [not positions for positions in found]
    paths = pa.array([normalised(file.path) for file in named], pa.string())
    written_at = pa.array([file.sequence_number for file in named], pa.int64())
    spellings: dict[str, set[str]] = {}
    for file, has_none in zip(named, have_none, strict=True):
        if has_none:
            spellings.setdefault(normalised(file.path), set()).add(file.path)
    asked = pc.if_else(pa.array(have_none, pa.bool_()), paths, None)
    for delete, near in _each(io, job.position_deletes):
        with blaming(delete.path), near as path:
            for number, positions in _positions_in(path, delete, asked, written_at, spellings):
                found[number].frombytes(_bytes(positions))
            sums.delete(path, delete.sequence_number, delete.rows)
    for number, positions in _by_keys(io, job, metadata, constants, sums):
        found[number].frombytes(_bytes(positions))
    by_path = zip(paths.to_pylist(), found, strict=True)
    return Deleted({path: _distinct(positions) for path, positions in by_path if positions})


def _by_vectors(io: FileIO, job: CompactionJob, sums: RowSums) -> Iterator[tuple[int, "array[int]"]]:
    """The positions that deletion vectors remove, with the places of their files: of each file one vector at the most."""
    places = {normalised(file.path): number for number, file in enumerate(job.named_files)}
    seen: set[int] = set()
    for vector in job.deletion_vectors:
        name = vector.referenced_data_file or ""
        number = places.get(normalised(name))
        if number is None:
            continue
        file = job.named_files[number]
        if file.path != name:
            why = f"{vector.path} names {name}, and the table's manifests say {file.path}: readers take these for different files"
            raise RefusalError(Reason.TWO_SPELLINGS, why)
        if number in seen or vector.sequence_number < file.sequence_number:
            why = f"{file.path} has a second deletion vector, or one that is older than itself: no reader takes that"
            raise RefusalError(Reason.CORRUPT_FILE, why)
        seen.add(number)
        with blaming(vector.path):
            positions = positions_in(io, vector, file.rows)
        sums.delete_positions(number, positions)
        yield number, positions


def _by_keys(
    io: FileIO, job: CompactionJob, metadata: TableMetadata, constants: Mapping[int, Any], sums: RowSums
) -> Iterator[tuple[int, pa.Array]]:
    """The positions of rows that equality deletes name, with the places of their files.

    Of files that stay nothing is asked unless what is found of them will be written.
    """
    mapping = metadata.name_mapping()
    asked = job.named_files if job.converts_equality else job.data_files
    for deletes in _slices(job.equality_deletes):
        keys = {
            ids: Keys(key_columns(metadata, ids), mapping)
            for ids in dict.fromkeys(one.equality_ids for one in deletes)
        }
        for delete, near in _each(io, deletes):
            with blaming(delete.path), near as path:
                of = keys[delete.equality_ids]
                sums.add_keys(path, delete, of.columns, of.add(path, delete))
        newest = max(delete.sequence_number for delete in deletes)
        ids = frozenset(field_id for one in keys for field_id in one or ())
        older = {number: file for number, file in enumerate(asked) if file.sequence_number < newest}
        wanted = partial(names, known=ids, mapping=mapping)
        for number, (file, near) in zip(older, _each(io, [*older.values()], wanted), strict=True):
            with blaming(file.path), near as path:
                for of in keys.values():
                    for positions in of.found_in(path, file, constants):
                        yield number, positions
                sums.delete_by_keys(path, number, file, constants)
        sums.forget_keys()


def _each(
    io: FileIO, files: Sequence[LiveFile], columns: Columns | None = None
) -> Iterator[tuple[LiveFile, AbstractContextManager[str]]]:
    """Files and where they are near, in their order."""
    return zip(files, in_turn(io, files, columns), strict=True)


def _slices(deletes: Sequence[LiveFile]) -> Iterator[list[LiveFile]]:
    """As many delete files as are held at a time: what they say is a sum, and the data files are read once for each."""
    part: list[LiveFile] = []
    rows = size_bytes = 0
    for delete in deletes:
        if part and (rows + delete.rows > KEY_ROWS or size_bytes + delete.size_bytes > KEY_BYTES):
            yield part
            part, rows, size_bytes = [], 0, 0
        part.append(delete)
        rows += delete.rows
        size_bytes += delete.size_bytes
    if part:
        yield part


def _positions_in(
    path: str,
    delete: LiveFile,
    paths: pa.Array,
    written_at: pa.Array,
    spellings: Mapping[str, Collection[str]],
) -> Iterator[tuple[int, pa.Array]]:
    """The positions that a delete file names in data files that are not younger, with the places of these files.

    They come batch by batch, in no order.
    """
    parquet = pq.ParquetFile(pa.OSFile(path), pre_buffer=False, read_dictionary=["file_path"])
    if parquet.metadata.num_rows != delete.rows:
        raise RefusalError(
            Reason.CORRUPT_FILE,
            f"{delete.path} has {parquet.metadata.num_rows} rows, its manifest says {delete.rows}",
        )
    is_younger = pc.greater(written_at, pa.scalar(delete.sequence_number, pa.int64()))
    older = pc.if_else(is_younger, None, paths)
    for batch in parquet.iter_batches(columns=["file_path", "pos"], use_threads=False):
        # By the dictionary: a name is long, and there for many rows.
        names = batch.column("file_path")
        spelled = pa.array(_as_spelled(names.dictionary.to_pylist(), delete, spellings), pa.string())
        numbers = pc.index_in(spelled, value_set=older).take(names.indices)
        positions = batch.column("pos").cast(pa.int64())
        ours = pc.and_(numbers.is_valid(), positions.is_valid())
        yield from _by_number(numbers.filter(ours), positions.filter(ours))


def _as_spelled(
    names: Iterable[str], delete: LiveFile, spellings: Mapping[str, Collection[str]]
) -> Iterator[str]:
    """The names in a delete file, normalised.

    Readers compare them with the manifests letter by letter, so a file that is spelled in another way keeps its rows.
    Whether these are to be deleted nobody can say, since the table may have been moved; so they are left as they are.
    """
    for name in names:
        path = normalised(name)
        if path in spellings and set(spellings[path]) != {name}:
            raise RefusalError(
                Reason.TWO_SPELLINGS,
                f"{delete.path} names {name}, and the table's manifests say {' and '.join(sorted(spellings[path]))}: "
                "readers take these for different files",
            )
        yield path


def _by_number(numbers: pa.Array, positions: pa.Array) -> Iterator[tuple[int, pa.Array]]:
    """Positions in pieces that have one number each."""
    if pc.any(pc.less(numbers[1:], numbers[:-1])).as_py():
        order = pc.sort_indices(numbers)
        numbers, positions = numbers.take(order), positions.take(order)
    start = 0
    runs = pc.run_end_encode(numbers)
    for number, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        yield number, positions[start:end]
        start = end


def _bytes(numbers: pa.Array) -> memoryview:
    """The content of an array of 64-bit numbers without nulls."""
    return memoryview(numbers.buffers()[1])[8 * numbers.offset : 8 * (numbers.offset + len(numbers))]


def _distinct(positions: "array[int]") -> "array[int]":
    """The same positions, each once, in order."""
    view = pa.Array.from_buffers(pa.int64(), len(positions), [None, pa.py_buffer(positions)])
    if pc.all(pc.less(view[:-1], view[1:])).as_py():
        return positions
    ordered = view.take(pc.sort_indices(view))
    is_last = pa.concat_arrays([pc.not_equal(ordered[:-1], ordered[1:]), pa.array([True])])
    result = array("q")
    result.frombytes(_bytes(ordered.filter(is_last)))
    return result
