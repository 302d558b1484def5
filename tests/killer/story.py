"""One story: a shop trades, ingest follows it, and everything that one seed draws befalls ingest meanwhile.

At the end the faults are over, one driver is left alone, and the tables must hold what the oracle says. A seed draws the
same trade and the same faults; at which moment of a batch each of them strikes, the machine decides.
"""

import os
import random
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog

from isotherm.demo.stack import Kafka
from isotherm.demo.stack.ports import free_ports
from isotherm.runtime.clock import monotonic_s
from isotherm.runtime.exit_codes import EXIT_SPARK_GONE
from killer.drivers import Drivers, go_on, streams_yaml
from killer.lakes import KINDS, StoryLake, lake_behind_rest, lake_in_a_file
from killer.oracle import Oracle, Read, read
from killer.shop import SHAPES
from killer.trading import Trading
from support.daemon_process import Daemon
from support.lab import EXPIRING
from support.rest_catalog import RestServer

SETTLED_WITHIN_S = 600
FAULTS = 6
PAUSE_S = (0.5, 5.0)
"""Between two faults: often before the last one is got over."""
POLICY = EXPIRING.replace("delete_after: 0s", "delete_after: 5s").replace(
    "quiet_commits: 2", "quiet_commits: 0"
)


@dataclass
class Told:
    """What came of a story."""

    seed: int
    seconds: float
    messages: int
    steps: list[str]
    wrong: list[str]
    troubles: list[str] = field(default_factory=list)
    events: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        """For people."""
        end = self.wrong or ["sound"]
        kept = (
            "table_committed",
            "merge_recomputed",
            "append_repeated",
            "batch_failed",
            "turn_failed",
            "read_failed",
        )
        counts = ", ".join(f"{name} {self.events.get(name, 0)}" for name in kept)
        head = f"seed {self.seed}: {self.messages} messages in {self.seconds:.0f} s; {counts}"
        return "\n".join([head, *map(str, self.steps), *self.troubles, *end])


class Story:
    """The parts of one story, while it is played."""

    def __init__(
        self, seed: int, folder: Path, kafka: Kafka, jars: list[Path], lake: StoryLake, on_hole: str
    ) -> None:
        self.seed = seed
        self.dice = random.Random(f"faults {seed}")
        self.kafka = kafka
        self.folder = folder
        self.namespace = f"k{seed}"
        self.lake = lake
        self.gone: list[Read] = []
        """Messages of topics that were deleted."""
        self.steps: list[str] = []
        self._began_s = monotonic_s()
        servers = kafka.bootstrap_servers
        self.catalog: Catalog = load_catalog("lake", **lake.properties)
        self.trading = Trading(self.namespace, servers, seed)
        text = streams_yaml(self.namespace, servers, lake.properties, jars, on_hole)
        self.drivers = Drivers(folder, text)

    def say(self, text: str) -> None:
        self.steps.append(f"{monotonic_s() - self._began_s:6.1f} s  {text}")

    # What befalls ingest

    def kill(self) -> None:
        """SIGKILL of the driver, its JVM and its workers."""
        self.get_busy()
        self.drivers.now.kill()
        self.drivers.start()

    def kill_python(self) -> None:
        """SIGKILL of the driver's Python alone: its JVM must not go on."""
        self.get_busy()
        self.drivers.now.kill(alone=True)
        self.drivers.start()

    def kill_jvm(self) -> None:
        """SIGKILL of the JVM: the driver ends by itself, and is started again."""
        self.until_begun()
        old = self.drivers.now
        old.kill_jvm()
        code = old.process.wait(60)
        assert code == EXIT_SPARK_GONE, f"{old.process.name} ended with {code}: {old.process.log_tail(5)}"
        self.drivers.start()

    def kill_worker(self) -> None:
        """SIGKILL of a Python worker, or of the process that forks them."""
        self.get_busy()
        workers = self.drivers.now.workers()
        if workers:
            self.dice.choice(workers).kill()

    def pause(self) -> None:
        """SIGSTOP for a while, then SIGCONT."""
        self.get_busy()
        family = self.drivers.now.pause()
        self.wait(self.dice.uniform(1, 6))
        go_on(family)

    def replace_by_two(self) -> None:
        """SIGKILL of the driver; two are started in its place at once, and one of them fences the other."""
        self.until_begun()
        self.drivers.now.kill()
        self.drivers.part(self.drivers.start(), self.drivers.start())

    def start_another(self) -> None:
        """A second driver, beside one that writes."""
        self.until_begun()
        old = self.drivers.now
        self.drivers.start()
        self.until_begun()
        self.drivers.until_fenced(old)

    def replace_while_paused(self) -> None:
        """A second driver takes over from one that is stopped in the middle of something, and then goes on."""
        self.get_busy()
        old = self.drivers.now
        family = old.pause()
        self.drivers.start()
        patience_s = self.dice.choice([10, 25, 40])
        until_s = monotonic_s() + patience_s
        while not self.drivers.now.has_begun and monotonic_s() < until_s:
            self.wait(0.1)
        go_on(family)
        self.drivers.until_fenced(old)

    def lock_catalog(self) -> None:
        """The catalog's database takes no request for some seconds."""
        with closing(sqlite3.connect(self.lake.database, timeout=30, isolation_level=None)) as connection:
            connection.execute("BEGIN EXCLUSIVE")
            self.wait(self.dice.uniform(1, 12))
            connection.execute("ROLLBACK")

    def restart_kafka(self) -> None:
        """The broker ends, in order or by SIGKILL, and comes back after a while."""
        port = int(self.kafka.bootstrap_servers.rpartition(":")[2])
        if self.dice.random() < 0.5:
            self.kafka.process.kill()
        self.kafka.stop()
        self.wait(self.dice.uniform(0, 5))
        self.kafka.start([port, *free_ports(1)])

    def stall_kafka(self) -> None:
        """SIGSTOP of the broker: connections stand, and nobody answers."""
        pid = self.kafka.process.pid
        os.kill(pid, signal.SIGSTOP)
        self.wait(self.dice.uniform(1, 30))
        os.kill(pid, signal.SIGCONT)

    def starve(self) -> None:
        """The driver gets a tenth of the time, as on a machine that has too much to do."""
        until_s = monotonic_s() + self.dice.uniform(3, 12)
        while monotonic_s() < until_s:
            family = self.drivers.now.pause()
            self.wait(0.18)
            go_on(family)
            self.wait(0.02)

    def lose_answers(self) -> None:
        """Requests to a REST catalog are lost, or their answers are, or they are heard twice. Others are locked."""
        front = self.lake.front
        if front is None:
            self.lock_catalog()
            return
        for _ in range(self.dice.randint(1, 4)):
            front.add(
                self.dice.choice(["POST", "POST", "*"]),
                "/tables/",
                self.dice.choice(KINDS),
                self.dice.randint(1, 3),
            )
        self.wait(self.dice.uniform(1, 8))
        front.heal()

    def remake_topic(self) -> None:
        """A topic is deleted and made again once its tables have all of it, while it is read."""
        self.until_begun()
        shape = self.dice.choice(SHAPES)
        topic = self.trading.topic(shape.name)
        self.steps[-1] += f" ({topic})"
        with self.trading.resting():
            oracle = self._oracle()
            self._settle(lambda: oracle.wrong_rows(self.catalog, shape))
            self._settle(lambda: oracle.wrong_letters(f"{self.namespace}.dead", topic))
            self.trading.send_tombstones(shape.name, self.dice.randint(0, 500))
            self.gone += read(self.kafka.bootstrap_servers, [topic])
            self.trading.remake(shape.name)

    def rename_table(self) -> None:
        """Somebody renames a table, and gives it its name back after some seconds."""
        name = f"{self.namespace}.{self.dice.choice(SHAPES).name}"
        if not self.catalog.table_exists(name):
            return
        self.steps[-1] += f" ({name})"
        self._rename(name, f"{name}_away")
        self.wait(self.dice.uniform(0.2, 4))
        self._rename(f"{name}_away", name)

    def _rename(self, old: str, new: str) -> None:
        self.catalog.rename_table(old, new)

    def grow(self) -> None:
        """A topic gains partitions."""
        self.steps[-1] += f" ({self.trading.grow()})"

    def get_busy(self) -> None:
        """Mostly some moment of the newest driver's work, sometimes one of its start."""
        if self.dice.random() < 0.8:
            self.until_begun()
            self.wait(self.dice.uniform(0, 3))

    def until_begun(self) -> None:
        """The newest driver is at work."""
        self.drivers.until_begun()

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        threading.Event().wait(seconds)

    def _oracle(self) -> Oracle:
        return Oracle(self.namespace, self.kafka.bootstrap_servers, self.trading.sent, self.gone)

    def _settle(self, look: Callable[[], list[str]]) -> None:
        """Wait until a look finds nothing wrong."""
        until_s = monotonic_s() + SETTLED_WITHIN_S
        while wrong := look():
            assert monotonic_s() < until_s, f"before its topic is made again: {wrong}"
            self.drivers.now.check()
            self.wait(0.5)

    # The end

    def wrong(self) -> list[str]:
        """Everything that is not as it must be, once ingest was left alone for long enough."""
        oracle = self._oracle()
        looks: list[Callable[[], list[str]]] = [
            *(lambda shape=shape: oracle.wrong_rows(self.catalog, shape) for shape in SHAPES),
            lambda: oracle.wrong_letters(f"{self.namespace}.dead"),
            lambda: oracle.wrong_events(self.catalog, f"{self.namespace}.control"),
        ]
        wrong = oracle.wrong_in_kafka(self.trading.committed)
        if wrong:
            return wrong
        until_s = monotonic_s() + SETTLED_WITHIN_S
        for look in looks:
            while (found := look()) and monotonic_s() < until_s:
                self.drivers.now.check()
                self.wait(0.5)
            wrong += found
        return wrong

    def told(self, wrong: list[str]) -> Told:
        seconds = monotonic_s() - self._began_s
        events = dict(self.drivers.told())
        return Told(
            self.seed, seconds, len(self.trading.sent), self.steps, wrong, self.drivers.troubles(), events
        )


ALL: dict[str, int] = {
    "kill": 4, "kill_python": 2, "kill_jvm": 1, "kill_worker": 4, "pause": 2, "starve": 2, "replace_by_two": 1,
    "start_another": 2, "replace_while_paused": 3, "lock_catalog": 2, "lose_answers": 3, "restart_kafka": 2,
    "stall_kafka": 2, "rename_table": 2, "grow": 2, "remake_topic": 2,
}  # fmt: skip
"""The faults, and how often each is drawn."""
ON_HOLE = ("backfill", "accept")
"""Of streams whose topics are made again. Whoever accepts a hole would fill a new table while one is renamed."""


def play(
    seed: int,
    folder: Path,
    kafka: Kafka,
    jars: list[Path],
    faults: list[str] | None = None,
    rest: RestServer | None = None,
    **more: Any,
) -> Told:
    """Tell the story of a seed, or one with these faults; with a REST server, half of the seeds are told on one."""
    folder.mkdir(parents=True)
    dice = random.Random(f"story {seed}")
    has_daemon = more.get("has_daemon", dice.random() < 0.6)
    drawn = faults or dice.choices(list(ALL), list(ALL.values()), k=FAULTS)
    on_hole = "halt"
    if "remake_topic" in drawn:
        on_hole = dice.choice(ON_HOLE)
        drawn = [name for name in drawn if name != "rename_table"]
    on_rest = rest is not None and dice.random() < 0.5
    there = lake_behind_rest(folder, rest) if rest and on_rest else nullcontext(lake_in_a_file(folder))
    with there as lake:
        return _played(Story(seed, folder, kafka, jars, lake, on_hole), drawn, dice, has_daemon=has_daemon)


def _played(story: Story, drawn: list[str], dice: random.Random, *, has_daemon: bool) -> Told:
    try:
        with daemon(story) if has_daemon else nullcontext():
            story.say(f"{'with' if has_daemon else 'without'} the daemon, catalog: {story.lake.kind}")
            story.drivers.start()
            story.trading.make_tables()
            story.until_begun()
            story.trading.start()
            for name in drawn:
                story.wait(dice.uniform(*PAUSE_S))
                story.say(name)
                getattr(story, name)()
            story.trading.hold()
            story.say("left alone")
            story.until_begun()
        return story.told(story.wrong())
    except Exception as err:  # noqa: BLE001 (told as all else, with its seed and its steps)
        return story.told([f"{type(err).__name__}: {err}"])
    finally:
        story.drivers.stop()


@contextmanager
def daemon(story: Story) -> Iterator[None]:
    """The daemon beside ingest: it compacts, and expires snapshots."""
    lab = SimpleNamespace(root=story.folder, policy=POLICY, properties=story.lake.properties)
    one = Daemon(
        lab, story.kafka.bootstrap_servers, f"{story.namespace}.control", loop={"intent_timeout_s": 10}
    )
    try:
        yield
        counts: dict[str, int] = {}
        for line in one.lines:
            counts[line["event"]] = counts.get(line["event"], 0) + 1
        story.say(
            f"the daemon: { ({name: counts[name] for name in counts if name in ('job_ended', 'expired', 'job_failed')}) }"
        )
    finally:
        one.end()
