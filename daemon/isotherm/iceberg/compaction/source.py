"""Rows of the files that a job reads, batch by batch, and the positions that its deletes remove.

Memory holds one batch and the deleted positions; it does not grow with the partition.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.table.metadata import TableMetadata

from isotherm.core.model.files import LiveFile
from isotherm.core.model.jobs import CompactionJob
from isotherm.core.paths import normalised
from isotherm.iceberg.compaction.failures import Failure, FailureKind, RewriteError, blaming
from isotherm.iceberg.compaction.nearby import nearby
from isotherm.iceberg.compaction.projection import Node, nodes
from isotherm.iceberg.compaction.proof import Proof

BATCH_BYTES = 16 * 1024 * 1024
"""Rows are read in batches of at most about this size in memory, and of no more than `BATCH_ROWS`."""

BATCH_ROWS = 8192
"""The first batch in which rows become large holds as many: 160 MB of documents of 20 kB."""

READ_BUFFER_BYTES = 1024 * 1024


class Source:
    """A Parquet file, batch by batch, of the columns that the table still has."""

    def __init__(self, path: str, file: LiveFile, metadata: TableMetadata) -> None:
        self._parquet = pq.ParquetFile(
            pa.OSFile(path),
            buffer_size=READ_BUFFER_BYTES,
            pre_buffer=False,
            # As nanoseconds, which is PyArrow's way, 0001-01-01 and 2999-12-31 become other days.
            coerce_int96_timestamp_unit="us",
        )
        rows = self._parquet.metadata.num_rows
        if rows != file.rows:
            raise RewriteError(
                Failure(
                    FailureKind.CORRUPT_FILE,
                    f"{file.path} has {rows} rows, its manifest says {file.rows}",
                    file.path,
                )
            )
        schema = self._parquet.schema_arrow
        try:
            every = nodes(schema, metadata.name_mapping())
        except ValueError as err:
            raise RewriteError(Failure(FailureKind.CORRUPT_FILE, f"{file.path}: {err}", file.path)) from err
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
        thousand. So the batches are small, and where rows turn out to be large, the row group is begun again with
        fewer at a time.
        """
        rows = BATCH_ROWS
        for group in range(self._parquet.metadata.num_row_groups):
            done, whole = 0, self._parquet.metadata.row_group(group).num_rows
            while done < whole:
                for batch in self._of_group(group, rows, done):
                    yield batch
                    done += batch.num_rows
                    fitting = max(BATCH_BYTES * batch.num_rows // max(batch.nbytes, 1), 1)
                    if fitting <= rows // 2:
                        rows = fitting
                        break
                else:
                    break

    def _of_group(self, group: int, rows: int, start: int) -> Iterator[pa.RecordBatch]:
        """Batches of a row group from a row on: what is before it is decoded, and let go of."""
        batches = self._parquet.iter_batches(
            batch_size=rows, row_groups=[group], columns=self._names, use_threads=False
        )
        for batch in batches:
            if start >= batch.num_rows:
                start -= batch.num_rows
                continue
            yield self._chosen(batch.slice(start))
            start = 0

    def _chosen(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        places: dict[str, list[int]] = {}
        for place, name in enumerate(batch.schema.names):
            places.setdefault(name, []).append(place)
        arrays = [batch.column(places[name][number]) for name, number in self._places]
        return pa.RecordBatch.from_arrays(arrays, names=[f"c{one}" for one in range(len(arrays))])


@dataclass
class Deleted:
    """The positions that deletes remove, by data file: distinct, in order."""

    by_path: dict[str, Any] = field(default_factory=dict)

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


def deleted_positions(io: FileIO, job: CompactionJob, proof: Proof) -> Deleted:
    """What the job's delete files say about its data files: by path, by position, and not about younger files.

    The proof reads the same files, and finds out for itself.
    """
    written_at = {normalised(file.path): file.sequence_number for file in job.data_files}
    found: list[pa.RecordBatch] = []
    for delete in job.delete_files:
        older = {path for path, number in written_at.items() if delete.sequence_number >= number}
        with blaming(delete.path), nearby(io, delete.path) as path:
            found += _positions_in(path, delete, older)
            proof.delete(path, delete.sequence_number, delete.rows)
    if not found:
        return Deleted()
    table = pa.Table.from_batches(found).group_by("path", use_threads=False)
    distinct = table.aggregate([("pos", "distinct")])
    by_path = {}
    for key, positions in zip(distinct["path"], distinct["pos_distinct"], strict=True):
        ordered = positions.values.take(pc.sort_indices(positions.values))
        by_path[key.as_py()] = memoryview(ordered.buffers()[1]).cast("q")[: len(ordered)]
    return Deleted(by_path)


def _positions_in(path: str, delete: LiveFile, of: Collection[str]) -> Iterator[pa.RecordBatch]:
    """The positions that a delete file names in some data files, with those files' names in our spelling."""
    parquet = pq.ParquetFile(pa.OSFile(path), pre_buffer=False, read_dictionary=["file_path"])
    if parquet.metadata.num_rows != delete.rows:
        raise RewriteError(
            Failure(
                FailureKind.CORRUPT_FILE,
                f"{delete.path} has {parquet.metadata.num_rows} rows, its manifest says {delete.rows}",
                delete.path,
            )
        )
    for batch in parquet.iter_batches(columns=["file_path", "pos"], use_threads=False):
        # As a dictionary: there may be thousands of names, each of them for many rows.
        paths = batch.column("file_path")
        names = pa.array([normalised(one) for one in paths.dictionary.to_pylist()], pa.string())
        spelled = names.take(paths.indices)
        ours = pc.is_in(spelled, value_set=pa.array(sorted(of), pa.string()))
        found = pa.RecordBatch.from_arrays(
            [spelled, batch.column("pos").cast(pa.int64())], names=["path", "pos"]
        )
        yield found.filter(ours)
