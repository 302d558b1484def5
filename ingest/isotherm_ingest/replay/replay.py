"""`isotherm-ingest replay`: the dead letters of one table, after their cause was mended.

It writes as the pipeline's driver, so there is none beside it: it asks whether one runs, fences whoever began before, and asks
before each commit whether it was fenced itself. The table's vector stays, but where it says less than the marks: a driver that
lost these would read a letter's message once more.
"""

from collections.abc import Callable, Iterable

from pyspark.sql import SparkSession

from isotherm.runtime import clock, logs
from isotherm_ingest.announce.heartbeat import Heartbeat, last_beat, why_not_alone
from isotherm_ingest.announce.intents import Intents
from isotherm_ingest.announce.outbox import Outbox
from isotherm_ingest.batches.fan_out import Report, fan_out
from isotherm_ingest.batches.routing import Routing
from isotherm_ingest.dead_letter_topic import DeadLetters
from isotherm_ingest.failures import brief
from isotherm_ingest.kafka import Broker
from isotherm_ingest.marks import Marks, group_of
from isotherm_ingest.metrics import Metrics
from isotherm_ingest.replay.choosing import Choice, choose
from isotherm_ingest.replay.letters import Letter, read_letters
from isotherm_ingest.replay.looks import Looks, RowsThere
from isotherm_ingest.replay.outcome import Asked, Replayed
from isotherm_ingest.replay.standing import Standing, stand_of
from isotherm_ingest.replay.writing import Writing
from isotherm_ingest.span import seconds
from isotherm_ingest.streams import StreamsConfig
from isotherm_ingest.tables.lake import Lake
from isotherm_ingest.tables.sessions import Sessions
from isotherm_ingest.tables.tools import Tools
from isotherm_ingest.tables.writer import TableWriter
from isotherm_ingest.workers.reading import reader_properties


class NotAlone(RuntimeError):  # noqa: N818 (nobody's mistake)
    """A driver of the pipeline may be running."""


def replay(
    config: StreamsConfig,
    asked: Asked,
    start: Callable[[], SparkSession],
    read: Callable[..., Report] = fan_out,
    make_writer: Callable[..., TableWriter] = TableWriter,
) -> Replayed:
    """Replay; Spark is started only where a letter is tried.

    Raises:
        NotAlone: a driver may be running.
        TakenOver: another driver has begun meanwhile. What was committed stays.
        TableRefused: a person must look at the table first.
        BrokerError: Kafka does not answer.
        CatalogAway: the catalog does not.
        RegistryAwayError: the registry does not.
    """
    broker = Broker(config.kafka.properties)
    lake = Lake(config.catalog.name, config.catalog.properties)
    newest = broker.newest_by_key(config.kafka.announced_topic)
    why = why_not_alone(last_beat(newest, config.pipeline), clock.now_ms())
    if why and not (asked.dry_run or asked.take_over):
        raise NotAlone(why)
    marks = Marks(config.kafka.properties, config.pipeline)
    heartbeat = Heartbeat(broker, config.kafka.announced_topic, config.pipeline)
    try:
        if not asked.dry_run:
            marks.take_over()
            heartbeat.start()
        standing = stand_of(config, asked.table, broker, lake, marks, newest, begins=not asked.dry_run)
        letters = read_letters(
            config.kafka.properties,
            config.kafka.dead_letter_topic,
            config.pipeline,
            standing.topics.__contains__,
        )
        mine = {one.at: one for one in letters if asked.takes(one)}
        choice = choose(mine.values(), standing.stand)
        found = Replayed(
            asked.table,
            standing.stand.is_mirror,
            mine,
            dict(choice.told),
            len(choice.tried),
            is_dry=asked.dry_run,
        )
        if choice.tried and not asked.dry_run:
            run = _Run(config, standing, broker, lake, marks, start())
            run.write(choice, letters, found, read, make_writer)
    finally:
        heartbeat.stop()
        marks.close()
        broker.flush()
    return found


class _Run:
    """What a run that writes is made of."""

    def __init__(
        self,
        config: StreamsConfig,
        standing: Standing,
        broker: Broker,
        lake: Lake,
        marks: Marks,
        spark: SparkSession,
    ) -> None:
        self._config, self._standing, self._spark = config, standing, spark
        self._broker, self._lake, self._marks = broker, lake, marks
        self._metrics = Metrics()

    def write(
        self,
        choice: Choice,
        letters: Iterable[Letter],
        found: Replayed,
        read: Callable[..., Report],
        make_writer: Callable[..., TableWriter],
    ) -> None:
        """Write, and announce what was committed."""
        config, kafka, table = self._config, self._config.kafka, self._standing.table
        dead_letters = DeadLetters(self._broker, kafka.dead_letter_topic, config.pipeline, self._metrics)
        intents = Intents(self._broker, kafka.control_topic, config.pipeline)
        tools = Tools(self._lake, intents, dead_letters, self._metrics, config.pipeline, self._broker.now)
        sessions = Sessions(self._spark)
        writer = make_writer(table, self._standing.stream, sessions, tools)
        looks = Looks(
            table,
            self._spark,
            reader_properties(kafka.properties, group_of(config.pipeline)),
            Routing(config, dead_letters, self._standing.owners.of),
            writer,
            read,
            RowsThere(lambda: sessions.own, self._lake.spark_name(table)),
        )
        writing = Writing(self._standing, looks, writer, self._check_alone, self._broker.first_since)
        try:
            writing.write(choice, letters, found)
        finally:
            intents.stop()
            if found.commits:
                self._announce(table)

    def _check_alone(self, standing: Standing) -> None:
        """Raise TakenOver where another driver has begun: nobody else may commit marks then."""
        for _ in self._marks.write(standing.marks):
            pass

    def _announce(self, table: str) -> None:
        """Announce the commits. Where that fails, the next driver does."""
        config = self._config
        outbox = Outbox(
            self._lake,
            self._broker,
            config.pipeline,
            config.kafka.control_topic,
            config.kafka.announced_topic,
            self._metrics,
            seconds(config.announce_every),
        )
        try:
            outbox.recall(frozenset())  # of no table but those that were announced before
            outbox.announce(table)
        except Exception as err:  # noqa: BLE001 (the rows are in the table, whatever this says)
            logs.get().warning("not_announced", table=table, error=brief(err))
