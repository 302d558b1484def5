"""One history of a table that Spark writes and the whole daemon maintains between Spark's steps; Spark is the judge.

The daemon is the real service with every kind of job on, on real files; events are announced honestly, late, or never.
Rewrites run in this process, and the clock is moved by hand (`moved_time`), so that hours turn cold, expiries and graces
are over and searches are due. Now and then Spark commits while a request of the daemon's is on its way.

After the daemon has changed anything, each snapshot that is there has the rows that it had, and what may not have gone is
there. At the end, after quiet days, nothing is due, and Spark's own work goes on.
"""

import random
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyiceberg.table.metadata import TableMetadata

from histories.account import Account
from histories.afterwards import go_on
from histories.eager_policy import KEEP_FOR_MS, KEEP_LAST, drawn
from histories.fates import HONEST, LOSSY, SILENT, Post
from histories.happenings import Step
from histories.hot_partitions import HotPartitions
from histories.java import Java, RefusedError, refusing
from histories.kept_files import KeptFiles, missing_metadata, missing_statistics
from histories.keyed_writes import hit
from histories.moved_time import MovedTime
from histories.promised import lost
from histories.said import Said
from histories.spark_judge import SparkJudge, same_head
from histories.work_lab import WorkLab, leaving
from histories.work_steps import ALONE, MIRROR, STEPS, STREAM
from histories.worked_table import WorkedTable
from isotherm.contract.paths import normalised
from isotherm.contract.summary import JOB_ID
from isotherm.core.model.decisions import Verdict
from isotherm.core.model.job_limits import MAX_JOB_BYTES
from isotherm.core.planner import debt, job_size, minor
from isotherm.core.units import HOUR_MS, MINUTE_MS
from support.in_process import AtOnce
from support.lab import uuid_of

SPANS_MS = (0, 20 * MINUTE_MS, 3 * HOUR_MS, 26 * HOUR_MS, 50 * HOUR_MS)
AT_ONCE_MS = 5 * HOUR_MS
"""A longer span passes in parts: a daemon that does not turn for six hours believes no clock. Of five, no number of parts is a
day, so the seconds that this machine takes do not decide what is due."""
LIGHT_BYTES = (1, 1, debt.MERGED_FROM_BYTES)
"""From so much data of a partition on its deletes are merged or made into positions; tables here are never large."""
JOB_BYTES = (MAX_JOB_BYTES, MAX_JOB_BYTES, 6 * 1024)
"""So much one job reads at most: the rest of its partition stays beside it."""
APPENDS = 3
"""So many show that a table is only appended to."""
MOST_TURNS, UNHEARD_TURNS, QUIET_TURNS = 400, 150, 3
RACE, AIMED, RESTART = 0.3, 0.5, 0.06
"""How often a step of Spark's comes while a request of the daemon's is on its way, it deletes from a file that a job is about to
replace, and the daemon is another one."""


@dataclass
class WorkHistory:
    """A table, the way of its events, the daemon that maintains it, and its judge."""

    java: Java
    folder: Path
    properties: Mapping[str, str]
    """Of the catalog, for PyIceberg."""
    seed: int
    told: list[str] = field(default_factory=list)
    happened: Counter[str] = field(default_factory=Counter)
    """Steps that did something, by name, and what the daemon has done, by kind."""
    ends: Counter[str] = field(default_factory=Counter)
    """How jobs ended, by action and reason."""
    refused: int = 0
    judged: int = 0

    def __post_init__(self) -> None:
        self.asked = Counter[str]()
        chance = self._chance("history")
        policy = drawn(chance)
        self.lab = WorkLab(
            self.folder,
            policy=policy.text,
            properties=dict(self.properties),
            catalog_name=self.java.name,
            threads=AtOnce(),
        )
        self.account = Account(self.lab, self.told, self.happened, self.ends)
        self.post = Post(chance, self.lab.topic, chance.choice((HONEST, LOSSY, SILENT)))
        self.steps = chance.choice((STEPS, STEPS, ALONE, MIRROR, MIRROR, STREAM))
        namespace = f"w{self.seed}"
        self.java.lake.create_namespace_if_not_exists(namespace)
        self.world = WorkedTable(self.java, chance, f"{namespace}.t")
        self.light_bytes, self.job_bytes = chance.choice(LIGHT_BYTES), chance.choice(JOB_BYTES)
        self.told.append(
            f"policy: {policy.text}\na job reads {self.job_bytes} at most, light {self.light_bytes}"
        )
        self.told.append(f"created: {self.world.create()}")
        self.said = Said(self.lab, self.world.name)
        self.hot = HotPartitions(policy.span_ms("quiet_for") or 0, policy.span_ms("minor_after"), APPENDS)
        self.kept = KeptFiles(policy.span_ms("orphans") or 0, policy.span_ms("delete_after") or 0)
        self._look()
        self.time = MovedTime(self.world.folder, self.lab.now_ms, lambda: self.lab.ahead_ms)
        self.judge = SparkJudge(self.java.spark, self.world.spark_name)
        self.service: Any = None

    def _chance(self, kind: str) -> random.Random:
        """The chance of the next thing of a kind: whether a race came before it, and what it asked, makes no difference."""
        self.asked[kind] += 1
        return random.Random(f"{self.seed}/{kind}/{self.asked[kind]}")

    def _look(self) -> None:
        """Load the table, and write down what was written to it."""
        self.world.look()
        self.hot.note(self.world.seen, self.world.hour)

    # Spark

    def step(self) -> None:
        """Something happens to the table, and to the events of what happened before."""
        self._step(self._chance("step"))
        self.post.chance = self._chance("events")
        fates = self.post.carry(self.world.seen)
        if fates:
            self.told[-1] += f"; events: {', '.join(fates)}"
        if said := self.said.speak(self._chance("words"), self.world.seen):
            self.told[-1] += f"; {', '.join(said)}"

    def _step(self, chance: random.Random, chosen: Step | None = None) -> None:
        self.world.chance = chance
        if chosen is None:
            chosen = chance.choices(list(self.steps), list(self.steps.values()))[0]
        with self.sparks_time():
            try:
                with refusing():
                    line = chosen(self.world)
                self.happened[chosen.__name__] += line is not None
            except RefusedError as no:
                self.refused += 1
                line = f"{chosen.__name__} refused: {str(no)[:100]}"
        self.told.append((line or f"{chosen.__name__}: nothing to do")[:300])
        self.kept.note_strays(self.world.folder, self.lab.now_ms())
        self._look()

    def sparks_time(self) -> Any:
        """Spark is at work."""
        return self.time.sparks(self.world.newest_version)

    def learn(self) -> None:
        """Read what the daemon must leave as it is."""
        self._look()
        self.kept.learn(self.world.seen, self.lab.now_ms())
        self.judge.learn(self.world.snapshots)
        self.head = self._head()

    def _head(self) -> Counter[tuple[Any, ...]]:
        return self.judge.head(with_lineage=self.world.version == 3)

    # The daemon

    def run(self, span_ms: int, *, race: float = RACE) -> None:
        """Time passes, and the daemon does whatever is due; then Spark looks at what there is."""
        self.learn()
        self.told.append(f"  the daemon, {span_ms / HOUR_MS:g} h later")
        self.before, files, chance = self.world.seen.metadata, self._files(), self._chance("run")
        self.race_in = chance.choice((1, 1, 2)) if chance.random() < race else -1
        self.has_raced, self.is_race_behind = False, chance.random() < 0.5
        self.is_aimed = chance.random() < AIMED
        if self.is_aimed and self.race_in > 0:
            self.race_in, self.is_race_behind = 1, False
        heard = len(self.lab.seen)
        if self.service is None or chance.random() < RESTART:
            self._begin()
        self._settle(heard)
        while span_ms > 0:
            # Whatever is under way ends first: what takes hours is asked for more rarely.
            self.lab.ahead_ms += min(span_ms, AT_ONCE_MS)
            span_ms -= AT_ONCE_MS
            self._settle(heard)
        self.time.date()
        self._account(self.lab.seen[heard:])
        self._look()
        if self._files() != files:
            self._judge()
        self.happened["metadata trimmed"] += sum(
            path.name.endswith(".metadata.json") for path in files - self._files()
        )
        self.happened["orphans removed"] += sum(
            path.name.startswith("left-behind") for path in files - self._files()
        )

    def _settle(self, heard: int) -> None:
        """Turn the loop, and let a little time pass, until there is nothing to do any more."""
        service, quiet = self.service, 0
        for turn in range(MOST_TURNS):
            service.step(0)
            verdicts = [service.fold.tally(uuid).verdicts for uuid in service.fold.tables()]
            is_sweeping = (
                service.ledger.tables_to_sweep(service.now_ms()) and not service.deletions.everywhere()
            )
            # A request that got no answer may land for a day, unless something comes after it. In the end none is open.
            is_busy = len(service.compactions) or (turn < UNHEARD_TURNS and service.ledger.unfinished())
            quiet = 0 if is_busy or is_sweeping or any(one.get("due") for one in verdicts) else quiet + 1
            if quiet == QUIET_TURNS:
                self._expect_files()
                return
            # A commit that comes to nothing after five seconds holds up all others; so few of them are slow.
            self.lab.ahead_ms += 1_000 if is_busy and turn % 10 else 30_000 * (not quiet)
        self._account(self.lab.seen[heard:])
        raise AssertionError(self.story(f"the daemon does not come to rest: {self._verdicts()}"))

    def _verdicts(self) -> list[str]:
        """What the daemon would do, or why not."""
        uuid = uuid_of(self.world.seen)
        row, partitions = self.service.fold.table(uuid), self.service.fold.partitions(uuid)
        of_table = [] if row is None else row.of_table
        return [
            *(f"{one.action} {one.label}: {one.verdict}, {one.why}" for one in of_table),
            *(f"{one.key}: {one.verdict}" for one in partitions),
            f"open: {self.service.ledger.open_jobs()}",
            f"to sweep: {self.service.ledger.tables_to_sweep(self.lab.now_ms())}",
        ]

    def _begin(self) -> None:
        if self.service is not None:
            self.told[-1] += ", another one"
            self.service.stop()
        self.service = self.lab.service()
        self.service.maintainer.requests.on_commit = self._on_commit
        self.service.start()

    def _on_commit(self, real: Any, table: Any, requirements: Any, updates: Any) -> Any:
        """A request of the daemon's: Spark may have come first."""
        files = leaving(table, updates) if self.is_aimed else []
        self.race_in -= bool(files) or not self.is_aimed
        is_now = self.race_in == 0 and not self.has_raced
        if is_now and not self.is_race_behind:
            self._race(files)
        try:
            answer = real(table, requirements, updates)
        except Exception as err:
            self.told.append(f"    refused: {err}"[:300])
            raise
        self.time.set_right(Path(normalised(answer.metadata_location)))
        if is_now and self.is_race_behind:
            self._race([])
        return answer

    def _race(self, files: list[str]) -> None:
        """Spark comes in between; `files` are about to be replaced."""
        self.has_raced = True
        self._look()
        self.told.append("  while it commits:")
        head = self.world.head
        self._judge()
        chance = self._chance(f"race in run {self.asked['run']}")
        self._step(chance, self._hit(chance.choice(files)) if files else None)
        if self.world.head != head:
            self.happened["race"] += 1
        self.before = self.world.seen.metadata
        self.learn()

    @staticmethod
    def _hit(path: str) -> Step:
        def hit_a_job(world: WorkedTable) -> str | None:
            return hit(world, path)

        return hit_a_job

    def _files(self) -> set[Path]:
        return {path for path in self.world.folder.rglob("*") if path.is_file() and path.suffix != ".crc"}

    # The judgement

    def _judge(self) -> None:
        self.judged += 1
        changed = self.judge.changed(self.world.snapshots)
        self._expect({}, changed, "snapshots with other rows")
        self._expect("", same_head(self.head, self._head()), "the head")
        self._vouch(self.world.seen.metadata)
        changed_hot = self.hot.changed(self.lab.is_minor, self.said.is_open, self.world.seen.metadata)
        self._expect([], changed_hot, "partitions that were hot")
        self.judge.learn(self.world.snapshots)
        for one in self.world.seen.metadata.snapshots:
            rows, before = self.judge.known[one.snapshot_id], self.judge.known.get(one.parent_snapshot_id)
            if before is not None and JOB_ID in one.summary.additional_properties:
                self._expect(before, rows, f"the rows of our snapshot {one.snapshot_id}")

    def _vouch(self, after: TableMetadata) -> None:
        """Of what was retained before nothing is gone that may not be."""
        gone = lost(self.before, after, self.lab.now_ms(), KEEP_LAST, KEEP_FOR_MS)
        gone += self.said.lost(self.before, after)
        self._expect([], gone, "what had to stay")
        self._expect([], missing_statistics(self.before, after), "statistics of what is retained")
        self._expect([], missing_metadata(self.world.seen), "schemas and specs of what is retained")
        self.happened["refs dropped"] += len(set(self.before.refs) - set(after.refs))

    def _expect_files(self) -> None:
        self._expect([], self.kept.gone(self.lab.now_ms()), "files that had to stay")

    def _account(self, observations: list[Any]) -> None:
        self._expect([], list(self.account.mistakes(observations, has_raced=self.has_raced)), "mistakes")

    def finish(self) -> None:
        """Quiet days; then nothing is due that could be done, and Spark goes on."""
        for span_ms in (90 * MINUTE_MS, 26 * HOUR_MS, 26 * HOUR_MS):
            self.run(span_ms, race=0)
        self._expect({}, self.service.ledger.open_jobs(), "jobs of which nobody knows the end")
        verdicts = self.service.fold.tally(uuid_of(self.world.seen)).verdicts
        self._expect(0, verdicts.get(Verdict.DUE, 0), f"partitions that are due ({verdicts})")
        row = self.service.fold.table(uuid_of(self.world.seen))
        due = [one for one in row.of_table if one.verdict is Verdict.DUE or not one.why]
        self._expect([], due, "what is due of the table")
        if self.world.snapshots:
            with self.sparks_time():
                self._expect([], go_on(self.world), "Spark's own work")

    def _expect(self, expected: object, actual: object, what: str) -> None:
        if expected != actual:
            raise AssertionError(self.story(f"{what}: expected {expected}, found {actual}"))

    def story(self, end: str) -> str:
        """The whole history, for whoever must find out."""
        return "\n".join([f"seed {self.seed}:", *self.told, end])

    def close(self) -> None:
        """Leave nothing behind."""
        if self.service is not None:
            self.service.stop()
        self.java.lake.drop_table(self.world.name)
        self.java.lake.drop_namespace(self.world.name.partition(".")[0])
        shutil.rmtree(self.time.folder.parent, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def play(java: Java, folder: Path, properties: Mapping[str, str], seed: int, steps: int) -> WorkHistory:
    """A whole history: the daemon works after one or a few steps of Spark's, some time later."""
    history = WorkHistory(java, folder, properties, seed)
    with (
        patch.object(debt, "MERGED_FROM_BYTES", history.light_bytes),
        patch.object(job_size, "MAX_JOB_BYTES", history.job_bytes),
        patch.object(minor, "ENOUGH_APPENDS", APPENDS),
    ):
        _play(history, steps)
    return history


def _play(history: WorkHistory, steps: int) -> None:
    try:
        chance = random.Random(history.seed)
        for _ in range(steps):
            for _ in range(chance.choice((1, 2, 3))):
                history.step()
            history.run(chance.choice(SPANS_MS))
        history.finish()
    except AssertionError:
        raise
    except Exception as err:
        raise AssertionError(history.story(f"it broke: {type(err).__name__}: {err}")) from err
    finally:
        history.close()
