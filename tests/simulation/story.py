"""One story: a seed draws a world, what befalls it, and in which order; after each step the judge looks."""

import gc
import os
import random
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from isotherm.core.deletion import Cause
from isotherm.core.model.decisions import Verdict
from isotherm.core.model.holds import Hold, HoldKind
from isotherm.iceberg.manifests import counts
from isotherm.service.ports import Fenced
from isotherm.store.database import to_json
from simulation.brokers import Brokers
from simulation.daemons import Daemon
from simulation.judge import ENOUGH_APPENDS, FOR_UPSERTS, LOG, MINOR, POLICY, TIDY, Judge
from simulation.world import Broken, Faults, Killed, World
from simulation.writers import Writers, create

STEPS = 12
REST_ROUNDS = 120
"""So many rounds, four hours apart, after which nothing may be left to do: what is given up is given up in a week."""
TIDY_ROUNDS = 40
"""Twelve hours apart: a file waits for a day to be old enough, for two days to be looked for, and for one or two to go."""
OPEN = "open operations"
MEMORY = Path("/dev/shm")  # noqa: S108 (where there is such a disk, a sync of it costs nothing)

PROFILES: dict[str, dict[str, float]] = {
    "calm": {},
    "busy": {"moves": 0.05},
    "crashes": {"kill": 0.02},
    "catalog": {
        "catalog_away": 0.03,
        "not_found": 0.03,
        "stale": 0.05,
        "answer_lost": 0.2,
        "sent_twice": 0.2,
    },
    "late": {"lands_late": 0.3, "answer_lost": 0.2, "moves": 0.02, "not_found": 0.02},
    "store": {"store_fails": 0.02, "torn": 0.01},
    "broker": {"broker_away": 0.15, "moves": 0.02},
    "all": {
        "moves": 0.02,
        "kill": 0.005,
        "catalog_away": 0.01,
        "not_found": 0.01,
        "stale": 0.02,
        "answer_lost": 0.1,
        "lands_late": 0.1,
        "sent_twice": 0.1,
        "forbidden": 0.03,
        "store_fails": 0.005,
        "torn": 0.003,
        "broker_away": 0.03,
        "rewrite_fails": 0.1,
    },
}


@dataclass
class Story:
    """A world with writers, people, one or two daemons, and a judge."""

    seed: int
    root: Path
    world: World = field(init=False)
    brokers: Brokers = field(init=False)
    writers: Writers = field(init=False)
    judge: Judge = field(init=False)
    daemons: list[Daemon] = field(init=False)
    profile: str = ""
    policy: str = POLICY
    moves: "Mapping[Callable[[Story, str], None], int]" = field(default_factory=lambda: MOVES)

    def __post_init__(self) -> None:
        self.world = World(self.seed, is_rest=bool(self.seed % 2))
        self.brokers = Brokers(self.world)
        self.writers = Writers(self.world, self.brokers)
        self.judge = Judge(self.world, self.writers)
        self.world.move = self.move
        policies = self.root / "policies"
        policies.mkdir()
        if self.seed % UPSERTS_EVERY == UPSERTS_AT:
            self.policy, self.moves = FOR_UPSERTS, {**MOVES, Story.upsert: 30}
        if self._is_tidy:
            self.policy, self.moves = TIDY, {**MOVES, Story.litter: 10}
            self.world.versions_named = 4
        (policies / "all.yaml").write_text(self.policy)
        (policies / "log.yaml").write_text(MINOR)
        chance = self.world.chance
        self.profile = chance.choice(list(PROFILES))
        count = 2 if chance.random() < 0.15 else 1
        self.daemons = []
        for number in range(count):
            folder = self.root / f"state-{number}"
            folder.mkdir()
            self.daemons.append(Daemon(self.world, self.brokers, folder, policies, number))

    @property
    def _is_tidy(self) -> bool:
        return self.seed % UPSERTS_EVERY == TIDY_AT

    # The story

    def play(self, steps: int = STEPS) -> None:
        """From the first snapshot to the last judgement."""
        chance = self.world.chance
        for name in ("shop.orders", "shop.events")[: 1 + (chance.random() < 0.3)]:
            create(self.world, name)
            for hour in range(chance.randint(1, 3)):
                for _ in range(chance.randint(1, 4)):
                    self.writers.append(name, [self.writers.hour - 3 + hour])
                    self.world.now_ms += 60_000
        if chance.random() < 0.3:
            self._begin_log()
        self.world.faults = Faults(**PROFILES[self.profile])
        for _ in range(steps):
            self._happen()
            self.judge.step()
            for daemon in self.daemons:
                self._turn(daemon)
                self.judge.step()
        self.rest()

    def _begin_log(self) -> None:
        """A table that was only appended to for so long that its old files may be merged while it is written."""
        create(self.world, LOG)
        for _ in range(ENOUGH_APPENDS + self.world.chance.randint(-2, 3)):
            self.writers.append(LOG, [self.writers.hour])
            self.world.now_ms += 20_000

    def _happen(self) -> None:
        chance = self.world.chance
        self.world.now_ms += chance.choice((1_000, 20_000, 60_000, 300_000, 1_900_000))
        if chance.random() < 0.75:
            self.move()
        if chance.random() < 0.12:
            self._disturb(chance.choice(self.daemons))

    def _turn(self, daemon: Daemon) -> None:
        """The daemon turns its loop a few times; where it is killed, it starts again later."""
        try:
            if daemon.service is None:
                if self.world.may(0.3):
                    return
                self.world.tell(f"daemon {daemon.number} starts")
                daemon.boot()
            assert daemon.service is not None
            for _ in range(self.world.chance.randint(1, 4)):
                daemon.service.step(0)
                self.world.now_ms += 200
        except Killed:
            daemon.kill()
        except Fenced:
            self.world.tell(f"daemon {daemon.number} is fenced")
            daemon.kill()

    # What others do

    def move(self) -> None:
        """Somebody does something."""
        names = sorted(self.world.tables)
        name = self.world.chance.choice(names)
        do = self.world.chance.choices(list(self.moves), list(self.moves.values()))[0]
        if name == LOG and self.world.chance.random() < 0.8:
            do = Story.append
        self.world.tell(f"{do.__name__} {name}")
        do(self, name)

    def append(self, name: str) -> None:
        chance = self.world.chance
        if chance.random() < 0.4:
            self.writers.hour += 1
        hours = [self.writers.hour]
        if chance.random() < 0.3:
            hours.append(self.writers.hour - chance.randint(1, 4))
        self.writers.append(name, hours, token=chance.random() < 0.8)

    def delete_rows(self, name: str) -> None:
        self.writers.delete_rows(name)

    def upsert(self, name: str) -> None:
        self.writers.upsert(name)

    def overwrite(self, name: str) -> None:
        self.writers.overwrite(name, self.writers.hour - self.world.chance.randint(0, 4))

    def take_back(self, name: str) -> None:
        self.writers.take_back(name)

    def begin_merge(self, name: str) -> None:
        chance = self.world.chance
        self.writers.begin_merge(
            name, self.writers.hour - chance.randint(0, 4), announces=chance.random() < 0.8
        )

    def end_merge(self, name: str) -> None:
        del name
        if self.writers.merges:
            self.writers.end_merge()

    def litter(self, name: str) -> None:
        self.writers.litter(name)

    def tag(self, name: str) -> None:
        self.writers.tag(name, self._some_snapshot(name))

    def branch(self, name: str) -> None:
        self.writers.branch(name, self._some_snapshot(name), self.world.chance.randint(1, 4))

    def drop_ref(self, name: str) -> None:
        self.writers.drop_ref(name)

    def roll_back(self, name: str) -> None:
        self.writers.roll_back(name, self._some_snapshot(name))

    def gc(self, name: str) -> None:
        properties = dict(self.world.tables[name].metadata.properties)
        properties["gc.enabled"] = self.world.chance.choice(("true", "false"))
        self.writers.change(name, properties=properties)

    def rename(self, name: str) -> None:
        other = f"shop.{self.world.chance.choice(('orders', 'events', 'old', 'new'))}"
        if other not in self.world.tables:
            self.world.tables[other] = self.world.tables.pop(name)
            self.world.before.pop(name, None)

    def make_again(self, name: str) -> None:
        """Dropped, without its files, and made again in the same place."""
        location = self.world.tables.pop(name).metadata.location
        self.world.before.pop(name, None)
        create(self.world, name, location)
        self.writers.append(name, [self.writers.hour - 2])

    def send_late(self, name: str) -> None:
        del name
        self.writers.send_late()

    def land(self, name: str) -> None:
        """What was on its way arrives."""
        del name
        late, self.world.late = self.world.late, []
        self.world.is_late = True
        try:
            for request in late:
                try:
                    request()
                except Exception as err:  # noqa: BLE001 (nobody hears the answer)
                    self.world.tell(f"a late request is refused: {err}")
        finally:
            self.world.is_late = False

    def _some_snapshot(self, name: str) -> int:
        metadata = self.world.tables[name].metadata
        line = []
        current = metadata.current_snapshot()
        while current is not None:
            line.append(current.snapshot_id)
            current = metadata.snapshot_by_id(current.parent_snapshot_id or 0)
        others = [one.snapshot_id for one in metadata.snapshots]
        return self.world.chance.choice(line[:4] if self.world.chance.random() < 0.7 else others)

    # What befalls a daemon

    def _disturb(self, daemon: Daemon) -> None:
        kinds = [self._restart, self._cut_topic, self._rebalance, self._pause, self._jump, self._back_up]
        kinds += [self._restore, self._lose_fold, self._older_fold, self._wait_long, self._edit_policy]
        do = self.world.chance.choice(kinds)
        self.world.tell(f"{do.__name__.removeprefix('_')} of daemon {daemon.number}")
        do(daemon)

    def _end(self, daemon: Daemon) -> None:
        if daemon.service is None:
            return
        try:
            if self.world.may(0.5):
                daemon.stop()
        except Killed:
            pass
        daemon.kill()

    def _restart(self, daemon: Daemon) -> None:
        self._end(daemon)

    def _cut_topic(self, _: Daemon) -> None:
        self.writers.forget_intents()
        if self.world.may(0.5):
            self.brokers.cut()
        else:
            self.brokers.make_again()

    def _rebalance(self, _: Daemon) -> None:
        self.brokers.give_to(self.world.chance.choice((None, *range(len(self.daemons)))))

    def _pause(self, _: Daemon) -> None:
        name, version = self.world.chance.choice(sorted(self.world.tables.items()))
        uuid = str(version.metadata.table_uuid)
        hold = Hold(HoldKind.PAUSE, uuid, name, "a person", self.world.now_ms)
        self.brokers.holds.append((hold.key, to_json(hold).encode() if self.world.may(0.5) else None))

    def _jump(self, daemon: Daemon) -> None:
        daemon.ahead_ms = self.world.chance.choice((0, 7_200_000, -7_200_000, 8 * 86_400_000))

    def _back_up(self, daemon: Daemon) -> None:
        self._end(daemon)
        if (daemon.folder / "ledger.db").exists():
            daemon.back_up("ledger")

    def _restore(self, daemon: Daemon) -> None:
        self._end(daemon)
        daemon.restore("ledger")

    def _lose_fold(self, daemon: Daemon) -> None:
        self._end(daemon)
        daemon.lose("fold")

    def _older_fold(self, daemon: Daemon) -> None:
        """The machine lost its power, and with it the last transactions of the fold."""
        self._end(daemon)
        if not daemon.restore("fold") and (daemon.folder / "fold.db").exists():
            daemon.back_up("fold")

    def _edit_policy(self, daemon: Daemon) -> None:
        edits = (
            self.policy,
            self.policy.replace("expire: {", "expire: {enabled: false, "),
            self.policy.replace("10m", "1d"),
        )
        (daemon.policies / "all.yaml").write_text(self.world.chance.choice(edits))

    def _wait_long(self, _: Daemon) -> None:
        self.world.now_ms += 26 * 3_600_000

    # The end

    def rest(self) -> None:
        """Faults end, people let go, and the daemon has time: nothing may be left to do without a reason."""
        world = self.world
        world.faults = Faults()
        world.tell("--- faults have ended")
        self.land("")
        self.writers.send_late()
        for version in world.tables.values():
            uuid = str(version.metadata.table_uuid)
            self.brokers.holds.append((Hold(HoldKind.PAUSE, uuid, "", "", 0).key, None))
        daemon = self.daemons[0]
        for other in self.daemons[1:]:
            self._end(other)
        daemon.ahead_ms = 0
        (daemon.policies / "all.yaml").write_text(self.policy)
        self.brokers.give_to(0)
        self._turn(daemon)
        # A person resumes a ledger that is held because it is older than the world: from here on it is proof alone.
        for key, value in list(self.brokers.holds):
            if value is not None and b'"ledger"' in value:
                self.brokers.holds.append((key, None))
        self._does_the_rest(daemon)
        if self._is_tidy:
            self._tidied(daemon)
        self._believes_the_truth(daemon)
        daemon.stop()
        self.judge.step()

    def _does_the_rest(self, daemon: Daemon) -> None:
        """Until nothing is left to do."""
        reason = ""
        for number in range(REST_ROUNDS):
            self._turn(daemon)
            self._turn(daemon)
            self.judge.step()
            self.world.now_ms += 4 * 3_600_000
            reason = self._left_to_do(daemon)
            if not reason:
                return
            if number == REST_ROUNDS // 2 and reason.startswith(OPEN):
                # As long as the head stays, the request of a compaction may still land: the next commit settles it.
                for name in tuple(self.world.tables):
                    self.append(name)
        raise Broken(f"after {REST_ROUNDS} rounds without faults: {reason}")

    def _tidied(self, daemon: Daemon) -> None:
        """In a week all is gone that nobody needs, of tables whose files may be deleted."""
        for _ in range(TIDY_ROUNDS):
            self._turn(daemon)
            self._turn(daemon)
            self.judge.step()
            self.world.now_ms += 12 * 3_600_000
            if not (left := self.judge.litter(self.writers.littered)):
                return
        service = daemon.service
        for name, path in left:
            uuid = str(self.world.tables[name].metadata.table_uuid)
            if (
                service is not None
                and not service.ledger.deletions_held()
                and not service.ledger.halted(uuid)
            ):
                raise Broken(f"{name} has {path} still, which nobody needs")

    def _left_to_do(self, daemon: Daemon) -> str:
        """What the daemon still has to do, though nothing that it tells keeps it from it."""
        service = daemon.service
        if service is None:
            return "it does not live"
        if (
            len(service.compactions)
            or len(service.expiries)
            or len(service.searches)
            or service.ledger.unfinished()
        ):
            return f"{OPEN}: {service.ledger.unfinished()[:1]}"
        rows = service.fold.tables()
        for name, version in self.world.tables.items():
            uuid = str(version.metadata.table_uuid)
            row = rows.get(uuid)
            if row is None or row.state.head != version.metadata.current_snapshot_id:
                return f"{name} is at {version.metadata.current_snapshot_id}, it believes {row and row.state.head}"
            held = service.ledger.halted(uuid) or service.ledger.deletions_held()
            due = service.fold.tally(uuid).verdicts.get(Verdict.DUE, 0)
            whole = [one for one in row.of_table if one.verdict is Verdict.DUE]
            if (due or whole) and not service.ledger.halted(uuid):
                return f"{name} has work that is due: {due} partitions, {[one.why for one in whole]}"
            if service.ledger.unannounced(uuid, daemon.now_ms()):
                return f"{name} has snapshots that nobody announced"
            frozen = version.metadata.properties.get("gc.enabled") == "false"
            if service.ledger.deletions(uuid) and not held and not frozen:
                waiting = service.ledger.deletions(uuid).get("waiting", 0)
                if waiting and service.ledger.due_deletions(uuid, daemon.now_ms(), 10, list(Cause)):
                    return f"{name} has {waiting} files whose grace is over"
        return ""

    def _believes_the_truth(self, daemon: Daemon) -> None:
        """Its state equals what a reader of everything counts."""
        assert daemon.service is not None
        for name, version in self.world.tables.items():
            head = version.metadata.current_snapshot()
            read = None if head is None else self.judge.read(head)
            truth = Counter() if read is None else Counter(read.live.values())
            fold = daemon.service.fold
            believed = {
                one.key: sum(stats.files for stats in one.state.data.values())
                for one in fold.partitions(str(version.metadata.table_uuid))
            }
            counted = {f'{{"1000":{hour}}}': count for hour, count in truth.items()}
            seen = {key.replace(" ", ""): count for key, count in believed.items() if count}
            if seen != counted:
                raise Broken(f"{name}: it believes {seen}, there are {counted}")


MOVES: dict[Callable[[Story, str], None], int] = {
    Story.append: 30,
    Story.delete_rows: 6,
    Story.overwrite: 4,
    Story.take_back: 3,
    Story.begin_merge: 5,
    Story.end_merge: 6,
    Story.tag: 3,
    Story.branch: 2,
    Story.drop_ref: 3,
    Story.roll_back: 2,
    Story.gc: 1,
    Story.rename: 1,
    Story.make_again: 1,
    Story.send_late: 3,
    Story.land: 4,
}
UPSERTS_EVERY, UPSERTS_AT, TIDY_AT = 5, 2, 1
"""One story in so many has a writer of equality deletes, and one a daemon that looks for what nothing needs: the seeds that
these remainders leave."""


@contextmanager
def drawn(seed: int) -> Iterator[Story]:
    """A story on a disk of its own, in which one seed decides everything."""
    where = str(MEMORY) if MEMORY.is_dir() else None
    root = Path(tempfile.mkdtemp(prefix="isotherm-story-", dir=where))
    chance = random.Random(seed)
    random.seed(seed)
    real, os.urandom = os.urandom, chance.randbytes  # ids of jobs and snapshots
    readers, counts.READERS = counts.READERS, sys.maxsize  # manifests are read in turn
    try:
        yield Story(seed, root)
    finally:
        os.urandom, counts.READERS = real, readers
        shutil.rmtree(root, ignore_errors=True)


@dataclass(frozen=True)
class Told:
    """How a story ended."""

    seed: int
    profile: str
    broken: str
    """What was broken, with the last steps; empty: nothing."""
    counts: Mapping[str, int]
    steps: tuple[str, ...]


def imported() -> None:
    """What stories need is there, with this module: the collector looks at it no more, as in the daemon."""
    gc.freeze()


def told(seed: int, steps: int = STEPS) -> Told:
    """Play a seed."""
    with drawn(seed) as story:
        broken = ""
        try:
            story.play(steps)
        except (Broken, Exception) as err:  # noqa: BLE001 (whatever ends the daemon is a finding)
            broken = f"{type(err).__name__}: {err}"
            if not isinstance(err, Broken):
                broken += "\n" + "".join(traceback.format_exception(err))
        finally:
            for daemon in story.daemons:
                daemon.kill()
        judge = story.judge
        done = {
            "replaced": judge.replaced,
            "merged": judge.merged,
            "converted": judge.converted,
            "beside": judge.replaced_hot,
            "expired": judge.expired,
            "deleted": judge.deleted,
            "trimmed": judge.trimmed,
            "orphans": judge.orphans,
        }
        return Told(seed, story.profile, broken, done, tuple(story.world.log))
