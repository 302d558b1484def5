"""What ends a window, and its job with it, on real tables."""

import pytest

from isotherm.contract.events import WindowRequested
from isotherm.contract.identity import PartitionKey
from support.granting import ends, ours, rows, turns
from support.lab import started, uuid_of

LENGTH_S = 60


def a_commit(shop):
    """Of a driver that has crashed, and knows nothing of what it has granted."""
    shop.append(announce=True)


def a_commit_elsewhere(shop):
    shop.append(7)


def a_commit_that_nobody_announces(shop):
    shop.append(announce=False)


def a_rollback_and_a_commit(shop):
    """One commit less and one more."""
    before = list(shop.table.refresh().snapshots())[-2].snapshot_id
    shop.table.manage_snapshots().rollback_to_snapshot(before).commit()
    shop.lab.append(shop.table, 1, announce=False)


def an_intent(shop):
    shop.intend()


def an_intent_elsewhere(shop):
    shop.intend((PartitionKey('{"1000":7}'),))


def its_end(shop):
    shop.lab.ahead_ms += 1000 * (LENGTH_S - 5)


def the_writer(shop):
    shop.take_back(shop.said(WindowRequested)[-1])


DISTURBING = [
    (a_commit, "disturbed"),
    (a_commit_elsewhere, "disturbed"),
    (a_commit_that_nobody_announces, "disturbed"),
    (a_rollback_and_a_commit, "disturbed"),
    (an_intent, "disturbed"),
    (an_intent_elsewhere, "disturbed"),
    (its_end, "over"),
    (the_writer, "taken_back"),
]


@pytest.mark.parametrize(("happens", "end"), DISTURBING)
@pytest.mark.parametrize("at_once", [True, False])
def test_what_ends_a_window_ends_its_job(shop, in_a_window, happens, end, at_once):
    """Whether the loop hears of it before, or the last look finds it."""
    before = rows(shop)
    happens(shop)
    if at_once:
        in_a_window.consume(in_a_window.events.poll(0))
    in_a_window.compactions.finish()
    turns(in_a_window)

    assert ours(shop) == []
    assert shop.closed()[0 if happens is not the_writer else 1] == end
    assert ends(shop) == [end]
    assert {one.state for one in in_a_window.ledger.operations()} == {"failed"}
    assert happens is a_rollback_and_a_commit or set(before) <= set(rows(shop))


def test_without_any_of_that_the_job_is_committed(shop, in_a_window):
    in_a_window.compactions.finish()

    assert len(ours(shop)) == 1


def test_a_job_that_is_too_slow_is_cancelled_when_its_window_is_over(shop, in_a_window):
    shop.lab.executor.is_held = True
    its_end(shop)
    turns(in_a_window, 1)

    assert len(in_a_window.compactions) == 0
    assert [one.reason for one in in_a_window.ledger.operations()] == ["window"]
    assert shop.closed() == ["over"]


def test_a_daemon_that_stops_lets_the_writer_go_on(shop, in_a_window):
    in_a_window.stop()

    assert shop.closed() == ["over"]
    assert ours(shop) == []


def test_after_a_crash_nothing_hot_is_touched(shop, in_a_window):
    """The window is forgotten, and the writer goes on when its time is up."""
    later = started(shop.lab)
    turns(later)

    assert ours(shop) == []
    assert {one.reason for one in later.ledger.operations()} <= {"crashed", "stale", "failed", "unknown"}
    later.stop()


def test_a_daemon_that_lost_the_table_closes_its_window(shop, in_a_window):
    in_a_window.events.elsewhere.add(uuid_of(shop.table))
    turns(in_a_window, 2)

    assert ours(shop) == []
    assert ends(shop) == ["not_ours"]
