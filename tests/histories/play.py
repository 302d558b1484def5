"""One history, from its seed: steps of chance on a made-up table, fates of chance for its events, one daemon, judges.

The daemon is the real service with stores of its own and a clock that is moved by hand; its policy only observes.
Whenever a round has confirmed the table, its state must be what PyIceberg counts; at the end it must also be what
Java counts. A failure says the seed, the steps, and the difference.
"""

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from histories import judges
from histories.evolution import drop
from histories.fates import ANY, Post
from histories.happenings import ALL, Step
from histories.java import NAME, Java, RefusedError, refusing
from histories.made_up import MadeUp
from isotherm.core.model.files import FileKind, FileStats
from isotherm.core.observations import Observation, StateDrifted, TableGone, TableScanned, TrySoon
from isotherm.iceberg.catalog import IcebergCatalog
from isotherm.iceberg.compaction.process_executor import LocalExecutor
from isotherm.iceberg.maintainer import IcebergMaintainer
from isotherm.runtime.config import CatalogConfig, IsothermConfig, KafkaConfig, LoopConfig, StateConfig
from isotherm.service.loop import Service
from isotherm.service.policies.policy_folder import PolicyFolder
from isotherm.store import Fold, Ledger
from support.in_process import AtOnce
from support.memory_topics import Clock, MemoryEvents, MemoryKeyedTopic, Topic

OBSERVE = """
tables: "{namespace}.*"
compact: {{enabled: false}}
expire: {{enabled: false}}
"""
A_ROUND_S, A_POLL_S = 11, 301
"""The clock's steps: to the next planning round, and until a table is looked at of which events came, and come no more."""


@dataclass
class History:
    """A table, the way of its events, and the daemon that follows it."""

    java: Java
    folder: Path
    seed: int
    steps: Mapping[Step, int] = field(default_factory=lambda: ALL)
    fates: Mapping[str, int] = field(default_factory=lambda: ANY)
    kind: type[MadeUp] = MadeUp
    told: list[str] = field(default_factory=list)
    """What happened so far, a line each."""
    seen: list[Observation] = field(default_factory=list)
    happened: Counter = field(default_factory=Counter)
    """How often each step did something, by name; what Iceberg refused is not among them."""
    steps_done: int = 0
    refused: int = 0
    judged: int = 0
    judged_by_java: bool = False

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.clock = Clock(at_ms=1_790_000_000_000)
        self.topic, self.held = Topic(), []
        self.post = Post(self.chance, self.topic, self.fates)
        namespace = f"h{self.seed}"
        self.java.lake.create_namespace_if_not_exists(namespace)
        self.world = self.kind(self.java, self.chance, f"{namespace}.t")
        self.told.append(f"created: {self.world.create()}")
        self.world.look()
        policies = self.folder / "policies"
        policies.mkdir(parents=True)
        (policies / "observe.yaml").write_text(OBSERVE.format(namespace=namespace))
        self.config = IsothermConfig(
            catalog=CatalogConfig(name=NAME, properties={}),
            kafka=KafkaConfig(properties={"bootstrap.servers": "unused"}),
            state=StateConfig(path=self.folder),
            policies=policies,
            loop=LoopConfig(plan_every_s=10, poll_tables_every_s=60),
        )
        self.on_disk = self.chance.random() < 0.2
        self._open()

    def _open(self) -> None:
        where = self.folder if self.on_disk else None
        self.fold = Fold(where / "fold.db" if where else None)
        self.ledger = Ledger(where / "ledger.db" if where else None)
        self._start()

    def _start(self) -> None:
        lake = self.java.lake
        self.service = Service(
            config=self.config,
            fold=self.fold,
            ledger=self.ledger,
            events=MemoryEvents(self.topic),
            catalog=IcebergCatalog(lake, threads=AtOnce()),
            maintainer=IcebergMaintainer(
                lake, LocalExecutor(jobs_at_once=1, deadline_s=1), self.clock.now_ms
            ),
            hold_topic=MemoryKeyedTopic(self.held),
            reader_topic=MemoryKeyedTopic([]),
            policies=PolicyFolder(self.config.policies),
            listen=self.seen.append,
            now_ms=self.clock.now_ms,
            monotonic_s=self.clock.monotonic_s,
        )
        self.service.start()

    def close(self) -> None:
        """Leave nothing behind."""
        self.fold.close()
        self.ledger.close()
        drop(self.world)
        self.java.lake.drop_namespace(self.world.name.partition(".")[0])

    # The table

    def step(self, step: Step | None = None) -> None:
        """Something happens to the table, and to the events of what happened before."""
        chosen = step or self.chance.choices(list(self.steps), list(self.steps.values()))[0]
        try:
            with refusing():
                line = chosen(self.world)
            self.happened[chosen.__name__] += line is not None
        except RefusedError as no:
            self.refused += 1
            line = f"{chosen.__name__} refused: {str(no)[:100]}"
            self.world.table.refresh()
        self.steps_done += 1
        self.told.append(line or f"{chosen.__name__}: nothing to do")
        self.world.look()
        fates = self.post.carry(self.world.seen)
        if fates:
            self.told[-1] += f"; events: {', '.join(fates)}"

    # The daemon

    def run(self, after_s: float) -> None:
        """The loop turns once, some time later."""
        self.clock.advance(after_s)
        heard = len(self.seen)
        self.told.append(f"  the daemon, {after_s:g} s later")
        self.service.step(0)
        self.told[-1] += "".join(f"; {line}" for one in self.seen[heard:] if (line := _worth_telling(one)))

    def restart(self, *, without_fold: bool = False) -> None:
        """A new daemon on the same stores, or without its fold: that is a cache."""
        self.told.append(f"  the daemon starts again{', without its fold' if without_fold else ''}")
        if without_fold:
            self.fold.close()
            (self.folder / "fold.db").unlink(missing_ok=True)
            self.fold = Fold(self.folder / "fold.db" if self.on_disk else None)
            self._start()
        elif self.on_disk:
            self.fold.close()
            self.ledger.close()
            self._open()
        else:
            self._start()

    def believed(self) -> dict:
        return judges.believed(self.fold.partitions(self.world.uuid))

    def confirm(self) -> None:
        """The daemon confirms the table; its state must be what PyIceberg counts."""
        for seconds in (0, A_POLL_S, A_POLL_S):
            self.run(seconds)  # what stands on the topic, or comes late, is heard before the silence begins
        row = self.fold.table(self.world.uuid)
        if row is not None and not row.is_trusted:
            self.run(A_ROUND_S)
            row = self.fold.table(self.world.uuid)
        self._expect([self.world.uuid], list(self.fold.tables()), "the tables that the daemon knows")
        self._expect(True, row.is_trusted, "whether the state is trusted after a second round")
        self._expect(self.world.head, row.confirmed_head, "the confirmed head")
        self._expect(self.world.head, row.state.head, "the state's head")
        self._expect(self.world.name, row.state.table.name, "the table's name")
        self._same(judges.counted(self.world.live), self.believed(), "PyIceberg")
        self._expect(len(self.believed()), row.state.partitions, "the number of partitions")
        totals = dict.fromkeys(FileKind, FileStats())
        for one in self.world.live:
            totals[one.kind] += one.content
        found = judges.without_bytes_of_vectors(row.state.totals)
        self._expect(totals, {**dict.fromkeys(FileKind, FileStats()), **found}, "the totals")
        self.judged += 1

    def judge_by_java(self) -> None:
        """At the end: what Spark and Iceberg's own statistics say."""
        spark, name = self.java.spark, f"{NAME}.{self.world.name}"
        table = self.java.catalog.loadTable(self.java.identifier(self.world.name))
        try:
            with refusing():
                ids = judges.field_ids(self.java, table)
        except RefusedError as no:
            # A field of version 1 that was removed (void, renamed) and came back: Java has two of one id.
            if "Multiple entries with same key" not in str(no):
                raise
            self.told.append("Java cannot name the table's partition type")
            return
        ours = judges.by_kind(self.believed(), ids.values())
        self._same(judges.of_files_table(spark, name, ids), ours, "Spark's files")
        self._same(
            judges.of_partitions_table(spark, name, ids),
            judges.as_partitions_table(ours),
            "Spark's partitions",
        )
        if ids and self.world.head is not None:
            self._same(
                judges.of_statistics(self.java, table, ids),
                judges.as_statistics(ours),
                "compute_partition_stats",
            )
        self.judged_by_java = True

    def _same(self, expected: dict, actual: dict, judge: str) -> None:
        found = judges.difference(expected, actual)
        self._expect([], found, judge)

    def _expect(self, expected: object, actual: object, what: str) -> None:
        if expected != actual:
            raise AssertionError(self.story(f"{what}: expected {expected}, found {actual}"))

    def story(self, end: str) -> str:
        """The whole history, for whoever must find out."""
        return "\n".join([f"seed {self.seed}:", *self.told, end])

    # The tally

    def scans(self) -> Counter:
        """Full scans by reason; ids are left out of it."""
        return Counter(_reason(one.why) for one in self.seen if isinstance(one, TableScanned))


def _worth_telling(one: Observation) -> str | None:
    match one:
        case TableScanned():
            return f"scanned: {one.why}"
        case StateDrifted():
            return f"drifted at {one.snapshot_id}: {one.gap}"
        case TableGone():
            return f"gone: {one.why}"
        case TrySoon():
            return f"try soon: {one.error}"
        case _:
            return None


def _reason(why: str) -> str:
    return " ".join("N" if word.strip("-").isdecimal() else word for word in why.split())


def play(
    java: Java,
    folder: Path,
    seed: int,
    steps: int,
    *,
    confirm: float = 0.35,
    happenings: Mapping[Step, int] = ALL,
    fates: Mapping[str, int] = ANY,
    kind: type[MadeUp] = MadeUp,
) -> History:
    """A whole history; `confirm` is the chance of a judged confirmation after a step.

    The daemon is there from the start, or comes when something has happened already.
    """
    history = History(java, folder, seed, happenings, fates, kind)
    try:
        if happenings is not ALL or history.chance.random() < 0.5:
            history.confirm()
        for _ in range(steps):
            history.step()
            dice = history.chance.random()
            if dice < confirm:
                history.confirm()
            elif dice < confirm + 0.3:
                history.run(history.chance.choice((0, 0, A_ROUND_S)))
            elif dice > 0.97:
                history.restart(without_fold=happenings is ALL and dice > 0.99)
        history.confirm()
        history.judge_by_java()
    except AssertionError:
        raise
    except Exception as err:
        raise AssertionError(history.story(f"it broke: {type(err).__name__}: {err}")) from err
    finally:
        history.close()
    return history
