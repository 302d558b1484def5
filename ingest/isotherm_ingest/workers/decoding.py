"""The first half of the job: messages in, decoded rows out, told apart by the table that they belong to."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table.metadata import TableMetadata

from isotherm.parquet.table_description import table_of
from isotherm_ingest.decode.database import ask
from isotherm_ingest.plan.topic_partition import Position
from isotherm_ingest.workers.files import logged
from isotherm_ingest.workers.late import only
from isotherm_ingest.workers.partitions import partition_columns, without_partition
from isotherm_ingest.workers.raw_messages import NO_SCHEMA, RAW, Group, Sorter
from isotherm_ingest.workers.survey import Surveyor
from isotherm_ingest.workers.tasks import (
    CHANGES,
    COUNT,
    ERROR,
    LETTERS,
    NO_TABLE,
    SAMPLE,
    SURVEY,
    TRUNCATED,
    BatchTask,
    Line,
    Route,
    TableTask,
    as_arrow,
    as_json,
    report,
    rows_of,
)
from isotherm_ingest.workers.truncates import not_before, truncates_in, with_truncates, without_truncates

NOWHERE = -1
"""Before every offset."""
UNREADABLE = "undecodable:no readable change event"
"""The problem of messages that have a schema, and none of them says what those of the schema look like."""
SAMPLES = 100
"""Of one topic in one report: the driver holds them all, and a message may have a megabyte. Others come when it asks again."""


def decode_stage(task: BatchTask) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What Spark's `mapInArrow` calls for the messages of some Kafka partitions, each with all of its own."""

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from report(Decoding(task).lines(batches))

    return decode


class Decoding:
    """Decodes the messages of one Spark task."""

    def __init__(self, task: BatchTask) -> None:
        self._task = task
        self._sorter = Sorter(task.formats)
        self._surveyors: dict[str, Surveyor] = {}
        self._letters: dict[str, int] = {}
        self._samples: dict[Route, bool] = {}
        """Of which one was reported, and whether another one could say more."""
        self._failed: set[str] = set()
        self._metadata: dict[str, TableMetadata] = {}

    def lines(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Line]:
        """What is reported of the messages."""
        letters = self._task.letters
        for batch in batches:
            for group in self._sorter.groups(batch if letters is None else only(batch, letters)):
                yield from self._group(group)
        for name, surveyor in self._surveyors.items():
            yield Line(name, SURVEY, as_json(surveyor.found().as_json()))
        for name, count in self._letters.items():
            yield Line(name, COUNT, as_json(count))

    def _group(self, group: Group) -> Iterator[Line]:
        route = (group.topic, group.schema)
        if group.problem is not None:
            if not group.is_bookkeeping():
                yield self._letter(NO_TABLE, group.rows, group.problem)
        elif route in self._task.problems or route in self._task.routes:
            if route in self._task.problems:
                yield self._letter(NO_TABLE, group.rows, self._task.problems[route])
            lines = [self._of_one(name, group, route) for name in self._task.routes.get(route, ())]
            yield from lines[0] if len(lines) == 1 else self._once(chain.from_iterable(lines))
        elif group.schema == NO_SCHEMA:
            yield self._letter(NO_TABLE, group.rows, "no_schema:the message has no schema")
        else:
            yield from self._sampled(NO_TABLE, group, group.rows)

    def _of_one(self, name: str, group: Group, route: Route) -> Iterator[Line]:
        if name in self._failed:
            return
        try:
            yield from self._of_table(self._task.tables[name], group, route)
        except Exception as err:  # noqa: BLE001 (of one table; the others of the batch are written)
            self._failed.add(name)
            yield Line(name, ERROR, as_json(f"{type(err).__name__}: {err}"))

    def _once(self, lines: Iterable[Line]) -> Iterator[Line]:
        """The lines of several tables for the same messages. One that none of them can have is a letter of the first alone; one
        that only some cannot have is a letter that names the table.
        """
        letters: dict[str, list[pa.Table]] = {}
        for one in lines:
            if one.kind == LETTERS:
                letters.setdefault(one.table, []).append(rows_of(one.body))
            else:
                yield one
        of_each = {name: pa.concat_tables(some) for name, some in letters.items()}
        places = [set(_places(rows)) for rows in of_each.values()]
        common = set.intersection(*places) if len(places) > 1 else set()
        for number, (name, rows) in enumerate(of_each.items()):
            is_common = pa.array([place in common for place in _places(rows)], pa.bool_())
            named = pc.binary_join_element_wise(rows["problem"], f" (of {name})", "")
            at = rows.schema.get_field_index("problem")
            told = rows.set_column(at, "problem", pc.if_else(is_common, rows["problem"], named))
            kept = told if not number else told.filter(pc.invert(is_common))
            self._letters[name] -= len(rows) - len(kept)
            if len(kept):
                yield Line(name, LETTERS, as_arrow(kept))

    def _sampled(self, table: str, group: Group, rows: pa.RecordBatch) -> Iterator[Line]:
        """A sample of a group; where it has none, its rows are letters of the table. A second one, where it says more."""
        route = (group.topic, group.schema)
        if not self._samples.get(route, True):
            return
        if group.is_bookkeeping():
            return
        found = group.sample()
        if found is None:
            yield self._letter(table, rows, UNREADABLE)
            return
        is_first, is_whole = route not in self._samples, group.format.says_all(found[0])
        if is_first and sum(topic == group.topic for topic, _ in self._samples) >= SAMPLES:
            return
        if is_first or is_whole:
            self._samples[route] = not is_whole
            yield Line(NO_TABLE, SAMPLE, as_json([*route, *found]))

    def _of_table(self, table: TableTask, group: Group, route: Route) -> Iterator[Line]:
        wanted = _from(group.rows, table.from_offsets)
        if not pc.any(wanted).as_py():
            return
        if route in table.refused:
            yield self._letter(table.name, group.rows.filter(wanted), table.refused[route])
            return
        if route not in table.decoders:
            yield from self._sampled(table.name, group, group.rows.filter(wanted))
            return
        messages = group.to_decode()
        rows = group.rows
        if not pc.all(wanted).as_py():
            messages, rows = messages.filter(wanted), rows.filter(wanted)
        decoder = table.decoders[route]
        changes, left = decoder.decode(messages), decoder.left(messages)
        surveyor = self._surveyors.setdefault(table.name, Surveyor(table.event_time))
        problems = _problems(table, changes)
        broken = pc.is_valid(problems)
        bad = [rows.filter(broken)]
        if pc.any(broken).as_py():
            yield self._letter(table.name, rows.filter(broken), problems.filter(broken))
            changes = changes.filter(pc.invert(broken))
            rows = rows.filter(pc.invert(broken))
        if lost := self._without_partition(table, changes):
            told = pa.array([f"no_partition:{lost[place]}" for place in lost], pa.string())
            bad.append(rows.take(list(lost)))
            yield self._letter(table.name, bad[-1], told)
            changes = changes.filter(
                pa.array([place not in lost for place in range(changes.num_rows)], pa.bool_())
            )
        surveyor.look_at_sources(changes)
        if table.key:
            yield from self._truncates(table, changes)
            changes, left = not_before(changes, table.emptied), not_before(left, table.emptied)
        if table.late is not None:
            left = table.late.with_applied(left, pa.concat_batches(bad))
            changes, left = (table.late.of_keys(some, table.key) for some in (changes, left))
        surveyor.look(changes)
        yield from self._changes(table, without_truncates(changes) if table.key else changes, left)

    def _truncates(self, table: TableTask, changes: pa.RecordBatch) -> Iterator[Line]:
        """Those that nobody knows yet: the batch is read again, since other workers have rows of before them.

        And the one by which the table is emptied, which must still be there.
        """
        for position, offset in truncates_in(changes).items():
            if offset >= table.emptied.below.get(position, NOWHERE):
                yield Line(table.name, TRUNCATED, as_json([*position, offset]))

    def _without_partition(self, table: TableTask, changes: pa.RecordBatch) -> dict[int, str]:
        if table.name not in self._metadata:
            self._metadata[table.name] = table_of(table.description)
        lost = without_partition(self._metadata[table.name], changes.column("row"))
        if lost and table.key:  # of a row that goes, nothing is written
            ops = changes.column("change").field("op")
            lost = {place: name for place, name in lost.items() if ops[place].as_py() != "d"}
        return lost

    def _changes(self, table: TableTask, changes: pa.RecordBatch, left: pa.RecordBatch) -> Iterator[Line]:
        """What is to be written, and of rows that went to another key the old one."""
        surveyor = self._surveyors[table.name]
        if left.num_rows:
            surveyor.look(left)
            changes = pa.concat_batches([changes, left])
        if not changes.num_rows:
            return
        if table.buckets == 1:
            yield Line(table.name, CHANGES, as_arrow(changes))
            return
        buckets = _buckets(table, changes)
        for bucket in pc.unique(buckets).to_pylist():
            yield Line(table.name, CHANGES, as_arrow(changes.filter(pc.equal(buckets, bucket))), bucket)

    def _letter(self, table: str, rows: pa.RecordBatch, problems: str | pa.Array) -> Line:
        told = pa.array([problems] * len(rows), pa.string()) if isinstance(problems, str) else problems
        self._letters[table] = self._letters.get(table, 0) + len(rows)
        lettered = pa.RecordBatch.from_arrays([*rows.columns, told], names=[*RAW.names, "problem"])
        return Line(table, LETTERS, as_arrow(lettered))


def _places(rows: pa.Table) -> Iterator[tuple[int, int]]:
    """Where messages of one topic are."""
    return zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True)


def _problems(table: TableTask, changes: pa.RecordBatch) -> pa.Array:
    """Why changes are no rows; truncates are none either, where they empty nothing."""
    problems = changes.column("change").field("problem")
    why_not = table.emptied.why_not
    if table.late is not None and table.late.keys is None and table.key:
        why_not = "one that comes late empties nothing"
    return with_truncates(problems, changes, why_not) if why_not else problems


def _from(rows: pa.RecordBatch, from_offsets: Mapping[Position, int]) -> pa.Array:
    """Which messages do not stand below the table's vector; all are of one topic."""
    wanted = pa.array([True] * len(rows), pa.bool_())
    topic = rows.column("topic")[0].as_py()
    for (name, partition), offset in from_offsets.items():
        if name == topic:
            below = pc.and_(
                pc.equal(rows.column("partition"), partition), pc.less(rows.column("offset"), offset)
            )
            wanted = pc.and_(wanted, pc.invert(below))
    return wanted


def _buckets(table: TableTask, changes: pa.RecordBatch) -> pa.Array:
    """Which task writes each row: all rows of a key meet, and all rows of a changelog's partition."""
    if table.key:
        row = changes.column("row")
        # By place: a name that begins with a dot would be a path.
        columns = [pc.struct_field(row, [row.type.get_field_index(name)]) for name in table.key]
    else:
        # A changelog may be cut by what it says of each change, too.
        rows = logged(table, pa.Table.from_batches([changes]))
        columns = partition_columns(table_of(table.description), rows)
    if not columns:
        return pa.array([0] * len(changes), pa.int32())
    names = [f"k{place}" for place in range(len(columns))]
    return ask(
        f"SELECT (hash({', '.join(names)}) % {table.buckets})::INTEGER AS bucket FROM given",  # noqa: S608 (our own)
        pa.Table.from_arrays(columns, names=names),
    )["bucket"].combine_chunks()
