"""The daemon's process: builds the real parts, turns the loop, ends it in good order.

What is away at the start is waited for, with a line that says what and where; the HTTP port answers meanwhile. SIGTERM
and Ctrl-C stop the loop at the next turn, within twenty seconds in any case, a second one at once.
"""

import contextlib
import errno
import faulthandler
import gc
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from importlib.metadata import version
from pathlib import Path
from threading import Event, Thread, main_thread
from time import sleep
from types import FrameType
from typing import TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_when_event_set, wait_exponential
from tenacity.nap import sleep_using_event

from isotherm.clients.storage import spool_in
from isotherm.contract.topics import CONTROL_PARTITIONS
from isotherm.core.model.outside import Outside
from isotherm.core.observations import Observation, TrySoon
from isotherm.iceberg import catalog
from isotherm.iceberg.compaction.executors import Executor, Executors
from isotherm.iceberg.compaction.process_executor import LocalExecutor
from isotherm.iceberg.compaction.spark_executor import SparkExecutor
from isotherm.iceberg.maintainer import IcebergMaintainer
from isotherm.kafka import control_topic
from isotherm.kafka.broker import Broker, ensure_topic
from isotherm.kafka.dead_letter_topic import DEAD_LETTER_TOPIC, KafkaDeadLetters
from isotherm.kafka.formats import FORMATS
from isotherm.kafka.keyed_topic import TOPIC, KafkaKeyedTopic
from isotherm.kafka.source_topics import KafkaSources
from isotherm.kafka.troubles import Troubles
from isotherm.runtime import logs, open_files
from isotherm.runtime.clock import monotonic_s, now_ms
from isotherm.runtime.code_on_disk import is_other_code
from isotherm.runtime.config import ExecutorsConfig, IsothermConfig
from isotherm.runtime.exit_codes import EXIT_BAD_CONFIG, EXIT_CRASHED, EXIT_ERROR, EXIT_FENCED
from isotherm.runtime.strict_model import ConfigError
from isotherm.runtime.systemd import Supervisor
from isotherm.service.health import Health
from isotherm.service.loop import Service
from isotherm.service.policies.policy_folder import PolicyFolder
from isotherm.service.ports import Fenced, Unavailable
from isotherm.service.tables.scan_reports import ScanReports
from isotherm.service.topics.relay import Sources
from isotherm.store import FolderTakenError, StateFolder
from isotherm.store.damage import Stores, have_looked_through, open_stores
from isotherm.store.database import StoreError, StoreTrouble, is_damage
from isotherm.telemetry.board import Board
from isotherm.telemetry.http import serve
from isotherm.telemetry.metrics import Metrics

STOP_WITHIN_S = 18
"""Kubernetes gives thirty seconds, and what stops it twenty: a daemon that hangs in a request by then just ends."""
SECOND_WITHIN_S = 2
"""The same after a second signal, which ends a main thread that hears it at once."""
LAST_WORDS_S = 2
"""Time to say where it hangs: nobody may be reading the log, and a write into a full pipe never returns."""
LONGEST_PAUSE_S = 30
LOOP_PAUSE_S = 0.2
"""How long a turn of the loop waits for events."""
BUSY_PAUSE_S = 0.02
"""The same while compactions are under way: each of their steps is seen after this, and a small one takes four of them. A
turn without anything to do takes a fraction of a millisecond."""

CONTROL_TOPIC = {"retention.ms": str(7 * 86_400_000), "cleanup.policy": "delete"}
"""Where we make the topic ourselves: it keeps by time, days."""

STATE_HINT = "state.path is the folder of this daemon alone, on a disk that it may write to"

PASSING = frozenset(
    {
        *(errno.ENOSPC, errno.EDQUOT),
        *(errno.EMFILE, errno.ENFILE, errno.ENOMEM),
        *(errno.EBUSY, errno.EIO, errno.ENOLCK, errno.ESTALE, errno.ETIMEDOUT),
    }
)
"""What the operating system says of a full disk, of a machine that is short of something, and of a disk or a share that
fails: it may be another one in a moment. A path that cannot be, or a right that is missing, waits for a person."""

Answer = TypeVar("Answer")


def run(config: IsothermConfig, file: Path | None = None) -> int:
    """The daemon, until it is told to stop; gives the exit code. `file` is where the configuration was read."""
    logs.configure(config.log.level, program="isotherm")
    logs.get().info("open_files", limit=open_files.raise_limit())
    if is_other_code():  # what was imported may be of two versions
        logs.get().error(
            "code_changed", hint="another version was installed while this one started: start it again"
        )
        return EXIT_ERROR
    stopping = Event()
    stop_on_signals(stopping)
    metrics = Metrics(now_ms, version("isotherm"))
    health = Health(ticked_at_s=monotonic_s())
    board = Board(health, now_ms)

    def listen(what: Observation) -> None:
        # Counted before it is told: who reads the line finds it in the metrics.
        for hear in (metrics, board, logs.tell):
            hear(what)

    reports = ScanReports(monotonic_s) if config.http.scan_reports else None
    try:
        port = serve(config.http.host, config.http.port, metrics.registry, health, reports, board)
    except OSError as err:
        # Another daemon has it, or the address is none of this machine: both are for a person.
        hint = "another process may have it: http.host and http.port say where this one listens"
        logs.get().error("http_failed", host=config.http.host, port=config.http.port, why=str(err), hint=hint)
        return EXIT_BAD_CONFIG
    logs.get().info("http_listening", host=config.http.host, port=port)
    # What is away is waited for inside: who has started us need not wait for it too.
    supervisor = Supervisor(os.environ)
    supervisor.tell("READY=1")
    supervisor.watch(lambda: health.is_alive(monotonic_s()), _tell_hanging, stopping)
    wait_for = _Patience(health, listen, stopping)
    try:
        # Before anything of it is opened: during a rolling update the one before us may still be at work.
        wait_for("the state folder", Outside.STATE, lambda: _hold(config.state.path))
        stores = while_alive(health, lambda: _stores(config))
        metrics.watch(config.state.path)
        spool_in(config.state.path / "spool")
    except Unavailable:
        return 0
    except (StoreError, OSError) as err:
        code = code_of_bad_state(err)
        advice = {"hint": STATE_HINT} if isinstance(err, OSError) and code == EXIT_BAD_CONFIG else {}
        logs.get().error("bad_state", why=str(err), state=str(config.state.path), **advice)
        return code
    try:
        service = _service(config, stores, health, listen, wait_for, reports)
        if service is not None:
            _turn(service, stopping)
    except Exception as err:  # noqa: BLE001 (whatever it was stands in the log, not beside it)
        return end_with(err, config, file)
    logs.get().info("stopped")
    return 0


def _tell_hanging() -> None:
    hint = "what each thread does stands below; the process is to be started again"
    logs.get().error("loop_hangs", hint=hint)


def code_of_bad_state(err: StoreError | OSError) -> int:
    """The exit code of a start at which the state folder cannot be used: whether that may pass by itself."""
    passes = err.may_pass if isinstance(err, StoreError) else err.errno in PASSING
    return EXIT_ERROR if passes else EXIT_BAD_CONFIG


def end_with(err: Exception, config: IsothermConfig, file: Path | None) -> int:
    """Tell why the daemon ends, and have damage looked for at the next start; gives the exit code."""
    event, code = ending_of(err)
    trace = {"exc_info": True} if code == EXIT_CRASHED else {}
    # SQLite says that a disk is full, and not which.
    where = {"state": str(config.state.path)}
    if isinstance(err, ConfigError):
        where["file"] = str(file)
    if is_damage(err):
        where["hint"] = "the next start looks which of its files is damaged, and mends what it can"
        with contextlib.suppress(OSError):  # such a disk may fail altogether
            have_looked_through(config.state.path)
    logs.get().error(event, why=f"{type(err).__name__}: {err}", **where, **trace)
    return code


def ending_of(err: Exception) -> tuple[str, int]:
    """How the daemon ends with an error: the event of its log, and its exit code."""
    match err:
        case Fenced():
            # To go on would mean to fight for the place: whoever started the other one has to say who stays.
            return "fenced", EXIT_FENCED
        case StoreTrouble():
            # A disk that is full, mostly. What was not saved is handed out again, or looked for in the tables.
            return "bad_state", EXIT_ERROR
        case ConfigError():
            return "bad_config", EXIT_BAD_CONFIG
        case _:
            return "crashed", EXIT_CRASHED


def _turn(service: Service, stopping: Event) -> None:
    service.start()
    # Nothing of what was imported will be garbage: the collector need not look at it again and again.
    gc.freeze()
    logs.get().info("started", state=str(service.config.state.path), policies=len(service.policies.files()))
    try:
        while not stopping.is_set():
            service.step(BUSY_PAUSE_S if len(service.compactions) else LOOP_PAUSE_S)
    finally:
        service.stop()
        service.fold.close()
        service.ledger.close()


class _Patience:
    """Waits for what is away, tells of it, and gives up when the daemon is to stop."""

    def __init__(self, health: Health, listen: Callable[[Observation], None], stopping: Event) -> None:
        self._health = health
        self._listen = listen
        self._stopping = stopping

    def __call__(self, what: str, kind: Outside, ask: Callable[[], Answer]) -> Answer:
        """The answer, as soon as there is one. Raises Unavailable: the daemon is to stop."""

        def tell(state: RetryCallState) -> None:
            self._health.ticked_at_s, self._health.waits_for = monotonic_s(), what
            error = state.outcome.exception() if state.outcome else None
            self._listen(TrySoon(what, str(error), kind))

        retrying = Retrying(
            retry=retry_if_exception_type(Unavailable),
            wait=wait_exponential(max=LONGEST_PAUSE_S),
            stop=stop_when_event_set(self._stopping),
            sleep=sleep_using_event(self._stopping),
            after=tell,
            reraise=True,
        )
        answer = retrying(ask)
        self._health.waits_for = ""
        return answer


def while_alive(health: Health, work: Callable[[], Answer], every_s: float = 1.0) -> Answer:
    """Do what may take minutes before the loop turns, such as checking a ledger of gigabytes; /livez stays 200."""
    with ThreadPoolExecutor(1, "work") as pool:
        begun = pool.submit(work)
        while True:
            health.ticked_at_s = monotonic_s()
            if wait([begun], every_s).done:
                return begun.result()


def _stores(config: IsothermConfig) -> Stores:
    """What the daemon keeps. Raises StoreError, OSError."""
    stores = open_stores(config.state.path, now_ms())
    if stores.rebuilt is not None:
        logs.get().warning("fold_rebuilt", why=stores.rebuilt)
    if stores.mended is not None:
        logs.get().error("ledger_mended", why=stores.mended)
    return stores


def _service(
    config: IsothermConfig,
    stores: Stores,
    health: Health,
    listen: Callable[[Observation], None],
    wait_for: "_Patience",
    reports: ScanReports | None,
) -> Service | None:
    """The service on its real parts. Returns None where it is told to stop while it waits for one of them."""
    with contextlib.suppress(Unavailable):
        connected = wait_for("the catalog", Outside.CATALOG, lambda: catalog.connect(config.catalog))
        topic, properties = config.kafka.control_topic, config.kafka.properties
        broker = Broker()
        troubles = Troubles(lambda error: listen(TrySoon("the broker", error, Outside.BROKER)))
        wait_for(
            "the broker",
            Outside.BROKER,
            lambda: ensure_topic(properties, topic, CONTROL_PARTITIONS, CONTROL_TOPIC),
        )
        wait_for("the broker", Outside.BROKER, lambda: ensure_hold_topic(config))
        # Where it cannot be made, expiry waits, and says why.
        with contextlib.suppress(Unavailable):
            ensure_topic(properties, config.kafka.reader_topic, config=TOPIC)
        events = control_topic.KafkaEvents(
            properties,
            topic,
            config.kafka.group,
            replay_ms=int(config.loop.intent_timeout_s * 1000),
            on_trouble=troubles,
            broker=broker,
        )
        return Service(
            config=config,
            fold=stores.fold,
            ledger=stores.ledger,
            events=events,
            catalog=catalog.IcebergCatalog(connected, now_ms),
            maintainer=IcebergMaintainer(connected, _executor(config.executors), now_ms),
            hold_topic=KafkaKeyedTopic(properties, config.kafka.hold_topic, troubles, broker),
            reader_topic=KafkaKeyedTopic(properties, config.kafka.reader_topic, troubles, broker.beside()),
            policies=PolicyFolder(config.policies),
            listen=listen,
            now_ms=now_ms,
            monotonic_s=monotonic_s,
            health=health,
            sources=_sources(config, listen),
            letters=_letters(config, wait_for, broker),
            scan_reports=reports,
            is_other_code=is_other_code,
        )
    return None


def _executor(config: ExecutorsConfig) -> Executor:
    """Where rewrites run."""
    local = LocalExecutor(config.local.jobs_at_once, config.local.deadline_s, config.local.memory_bytes)
    if (spark := config.spark) is None:
        return local
    cluster = SparkExecutor(spark.remote, spark.jobs_at_once, spark.deadline_s, spark.memory_bytes)
    return Executors(local, cluster)


def _letters(config: IsothermConfig, wait_for: "_Patience", broker: Broker) -> KafkaDeadLetters | None:
    """The topic for messages that nobody can read, or None where there is none. Raises Unavailable."""
    topic, properties = config.kafka.dead_letter_topic, config.kafka.properties
    if topic is None:
        return None
    wait_for("the broker", Outside.BROKER, lambda: ensure_topic(properties, topic, config=DEAD_LETTER_TOPIC))
    return KafkaDeadLetters(properties, topic, broker)


def _hold(path: Path) -> StateFolder:
    """The state folder, held until this process ends. Raises Unavailable."""
    try:
        return StateFolder(path)
    except FolderTakenError as err:
        raise Unavailable(f"{err}; each daemon needs a state.path of its own") from err


def _sources(config: IsothermConfig, listen: Callable[[Observation], None]) -> Sources | None:
    """The topics of other systems that the configuration names."""
    if not config.kafka.sources:
        return None
    topics = KafkaSources(
        config.kafka.properties,
        [source.topic for source in config.kafka.sources],
        f"{config.kafka.group}.sources",
        on_trouble=Troubles(lambda error: listen(TrySoon("the topics of sources", error, Outside.SOURCES))),
    )
    return Sources(topics, {source.topic: FORMATS[source.format] for source in config.kafka.sources})


def ensure_hold_topic(config: IsothermConfig) -> None:
    """Make the topic with what holds tables back, where there is none. Raises Unavailable."""
    ensure_topic(config.kafka.properties, config.kafka.hold_topic, config=TOPIC)


def stop_on_signals(stopping: Event, within_s: float = STOP_WITHIN_S) -> None:
    """Have SIGTERM and Ctrl-C end the loop at its next turn, and the process after so many seconds in any case.

    A handler runs between two lines of the main thread, so a library that never returns keeps it from being called.
    The interpreter writes each signal to a pipe at once, and a thread listens there. That thread needs the interpreter:
    a library that hangs without ever releasing it ends only by SIGKILL. /livez does not answer then.
    """

    def stop(number: int, _: FrameType | None) -> None:
        if stopping.is_set():
            sys.exit(128 + number)
        stopping.set()

    heard, told = os.pipe()
    os.set_blocking(told, False)
    signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    Thread(target=_last_resort, args=(heard, nowhere, within_s), name="isotherm-signals", daemon=True).start()
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)


def _place(thread: Thread) -> str:
    """Where a thread is, in words: the innermost function of ours, or of whatever it runs."""
    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001 (public, whatever its name says)
    places = [f"{one.name} ({one.filename}:{one.lineno})" for one in traceback.extract_stack(frame)]
    ours = [one for one in places if f"{os.sep}isotherm{os.sep}" in one]
    return (ours or places)[-1]


def _last_resort(heard: int, nowhere: int, within_s: float) -> None:
    """End the process so long after the first signal, and soon after a second one.

    Whatever hangs (a store, a catalog, a broker, a decoder) hangs in reading or in a request, and not in a write of
    ours: what was begun stands in the ledger, and the next daemon looks for it. Children end with this process.
    """
    left_s = within_s
    os.read(heard, 1)
    if select.select([heard], [], [], within_s)[0]:
        left_s = min(within_s, SECOND_WITHIN_S)
        sleep(left_s)
    # A thread that needs no interpreter ends the process with code 1, whatever becomes of the lines below it. It is no
    # alarm, because the kernel keeps those from the first process of a container.
    faulthandler.dump_traceback_later(LAST_WORDS_S, exit=True, file=nowhere)
    logs.get().warning("stopped_hard", after_s=left_s, hangs_in=_place(main_thread()))
    faulthandler.dump_traceback()
    os._exit(0)
