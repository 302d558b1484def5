"""One table's writer: what it still lacks is decoded, looked over, and committed together with its vector.

The order is the promise. Read the vector; leave out what stands below it; send what cannot be decoded to the dead
letters and wait for the acknowledgement; find the rows of a mirror's keys, and say the intent; commit rows and vector in
one snapshot, validated from the one at which the vector was read. A write that loses a race is computed again from the
table as it then is; one whose fate is unknown looks for its own vector first. Whatever is repeated finds its rows below
the vector.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from isotherm.contract.identity import PartitionKey, TableId
from isotherm.contract.summary import INGEST_PIPELINE, INGEST_TOKEN, INGEST_VALID_THROUGH, JOB_ID
from isotherm.runtime import clock, logs
from isotherm_ingest.announce.intents import Intents, Open
from isotherm_ingest.failures import Verdict, brief, verdict
from isotherm_ingest.plan.places import Place
from isotherm_ingest.session import FORCED
from isotherm_ingest.sql.changelog import changelog_sql, fenced_append
from isotherm_ingest.streams import Stream
from isotherm_ingest.tables import offsets
from isotherm_ingest.tables.lake import Lake, summary_of
from isotherm_ingest.tables.portion import Portion, Prepared
from isotherm_ingest.tables.preparing import Preparing
from isotherm_ingest.tables.tools import Tools
from isotherm_ingest.tables.upsert import Upsert

MAX_ATTEMPTS = 8
"""A write that loses this often competes with a writer that never rests; the table is left out for a while."""


@dataclass(frozen=True, slots=True)
class Written:
    """What came of a portion."""

    rows: int
    place: Place
    """What the table has now, by its own word, and where it went on from."""


class TableWriter:
    """Writes one table, by one thread at a time."""

    def __init__(
        self,
        name: str,
        stream: Stream,
        spark: SparkSession,
        tools: Tools,
        make_upsert: Callable[[SparkSession, Lake, Prepared], Upsert] = Upsert,
    ) -> None:
        """A writer with a Spark session of its own, so that its views and settings are nobody else's."""
        self._make_upsert = make_upsert
        self.name = name
        self._stream = stream
        self.session = spark.newSession()
        for key, value in FORCED.items():
            self.session.conf.set(key, value)
        self._tools = tools
        self._target = tools.lake.spark_name(name)
        self._preparing = Preparing(name, stream, self.session, tools)
        self._log = logs.get().bind(table=name)

    def write(self, portion: Portion) -> Written:
        """Bring the table up to the portion's end.

        Raises:
            Behind: the portion begins above what the table needs next.
            TableRefused: a person must look.
            Exception: Spark's, the catalog's or Kafka's; nothing, or everything, was committed.
        """
        try:
            return self._write(portion)
        finally:
            self._preparing.release()

    def _write(self, portion: Portion) -> Written:
        started_s = clock.monotonic_s()
        prepared = self.prepare(portion)
        if isinstance(prepared, Place):
            return Written(0, prepared)
        if prepared.survey.rows == 0:
            return Written(0, prepared.place)
        committed = self._commit(portion, prepared)
        if isinstance(committed, Place):
            return Written(0, committed)
        prepared, snapshot_id = committed
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
        return Written(
            survey.rows, replace(prepared.place, vector=offsets.positions_of(prepared.source.vector))
        )

    def prepare(self, portion: Portion) -> Prepared | Place:
        """Look at the table and the rows. Returns a mere place where the table has it all."""
        return self._preparing.prepare(portion)

    # The write itself

    def _commit(self, portion: Portion, prepared: Prepared) -> tuple[Prepared, int] | Place:
        """Write until it is in; gives what was written and the snapshot, or the table's place where it turned out to have it already."""
        with self._intent(prepared) as intent:
            attempt = 1
            while True:
                summary = self._summary(portion, prepared)
                try:
                    self._try(prepared, summary, intent)
                except Exception as err:
                    fate = verdict(err)
                    landed = self._landed(summary) if fate is Verdict.UNKNOWN else None
                    if landed is not None:
                        return prepared, landed
                    if fate is Verdict.FAILED or attempt == MAX_ATTEMPTS:
                        raise
                    attempt += 1
                    self._tell_again(prepared, intent.now, attempt, err)
                    following = self._preparing.again(portion, prepared)
                    if isinstance(following, Place):
                        return following
                    if following.survey.rows == 0:
                        return following.place
                    prepared = following
                else:
                    return prepared, self._landed(summary) or 0

    def _try(self, prepared: Prepared, summary: Mapping[str, str], intent: "_Standing") -> None:
        if self._stream.mode == "changelog":
            rows = self.session.sql(changelog_sql(prepared.view, prepared.now.columns))
            fenced_append(rows, self._target, prepared.now.head, summary)
            return
        upsert = self._make_upsert(self.session, self._tools.lake, prepared)
        try:
            located = upsert.locate()
            intent.renew(located.partitions)
            upsert.write(located, summary, intent.widen)
        finally:
            upsert.close()

    def _summary(self, portion: Portion, prepared: Prepared) -> dict[str, str]:
        summary = {
            offsets.TOKEN_VERSION: "1",
            INGEST_PIPELINE: self._tools.pipeline,
            INGEST_TOKEN: offsets.encode(prepared.source),
            offsets.TOKEN_BATCH: str(portion.batch),
            offsets.TOKEN_TABLE: prepared.now.uuid,
        }
        if prepared.valid_through_ms is not None:
            summary[INGEST_VALID_THROUGH] = str(prepared.valid_through_ms)
        return summary

    def _landed(self, summary: Mapping[str, str]) -> int | None:
        """The snapshot with this very token."""
        for snapshot in self._preparing.now().ancestry():
            if summary_of(snapshot).get(INGEST_TOKEN) == summary[INGEST_TOKEN]:
                return snapshot.snapshot_id
        return None

    def _tell_again(self, prepared: Prepared, intent: Open | None, attempt: int, err: BaseException) -> None:
        base = prepared.now.head
        between = []
        for snapshot in self._preparing.now().ancestry():
            if snapshot.snapshot_id == base:
                break
            between.append(snapshot)
        jobs = [job for one in between if (job := summary_of(one).get(JOB_ID)) is not None]
        is_mirror = self._stream.mode == "mirror"
        event = "merge_recomputed" if is_mirror else "append_repeated"
        if is_mirror:
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
        """An intent around a mirror's write, from when its rows are found; an append needs none."""
        standing = _Standing(self._tools.intents, TableId(prepared.now.uuid, self.name))
        try:
            yield standing
        except BaseException:
            standing.close("failed")
            raise
        standing.close("committed")


class _Standing:
    """The intent of one write, over all its attempts; none for an append."""

    def __init__(self, intents: Intents, table: TableId) -> None:
        self._intents = intents
        self._table = table
        self.now: Open | None = None

    def renew(self, partitions: frozenset[PartitionKey]) -> None:
        """Begin an attempt, which touches these partitions, if any."""
        if partitions or self.now is not None:
            self.now = self._intents.open(self._table, tuple(sorted(partitions)), self.now)

    def widen(self, partitions: frozenset[PartitionKey]) -> None:
        """The attempt touches these partitions, which may be more."""
        named = tuple(sorted(partitions))
        if self.now is None:
            self.now = self._intents.open(self._table, named)
        elif self.now.partitions is not None and partitions - set(self.now.partitions):
            self.now = self._intents.widen(self.now, named)

    def close(self, outcome: str) -> None:
        if self.now is not None:
            self._intents.close(self.now, outcome)
