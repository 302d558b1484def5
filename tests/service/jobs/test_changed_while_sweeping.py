"""Clocks that jump, and policies that change, while files are moved into quarantine or go from it."""

from dataclasses import dataclass

import pytest

from isotherm.core.quarantine import FOLDER
from isotherm.core.units import DAY_MS
from support.in_process import WithoutPauses
from support.lab import Lab, started, uuid_of, wait_for_children
from support.searching import ORPHANS, POLICY, filled, home, inside, missed, pass_by, plant

QUARANTINE = POLICY.replace("MODE", "quarantine, keep_for: 30d")


@dataclass
class Jumping(Lab):
    """Its wall clock may be wrong by so much; the monotonic one never is."""

    wrong_ms: int = 0

    def now_ms(self):
        return super().now_ms() + self.wrong_ms


@pytest.fixture
def lab(tmp_path):
    made = Jumping(tmp_path, policy=QUARANTINE, threads=WithoutPauses())
    yield made
    made.executor.stop()


def moved_while_the_clock_is_wrong(lab, service, table, wrong_ms):
    """Orphans are moved, and before the loop takes that over the clock is set; it is right again after that."""
    start, jumped = service.maintainer.start_sweep, []

    def begin(loaded, sweep):
        start(loaded, sweep)
        if not jumped:
            service.maintainer.wait(30)
            lab.wrong_ms = wrong_ms
            jumped.append(lab.now_ms() - wrong_ms)

    service.maintainer.start_sweep = begin
    for _ in range(40):
        if not jumped:
            pass_by(lab, service, 0.25)
    for _ in range(3):
        service.step(0)
        wait_for_children(service)
    lab.wrong_ms = 0
    assert inside(table)
    return jumped[0]


@pytest.mark.parametrize("wrong_days", [-60, 400])
def test_what_is_moved_while_a_clock_jumps_back_stays_for_the_whole_time(lab, wrong_days):
    table = filled(lab)
    plant(table, *ORPHANS)
    service = started(lab)
    at_ms = moved_while_the_clock_is_wrong(lab, service, table, wrong_days * DAY_MS)

    there = service.ledger.files_in_quarantine(uuid_of(table))
    assert len(there) == len(ORPHANS)
    assert all(abs(one.since_ms - at_ms) < DAY_MS for one in there)
    assert all(29 * DAY_MS < one.until_ms - at_ms < 32 * DAY_MS for one in there)
    service.stop()


def test_what_a_clock_that_was_ahead_has_dated_comes_back_where_it_is_needed(lab):
    table = filled(lab)
    service = started(lab)
    late = missed(lab, service, table)
    service.ledger.db.execute(
        "UPDATE deletions SET marked_at_ms = marked_at_ms + ?, due_at_ms = due_at_ms + ? WHERE cause = 'quarantined'",
        (400 * DAY_MS, 400 * DAY_MS),
    )
    pass_by(lab, service, 4)

    assert late.exists()
    assert set(inside(table)) == {"data/gone.parquet"}
    service.stop()


@pytest.mark.parametrize(
    ("before", "after", "stops"),
    [
        ("apply", "quarantine, keep_for: 30d", True),
        ("quarantine, keep_for: 5d", "quarantine, keep_for: 60d", True),
        ("quarantine, keep_for: 5d", "quarantine, keep_for: 4d", False),
    ],
)
def test_a_policy_that_keeps_longer_by_now_stops_what_goes_by_the_one_before(lab, before, after, stops):
    (lab.root / "policies" / "all.yaml").write_text(POLICY.replace("MODE", before))
    table = filled(lab)
    plant(table, *ORPHANS)
    service = started(lab)
    if before != "apply":
        pass_by(lab, service, 4)
        assert (home(table) / FOLDER).exists()
    stopped = []
    service.maintainer.stop_sweep = stopped.append
    service.maintainer.swept = list  # it takes long
    pass_by(lab, service, 8)
    assert stopped == []
    (lab.root / "policies" / "all.yaml").write_text(POLICY.replace("MODE", after))
    pass_by(lab, service, 0.25)

    assert set(stopped) == ({uuid_of(table)} if stops else set())
    service.stop()
