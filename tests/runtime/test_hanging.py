"""Calls that hang for ever shut nothing for ever, and keep a bounded number of threads."""

from concurrent.futures import Future

import pytest

from isotherm.runtime.hanging import (
    FIRST_TRIAL_S,
    LONGEST_TRIAL_S,
    MOST,
    MOST_EVER,
    Hanging,
    NotBegunError,
    hanging,
)
from support.memory_topics import Clock


class Calls:
    """Calls of one kind, whose ends the test sets."""

    def __init__(self):
        self.clock = Clock()
        self.kind = Hanging(self.clock.monotonic_s)
        self.ends = []

    def begin(self):
        """One more call, as whoever makes it does."""
        end = Future()
        self.kind.begin(end)
        self.ends.append(end)
        return end

    def hang(self):
        """One that is given up and never ends."""
        self.kind.give_up(self.begin())

    def may_begin(self):
        try:
            self.hang()
        except NotBegunError:
            return False
        return True


@pytest.fixture
def calls():
    calls = Calls()
    yield calls
    for end in calls.ends:
        if not end.done():
            end.set_result(None)


def test_where_so_many_hang_no_other_begins_and_one_now_and_then_tries(calls):
    for _ in range(MOST):
        calls.hang()
    with pytest.raises(
        NotBegunError, match=f"{MOST} threads hang .* until one of them ends, or 60 s are over"
    ):
        calls.begin()
    calls.clock.advance(FIRST_TRIAL_S)
    calls.begin()
    with pytest.raises(NotBegunError):
        calls.begin()


@pytest.mark.parametrize("answer", ["a result", "a refusal"])
def test_a_trial_that_ends_in_time_has_all_begin_again_though_the_others_hang_for_ever(calls, answer):
    for _ in range(MOST):
        calls.hang()
    calls.clock.advance(FIRST_TRIAL_S)
    trial = calls.begin()
    if answer == "a result":
        trial.set_result(7)
    else:
        trial.set_exception(PermissionError("no"))

    for _ in range(1000):
        calls.begin().set_result(7)
    assert hanging() >= MOST
    assert not calls.kind.is_empty()


def test_a_trial_that_was_given_up_or_got_no_thread_proves_nothing(calls):
    for _ in range(MOST):
        calls.hang()
    calls.clock.advance(FIRST_TRIAL_S)
    calls.begin().set_exception(NotBegunError("the system gives no thread now"))
    with pytest.raises(NotBegunError):
        calls.begin()
    calls.clock.advance(2 * FIRST_TRIAL_S)
    late = calls.begin()
    calls.kind.give_up(late)
    late.set_result("late")

    with pytest.raises(NotBegunError, match=f"{MOST} threads hang"):
        calls.begin()


def test_a_call_that_ends_at_last_makes_room_for_another(calls):
    for _ in range(MOST):
        calls.hang()
    calls.ends[0].set_result("late")

    calls.begin()


def test_a_store_that_is_away_for_days_is_tried_in_few_threads_and_used_again(calls):
    begun = sum(calls.may_begin() for _ in range(3 * 24 * 60) if calls.clock.advance(60) is None)
    assert MOST + 10 < begun < MOST + 24

    calls.clock.advance(LONGEST_TRIAL_S)
    calls.begin().set_result("it is back")
    calls.begin()


def test_however_often_and_for_how_long_calls_hang_their_threads_are_so_many_at_most(calls):
    for _ in range(1000):
        calls.clock.advance(LONGEST_TRIAL_S)
        if not calls.may_begin():
            break
        calls.clock.advance(LONGEST_TRIAL_S)
        try:
            calls.begin().set_result("it is back")
        except NotBegunError:
            break
    with pytest.raises(NotBegunError, match="only a restart of this process ends them"):
        calls.begin()
    assert MOST_EVER <= sum(not end.done() for end in calls.ends) < MOST_EVER + MOST
