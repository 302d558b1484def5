"""One table's writer: what it still lacks is decoded, looked over, and committed together with its vector.

The order is the promise. Read the vector; leave out what stands below it; send what cannot be decoded to the dead
letters and wait for the acknowledgement; say the intent (a mirror); commit rows and vector in one snapshot. A write
that loses a race is computed again from the table as it then is; one whose fate is unknown looks for its own vector
first. Whatever is repeated finds its rows below the vector.
"""

# ruff: noqa: S608 (every name in the SQL is quoted, every value a literal)
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import SparkSession

from isotherm.contract.identity import TableId
from isotherm.contract.summary import (
    INGEST_PIPELINE,
    INGEST_TOKEN,
    INGEST_VALID_THROUGH,
    JOB_ID,
    property_name,
)
from isotherm.runtime import clock, logs
from isotherm_ingest.announce.intents import Intents, Open
from isotherm_ingest.dead_letters import DeadLetters
from isotherm_ingest.failures import TableRefused, Verdict, brief, verdict
from isotherm_ingest.metrics import Metrics
from isotherm_ingest.session import FORCED
from isotherm_ingest.sql.changelog import changelog_sql, fenced_append
from isotherm_ingest.sql.decode import Group, Wanted, decoded_sql
from isotherm_ingest.sql.mirror import Touched, merge_sql, newest_sql, pruning_sql
from isotherm_ingest.sql.survey import Survey, can_name_partitions, survey_of, survey_sql
from isotherm_ingest.sql.text import literal
from isotherm_ingest.streams import Stream
from isotherm_ingest.tables import offsets
from isotherm_ingest.tables.boundary import advance, valid_through
from isotherm_ingest.tables.lake import (
    CHANGELOG_COLUMNS,
    PIPELINE_PROPERTY,
    RESERVED_COLUMNS,
    Lake,
    SpecField,
    TableNow,
    create_statements,
    is_first,
    summary_of,
)
from isotherm_ingest.tables.offsets import Position, Source
from isotherm_ingest.tables.preparing import Portion, Prepared, wanted_from
from isotherm_ingest.tables.schema_fit import changes_for

MAX_ATTEMPTS = 8
"""A write that loses this often competes with a writer that never rests; the table is left out for a while."""

_creating = threading.Lock()
"""Two threads that make one namespace at the same time: a catalog may refuse one of them."""

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

CONF_PREFIX = "spark.sql.iceberg.snapshot-property."


@dataclass(frozen=True, slots=True)
class Tools:
    """What every writer uses."""

    lake: Lake
    intents: Intents
    dead_letters: DeadLetters
    metrics: Metrics
    pipeline: str


class TableWriter:
    """Writes one table, by one thread at a time."""

    def __init__(self, name: str, stream: Stream, spark: SparkSession, tools: Tools) -> None:
        """A writer with a Spark session of its own, so that its tokens are nobody else's."""
        self.name = name
        self._stream = stream
        self._session = spark.newSession()
        for key, value in FORCED.items():
            self._session.conf.set(key, value)
        self._tools = tools
        self._view = "decoded"  # of this session alone
        self._target = tools.lake.spark_name(name)
        self._running: dict[Position, int] = {}
        self._log = logs.get().bind(table=name)

    def vector(self) -> dict[str, dict[int, int]]:
        """What the table has, by its own word; empty where there is no table yet."""
        now = self._tools.lake.load(self.name)
        token = None if now is None else now.token(self._tools.pipeline)
        return {} if token is None else offsets.merge(token.source.vector)

    def write(self, portion: Portion) -> int:
        """Bring the table up to the portion's end; gives the rows that were written.

        Raises:
            TableRefused: a person must look.
            Exception: Spark's, the catalog's or Kafka's; nothing, or everything, was committed.
        """
        started_s = clock.monotonic_s()
        prepared = self._prepare(portion)
        if prepared is None or prepared.survey.rows == 0:
            return 0
        snapshot_id = self._commit(portion, prepared)
        if snapshot_id is None:
            return 0
        survey = prepared.survey
        metrics = self._tools.metrics
        metrics.rows.labels(self.name).inc(survey.rows)
        metrics.commits.labels(self.name).inc()
        lag_s = None if survey.newest_ms is None else (clock.now_ms() - survey.newest_ms) / 1000
        if lag_s is not None:
            metrics.lag_seconds.labels(self.name).set(lag_s)
        self._log.info(
            "table_committed",
            mode=self._stream.mode,
            rows=survey.rows,
            snapshot_id=snapshot_id,
            seconds=round(clock.monotonic_s() - started_s, 3),
            batch=portion.batch,
            lag_seconds=lag_s,
        )
        return survey.rows

    # What is to be written

    def _prepare(self, portion: Portion, *, again: bool = False) -> Prepared | None:
        """Look at the table and the rows; None: the table has it all."""
        now = self._tools.lake.load(self.name) or self._create(portion.groups)
        source, valid_through_ms = self._progress(now, portion)
        from_offsets = wanted_from(source, portion)
        if from_offsets is None:
            return None
        now, groups = self._made_to_fit(now, portion, tell=not again)
        key = self._key(groups) if self._stream.mode == "mirror" else ()
        columns = {name: kind for name, kind in now.columns.items() if not self._is_about(name)}
        partitioned_by = self._partitioned_by(now, key)
        before = tuple(dict.fromkeys(field.column for field, _ in partitioned_by))
        wanted = Wanted(columns, key, before, from_offsets)
        if not groups:
            return None
        decoded = self._session.sql(decoded_sql(portion.view, groups, wanted))
        if self._tune(portion):
            decoded = decoded.coalesce(1)
        decoded.createOrReplaceTempView(self._view)
        survey = self._survey(columns, partitioned_by)
        if survey.problems and not again:
            bad = self._session.sql(f"SELECT * FROM {self._view} WHERE _problem IS NOT NULL")
            count = self._tools.dead_letters.send(bad)
            self._log.warning("dead_lettered", rows=count, batch=portion.batch)
        unavailable = {
            column.name: column
            for group in groups
            for column in group.schema.columns
            if survey.unavailable and column.kind.placeholder is not None and column.name not in key
        }
        next_vector = offsets.merge(
            source.vector, offsets.vector_of({position: end for position, (_, end) in portion.ranges.items()})
        )
        return Prepared(
            now,
            columns,
            key,
            unavailable,
            self._view,
            from_offsets,
            Source(next_vector, portion.cluster, {**source.topic_ids, **portion.topic_ids}),
            survey,
            self._boundary(survey, next_vector, portion, valid_through_ms),
        )

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

    def _made_to_fit(
        self, now: TableNow, portion: Portion, *, tell: bool
    ) -> tuple[TableNow, tuple[Group, ...]]:
        """The table, altered where it must be, and the groups whose rows fit into it."""
        good: list[Group] = []
        for group in portion.groups:
            misfit, changes = changes_for(now.columns, group)
            if misfit is None:
                good.append(group)
            elif tell:
                self._refuse_group(portion, group, misfit)
            for change in changes:
                self._session.sql(f"ALTER TABLE {self._target} {change}")
                self._log.info("table_altered", change=change)
            if changes:
                now = self._load()
        return now, tuple(good)

    def _load(self) -> TableNow:
        now = self._tools.lake.load(self.name)
        if now is None:
            raise TableRefused(f"table {self.name} was dropped while it was written")
        return now

    def _create(self, groups: Sequence[Group]) -> TableNow:
        columns: dict[str, str] = {}
        for group in groups:
            for column in group.schema.columns:
                columns.setdefault(column.name, column.kind.type)
        lower = {name.lower() for name in columns}
        for name in sorted(lower & RESERVED_COLUMNS):
            raise TableRefused(f"column {name!r} of the source has the name of one of Iceberg's own columns")
        for field in self._stream.spec:
            if field.column.lower() not in lower:
                raise TableRefused(
                    f"partition_by names {field.column!r}, which {self.name} does not have: {sorted(columns)}"
                )
        if self._stream.mode == "changelog":
            clash = sorted(lower & set(CHANGELOG_COLUMNS))
            if clash:
                raise TableRefused(
                    f"column {clash[0]!r} of the source has the name of a changelog's own column"
                )
            columns |= CHANGELOG_COLUMNS
        properties = {**self._stream.table_properties, PIPELINE_PROPERTY: self._tools.pipeline}
        statements = create_statements(
            self._tools.lake, self.name, columns, self._stream.partition_by, properties
        )
        with _creating:
            for statement in statements:
                self._session.sql(statement)
        self._log.info(
            "table_created", columns=len(columns), partition_by=", ".join(self._stream.partition_by)
        )
        return self._load()

    def _refuse_group(self, portion: Portion, group: Group, misfit: str) -> None:
        rows = self._session.sql(
            f"SELECT key AS _raw_key, value AS _raw_value, headers AS _raw_headers, timestamp AS _raw_timestamp, "
            f"topic AS _topic, partition AS _topic_partition, offset AS _offset, "
            f"{literal('incompatible_schema:' + misfit)} AS _problem FROM {portion.view} "
            f"WHERE topic = {literal(group.topic)} AND _schema = {group.schema_hash}L"
        )
        count = self._tools.dead_letters.send(rows)
        self._log.error("incompatible_schema", rows=count, batch=portion.batch, why=misfit)

    def _progress(self, now: TableNow, portion: Portion) -> tuple[Source, int | None]:
        """The table's vector and boundary; a table that was made by others, or lost its token, is refused."""
        token = now.token(self._tools.pipeline)
        if token is None:
            oldest = next(iter(deque(now.ancestry(), maxlen=1)), None)
            ours = now.properties.get(PIPELINE_PROPERTY) == self._tools.pipeline
            if oldest is not None and not (ours and is_first(oldest)):
                remedy = property_name(self._tools.pipeline)
                raise TableRefused(
                    f"{self.name} has snapshots and no token of pipeline {self._tools.pipeline!r}: writing could double "
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
                f"{self.name} has no key: its messages have none, and its stream names none (`key:`)"
            )
        for group in groups:
            missing = [
                name for name in key if name.lower() not in {one.name.lower() for one in group.schema.columns}
            ]
            if missing:
                raise TableRefused(f"key column {missing[0]!r} is no column of {self.name}")
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
            raise TableRefused(f"event_time {name!r} is no column of {self.name}: {sorted(columns)}")
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

    # The write itself

    def _commit(self, portion: Portion, prepared: Prepared) -> int | None:
        """Write until it is in; gives the snapshot, or None where the table turned out to have it already."""
        with self._intent(prepared) as intent:
            attempt = 1
            while True:
                summary = self._summary(portion, prepared)
                try:
                    self._try(prepared, summary)
                except Exception as err:
                    fate = verdict(err)
                    landed = self._landed(summary) if fate is Verdict.UNKNOWN else None
                    if landed is not None:
                        return landed
                    if fate is Verdict.FAILED or attempt == MAX_ATTEMPTS:
                        raise
                    attempt += 1
                    self._tell_again(prepared, intent.now, attempt, err)
                    following = self._again(portion, prepared)
                    if following is None or following.survey.rows == 0:
                        return None
                    prepared = following
                    intent.renew(prepared.survey.touched)
                else:
                    return self._landed(summary) or 0

    def _try(self, prepared: Prepared, summary: Mapping[str, str]) -> None:
        if self._stream.mode == "changelog":
            rows = self._session.sql(changelog_sql(prepared.view, prepared.now.columns))
            fenced_append(rows, self._target, prepared.now.head, summary)
            return
        for name, value in summary.items():
            self._session.conf.set(CONF_PREFIX + name, value)
        touched = prepared.survey.touched
        names = list(prepared.columns)
        source = newest_sql(prepared.view, names, prepared.key, prepared.unavailable)
        self._session.sql(
            merge_sql(
                self._target,
                source,
                names,
                prepared.key,
                prepared.unavailable,
                None if touched is None else pruning_sql(touched),
            )
        )

    def _again(self, portion: Portion, prepared: Prepared) -> Prepared | None:
        """The same write, for the table as it is now."""
        now = self._load()
        source, _ = self._progress(now, portion)
        from_offsets = wanted_from(source, portion)
        if from_offsets is None:
            return None
        if not prepared.still_fits(now, from_offsets):
            return self._prepare(portion, again=True)
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

    def _summary(self, portion: Portion, prepared: Prepared) -> dict[str, str]:
        summary = {
            offsets.TOKEN_VERSION: "1",
            INGEST_PIPELINE: self._tools.pipeline,
            INGEST_TOKEN: offsets.encode(prepared.source),
            offsets.TOKEN_QUERY: portion.query,
            offsets.TOKEN_BATCH: str(portion.batch),
            offsets.TOKEN_TABLE: prepared.now.uuid,
        }
        if prepared.valid_through_ms is not None:
            summary[INGEST_VALID_THROUGH] = str(prepared.valid_through_ms)
        return summary

    def _landed(self, summary: Mapping[str, str]) -> int | None:
        """The snapshot with this very token."""
        for snapshot in self._load().ancestry():
            if summary_of(snapshot).get(INGEST_TOKEN) == summary[INGEST_TOKEN]:
                return snapshot.snapshot_id
        return None

    def _tell_again(self, prepared: Prepared, intent: Open | None, attempt: int, err: BaseException) -> None:
        base = prepared.now.head
        between = []
        for snapshot in self._load().ancestry():
            if snapshot.snapshot_id == base:
                break
            between.append(snapshot)
        jobs = [job for one in between if (job := summary_of(one).get(JOB_ID)) is not None]
        event = "append_repeated" if intent is None else "merge_recomputed"
        if intent is not None:
            self._tools.metrics.recomputed.labels(self.name).inc()
        self._log.warning(
            event,
            attempt=attempt,
            intent_id=None if intent is None else intent.intent_id,
            intent_at_ms=None if intent is None else intent.at_ms,
            base_snapshot_id=base,
            head_snapshot_id=between[0].snapshot_id if between else base,
            head_job_id=summary_of(between[0]).get(JOB_ID) if between else None,
            job_ids=jobs,
            snapshot_ids=[one.snapshot_id for one in between],
            error=brief(err),
        )

    @contextmanager
    def _intent(self, prepared: Prepared) -> Iterator["_Standing"]:
        """An intent around a mirror's MERGE; an append needs none."""
        intents = self._tools.intents if self._stream.mode == "mirror" else None
        standing = _Standing(intents, TableId(prepared.now.uuid, self.name))
        standing.renew(prepared.survey.touched)
        try:
            yield standing
        except BaseException:
            standing.close("failed")
            raise
        standing.close("committed")


class _Standing:
    """The intent of one write, over all its attempts; none for an append."""

    def __init__(self, intents: Intents | None, table: TableId) -> None:
        self._intents = intents
        self._table = table
        self.now: Open | None = None

    def renew(self, touched: Touched | None) -> None:
        if self._intents is not None:
            self.now = self._intents.open(self._table, None if touched is None else touched.keys, self.now)

    def close(self, outcome: str) -> None:
        if self.now is not None and self._intents is not None:
            self._intents.close(self.now, outcome)
