"""Rows of the files that a job reads, batch by batch, and the positions that its deletes remove.

Memory holds one batch and the deleted positions; it does not grow with the partition.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.table.metadata import TableMetadata

from isotherm.contract.paths import normalised
from isotherm.core.model.files import LiveFile
from isotherm.core.model.jobs import CompactionJob
from isotherm.core.model.refusals import Reason, RefusalError
from isotherm.iceberg.compaction.failures import blaming
from isotherm.iceberg.compaction.local_copy import nearby
from isotherm.iceberg.compaction.projection import Node, nodes
from isotherm.iceberg.compaction.row_sums import RowSums

BATCH_BYTES = 16 * 1024 * 1024
"""Rows are read in batches of at most about this size in memory, and of no more than `BATCH_ROWS`."""

BATCH_ROWS = 8192
"""Where rows become large behind small ones, a batch holds as many once: 160 MB of documents of 20 kB."""

FIRST_BATCH_ROWS = 64
"""Of these nothing is known yet: 64 MB of documents of a megabyte."""

READ_BUFFER_BYTES = 1024 * 1024

ARROW_SCHEMA = b"ARROW:schema"
"""The key under which Arrow's writers keep their own schema in a footer."""


class Source:
    """A Parquet file, batch by batch, of the columns that the table still has."""

    def __init__(self, path: str, file: LiveFile, metadata: TableMetadata) -> None:
        content = pa.OSFile(path)
        self._parquet = pq.ParquetFile(
            content,
            metadata=_without_arrow(pq.read_metadata(content)),
            buffer_size=READ_BUFFER_BYTES,
            pre_buffer=False,
            # As nanoseconds, which is PyArrow's way, 0001-01-01 and 2999-12-31 become other days.
            coerce_int96_timestamp_unit="us",
        )
        rows = self._parquet.metadata.num_rows
        if rows != file.rows:
            raise RefusalError(
                Reason.CORRUPT_FILE, f"{file.path} has {rows} rows, its manifest says {file.rows}"
            )
        schema = self._parquet.schema_arrow
        try:
            every = nodes(schema, metadata.name_mapping())
        except ValueError as err:
            raise RefusalError(Reason.CORRUPT_FILE, f"{file.path}: {err}") from err
        known = {field.field_id for field in metadata.schema().fields}
        # One column at least, for the number of rows.
        wanted = [place for place, node in enumerate(every) if node.field_id in known] or [0]
        self._names = list(dict.fromkeys(schema.field(place).name for place in wanted))
        # Names may be there twice, and PyArrow takes `a` for `a.b` too: columns are told apart by their places.
        self._places = [self._place(schema.names, place) for place in wanted]
        self.columns: tuple[Node, ...] = tuple(every[place] for place in wanted)

    def _place(self, names: list[str], place: int) -> tuple[str, int]:
        """The name of a column, and how many columns before it have the same."""
        return names[place], names[:place].count(names[place])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in the order of their positions, in batches of at most about `BATCH_BYTES`.

        How much memory a row takes is only known when it is there, because a dictionary makes ten bytes of twenty
        thousand. So the first batch is small, and each is of as many rows as fit by the measure of the one before,
        but of no more than twice as many.
        """
        rows = FIRST_BATCH_ROWS
        for batch in self._parquet.iter_batches(batch_size=rows, columns=self._names, use_threads=False):
            yield self._chosen(batch)
            fitting = BATCH_BYTES * batch.num_rows // max(batch.nbytes, 1)
            rows = max(min(fitting, 2 * rows, BATCH_ROWS), 1)
            # The reader asks for it before each batch.
            self._parquet.reader.set_batch_size(rows)

    def _chosen(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        places: dict[str, list[int]] = {}
        for place, name in enumerate(batch.schema.names):
            places.setdefault(name, []).append(place)
        arrays = [batch.column(places[name][number]) for name, number in self._places]
        return pa.RecordBatch.from_arrays(arrays, names=[f"c{one}" for one in range(len(arrays))])


def _without_arrow(footer: pq.FileMetaData) -> pq.FileMetaData:
    """A footer that does not say in which layout of Arrow's its rows were when they were written.

    PyArrow would read them in that layout again: as views, lists of a fixed size, or dictionaries, whose rows take next
    to nothing until they are written.
    """
    if ARROW_SCHEMA not in (footer.metadata or {}):
        return footer
    stream = pa.BufferOutputStream()
    footer.write_metadata_file(stream)
    # These keys stand behind the names of columns; one of the same length that nobody knows leaves the rest as it is.
    before, _, behind = stream.getvalue().to_pybytes().rpartition(ARROW_SCHEMA)
    return pq.read_metadata(pa.py_buffer(before + ARROW_SCHEMA.lower() + behind))


@dataclass
class Deleted:
    """The positions that deletes remove, by data file: distinct, in order."""

    by_path: dict[str, "array[int]"] = field(default_factory=dict)

    def keep(self, file: LiveFile, start: int, rows: int) -> pa.Array:
        """A mask of the rows that stay, of those that begin at a position."""
        positions: Sequence[int] = self.by_path.get(normalised(file.path), ())
        low, high = bisect_left(positions, start), bisect_left(positions, start + rows)
        if low == high:
            return pa.repeat(pa.scalar(True), rows)
        gone = pa.array(positions[low:high], type=pa.int64())
        return pc.invert(pc.is_in(pa.arange(start, start + rows), value_set=gone))

    def count(self, file: LiveFile) -> int:
        """How many rows of a data file are deleted; positions behind its end delete nothing."""
        positions: Sequence[int] = self.by_path.get(normalised(file.path), ())
        return bisect_left(positions, file.rows)


def deleted_positions(io: FileIO, job: CompactionJob, sums: RowSums) -> Deleted:
    """What the job's delete files say about its data files: by path, by position, and not about younger files.

    The sums read the same files, and find out for themselves.
    """
    paths = pa.array([normalised(file.path) for file in job.data_files], pa.string())
    written_at = pa.array([file.sequence_number for file in job.data_files], pa.int64())
    # Eight bytes for a position: there may be a hundred million.
    found = [array("q") for _ in job.data_files]
    for delete in job.delete_files:
        with blaming(delete.path), nearby(io, delete.path) as path:
            for number, positions in _positions_in(path, delete, paths, written_at):
                found[number].frombytes(_bytes(positions))
            sums.delete(path, delete.sequence_number, delete.rows)
    by_path = zip(paths.to_pylist(), found, strict=True)
    return Deleted({path: _distinct(positions) for path, positions in by_path if positions})


def _positions_in(
    path: str, delete: LiveFile, paths: pa.Array, written_at: pa.Array
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
        spelled = pa.array([normalised(name) for name in names.dictionary.to_pylist()], pa.string())
        numbers = pc.index_in(spelled, value_set=older).take(names.indices)
        positions = batch.column("pos").cast(pa.int64())
        ours = pc.and_(numbers.is_valid(), positions.is_valid())
        yield from _by_number(numbers.filter(ours), positions.filter(ours))


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
