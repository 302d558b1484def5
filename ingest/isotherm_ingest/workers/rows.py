"""Rows that Spark has computed become data files of their table."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from isotherm_ingest.decode.debezium_messages import as_type
from isotherm_ingest.workers.files import arrow_of, files_of
from isotherm_ingest.workers.tasks import COUNT, ERROR, FILE, Line, TableTask, as_json, report

TWICE = "twice"
"""A key that several rows have."""


def rows_stage(table: TableTask) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What Spark's `mapInArrow` calls for rows in the table's columns, of which all of one key come together."""

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from report(_written(table, list(batches)))

    return write


def _written(table: TableTask, batches: Sequence[pa.RecordBatch]) -> Iterator[Line]:
    if not any(one.num_rows for one in batches):
        return
    rows = pa.Table.from_batches(batches)
    if twice := first_twice(rows, table.key):
        yield Line(table.name, TWICE, as_json(str(twice)))
        return
    try:
        kinds = arrow_of(table)
        columns = [
            as_type(rows.column(name).combine_chunks(), kinds.field(name).type) for name in table.columns
        ]
        for one in files_of(table, pa.Table.from_arrays(columns, names=list(table.columns)), table.key):
            yield Line(table.name, FILE, as_json(one))
        yield Line(table.name, COUNT, as_json(rows.num_rows))
    except Exception as err:  # noqa: BLE001 (told with the files that are written, so that the driver can delete them)
        yield Line(table.name, ERROR, as_json(f"{type(err).__name__}: {err}"))


def first_twice(rows: pa.Table, key: Sequence[str]) -> dict[str, object] | None:
    """A key that several rows have, or None."""
    counted = rows.select(list(key)).group_by(list(key)).aggregate([([], "count_all")])
    found = counted.filter(pc.greater(counted.column("count_all"), 1)).select(list(key))
    return found.slice(0, 1).to_pylist()[0] if found.num_rows else None
