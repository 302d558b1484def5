"""For how long the manifests of one table may keep the loop: the loop lives meanwhile, and a tenth of the time is the most."""

import pytest

from isotherm.contract.identity import TableId
from isotherm.service.health import TICK_LIMIT_S, Health
from isotherm.service.ports import StoreAway, TooLong, Unreadable
from isotherm.service.tables.reading_time import LONGEST_S, SLOW_S, ReadingTime, Work

TABLE, OTHER = TableId("u", "shop.orders"), TableId("v", "shop.others")


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def health(clock: Clock) -> Health:
    return Health(ticked_at_s=clock())


@pytest.fixture
def time(health: Health, clock: Clock) -> ReadingTime:
    return ReadingTime(health, clock)


def read(time: ReadingTime, clock: Clock, seconds: float = 0, error: Exception | None = None) -> None:
    """Read a table's manifests for so long."""
    with time.of(TABLE) as go_on:
        clock.now_s += seconds
        if error is not None:
            raise error
        go_on()


def test_a_loop_that_reads_counts_as_alive_as_long_as_it_gets_on(
    time: ReadingTime, health: Health, clock: Clock
) -> None:
    with time.of(TABLE) as go_on:
        clock.now_s += LONGEST_S - 1
        go_on()
        clock.now_s += TICK_LIMIT_S - 1

        assert health.is_alive(clock())
        with pytest.raises(TooLong, match=r"the manifests of shop\.orders hold so much"):
            go_on()
        clock.now_s += 1
        assert not health.is_alive(clock())


def test_a_table_of_which_nothing_came_for_long_rests_nine_times_as_long_and_no_other(
    time: ReadingTime, clock: Clock
) -> None:
    with pytest.raises(Unreadable, match=r"^half a manifest$"):
        read(time, clock, 100, Unreadable("half a manifest"))

    clock.now_s += 899
    with pytest.raises(Unreadable, match=r"half a manifest \(that took long; it is read again in 1 s\)"):
        read(time, clock, error=AssertionError("it is read"))
    with time.of(OTHER) as go_on:
        go_on()
    clock.now_s += 1
    read(time, clock)


@pytest.mark.parametrize(("seconds", "error"), [(1, Unreadable("damaged")), (100, StoreAway("no answer"))])
def test_what_was_found_soon_and_what_is_away_needs_no_rest(
    time: ReadingTime, clock: Clock, seconds: float, error: Exception
) -> None:
    with pytest.raises(type(error)):
        read(time, clock, seconds, error)
    read(time, clock)


@pytest.mark.parametrize(("work", "free_s"), [(Work.SCAN, 1), (Work.CATCHING_UP, SLOW_S)])
def test_what_was_done_soon_may_be_done_again_and_what_took_long_waits(
    time: ReadingTime, clock: Clock, work: Work, free_s: float
) -> None:
    clock.now_s += free_s
    time.done(work, TABLE.uuid, clock() - free_s)
    assert time.may_begin(work, TABLE.uuid)

    time.done(work, TABLE.uuid, clock() - free_s - 1)
    clock.now_s += 9 * (free_s + 1) - 1
    assert not time.may_begin(work, TABLE.uuid)
    assert time.may_begin(work, OTHER.uuid)
    clock.now_s += 1
    assert time.may_begin(work, TABLE.uuid)


def test_of_a_table_that_is_gone_nothing_is_known(time: ReadingTime, clock: Clock) -> None:
    time.done(Work.SCAN, TABLE.uuid, clock() - 100)
    with pytest.raises(Unreadable):
        read(time, clock, 100, Unreadable("damaged"))
    time.forget(TABLE.uuid)

    assert time.may_begin(Work.SCAN, TABLE.uuid)
    read(time, clock)
