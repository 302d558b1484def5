"""From what a batch holds to a write that can be tried: the table and the rows are looked over.

What stands below the table's vector is left out, and what cannot be decoded goes to the dead letters.
"""

from collections import deque
from collections.abc import Mapping, Sequence

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from isotherm.contract.summary import property_name
from isotherm.runtime import clock, logs
from isotherm_ingest.decode.changes import decoder
from isotherm_ingest.decode.statement import Wanted
from isotherm_ingest.decode.workers import decode_in_workers
from isotherm_ingest.failures import TableRefused
from isotherm_ingest.sql.raw import Group, letters_sql, messages_sql
from isotherm_ingest.sql.survey import Survey, can_name_partitions, survey_of, survey_sql
from isotherm_ingest.streams import Stream
from isotherm_ingest.tables import offsets
from isotherm_ingest.tables.boundary import advance, valid_through
from isotherm_ingest.tables.lake import CHANGELOG_COLUMNS, PIPELINE_PROPERTY, SpecField, TableNow, is_first
from isotherm_ingest.tables.offsets import Position, Source
from isotherm_ingest.tables.portion import Portion, Prepared, wanted_from
from isotherm_ingest.tables.schema_fit import SchemaFit
from isotherm_ingest.tables.tools import Tools

SMALL = 20_000
"""Messages up to which a batch is small: one task, no generated code. Compiling a new class for the literals of each
batch takes longer than interpreting a few thousand rows."""

SMALL_CONF = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
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

    def prepare(self, portion: Portion) -> Prepared | None:
        """Look at the table and the rows. Returns None where the table has it all."""
        now = self._tools.lake.load(self._name) or self._fit.create(portion.groups)
        source, valid_through_ms = self._progress(now, portion)
        from_offsets = wanted_from(source, portion)
        if from_offsets is None:
            return None
        now, groups = self._fit.made_to_fit(now, portion, from_offsets)
        key = self._key(groups) if self._stream.mode == "mirror" else ()
        columns = {name: kind for name, kind in now.columns.items() if not self._is_about(name)}
        partitioned_by = self._partitioned_by(now, key)
        before = tuple(dict.fromkeys(field.column for field, _ in partitioned_by))
        if not groups:
            return None
        wanted = Wanted(
            tuple(columns),
            key,
            keeps=self._stream.mode == "mirror",
            source_parts=self._stream.source_parts,
            out_of_range=self._stream.out_of_range,
            before=before,
        )
        self._decode(portion, groups, now, wanted, from_offsets)
        survey = self._survey(columns, partitioned_by)
        if survey.problems:
            bad = self._session.sql(letters_sql(portion.view, self._view))
            count = self._tools.dead_letters.send(bad)
            self._log.warning("dead_lettered", rows=count, batch=portion.batch)
        self._tell_untold(survey)
        unavailable = [name for name in columns if survey.unavailable and name not in key]
        next_vector = offsets.merge(
            source.vector, offsets.vector_of({position: end for position, (_, end) in portion.ranges.items()})
        )
        return Prepared(
            now,
            columns,
            key,
            tuple(unavailable),
            self._view,
            from_offsets,
            Source(next_vector, portion.cluster, {**source.topic_ids, **portion.topic_ids}),
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
        tasks = 1 if self._tune(portion) else self._session.sparkContext.defaultParallelism
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
                hint="null may mean unchanged there; ALTER TABLE … REPLICA IDENTITY FULL makes the source tell",
            )

    def again(self, portion: Portion, prepared: Prepared) -> Prepared | None:
        """The same write, for the table as it is now."""
        now = self._fit.load()
        source, _ = self._progress(now, portion)
        from_offsets = wanted_from(source, portion)
        if from_offsets is None:
            return None
        if not prepared.still_fits(now, from_offsets):
            # Other rows may not fit by now. What did not before goes to the dead letters once more, as in a replay.
            return self.prepare(portion)
        return Prepared(
            now,
            prepared.columns,
            prepared.key,
            prepared.unavailable,
            prepared.view,
            from_offsets,
            prepared.source,
            prepared.survey,
            prepared.valid_through_ms,
        )

    def now(self) -> TableNow:
        """The table as it is now, which must be there. Raises TableRefused."""
        return self._fit.load()

    def _tune(self, portion: Portion) -> bool:
        """Set the session up for the portion's size; gives whether it is small."""
        small = sum(end - first for first, end in portion.ranges.values()) <= SMALL
        for name, value in SMALL_CONF.items():
            if small:
                self._session.conf.set(name, value)
            else:
                self._session.conf.unset(name)
        return small

    def _is_about(self, column: str) -> bool:
        return self._stream.mode == "changelog" and column in CHANGELOG_COLUMNS

    def _progress(self, now: TableNow, portion: Portion) -> tuple[Source, int | None]:
        """The table's vector and boundary; a table that was made by others, or lost its token, is refused."""
        token = now.token(self._tools.pipeline)
        if token is None:
            oldest = next(iter(deque(now.ancestry(), maxlen=1)), None)
            ours = now.properties.get(PIPELINE_PROPERTY) == self._tools.pipeline
            if oldest is not None and not (ours and is_first(oldest)):
                remedy = property_name(self._tools.pipeline)
                raise TableRefused(
                    f"{self._name} has snapshots and no token of pipeline {self._tools.pipeline!r}: writing could double "
                    f'its rows. Use an empty table, or set its property {remedy} to {{"topics":{{}}}} to begin at the beginning'
                )
            return Source(), None
        vector, anew = offsets.same_topics(token.source, portion.topic_ids)
        for topic in anew:
            self._log.error(
                "topic_recreated",
                topic=topic,
                was=token.source.topic_ids[topic],
                now=portion.topic_ids[topic],
            )
        return Source(vector, token.source.cluster, token.source.topic_ids), token.valid_through_ms

    def _key(self, groups: Sequence[Group]) -> tuple[str, ...]:
        key = self._stream.key or next((group.schema.key for group in groups if group.schema.key), ())
        if not key and groups:
            raise TableRefused(
                f"{self._name} has no key: its messages have none, and its stream names none (`key:`)"
            )
        for group in groups:
            missing = [
                name for name in key if name.lower() not in {one.name.lower() for one in group.schema.columns}
            ]
            if missing:
                raise TableRefused(f"key column {missing[0]!r} is no column of {self._name}")
        return key

    def _partitioned_by(self, now: TableNow, key: Sequence[str]) -> tuple[tuple[SpecField, str], ...]:
        """The spec's fields, where every one comes from a column that never changes for a key."""
        if self._stream.mode != "mirror" or not now.has_one_spec or not now.spec:
            return ()
        steady = {*self._stream.immutable, *key}
        fields = tuple((field, now.columns.get(field.column, "")) for field in now.spec)
        if all(field.column in steady and can_name_partitions(field, kind) for field, kind in fields):
            return fields
        return ()

    def _survey(
        self, columns: Mapping[str, str], partitioned_by: tuple[tuple[SpecField, str], ...]
    ) -> Survey:
        name = self._stream.event_time_column
        if name is not None and name not in columns:
            raise TableRefused(f"event_time {name!r} is no column of {self._name}: {sorted(columns)}")
        timed = name is not None and columns[name] in {"TIMESTAMP", "TIMESTAMP_NTZ", "DATE"}
        event_time = (name, columns[name]) if name is not None and timed else None
        rows = self._session.sql(
            survey_sql(self._view, event_time, partitioned_by, self._tools.lake.name)
        ).collect()
        if any(row["moved"] for row in rows):
            self._log.warning("immutable_changed", rows=sum(row["moved"] for row in rows))
        return survey_of(rows, partitioned_by)

    def _boundary(
        self, survey: Survey, vector: offsets.Vector, portion: Portion, previous_ms: int | None
    ) -> int | None:
        self._running = advance(self._running, survey.reached_ms)
        topics = {group.topic for group in portion.groups}
        behind = {
            position
            for position, end in portion.ends.items()
            if position[0] in topics and (offsets.next_offset(vector, position) or 0) < end
        }
        return valid_through(self._running, behind, previous_ms, clock.now_ms())
