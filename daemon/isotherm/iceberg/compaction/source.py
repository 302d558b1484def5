"""Rows of a file that a job reads, batch by batch: memory holds one."""

from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table.name_mapping import NameMapping

from isotherm.core.model.files import LiveFile
from isotherm.core.model.refusals import Reason, RefusalError
from isotherm.iceberg.compaction.projection import Node, has_ids, nodes

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
    """A Parquet file, batch by batch, of some of its columns."""

    def __init__(
        self, path: str, file: LiveFile, known: Collection[int], mapping: NameMapping | None
    ) -> None:
        """Look into its footer.

        Args:
            path: where it can be read.
            file: what its manifest says of it.
            known: the field ids of the top-level columns that are wanted.
            mapping: gives ids to the columns of files that have none.

        Raises:
            RefusalError: it is not what the manifest says, or its columns cannot be told apart.
        """
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
        self.has_ids = has_ids(schema)
        try:
            every = nodes(schema, mapping)
        except ValueError as err:
            raise RefusalError(Reason.CORRUPT_FILE, f"{file.path}: {err}") from err
        wanted = _wanted(every, known)
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


def names(footer: pq.FileMetaData, known: Collection[int], mapping: NameMapping | None) -> Collection[str]:
    """The names of the top-level columns that are read of a file with such a footer, of those of these field ids."""
    schema = footer.schema.to_arrow_schema()
    try:
        every = nodes(schema, mapping)
    except ValueError:
        # They cannot be told apart, which `Source` will say.
        return list(schema.names)
    return {schema.field(place).name for place in _wanted(every, known)}


def _wanted(columns: Sequence[Node], known: Collection[int]) -> list[int]:
    """The places of those columns that are read: one at least, for the number of rows."""
    return [place for place, column in enumerate(columns) if column.field_id in known] or [0]


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
