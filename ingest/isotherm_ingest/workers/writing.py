"""The second half of the job: the decoded rows of each table, brought together, become data files."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc

from isotherm_ingest.decode.database import ask
from isotherm_ingest.decode.debezium_messages import as_type
from isotherm_ingest.workers.decoding import Decoding
from isotherm_ingest.workers.files import ROW_ID, files_of, logged
from isotherm_ingest.workers.late import keys_of
from isotherm_ingest.workers.newest import Newest, newest, waited
from isotherm_ingest.workers.survey import Survey
from isotherm_ingest.workers.tasks import (
    CHANGES,
    ERROR,
    FILE,
    KEYS,
    LATE,
    SURVEY,
    WAITING,
    WAITS,
    BatchTask,
    Line,
    TableTask,
    as_arrow,
    as_json,
    lines_of,
    report,
    rows_of,
)


def write_stage(task: BatchTask) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What Spark's `mapInArrow` calls for lines that are sorted by table and bucket."""

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from report(_written(task, lines_of(batches)))

    return write


def whole_stage(task: BatchTask) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Both halves at once, for all messages of a small batch."""

    def decode_and_write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        lines = sorted(Decoding(task).lines(batches), key=lambda line: (line.table, line.bucket))
        yield from report(_written(task, lines))

    return decode_and_write


def _written(task: BatchTask, lines: Iterable[Line]) -> Iterator[Line]:
    for (name, _), of_table in groupby(lines, lambda line: (line.table, line.bucket)):
        bodies: list[bytes] = []
        for line in of_table:
            if line.kind == CHANGES:
                bodies.append(line.body)
            else:
                yield line
        if bodies:
            try:
                yield from write(task.tables[name], pa.concat_tables(map(rows_of, bodies)))
            except Exception as err:  # noqa: BLE001 (of one table; the others of the batch are written)
                yield Line(name, ERROR, as_json(f"{type(err).__name__}: {err}"))


def write(table: TableTask, changes: pa.Table) -> Iterator[Line]:
    """Write the changes of a table as they are to be seen in it; what must wait is handed back.

    Args:
        table: what is known of the table.
        changes: decoded, and without problems: all changes of their keys.
    """
    if not table.key:
        yield from _files(table, files_of(table, logged(table, changes)))
        if table.late is not None:
            yield Line(table.name, LATE, table.late.made(changes).as_json())
        return
    if table.late is not None and table.late.keys is None:
        yield Line(table.name, LATE, table.late.made(changes).as_json())
        yield Line(
            table.name, KEYS, as_arrow(pa.Table.from_arrays(keys_of(changes, table.key), list(table.key)))
        )
        return
    found = newest(changes, table.key)
    if table.late is not None:
        found, made = table.late.chosen(found, changes, table.key)
        yield Line(table.name, LATE, made.as_json())
        if not found.rows.num_rows:
            return
    yield Line(table.name, KEYS, as_arrow(plain(found.rows.select(list(table.key)))))
    if table.emptied.below and (untold := lost_values(table, found)):
        yield Line(table.name, SURVEY, as_json(Survey(untold=untold).as_json()))
    if not table.is_empty and (table.has_ids or found.must_wait):
        yield Line(table.name, WAITS, b"")
        yield Line(table.name, WAITING, as_arrow(found.waiting()))
        return
    rows = found.written().rows
    if rows.num_rows:
        yield from _files(table, files_of(table, rows, table.key))


def lost_values(table: TableTask, found: Newest) -> frozenset[str]:
    """Columns of which a large value was left out of a change, since it was in the row that a truncate took."""
    left_out = {one.columns.names[number] for one in table.decoders.values() for number in one.may_be_kept}
    written = found.written().kept
    return frozenset(name for name, mask in written.items() if name in left_out and pc.any(mask).as_py())


def fill_stage(
    table: TableTask, old: bytes, kept: Sequence[str]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What `mapInArrow` calls for the lines of waiting rows, once the rows are found in whose place they come.

    Args:
        table: what is known of the table.
        old: of the found rows the key as `k0`, `k1`, …, and the values of `kept` as `o0`, `o1`, ….
        kept: columns of the table that are in `old`; the last one is `_row_id` where rows have ids.
    """

    def fill(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from report(_filled(table, lines_of(batches), rows_of(old), kept))

    return fill


def _filled(table: TableTask, lines: Iterable[Line], old: pa.Table, kept: Sequence[str]) -> Iterator[Line]:
    try:
        for line in lines:
            rows = filled(table, rows_of(line.body), old, kept)
            if rows.num_rows:
                yield from _files(table, files_of(table, rows, table.key))
    except Exception as err:  # noqa: BLE001 (told with the files that are written, so that the driver can delete them)
        yield Line(table.name, ERROR, as_json(f"{type(err).__name__}: {err}"))


def filled(table: TableTask, waiting: pa.Table, old: pa.Table, kept: Sequence[str]) -> pa.Table:
    """The rows to write: with the values that stay, and the ids, of the rows in whose place they come."""
    found = waited(waiting, len(table.columns)).written()
    places = _places(found.rows.select(list(table.key)), old)
    values = dict(zip(found.rows.column_names, found.rows.columns, strict=True))
    for place, name in enumerate(kept):
        before = old.column(f"o{place}").combine_chunks().take(places)
        if name == ROW_ID.name:
            values[name] = before.cast(pa.int64())
        elif name in found.kept:
            values[name] = _chosen(found.kept[name], before, values[name])
    return pa.Table.from_arrays(list(values.values()), names=list(values))


def _chosen(mask: pa.Array, first: pa.Array, second: pa.ChunkedArray) -> pa.Array:
    """By row the one or the other, whatever their type: `if_else` does not take all."""
    both = pa.chunked_array([as_type(first, second.type), *second.chunks]).combine_chunks()
    here = pa.array(range(len(mask)), pa.int64())
    return both.take(pc.if_else(mask, here, pc.add(here, len(mask))))


def _places(keys: pa.Table, old: pa.Table) -> pa.Array:
    """Of each key the place of its row in `old`, or null."""
    names = [f"k{place}" for place in range(keys.num_columns)]
    sides = [
        plain(side).append_column("place", pa.array(range(side.num_rows), pa.int64()))
        for side in (keys.rename_columns(names), old.select(names))
    ]
    schema = sides[0].schema
    is_new = [pa.array([True] * keys.num_rows, pa.bool_()), pa.array([False] * old.num_rows, pa.bool_())]
    rows = pa.concat_tables(
        [side.cast(schema).append_column("is_new", flag) for side, flag in zip(sides, is_new, strict=True)]
    )
    by = ", ".join(names)
    found = ask(
        f"SELECT max(place) FILTER (WHERE is_new) AS new, min(place) FILTER (WHERE NOT is_new) AS old FROM given GROUP BY {by} "  # noqa: S608 (our own names)
        "HAVING bool_or(is_new) ORDER BY new",
        rows,
    )
    return found["old"].combine_chunks()


def plain(rows: pa.Table) -> pa.Table:
    """Rows in the types that Spark has."""
    return pa.Table.from_arrays([_plain(column) for column in rows.columns], names=rows.column_names)


def _plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    match values.type:
        case pa.UuidType():
            return pa.chunked_array(
                [[None if one is None else str(one) for one in values.to_pylist()]], pa.string()
            )
        case kind if kind == pa.large_string():
            return values.cast(pa.string())
        case kind if kind == pa.large_binary():
            return values.cast(pa.binary())
        case _:
            return values


def _files(table: TableTask, files: Iterable[Mapping[str, object]]) -> Iterator[Line]:
    for one in files:
        yield Line(table.name, FILE, as_json(one))
