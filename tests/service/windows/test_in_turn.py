"""Windows of many tables at the pace of a real daemon, an hour on a clock that the test moves: each has its turn, and soon.

The rounds, the book of windows, the tables and their commits are real. Writers read the topic now and then, as ingest does
between two batches; some say that they grant windows, and never answer. Nobody sleeps.
"""

import sys
from dataclasses import dataclass, field, replace

import pytest

from isotherm.contract.events import WindowClosed, WindowRequested, decode
from isotherm.contract.summary import JOB_ID
from isotherm.runtime.clock import now_ms
from isotherm.runtime.config import LoopConfig
from support.granting import ASKING, Shop
from support.in_process import AtOnce, InProcess
from support.lab import EAGER, Beside, Lab

HOUR_S, STEP_S = 3600, 2
TABLES, DEAF = 16, 4
READS_EVERY_S, COMMITS_EVERY_S, JOB_S = 10, 180, 12
WAITS_FOR_S = 60
"""A writer that heard no close goes on after this: so long is what it has granted."""
A_TENTH = 0.1
COLD = 240
"""Cold partitions: more than ten minutes of work for one slot, in which several small jobs follow each other."""


@dataclass
class SteppedLab(Lab):
    """Both clocks of the daemon stand still until a test moves them."""

    began_ms: int = field(default_factory=now_ms)

    def now_ms(self):
        return self.began_ms + self.ahead_ms

    def monotonic_s(self):
        return self.ahead_ms / 1000

    def maintainer(self, executor):
        return OfTheSameTime(self.catalog, executor, self.now_ms, self)


class OfTheSameTime(Beside):
    """Its store has the lab's clock."""

    def clock_skew_ms(self, loaded):
        return None if super().clock_skew_ms(loaded) is None else 0


class TakingTime(InProcess):
    """Rewrites that take a while of the lab's time."""

    def __init__(self, lab):
        super().__init__()
        self._lab, self._until_s = lab, {}

    def start(self, job, description, io_properties):
        super().start(job, description, io_properties)
        self._until_s[job.job_id] = self._lab.monotonic_s() + JOB_S

    def poll(self):
        now_s = self._lab.monotonic_s()
        ended = [job_id for job_id in self._done if self._until_s[job_id] <= now_s]
        return [(job_id, self._done.pop(job_id)) for job_id in ended]


@dataclass
class Writer:
    """Commits now and then; between two commits it reads the topic, grants what is asked for, and waits until it is over."""

    shop: Shop
    answers: bool
    next_commit_s: float
    next_reading_s: float
    _heard: int = 0
    _granted: str = ""
    _waits_since_s: float = 0.0
    waited_s: float = 0.0

    def turn(self, now_s):
        if now_s >= self.next_reading_s or self._granted:
            self.next_reading_s = now_s + READS_EVERY_S
            self._read(now_s)
        if self._granted and now_s - self._waits_since_s >= WAITS_FOR_S:
            self._go_on(now_s)
        if not self._granted and now_s >= self.next_commit_s:
            self.shop.append()
            self.next_commit_s = now_s + COMMITS_EVERY_S

    def _read(self, now_s):
        name = ".".join(self.shop.table.name())
        events = [decode(one) for one in self.shop.lab.topic.messages[self._heard :]]
        self._heard += len(events)
        mine = [
            one for one in events if isinstance(one, WindowRequested | WindowClosed) and one.table == name
        ]
        closed = {one.window_id for one in mine if isinstance(one, WindowClosed)}
        if self._granted in closed:
            self._go_on(now_s)
        requests = [one for one in mine if isinstance(one, WindowRequested) and one.window_id not in closed]
        if requests and self.answers and not self._granted:
            self.shop.grant(requests[-1])
            self._granted, self._waits_since_s = requests[-1].window_id, now_s

    def _go_on(self, now_s):
        self.waited_s += now_s - self._waits_since_s
        self._granted = ""

    def compacted(self):
        """How often, by the table's own history."""
        return len(self.snapshots()) - self.commits()

    def commits(self):
        """Those of the writer."""
        return sum(JOB_ID not in one.summary.additional_properties for one in self.snapshots())

    def snapshots(self):
        return self.shop.table.refresh().snapshots()


@pytest.fixture
def lab(tmp_path):
    lab = SteppedLab(tmp_path, ASKING.replace('tables: "*"', 'tables: "shop.*"'), threads=AtOnce())
    lab.executor = TakingTime(lab)
    # The pace of deploy/isotherm.yaml.
    lab.config = lab.config.model_copy(update={"loop": LoopConfig(plan_every_s=10, poll_tables_every_s=60)})
    return lab


def writer_of(lab, number):
    """The first ones never answer. Each begins at another time."""
    name = "deaf" if number < DEAF else "shop"
    shop = Shop(lab.root, writer=name, lab=lab, table=lab.create(f"shop.t{number:02}"))
    for _ in range(3):
        shop.append()
    return Writer(shop, name != "deaf", 7 * number % COMMITS_EVERY_S, number % READS_EVERY_S)


def test_in_an_hour_each_table_has_its_turns_and_whoever_never_answers_takes_none_from_others(lab):
    writers = [writer_of(lab, number) for number in range(TABLES)]
    service = lab.service()
    service.start()
    while lab.monotonic_s() < HOUR_S:
        lab.ahead_ms += STEP_S * 1000
        service.step(0)
        for one in writers:
            one.turn(lab.monotonic_s())
    service.stop()

    deaf, others = writers[:DEAF], writers[DEAF:]
    times = [one.compacted() for one in others]
    assert min(times) >= 6
    assert max(times) - min(times) <= 2
    assert max(one.waited_s for one in others) < A_TENTH * HOUR_S
    assert [one.compacted() for one in deaf] == [0] * DEAF
    # Each commit of ours was made while its writer waited, and each row is there.
    for one in writers:
        assert one.shop.table.scan().to_arrow().num_rows == 2 * one.commits()


@pytest.mark.parametrize(
    ("tables", "answer", "reads_every_s", "job_s"),
    [(1, True, READS_EVERY_S, JOB_S), (1, True, 24, 20), (8, False, READS_EVERY_S, JOB_S)],
    ids=["they answer", "they answer late", "they never do"],
)
def test_beside_cold_work_that_never_ends_windows_have_every_other_turn(
    lab, monkeypatch, tables, answer, reads_every_s, job_s
):
    monkeypatch.setattr(sys.modules[__name__], "READS_EVERY_S", reads_every_s)
    monkeypatch.setattr(sys.modules[__name__], "JOB_S", job_s)
    (lab.root / "policies" / "cold.yaml").write_text(
        EAGER.replace('tables: "*"', 'tables: "cold.*"').replace("min_files: 3", "min_files: 3, rest: 0s")
    )
    writers = [replace(writer_of(lab, DEAF + number), answers=answer) for number in range(tables)]
    table = lab.create("cold.t")
    for _ in range(3):
        lab.append(table, *range(COLD), rows=1)
    for hour in (10, 11, 12):
        lab.append(table, COLD + hour)
    service = lab.service()
    service.start()
    while lab.monotonic_s() < HOUR_S / 6:
        lab.ahead_ms += STEP_S * 1000
        service.step(0)
        for one in writers:
            one.turn(lab.monotonic_s())
    done = [one for one in service.ledger.operations() if one.table.name == "cold.t" and one.state == "done"]
    service.stop()

    # Its writers are not asked again before ten times as long as they waited.
    assert all(one.compacted() >= 2 for one in writers) == answer
    assert COLD / 4 <= len(done) < COLD
