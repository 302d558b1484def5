"""A table is looked at before it is written: where it stands, that it is what its stream says, and what fits into it.

No message is read here. A table that is not there is made; columns that it lacks are added.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow

from isotherm.clients.storage import plain_properties
from isotherm.parquet.table_description import described
from isotherm.runtime import clock
from isotherm_ingest.dead_letter_topic import problem_of
from isotherm_ingest.decode.debezium_messages import CHANGELOG_COLUMNS, decoder
from isotherm_ingest.decode.statement import Wanted
from isotherm_ingest.failures import TableRefused
from isotherm_ingest.plan.resume_or_halt import Found, OnHole, Place, exceeded, place, recalled
from isotherm_ingest.plan.shares import count_of
from isotherm_ingest.plan.topic_metadata import Kafka
from isotherm_ingest.plan.topic_partition import Position
from isotherm_ingest.plan.truncates import Emptied, Origin, emptied
from isotherm_ingest.streams import Stream
from isotherm_ingest.tables import offset_vector
from isotherm_ingest.tables.boundary import advance, valid_through
from isotherm_ingest.tables.definition import (
    SOURCE_PROPERTY,
    key_of,
    missing_properties,
    of_other_sources,
    refuse_without,
)
from isotherm_ingest.tables.lake import TableNow, summary_of
from isotherm_ingest.tables.misfits import instead_of
from isotherm_ingest.tables.offset_vector import Source
from isotherm_ingest.tables.portion import (
    Behind,
    Group,
    Halted,
    Look,
    Portion,
    is_at,
    passed,
    wanted_from,
)
from isotherm_ingest.tables.refusals import must_be_written
from isotherm_ingest.tables.rows_of import ROWS_OF_PROPERTY, SEVERAL, doubt, rows_of, said_first
from isotherm_ingest.tables.schema_fit import SchemaFit
from isotherm_ingest.tables.sessions import Sessions
from isotherm_ingest.tables.tools import Tools
from isotherm_ingest.tables.whose import refuse_anothers
from isotherm_ingest.workers.survey import Survey
from isotherm_ingest.workers.tasks import TableTask

SMALL = 20_000
"""Messages up to which a table is written by one task."""


def judged(found: Found, portion: Portion, on_hole: OnHole, ask: Callable[[Collection[str]], Kafka]) -> Place:
    """Where the table goes on. An end that was asked before the table was read is no word that a topic was cut back.

    Another driver may have taken over meanwhile, and have read on.

    Raises:
        RuntimeError: the topic is not what it was, or nobody says where it ends.
    """
    kafka = portion.kafka
    if more := exceeded(found, portion.known, kafka, portion.topics):
        now = ask(more)
        for topic, partition in kafka.positions(more):
            if now.ids.get(topic) != kafka.ids.get(topic):
                raise RuntimeError(f"{topic} was made again while the table was looked at")
            if (topic, partition) not in now.ends:
                raise RuntimeError(f"nobody says where {topic}/{partition} ends")
        kafka = replace(kafka, ends={**kafka.ends, **{one: now.ends[one] for one in kafka.positions(more)}})
    return place(found, portion.known, kafka, portion.topics, on_hole, passed=portion.passed)


class Looking:
    """Looks at one table."""

    def __init__(self, name: str, stream: Stream, sessions: Sessions, tools: Tools) -> None:
        self._name = name
        self._stream = stream
        self._tools = tools
        self._sessions = sessions
        self._fit = SchemaFit(name, stream, sessions, tools)
        self._running: dict[Position, int] = {}

    def look(self, portion: Portion) -> Look | Place:
        """Look at the table. Returns a mere place where it has all of the portion, or nothing can be for it.

        Raises:
            Behind: the batch begins above what the table needs next.
            TableRefused: a person must look.
        """
        found = self._tools.lake.newest(self._name, lambda now: now.has_tokens(self._tools.pipeline))
        at, source, valid_through_ms = self._progress(found, portion)
        from_offsets = self._wanted_from(at, portion)
        if from_offsets is None or not portion.groups:
            return at
        if found is not None:
            must_be_written(found)  # before anything is said of it, which is a commit
        said = {} if found is None else found.properties
        had = {topic for topic, _ in at.vector}
        others = of_other_sources(self._name, self._stream, portion.groups, said, had)
        mine = tuple(group for group in portion.groups if group not in others)
        now, mine, key = self._defined(found, mine, had)
        must_be_written(now)
        read_at = None if found is None else found.head
        now, groups, misfits = self._fit.made_to_fit(now, mine, key)
        refused = others | {group: misfit(why) for group, why in misfits.items()}
        if now.head != read_at:  # the vector and the head must be of one moment
            return self.look(portion)
        seen = {position: end for position, (_, end) in portion.ranges.items()}
        seen = seen if portion.late is None else passed(at, portion)
        next_vector = offset_vector.merge(source.vector, offset_vector.vector_of(seen))
        return Look(
            now,
            replace(at, uuid=now.uuid),
            now.named(key_of(self._name, self._stream, groups, now.properties, self._fit.names(now))),
            groups,
            refused,
            from_offsets,
            source,
            Source(next_vector, portion.cluster, {**source.topic_ids, **portion.kafka.ids}, at.cuts),
            valid_through_ms,
            self._emptied(portion, at, mine, now.properties),
        )

    def _emptied(
        self, portion: Portion, at: Place, groups: Sequence[Group], said: Mapping[str, str]
    ) -> Emptied:
        """What the truncates of the portion come to."""
        sources: dict[str, set[tuple[str, str]]] = {}
        for one in groups:
            source = one.schema.source_schema or "", one.schema.source_table or ""
            sources.setdefault(one.topic, set()).add(source)
        is_of_one = self._stream.source_parts == {"schema", "table"}  # then each message is checked
        own = said.get(SOURCE_PROPERTY, "") if self._stream.has_one_source else ""
        return emptied(portion.truncates, at.next, Origin(at.vector, sources, own, is_of_one, doubt(said)))

    def task(self, portion: Portion, look: Look) -> TableTask:
        """What the workers must know to write the portion."""
        metadata = look.now.table.metadata
        columns = tuple(look.now.columns)
        in_row = [name for name in columns if not self._is_about(name)]
        arrow = schema_to_pyarrow(look.now.table.schema(), include_field_ids=False)
        kinds = [arrow.field(name).with_nullable(True) for name in in_row]
        wanted = Wanted(
            tuple(in_row),
            look.key,
            keeps=self._stream.mode == "mirror",
            source_parts=self._stream.source_parts,
            out_of_range=self._stream.out_of_range,
            required=look.now.required,
            instead_of=instead_of(look.now.table.schema()),
        )
        one = rows_of(look.now.properties) if self._stream.mode == "mirror" else None

        def of(topic: str) -> tuple[str, ...] | None:
            return None if one is None else one.source if topic == one.topic else ()

        return TableTask(
            self._name,
            described(metadata),
            plain_properties(look.now.table.io),
            columns,
            {
                (group.topic, group.number): decoder(
                    group.schema, pa.schema(kinds), replace(wanted, source=of(group.topic))
                )
                for group in look.groups
            },
            {(one.topic, one.number): why for one, why in look.refused.items()},
            look.from_offsets,
            look.key if self._stream.mode == "mirror" else (),
            is_empty=look.now.head is None or bool(look.emptied.below),
            has_ids=metadata.format_version >= 3 and look.now.head is not None,
            event_time=self._event_time(look.now),
            buckets=1 if count_of(portion.ranges) <= SMALL else self._cores,
            emptied=look.emptied,
            late=portion.late,
        )

    @property
    def _cores(self) -> int:
        """Asked for again each time: executors come late, and go."""
        return int(self._sessions.own.sparkContext.defaultParallelism)

    def again(self, portion: Portion, look: Look) -> Look | Place:
        """The same write, for the table as it is now.

        Raises:
            Behind: other rows would be written now, or otherwise; they are read again.
            TableRefused: a person must look.
        """
        now = self._fit.load()
        must_be_written(now)
        at, read, valid_through_ms = self._progress(now, portion)
        from_offsets = self._wanted_from(at, portion)
        if from_offsets is None:
            return at
        is_replayed = portion.late is not None and self._has_written_since(now, look.now.head)
        if is_replayed or not look.still_fits(now, read, from_offsets):
            raise Behind(at)
        return replace(look, now=now, place=at, valid_through_ms=valid_through_ms)

    def say_sources(self, look: Look, survey: Survey) -> None:
        """Let the table remember, before it has them, that it has rows of another source than those of before."""
        if survey.elsewhere and rows_of(look.now.properties) is not None:
            self._fit.say({ROWS_OF_PROPERTY: SEVERAL})

    def now(self) -> TableNow:
        """The table as it is now, which must be there. Raises TableRefused."""
        return self._fit.load()

    def reached(self, portion: Portion, look: Look, survey: Survey) -> int | None:
        """The boundary to announce, now that these rows have come."""
        self._running = advance(self._running, survey.reached_ms)
        behind = {
            position
            for position, end in portion.kafka.ends.items()
            if position[0] in {group.topic for group in portion.groups}
            and (offset_vector.next_offset(look.source.vector, position) or 0) < end
        }
        return valid_through(self._running, behind, look.valid_through_ms, clock.now_ms())

    def _wanted_from(self, at: Place, portion: Portion) -> dict[Position, int] | None:
        """As `wanted_from`; a replay wants what stands below the vector, and is planned again where that has moved."""
        if portion.late is None:
            return wanted_from(at, portion)
        if not is_at(at, portion):
            raise Behind(at)
        return {}

    def _has_written_since(self, now: TableNow, head: int | None) -> bool:
        """Whether this pipeline has committed since a snapshot. A vector that has not moved does not tell of replays."""
        since = takewhile(lambda one: one.snapshot_id != head, now.ancestry())
        return any(True for _ in offset_vector.tokens_in(self._tools.pipeline, map(summary_of, since)))

    def _event_time(self, now: TableNow) -> str | None:
        said = self._stream.event_time_column
        name = None if said is None else now.named([self._fit.names(now).of(said)])[0]
        columns = [one for one in now.columns if not self._is_about(one)]
        if name is not None and name not in columns:
            raise TableRefused(f"event_time {name!r} is no column of {self._name}: {sorted(columns)}")
        is_time = name is not None and now.columns[name] in {"TIMESTAMP", "TIMESTAMP_NTZ", "DATE"}
        return name if is_time else None

    def _is_about(self, column: str) -> bool:
        return self._stream.mode == "changelog" and column in CHANGELOG_COLUMNS

    def _progress(self, now: TableNow | None, portion: Portion) -> tuple[Place, Source, int | None]:
        """Where the table goes on, its vector and its boundary. What lacks changes, or is another's, is refused."""
        pipeline = self._tools.pipeline
        token = None if now is None else now.token(pipeline)
        found = Found() if now is None else now.found(token)
        known = None if portion.known is None else portion.known.as_found(found.uuid)
        if now is not None:
            refuse_anothers(now, token, known, pipeline, self._stream.on_hole)
        at = judged(found, portion, self._stream.on_hole, self._tools.ask)
        if at.halted:
            raise Halted(self._name, at)
        said = recalled(found, known)
        source = Source(offset_vector.vector_of(at.vector), portion.cluster, said.topic_ids, said.cuts)
        return at, source, None if token is None else token.valid_through_ms

    def _defined(
        self, found: TableNow | None, groups: Sequence[Group], had: Collection[str]
    ) -> tuple[TableNow, tuple[Group, ...], tuple[str, ...]]:
        """The table, made where there is none, that is what its stream and its messages say it is. Gives these as the table
        calls their columns, and its key, too.
        """
        if found is not None and any(group.is_met for group in groups):
            found = self._fit.renamed(found)
        names = self._fit.names(found).beside(group.schema for group in groups)
        groups = tuple(replace(group, schema=names.called(group.schema)) for group in groups)
        said = {} if found is None else found.properties
        key = key_of(self._name, self._stream, groups, said, names)
        if found is None:
            return self._fit.create(groups, key), groups, key
        if found.head is not None:
            refuse_without(self._name, key, found.columns)
        found = self._fit.finished(found, key)
        missing = missing_properties(self._name, self._stream, key, found.properties, groups, had, names)
        if found.head is None and self._stream.mode == "mirror" and ROWS_OF_PROPERTY not in found.properties:
            missing |= said_first(groups)
        return self._fit.saying(found, missing), groups, key


def misfit(why: str) -> str:
    """The problem of messages whose schema does not fit."""
    return problem_of("incompatible_schema", why)
