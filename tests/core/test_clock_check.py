"""When this machine's clock is not to be believed."""

from datetime import UTC, datetime

import pytest

from isotherm.core.clock_check import CALM_S, COMPARE_EVERY_S, JUMP_MS, SKEW_MS, ClockCheck, apart_ms

WALL = 1_700_000_000_000


def turned(*readings):
    check = ClockCheck()
    for wall_ms, monotonic_s in readings:
        check = check.turned(WALL + wall_ms, monotonic_s)
    return check


def test_two_clocks_that_go_together_are_believed():
    assert turned((0, 10), (1000, 11), (3_601_000, 3611)).trouble(3611) is None


@pytest.mark.parametrize(("jump_ms", "side"), [(8 * 86_400_000, "ahead"), (-120_000, "back")])
def test_a_jump_is_not_believed_for_an_hour(jump_ms, side):
    check = turned((0, 10), (1000 + jump_ms, 11), (2000 + jump_ms, 12))

    assert side in check.trouble(12)
    assert check.trouble(11 + CALM_S - 1) is not None
    assert check.trouble(11 + CALM_S) is None


def test_a_small_correction_is_no_jump():
    assert turned((0, 10), (15_000, 11)).trouble(11) is None


def test_no_jump_that_is_borne_takes_a_clock_further_than_java_bears_it():
    assert SKEW_MS + JUMP_MS <= 60_000


def test_small_jumps_add_up():
    readings = [(turns * (200 + 900), turns * 0.2) for turns in range(300)]

    assert "ahead" in turned(*readings).trouble(60)


def test_a_clock_that_is_corrected_all_the_time_is_believed():
    """As a time daemon does it: at most half a second in a thousand."""
    readings = [(int(minutes * 60_030), minutes * 60.0) for minutes in range(3000)]

    assert turned(*readings).trouble(3000 * 60) is None


@pytest.mark.parametrize(("skew_ms", "said"), [(600_000, "10m ahead of"), (-600_000, "10m behind")])
def test_a_clock_that_differs_from_anothers_is_not_believed_until_it_agrees(skew_ms, said):
    check = turned((0, 10)).compared("the catalog", skew_ms, 10)

    assert check.trouble(10) == f"this machine's clock is {said} that of the catalog"
    assert check.trouble(1e9) is not None
    assert check.compared("the catalog", 1000, 20).trouble(20) is None


def test_another_clock_is_looked_at_once_an_hour_and_always_while_it_differs():
    check = turned((0, 10))
    assert check.wants("the store", 10)
    check = check.compared("the store", 0, 10)
    assert not check.wants("the store", 11)
    assert check.wants("the store", 10 + COMPARE_EVERY_S)
    assert check.compared("the store", 10**7, 11).wants("the store", 11)


def test_after_a_jump_every_other_clock_is_looked_at_again():
    check = turned((0, 10)).compared("the store", 0, 10).turned(WALL + 10**9, 11)

    assert check.wants("the store", 11)


def test_a_difference_that_nobody_can_confirm_is_dropped_once_another_clock_agrees():
    check = turned((0, 10)).compared("the store of a", 10**7, 10)
    later = 10 + COMPARE_EVERY_S

    assert check.settled(later).trouble(later) is not None
    assert check.compared("the store of b", 0, later).settled(later).trouble(later) is None
    assert check.compared("the store of b", 0, 11).settled(later - 1).trouble(later) is not None
    assert check.compared("the store of b", 10**7, later).settled(later).trouble(later) is not None
    assert check.compared("the store of b", 0, 5).settled(later).trouble(later) is not None


@pytest.mark.parametrize(
    ("told_ms", "apart"),
    [(-1, 1), (0, 0), (700, 0), (90_000, 0), (90_001, -1), (-200_000, 200_000), (300_000, -210_000)],
)
def test_a_slow_answer_is_no_difference_between_clocks(told_ms, apart):
    """It was asked for ninety seconds."""
    told = datetime.fromtimestamp((WALL + told_ms) / 1000, UTC)

    assert apart_ms(WALL, told, WALL + 90_000) == apart


def test_a_clock_is_not_believed_that_would_keep_java_from_its_tables():
    """Iceberg's Java bears a minute; a writer's clock may be some seconds behind the other one, too."""
    assert SKEW_MS <= 50_000
    check = turned((0, 10)).compared("the catalog", SKEW_MS + 1, 10)

    assert "ahead of that of the catalog" in check.trouble(10)
