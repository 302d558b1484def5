"""A machine's clock that was ahead for a while and is set right keeps no table waiting for that long."""

from dataclasses import dataclass

import pytest

from isotherm.contract.events import OpenWindow
from isotherm.core.model.holds import Hold, HoldKind
from isotherm.core.units import DAY_MS, HOUR_MS
from isotherm.service.rounds.admission import Admission
from support.builders import NOW
from support.lab import EAGER, Lab, believed, counted, event_of, started, uuid_of


@dataclass
class Wrong(Lab):
    """A lab whose clock differs from the true time."""

    wrong_ms: int = 0

    def now_ms(self):
        return super().now_ms() + self.wrong_ms


@pytest.fixture
def lab(tmp_path):
    made = Wrong(tmp_path)
    yield made
    made.executor.stop()


def test_a_table_without_events_is_looked_at_though_it_was_confirmed_in_the_future(lab):
    table = lab.create()
    lab.append(table, 1, announce=False)
    lab.wrong_ms = 100 * DAY_MS
    service = started(lab)
    service.step(0)
    service.step(0)
    assert believed(service, uuid_of(table)) == counted(lab.scan())
    lab.wrong_ms = 0
    lab.append(table, 1, 2, announce=False)
    service.step(0)
    service.step(0)

    assert believed(service, uuid_of(table)) == counted(lab.scan())
    service.stop()


def test_events_that_came_in_the_future_do_not_keep_a_table_from_being_looked_at(lab):
    every_ms = 60_000
    table = lab.create()
    service = started(lab)
    service.step(0)
    lab.wrong_ms = 100 * DAY_MS
    lab.append(table, 1)
    service.step(0)
    lab.wrong_ms = 0
    service.follower.confirm("shop.orders")
    now_ms, uuid = service.now_ms(), uuid_of(table)

    assert not service.fold.is_silent(uuid, now_ms, every_ms)
    assert service.fold.is_silent(uuid, now_ms + 6 * every_ms, every_ms)
    assert uuid in service.fold.agenda(now_ms + 6 * every_ms, every_ms)
    service.stop()


def test_what_a_writer_says_now_replaces_what_it_said_in_the_future(lab):
    table = lab.create()
    service = started(lab)
    service.step(0)
    lab.wrong_ms = 100 * DAY_MS
    lab.append(table, 1, announce=False)
    lab.announce(event_of(table.refresh(), writer="w", open_window=OpenWindow()))
    service.step(0)
    lab.wrong_ms = 0
    window = OpenWindow(partitions=('{"1000":490000}',))
    lab.append(table, 2, announce=False)
    lab.announce(event_of(table.refresh(), writer="w", open_window=window))
    service.step(0)

    (word,) = service.fold.words(uuid_of(table))
    assert word.window == window
    assert word.at_ms <= service.now_ms()
    assert service.fold.table(uuid_of(table)).last_event_at_ms <= service.now_ms()
    service.stop()


def test_a_turn_that_was_had_in_the_future_costs_no_table_one_now():
    now_ms = [NOW + DAY_MS]
    admission = Admission(None, None, None, lambda _: False, lambda: now_ms[0], 1, None)
    admission.has_begun("a")
    now_ms[0] = NOW
    admission.has_begun("b")

    assert admission.begun_at_ms == {"b": NOW}


def test_what_was_decided_until_a_time_of_a_clock_that_was_ahead_is_decided_again(lab):
    """A partition waits for its window, which by that clock opens in a hundred days."""
    hour = (lab.now_ms() // HOUR_MS + 2) % 24
    window = f'work: {{windows: [{{cron: "0 {hour} * * *", lasts: 1h}}]}}\n'
    (lab.root / "policies" / "all.yaml").write_text(EAGER + window)
    table = lab.create()
    service = started(lab)
    for number in (1, 1, 1, 9, 9, 9):
        lab.append(table, number)
    for wrong_ms in (0, 100 * DAY_MS, 0):
        lab.wrong_ms = wrong_ms
        for _ in range(3):
            service.step(0)
    at_ms = service.fold.db.execute("SELECT MIN(wake_at_ms) FROM partitions").fetchone()[0]
    verdicts = service.fold.tally(uuid_of(table)).verdicts
    service.stop()

    assert verdicts["waiting"] == 1
    assert at_ms < lab.now_ms() + DAY_MS


@pytest.mark.parametrize(("ahead_ms", "is_held"), [(HOUR_MS // 2, True), (100 * DAY_MS, False)])
def test_what_failed_by_a_clock_that_was_ahead_is_not_left_alone_for_so_long(lab, ahead_ms, is_held):
    table = lab.create()
    lab.append(table, 1)
    service = started(lab)
    service.step(0)
    row = service.fold.table(uuid_of(table))
    (partition,) = service.fold.partitions(uuid_of(table))
    at_ms = lab.now_ms() + ahead_ms
    failed = Hold(
        HoldKind.QUARANTINE, uuid_of(table), "shop.orders", "a disk is full", at_ms,
        partition=partition.key, until_ms=at_ms + 1000, failures=1,
    )  # fmt: skip
    service.ledger.hold(failed, told=True)
    held = service.verdicts.view(row, (), partitions={partition.key: partition.state}).quarantined
    service.stop()

    assert (partition.key in held) is is_held


@pytest.mark.parametrize("hours", [[9], [1, 9]], ids=["still due", "hot again"])
def test_what_fell_due_in_the_future_has_been_due_since_now_at_the_latest(lab, hours):
    table = lab.create()
    service = started(lab)
    for _ in range(3):
        lab.append(table, 1)
    service.step(0)
    lab.wrong_ms = 100 * DAY_MS
    for _ in range(3):
        lab.append(table, 9)
    service.step(0)
    keys = [row.key for row in service.fold.partitions(uuid_of(table))]
    before = service.fold.due_since(uuid_of(table), keys)
    lab.wrong_ms = 0
    lab.append(table, *hours)
    service.step(0)
    after = service.fold.due_since(uuid_of(table), keys)

    assert min(before.values()) > service.now_ms() + 99 * DAY_MS
    assert set(after) >= set(before)
    assert max(after.values()) <= service.now_ms()
    service.stop()
