"""From what a batch holds to a write that can be tried: the table and the rows are looked over.

What stands below the table's vector is left out, and what cannot be decoded goes to the dead letters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from isotherm.contract.summary import property_name
from isotherm.runtime import clock, logs
from isotherm_ingest.decode.changes import decoder
from isotherm_ingest.decode.statement import Wanted
from isotherm_ingest.decode.workers import decode_in_workers
from isotherm_ingest.failures import TableRefused
from isotherm_ingest.plan.places import Found, Place, place
from isotherm_ingest.sql.raw import Group, letters_sql, messages_sql
from isotherm_ingest.sql.survey import Survey, survey_of, survey_sql
from isotherm_ingest.streams import Stream
from isotherm_ingest.tables import offsets
from isotherm_ingest.tables.boundary import advance, valid_through
from isotherm_ingest.tables.definition import key_of, missing_properties, refuse_without
from isotherm_ingest.tables.lake import CHANGELOG_COLUMNS, PIPELINE_PROPERTY, TableNow, is_first
from isotherm_ingest.tables.offsets import Position, Source
from isotherm_ingest.tables.portion import Halted, Portion, Prepared, wanted_from
from isotherm_ingest.tables.schema_fit import SchemaFit
from isotherm_ingest.tables.tools import Tools

SMALL = 20_000
"""Messages up to which a batch is small: one task, no generated code. Compiling a new class for the literals of each
batch takes longer than interpreting a few thousand rows."""

SMALL_TABLE = 200_000
"""Rows of a mirror up to which it is looked through without generated code: a million rows take 0.8 CPU-seconds more."""

INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}

SMALL_CONF = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    **INTERPRETED,
    "spark.sql.iceberg.distribution-mode": "none",
}


class Preparing:
    """Prepares the writes of one table."""

    def __init__(self, name: str, stream: Stream, session: SparkSession, tools: Tools) -> None:
        self._name = name
        self._stream = stream
        self._session = session
        self._tools = tools
        self._view = "decoded"  # of this session alone
        self._fit = SchemaFit(name, stream, session, tools)
        self._running: dict[Position, int] = {}
        self._decoded: DataFrame | None = None
        self._untold: frozenset[str] = frozenset()
        self._log = logs.get().bind(table=name)

    def prepare(self, portion: Portion) -> Prepared | Place:
        """Look at the table and the rows. Returns a mere place where the table has it all.

        Raises:
            Behind: the batch begins above what the table needs next.
            TableRefused: a person must look.
        """
        found = self._tools.lake.load(self._name)
        at, source, valid_through_ms = self._progress(found, portion)
        from_offsets = wanted_from(at, portion)
        if from_offsets is None:
            return at
        now = self._defined(found, portion)
        at = replace(at, uuid=now.uuid)
        read_at = now.head if found is None else found.head
        now, groups = self._fit.made_to_fit(now, portion, from_offsets)
        if now.head != read_at:  # the vector and the head must be of one moment
            return self.prepare(portion)
        key = now.named(key_of(self._name, self._stream, groups))
        columns = {name: kind for name, kind in now.columns.items() if not self._is_about(name)}
        if not groups:
            return at
        wanted = Wanted(
            tuple(columns),
            key,
            keeps=self._stream.mode == "mirror",
            source_parts=self._stream.source_parts,
            out_of_range=self._stream.out_of_range,
        )
        self._decode(portion, groups, now, wanted, from_offsets)
        survey = self._survey(columns)
        if survey.problems:
            bad = self._session.sql(letters_sql(portion.view, self._view))
            count = self._tools.dead_letters.send(bad)
            self._log.warning("dead_lettered", rows=count, batch=portion.batch)
        self._tell_untold(survey)
        next_vector = offsets.merge(
            source.vector, offsets.vector_of({position: end for position, (_, end) in portion.ranges.items()})
        )
        return Prepared(
            now,
            at,
            columns,
            key,
            tuple(name for name in columns if name in survey.kept),
            self._view,
            from_offsets,
            Source(next_vector, portion.cluster, {**source.topic_ids, **portion.kafka.ids}),
            survey,
            self._boundary(survey, next_vector, portion, valid_through_ms),
        )

    def _decode(
        self,
        portion: Portion,
        groups: Sequence[Group],
        now: TableNow,
        wanted: Wanted,
        from_offsets: Mapping[Position, int],
    ) -> None:
        """Have the view of the decoded rows, kept until `release`: what looks them over and what writes them read it."""
        self.release()
        columns = now.arrow_columns(wanted.columns)
        decoders = {
            (group.topic, group.schema_hash): decoder(group.schema, columns, wanted) for group in groups
        }
        schema = from_arrow_schema(next(iter(decoders.values())).schema, prefer_timestamp_ntz=True)
        raw = self._session.sql(messages_sql(portion.view, groups, from_offsets))
        tasks = 1 if self._tune(portion, now) else self._session.sparkContext.defaultParallelism
        decoded = raw.coalesce(tasks).mapInArrow(decode_in_workers(decoders), schema)
        self._decoded = decoded.persist(StorageLevel.MEMORY_AND_DISK)
        self._decoded.createOrReplaceTempView(self._view)

    def release(self) -> None:
        """Let the decoded rows go."""
        if self._decoded is not None:
            self._decoded.unpersist()
            self._decoded = None

    def _tell_untold(self, survey: Survey) -> None:
        """Say once of each column that an unchanged large value cannot be told from null there."""
        if new := survey.untold - self._untold:
            self._untold |= new
            self._log.warning(
                "unchanged_values_not_told",
                columns=sorted(new),
                hint="null may mean unchanged there, and a key may have changed; ALTER TABLE … REPLICA IDENTITY FULL "
                "makes the source tell",
            )

    def again(self, portion: Portion, prepared: Prepared) -> Prepared | Place:
        """The same write, for the table as it is now. Raises as `prepare` does."""
        now = self._fit.load()
        at, _, _ = self._progress(now, portion)
        from_offsets = wanted_from(at, portion)
        if from_offsets is None:
            return at
        if not prepared.still_fits(now, from_offsets):
            # Other rows may not fit by now. What did not before goes to the dead letters once more, as in a replay.
            return self.prepare(portion)
        return Prepared(
            now,
            at,
            prepared.columns,
            prepared.key,
            prepared.may_keep,
            prepared.view,
            from_offsets,
            prepared.source,
            prepared.survey,
            prepared.valid_through_ms,
        )

    def now(self) -> TableNow:
        """The table as it is now, which must be there. Raises TableRefused."""
        return self._fit.load()

    def _tune(self, portion: Portion, now: TableNow) -> bool:
        """Set the session up for the portion's size; gives whether it is small."""
        is_large = self._stream.mode == "mirror" and now.rows > SMALL_TABLE
        small = sum(end - first for first, end in portion.ranges.values()) <= SMALL
        for name, value in SMALL_CONF.items():
            if small and not (is_large and name in INTERPRETED):
                self._session.conf.set(name, value)
            else:
                self._session.conf.unset(name)
        return small

    def _is_about(self, column: str) -> bool:
        return self._stream.mode == "changelog" and column in CHANGELOG_COLUMNS

    def _progress(self, now: TableNow | None, portion: Portion) -> tuple[Place, Source, int | None]:
        """Where the table goes on, its vector and its boundary. What lacks changes, or is another's, is refused."""
        pipeline = self._tools.pipeline
        token = None if now is None else now.token(pipeline)
        found = Found() if now is None else now.found(token)
        known = portion.known
        is_known = known is not None and (
            known.uuid == found.uuid or (bool(known.uuid) and self._stream.on_hole == "accept")
        )
        if now is not None and token is None and not is_known and not self._is_ours(now):
            raise TableRefused(
                f"{self._name} has snapshots and no token of pipeline {pipeline!r}: writing could double its rows. Use an "
                f'empty table, or set its property {property_name(pipeline)} to {{"topics":{{}}}} to begin at the beginning'
            )
        judged = place(found, known, portion.kafka, portion.topics, self._stream.on_hole)
        if judged.halted:
            raise Halted(self._name, judged.halted)
        ids = {} if token is None else token.source.topic_ids
        source = Source(offsets.vector_of(judged.vector), portion.cluster, ids)
        return judged, source, None if token is None else token.valid_through_ms

    def _is_ours(self, now: TableNow) -> bool:
        """Whether the table is empty, or all that it has is this pipeline's."""
        ours = now.properties.get(PIPELINE_PROPERTY) == self._tools.pipeline
        return now.oldest is None or (ours and is_first(now.oldest))

    def _defined(self, found: TableNow | None, portion: Portion) -> TableNow:
        """The table, made where there is none, that is what its stream and its messages say it is."""
        key = key_of(self._name, self._stream, portion.groups)
        if found is None:
            return self._fit.create(portion.groups, key)
        if found.head is not None:
            refuse_without(self._name, key, found.columns)
        if missing := missing_properties(self._name, self._stream, key, found.properties):
            self._fit.say(missing)
            return self._fit.load()
        return found

    def _survey(self, columns: Mapping[str, str]) -> Survey:
        name = self._stream.event_time_column
        if name is not None and name not in columns:
            raise TableRefused(f"event_time {name!r} is no column of {self._name}: {sorted(columns)}")
        timed = name is not None and columns[name] in {"TIMESTAMP", "TIMESTAMP_NTZ", "DATE"}
        event_time = (name, columns[name]) if name is not None and timed else None
        return survey_of(self._session.sql(survey_sql(self._view, event_time)).collect())

    def _boundary(
        self, survey: Survey, vector: offsets.Vector, portion: Portion, previous_ms: int | None
    ) -> int | None:
        self._running = advance(self._running, survey.reached_ms)
        topics = {group.topic for group in portion.groups}
        behind = {
            position
            for position, end in portion.kafka.ends.items()
            if position[0] in topics and (offsets.next_offset(vector, position) or 0) < end
        }
        return valid_through(self._running, behind, previous_ms, clock.now_ms())
