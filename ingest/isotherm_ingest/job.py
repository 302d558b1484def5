"""The life of the driver: wait for what it needs, turn after turn, stop between two.

What is away (broker, catalog) is waited for, said, and tried again. SIGTERM lets the batch in progress end.
"""

import signal
import threading
from collections.abc import Callable
from typing import TypeVar

from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession
from tenacity import RetryCallState, Retrying, retry_if_not_exception_type, wait_exponential
from tenacity.nap import sleep_using_event
from tenacity.stop import stop_when_event_set

from isotherm.contract.events import MAX_WINDOW_MS
from isotherm.contract.topics import CONTROL_PARTITIONS
from isotherm.runtime import clock, logs, open_files
from isotherm.runtime.exit_codes import EXIT_SPARK_GONE, EXIT_TAKEN_OVER
from isotherm.runtime.strict_model import ConfigError
from isotherm_ingest.announce.heartbeat import Heartbeat
from isotherm_ingest.announce.intents import Intents
from isotherm_ingest.announce.outbox import Outbox
from isotherm_ingest.batches.driver import Driver
from isotherm_ingest.batches.table_names import namespaces
from isotherm_ingest.batches.windows import Windows
from isotherm_ingest.control_tail import ControlTail
from isotherm_ingest.dead_letter_topic import DeadLetters
from isotherm_ingest.failures import brief
from isotherm_ingest.http import Health, serve
from isotherm_ingest.kafka import Broker
from isotherm_ingest.marks import Marks, TakenOver
from isotherm_ingest.metrics import Metrics
from isotherm_ingest.plan.retries import pause_s
from isotherm_ingest.queries.queries import Queries
from isotherm_ingest.span import seconds
from isotherm_ingest.spark_session import start_session, stop_session
from isotherm_ingest.streams import StreamsConfig
from isotherm_ingest.tables.lake import Lake
from isotherm_ingest.tables.tools import Tools

WEEK_MS = 7 * 24 * 3_600_000
ANNOUNCED = {"cleanup.policy": "compact", "segment.ms": "86400000"}
"""Kafka compacts no segment that is still written: by its own default, that is a week of watermarks, or a gigabyte."""
MAX_LETTER_BYTES = 16 * 1024 * 1024
"""A source topic may be made for large messages, and what comes from there may have to go to the dead letters."""
LAST_WAIT_S = 30.0
Result = TypeVar("Result")


class Job:
    """One run of ingest."""

    def __init__(self, config: StreamsConfig) -> None:
        """Nothing is connected before `run`."""
        self._config = config
        self._stop = threading.Event()
        self._health = Health(clock.monotonic_s())

    def run(self) -> int:
        """Run until a signal; gives the exit code. Raises PropertyError: librdkafka does not take its properties."""
        for one in (signal.SIGTERM, signal.SIGINT):
            signal.signal(one, lambda *_: self._stop.set())
        config, log = self._config, logs.get()
        logs.get().info("open_files", limit=open_files.raise_limit())
        metrics = Metrics()
        port = serve(metrics.registry, self._health, config.http.host, config.http.port)
        log.info("http_listening", host=config.http.host, port=port)
        broker = Broker(config.kafka.properties)
        lake = Lake(config.catalog.name, config.catalog.properties)
        spark = start_session(config)
        self._handle_signals()
        try:
            self._waiting("kafka", lambda: prepare_topics(broker, config))
            self._waiting("catalog", lake.ask)
            if not self._stop.is_set():
                self._serve(spark, broker, lake, metrics)
        except (Py4JNetworkError, ConnectionError) as err:
            return spark_gone(err)
        except TakenOver as err:
            logs.get().error(
                "taken_over",
                error=brief(err),
                hint="another driver of this pipeline was started after this one; run one",
            )
            stop_session(spark)
            return EXIT_TAKEN_OVER
        finally:
            broker.flush()
        stop_session(spark)
        log.info("stopped")
        return 0

    def _handle_signals(self) -> None:
        """Once more: PySpark takes SIGINT for itself."""
        for one in (signal.SIGTERM, signal.SIGINT):
            signal.signal(one, lambda *_: self._stop.set())

    def _waiting(self, what: str, work: Callable[[], Result]) -> Result | None:
        """Try until it works, or until we are stopped."""

        def tell(state: RetryCallState) -> None:
            error = state.outcome.exception() if state.outcome else None
            self._health.turned(clock.monotonic_s(), f"waits for {what}")
            logs.get().warning(
                "waiting",
                on=what,
                attempt=state.attempt_number,
                error=brief(error) if error else "",
                hint="is it running, and is its address right?",
            )

        for attempt in Retrying(
            wait=wait_exponential(max=LAST_WAIT_S),
            stop=stop_when_event_set(self._stop),
            sleep=sleep_using_event(self._stop),
            retry=retry_if_not_exception_type(
                (KeyboardInterrupt, SystemExit, ConfigError, Py4JNetworkError, TakenOver)
            ),
            retry_error_callback=lambda _: None,
            before_sleep=tell,
        ):
            with attempt:
                return work()
        return None

    def _serve(self, spark: SparkSession, broker: Broker, lake: Lake, metrics: Metrics) -> None:
        config = self._config
        kafka = config.kafka
        outbox = Outbox(
            lake,
            broker,
            config.pipeline,
            kafka.control_topic,
            kafka.announced_topic,
            metrics,
            seconds(config.announce_every),
            grants=config.grant_windows != "off",
        )
        intents = Intents(broker, kafka.control_topic, config.pipeline)
        tools = Tools(
            lake,
            intents,
            DeadLetters(broker, kafka.dead_letter_topic, config.pipeline, metrics),
            metrics,
            config.pipeline,
            broker.now,
        )
        self._waiting("watermarks", lambda: outbox.begin(namespaces(config)))
        self._health.outbox_turned_s = lambda: outbox.turned_s
        marks = Marks(kafka.properties, config.pipeline)
        windows = windows_of(config, broker, lake, metrics)
        driver = Driver(config, spark, broker, marks, tools, outbox, windows=windows)
        queries = Queries(config, spark, tools, outbox, broker)
        heartbeat = Heartbeat(broker, kafka.announced_topic, config.pipeline)
        try:
            heartbeat.start()
            self._waiting("tables", lambda: driver.begin(clock.monotonic_s()))
            if not self._stop.is_set():
                queries.start()
            self._turn(driver)
        finally:
            queries.stop()
            driver.stop()
            intents.stop()
            outbox.stop()
            heartbeat.stop()

    def _turn(self, driver: Driver) -> None:
        """Turn after turn. What fails as a whole is tried again, because the tables say themselves what they have."""
        failures = 0
        while not self._stop.is_set():
            try:
                has_more = driver.turn(clock.monotonic_s())
            except (Py4JNetworkError, ConnectionError, TakenOver):
                raise
            except Exception as err:  # noqa: BLE001 (the broker, the catalog, or a fault of ours: told, and tried again)
                failures += 1
                wait_s = pause_s(failures, 1.0, LAST_WAIT_S)
                logs.get().error("turn_failed", attempts=failures, retry_in_s=wait_s, error=brief(err))
                self._health.turned(clock.monotonic_s(), brief(err))
                self._stop.wait(wait_s)
                continue
            failures = 0
            self._health.turned(clock.monotonic_s())
            if not has_more:
                self._stop.wait(driver.pause_s)


def windows_of(config: StreamsConfig, broker: Broker, lake: Lake, metrics: Metrics) -> Windows | None:
    """What leaves tables alone where the daemon asks for it, or None."""
    if config.grant_windows == "off":
        return None
    return Windows(
        ControlTail(config.kafka.properties, config.kafka.control_topic),
        broker,
        lake,
        metrics,
        topic=config.kafka.control_topic,
        pipeline=config.pipeline,
        longest_s=min(seconds(config.grant_windows), MAX_WINDOW_MS / 1000),
    )


def spark_gone(err: BaseException) -> int:
    """Say that the JVM died; gives the exit code."""
    logs.get().error("spark_gone", error=brief(err), hint="out of memory? see spark.driver_memory")
    return EXIT_SPARK_GONE


def prepare_topics(broker: Broker, config: StreamsConfig) -> None:
    """Make the topics of our own that are missing."""
    broker.ensure_topic(config.kafka.control_topic, {"retention.ms": str(WEEK_MS)}, CONTROL_PARTITIONS)
    broker.ensure_topic(config.kafka.announced_topic, ANNOUNCED)
    dead_letters = {"retention.ms": str(4 * WEEK_MS), "max.message.bytes": str(MAX_LETTER_BYTES)}
    broker.ensure_topic(config.kafka.dead_letter_topic, dead_letters)
