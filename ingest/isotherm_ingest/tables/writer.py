"""One table's writer: it looks at the table before a batch, and commits what the workers made of it with the new vector.

The order is the promise. Read the vector; have the workers leave out what stands below it, and write files; send what
cannot be decoded to the dead letters and wait for the acknowledgement; find the rows of a mirror's keys, and say the
intent; commit rows and vector in one snapshot, validated from the one at which the vector was read. A commit that loses
a race is tried again on the table as it then is; one whose fate is unknown looks for its own vector first. Whatever is
repeated finds its rows below the vector.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import SparkSession

from isotherm.contract.identity import PartitionKey, TableId
from isotherm.contract.summary import INGEST_PIPELINE, INGEST_TOKEN, INGEST_VALID_THROUGH, JOB_ID
from isotherm.runtime import clock, logs
from isotherm_ingest.announce.intents import Intents, Open
from isotherm_ingest.dead_letter_topic import Sent
from isotherm_ingest.failures import Overtaken, Verdict, WorkFailed, brief, verdict
from isotherm_ingest.plan.resume_or_halt import Place
from isotherm_ingest.plan.truncates import UNORDERED
from isotherm_ingest.streams import Stream
from isotherm_ingest.tables import offset_vector
from isotherm_ingest.tables.java_table import Committed, JavaTable
from isotherm_ingest.tables.lake import Lake, TableNow, summary_of
from isotherm_ingest.tables.looking import Looking
from isotherm_ingest.tables.portion import Done, Look, Portion, Ready
from isotherm_ingest.tables.sessions import Sessions
from isotherm_ingest.tables.tools import Tools
from isotherm_ingest.tables.upsert import Upsert
from isotherm_ingest.workers.survey import Survey

MAX_ATTEMPTS = 8
"""A write that loses this often competes with a writer that never rests; the table is left out for a while."""
UNORDERED_HINT = (
    "the table keeps its rows; compare it with its source, delete what is gone there, or build it anew"
)
MOST_LOOKS = 3
"""At a table before one attempt: one before the intent stands, and one after each time that it says more."""


@dataclass(frozen=True, slots=True)
class Written:
    """What came of a portion."""

    rows: int
    place: Place
    """What the table has now, by its own word, and where it went on from."""
    now: TableNow | None = None
    """The table after the commit, as far as announcing needs it; None where it must be loaded for that."""


class TableWriter:
    """Writes one table, by one thread at a time."""

    def __init__(
        self,
        name: str,
        stream: Stream,
        sessions: Sessions,
        tools: Tools,
        make_upsert: Callable[[SparkSession, Lake, Look, Done], Upsert] = Upsert,
    ) -> None:
        """A writer that uses the session of the thread by which it is called, from beginning to end."""
        self._make_upsert = make_upsert
        self.name = name
        self._stream = stream
        self._sessions = sessions
        self._tools = tools
        self._target = tools.lake.spark_name(name)
        self._looking = Looking(name, stream, sessions, tools)
        self._sent = Sent()
        self._untold: frozenset[str] = frozenset()
        self._log = logs.get().bind(table=name)

    def prepare(self, portion: Portion) -> Ready | Place:
        """Look at the table before anything is read for it. Returns a mere place where it lacks nothing.

        Raises:
            Behind: the batch begins above what the table needs next.
            TableRefused: a person must look.
        """
        look = self._looking.look(portion)
        if isinstance(look, Place):
            return look
        return Ready(portion, look, self._looking.task(portion, look))

    def write(self, ready: Ready, done: Done) -> Written:
        """Commit what the workers have written.

        Raises:
            Behind: the table is another one meanwhile; the portion is read again.
            TableRefused: a person must look.
            Exception: Spark's, the catalog's or Kafka's; nothing, or everything, was committed.
        """
        portion, look = ready.portion, ready.look
        started_s = clock.monotonic_s()
        standing = _Standing(self._tools.intents, TableId(look.now.uuid, self.name))
        try:
            if done.error is not None:
                raise WorkFailed(done.error)
            self._send_letters(portion, look, done)
            self._tell_untold(done.survey)
            if done.survey.rows == 0:
                self._sent.forget(portion.ranges)
                return Written(0, look.place)
            self._looking.say_sources(look, done.survey)
            # Of rows that come late nothing is learned about how far the stream is.
            is_late = portion.late is not None
            boundary_ms = (
                look.valid_through_ms if is_late else self._looking.reached(portion, look, done.survey)
            )
            with standing.closed():
                committed = self._commit(portion, look, done, boundary_ms, standing)
        finally:
            if not standing.is_asked:
                self.forget(ready, done)
        self._sent.forget(portion.ranges)
        if isinstance(committed, Place):
            return Written(0, committed)
        landed, place = committed
        self._tell(portion, look, done.survey, landed.snapshot_id, clock.monotonic_s() - started_s)
        vector = offset_vector.positions_of(look.source.vector)
        return Written(done.survey.rows, replace(place, vector=vector), landed.now)

    def forget(self, ready: Ready, done: Done) -> None:
        """Delete files that no commit was ever asked to add."""
        io = ready.look.now.table.io
        for file in done.files:
            try:
                io.delete(file["file-path"])
            except Exception as err:  # noqa: BLE001 (whatever storage says: it stays until orphans are removed)
                self._log.warning("file_not_deleted", path=file["file-path"], error=brief(err))

    def _send_letters(self, portion: Portion, look: Look, done: Done) -> None:
        if not done.letter_count or portion.late is not None:  # a replay finds them there, and leaves them
            return
        problems = Counter[str]()

        def counted() -> Iterator[pa.Table]:
            for some in self._sent.unsent(done.letters()):
                problems.update(some.column("problem").to_pylist())
                yield some

        if count := self._tools.dead_letters.send(counted()):
            self._log.warning("dead_lettered", rows=count, batch=portion.batch)
        for why in sorted(set(look.refused.values())):
            # Of all schemas that are known; the batch may have had none of them.
            if rows := problems[why]:
                event, _, text = why.partition(":")
                self._log.error(event, rows=rows, batch=portion.batch, why=text)
        for why in sorted(one for one in problems if one.startswith(UNORDERED)):
            _, _, text = why.partition(":")
            self._log.error(UNORDERED, rows=problems[why], batch=portion.batch, why=text, hint=UNORDERED_HINT)

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

    def _tell(self, portion: Portion, look: Look, survey: Survey, snapshot_id: int, seconds: float) -> None:
        metrics = self._tools.metrics
        metrics.rows.labels(self.name).inc(survey.rows)
        metrics.commits.labels(self.name).inc()
        lag_s = None if survey.newest_ms is None else (clock.now_ms() - survey.newest_ms) / 1000
        if lag_s is not None:
            metrics.lag_seconds.labels(self.name).set(lag_s)
        if look.emptied.below:
            self._log.info("table_emptied", batch=portion.batch, snapshot_id=snapshot_id)
        self._log.info(
            "table_committed",
            mode=self._stream.mode,
            rows=survey.rows,
            snapshot_id=snapshot_id,
            seconds=round(seconds, 3),
            batch=portion.batch,
            lag_seconds=lag_s,
        )

    # The commit itself

    def _commit(
        self, portion: Portion, look: Look, done: Done, boundary_ms: int | None, intent: "_Standing"
    ) -> tuple[Committed, Place] | Place:
        """Try until it is in; gives what came of it, or the table's place where it turned out to have it already."""
        summary = self._summary(portion, look, boundary_ms)
        attempt, looks = 1, 1
        while True:
            try:
                return self._try(look, done, summary, intent, looks), look.place
            except Overtaken:
                # What was found in a table of before the intent stood would be refused for each file that maintenance
                # has replaced meanwhile.
                looks += 1
            except Exception as err:
                fate = verdict(err)
                landed = self._landed(summary) if fate is Verdict.UNKNOWN else None
                if landed is not None:
                    return Committed(landed), look.place
                if fate is Verdict.FAILED or attempt == MAX_ATTEMPTS:
                    raise
                attempt += 1
                intent.was_lost = True
                self._tell_again(look, intent.now, attempt, err)
            following = self._looking.again(portion, look)
            if isinstance(following, Place):
                return following
            look = following

    def _try(
        self, look: Look, done: Done, summary: Mapping[str, str], intent: "_Standing", looks: int
    ) -> Committed:
        """Commit once. Where the table moved on between the look and the intent, Overtaken asks for another look.

        So it is with what the intent names by the rows that are written, and once more with what it names by those that were
        located. Other tables' writers, and maintenance of other partitions, may commit all the time: no third look is asked for.
        """
        if look.emptied.below:
            intent.name_all()
            table = JavaTable(self._sessions.own, self._target, look.now)
            intent.is_asked = True
            return table.replace_all(done.files, summary)
        if self._stream.mode == "changelog":
            table = JavaTable(self._sessions.own, self._target, look.now)
            intent.is_asked = True
            return table.append(done.files, summary)
        upsert = self._make_upsert(self._sessions.own, self._tools.lake, look, done)
        try:
            intent.renew(upsert.row_partitions)
            if looks == 1 and upsert.is_overtaken():
                raise Overtaken(f"{self.name} has moved on since it was looked at")
            located = upsert.locate()
            if intent.name(located.partitions) and looks < MOST_LOOKS and upsert.is_overtaken():
                raise Overtaken(f"{self.name} has moved on since its rows were looked for")
            return upsert.write(located, summary, intent.widen)
        finally:
            upsert.close()

    def _summary(self, portion: Portion, look: Look, boundary_ms: int | None) -> dict[str, str]:
        summary = {
            offset_vector.TOKEN_VERSION: "1",
            INGEST_PIPELINE: self._tools.pipeline,
            INGEST_TOKEN: offset_vector.encode(look.source),
            offset_vector.TOKEN_BATCH: str(portion.batch),
            offset_vector.TOKEN_TABLE: look.now.uuid,
        }
        if portion.replayed:
            summary[offset_vector.REPLAYED] = portion.replayed
        if boundary_ms is not None:
            summary[INGEST_VALID_THROUGH] = str(boundary_ms)
        return summary

    def _landed(self, summary: Mapping[str, str]) -> int | None:
        """The snapshot with this very token; a replay moves none, and says what it has settled instead."""
        ours = (INGEST_TOKEN, offset_vector.REPLAYED)
        for snapshot in self._looking.now().ancestry():
            said = summary_of(snapshot)
            if all(said.get(key) == summary.get(key) for key in ours):
                return snapshot.snapshot_id
        return None

    def _tell_again(self, look: Look, intent: Open | None, attempt: int, err: BaseException) -> None:
        base = look.now.head
        between = []
        for snapshot in self._looking.now().ancestry():
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


class _Standing:
    """The intent of one write, over all its attempts; none for an append."""

    def __init__(self, intents: Intents, table: TableId) -> None:
        self._intents = intents
        self._table = table
        self.now: Open | None = None
        self.is_asked = False
        """Whether a commit was ever asked for: files that were written may be a table's by now."""
        self.was_lost = False
        """Whether a commit was refused: what comes then is another attempt. One that looks again before it asks is the same."""

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Close it at the end, saying how the write ended."""
        try:
            yield
        except BaseException:
            self._close("failed")
            raise
        self._close("committed")

    def renew(self, partitions: frozenset[PartitionKey]) -> None:
        """Begin an attempt, which touches these partitions, if any, beside those of the attempt before."""
        if self.now is None or not self.was_lost:
            self.name(partitions)
        else:
            self.was_lost = False
            before = self.now.partitions
            named = None if before is None else tuple(sorted(partitions | set(before)))
            self.now = self._intents.open(self._table, named, self.now)

    def name(self, partitions: frozenset[PartitionKey]) -> bool:
        """The attempt touches these partitions, too. Returns whether that was not said before."""
        if self.now is None:
            if partitions:
                self.now = self._intents.open(self._table, tuple(sorted(partitions)))
            return bool(partitions)
        if self.now.partitions is None or not partitions - set(self.now.partitions):
            return False
        named = partitions | set(self.now.partitions)
        self.now = self._intents.widen(self.now, tuple(sorted(named)))
        return True

    def name_all(self) -> None:
        """Begin an attempt that touches the whole table."""
        if self.now is None or self.was_lost:
            self.was_lost = False
            self.now = self._intents.open(self._table, None, self.now)

    def widen(self, partitions: frozenset[PartitionKey]) -> None:
        """The attempt touches these partitions, which may be more, and is committed now."""
        self.name(partitions)
        self.is_asked = True

    def _close(self, outcome: str) -> None:
        if self.now is not None:
            self._intents.close(self.now, outcome)
