"""What stays for who reads a table bit by bit, and for how long."""

from dataclasses import replace

import pytest

from isotherm.contract.readers import ReadPosition
from isotherm.core.model.tables import Astray
from isotherm.core.planner.expirable import expirable, reader_lags
from isotherm.core.planner.plan import plan
from isotherm.core.policy.policy import Expire, Policy
from support.builders import DAY, HOUR, MINUTE, NOW, snapshots, view

EXPIRE = Expire(keep_for="10m", keep_last=1, at_once=1, every="0s", max_reader_lag="2h")


def at(snapshot_id, reader="scoring", at_ms=NOW):
    return ReadPosition(
        table_uuid="uuid-1", table="shop.orders", reader=reader, snapshot_id=snapshot_id, at_ms=at_ms
    )


def seen(history, *readers, **more):
    return view(snapshots=history, readers=readers, announced_sequence_number=10**6, **more)


def of_appends(count=10, apart_ms=20 * MINUTE, rewrites=()):
    """The oldest first; the last one came now."""
    return tuple(
        replace(one, is_rewrite=one.snapshot_id in rewrites) for one in snapshots(count, apart_ms=apart_ms)
    )


def going(world, now_ms=NOW):
    return expirable(world, EXPIRE, now_ms)[0]


def test_it_needs_its_own_snapshot_and_all_that_came_later():
    # Seven of ten: 120 minutes have passed since the fifth came.
    assert going(seen(of_appends(), at(5))) == (1, 2, 3, 4)
    assert going(seen(of_appends(), at(5), at(8, "fast"))) == (1, 2, 3, 4)


def test_who_has_read_everything_is_not_late_whatever_is_rewritten_behind_it():
    """Spark's source stays at the last append, and walks back to it from the head."""
    history = of_appends(10, apart_ms=DAY, rewrites=range(4, 11))
    world = seen(history, at(3))

    (lag,) = reader_lags(world, EXPIRE, NOW + 30 * DAY)
    assert (lag.behind_ms, lag.is_kept, lag.needs_from) == (0, True, 2)
    assert going(world, NOW + 30 * DAY) == (1, 2)


def test_it_is_late_from_when_something_came_that_it_has_not_read():
    history = of_appends(10, apart_ms=20 * MINUTE, rewrites=range(4, 10))
    world = seen(history, at(3))

    for passed_ms, is_kept in ((0, True), (2 * HOUR - 1, True), (2 * HOUR, False)):
        (lag,) = reader_lags(world, EXPIRE, NOW + passed_ms)
        assert (lag.behind_ms, lag.is_kept) == (passed_ms, is_kept)


def test_the_verdict_is_made_again_when_its_time_is_over():
    """Decided at its wake it is another one."""
    expire = EXPIRE.model_copy(update={"max_reader_lag": 4 * HOUR})
    world, now_ms = seen(of_appends(), at(1)), NOW
    over_ms = NOW - 160 * MINUTE + 4 * HOUR
    while not (found := expirable(world, expire, now_ms)[0]):
        wake_ms = plan(world, Policy(expire=expire), now_ms).of_table[0].wake.at_ms
        assert now_ms < wake_ms <= over_ms
        now_ms = wake_ms

    assert (now_ms, found) == (over_ms, tuple(range(1, 10)))


def test_after_a_rollback_it_needs_what_was_left_and_where_the_two_part():
    """The rollback may be taken back; then it goes on where it was."""
    astray = tuple(Astray(100 + number, number, NOW) for number in (11, 12, 13))
    history = of_appends(10)
    world = seen(history, at(112), astray=astray)
    later_ms = NOW + HOUR

    assert going(world, later_ms) == (111, *range(1, 10))
    assert going(world, NOW + 3 * HOUR) == (111, 112, 113, *range(1, 10))


@pytest.mark.parametrize("max_lag", ["0s", "1ms"])
def test_a_policy_may_keep_nothing_for_readers(max_lag):
    expire = EXPIRE.model_copy(update={"max_reader_lag": 0 if max_lag == "0s" else 1})
    world = seen(of_appends(), at(1))

    assert expirable(world, expire, NOW)[0] == tuple(range(1, 9))
    assert len(reader_lags(world, expire, NOW)) == (0 if max_lag == "0s" else 1)
