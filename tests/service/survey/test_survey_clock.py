"""A clock that jumps or is set makes no look younger than it is."""

import pytest

from support.surveys import START_MS


def test_a_look_that_goes_on_beyond_the_doubts_of_a_jump_is_as_old_as_its_question(world):
    """A piece of it takes longer than a jump of the clock is doubted."""
    world.list()
    world.turns(1)
    looked, world.catalog.looked = world.catalog.looked, lambda: None
    world.trouble, world.ahead_ms = "the clock has jumped", 7_200_000
    world.turns(1)
    world.trouble, world.catalog.looked, world.passed_s = None, looked, 3700.0
    world.turns(2)

    assert world.survey.seen_since_ms() == START_MS - 1


@pytest.mark.parametrize("set_ms", [-100 * 86_400_000, -30_000, 30_000])
def test_a_clock_that_is_set_makes_no_look_younger_than_a_mark_that_came_after_it(world, set_ms):
    world.ahead_ms = 100 * 86_400_000
    world.list()
    world.turns()
    began_ms = world.now_ms()
    world.passed_s = 1.0
    world.ahead_ms += set_ms
    # A file that is marked now, by whatever time, was marked after the look.
    assert world.survey.seen_since_ms() < min(world.now_ms(), began_ms + 1)
    # Another look is one by the time that it is now.
    world.passed_s = 100.0
    world.list()
    world.survey.want()
    world.turns()
    assert world.survey.seen_since_ms() == world.now_ms() - 1


def test_a_clock_that_is_set_forward_and_back_during_a_look_is_noticed(world):
    world.survey = world.begun(names_at_once=1)
    world.list()
    world.turns(8)
    world.survey.want()
    world.passed_s = 100.0
    world.list()
    began_ms = world.now_ms()
    world.survey.turn()
    world.ahead_ms -= 40_000
    world.survey.turn()
    world.ahead_ms += 50_000
    world.turns(8)
    assert world.survey.seen_since_ms() == began_ms - 40_000 - 1


def test_nothing_is_looked_at_by_a_clock_that_is_doubted_and_what_was_is_forgotten(world):
    world.list()
    world.turns()
    world.trouble = "it jumped"
    world.turns()
    assert world.survey.seen_since_ms() is None
    asked = len(world.asked)
    world.turns()
    assert len(world.asked) == asked
    world.trouble = None
    world.turns()
    assert world.survey.seen_since_ms() is not None
