"""Work beside the loop that asks the loop: it is answered in the loop's thread, as long as somebody waits for it."""

from queue import SimpleQueue
from threading import Event, get_ident

import pytest

from isotherm.iceberg.asking import Asking, NobodyAnswersError
from isotherm.runtime.hanging import FIRST_TRIAL_S, MOST, NotBegunError
from support.memory_topics import Clock

LIMIT_S = 10.0


def test_what_is_asked_is_answered_in_the_thread_of_whoever_waits():
    asking: Asking[str, int, int] = Asking(LIMIT_S, 60)
    asking.start(lambda ask: ask("first") + ask("second"))
    threads, asked = set(), []

    def answer(question):
        threads.add(get_ident())
        asked.append(question)
        return len(asked)

    assert asking.go_on(answer) == 3
    assert asked == ["first", "second"]
    assert threads == {get_ident()}
    assert asking.go_on(answer) is None


def test_work_that_says_that_it_goes_on_takes_as_long_as_it_takes_and_hears_when_nobody_wants_it():
    clock, steps, done, told = Clock(), SimpleQueue(), SimpleQueue(), []
    asking: Asking[str, str, str] = Asking(LIMIT_S, 0, clock.monotonic_s)

    def work(ask):
        while steps.get(timeout=30):
            told.append(ask.is_stopped())
            done.put(None)
        return "done"

    asking.start(work)
    for _ in range(3):
        clock.advance(LIMIT_S - 1)
        steps.put(1)
        done.get(timeout=30)
        assert asking.go_on(lambda _: "yes") is None
    clock.advance(LIMIT_S + 1)
    assert isinstance(asking.go_on(lambda _: "yes"), TimeoutError)
    steps.put(1)
    done.get(timeout=30)
    steps.put(None)

    assert told == [False, False, False, True]


def test_an_error_in_an_answer_is_one_of_the_work():
    asking: Asking[str, int, str] = Asking(LIMIT_S, 60)

    def work(ask):
        with pytest.raises(ZeroDivisionError):
            ask("how many")
        raise KeyError("a mistake")

    asking.start(work)

    assert isinstance(asking.go_on(lambda _: 1 // 0), KeyError)


@pytest.mark.parametrize("asks_before", [False, True])
def test_work_that_was_given_up_gets_no_answer_any_more(asks_before):
    clock, asks, over, answers = Clock(), Event(), Event(), []
    asking: Asking[str, str, str] = Asking(LIMIT_S, 0, clock.monotonic_s)

    def work(ask):
        if not asks_before:
            asks.wait(30)
        try:
            answers.append(ask("may it be sent?"))
        except NobodyAnswersError as err:
            answers.append(err)
        over.set()
        return "too late"

    asking.start(work)
    if asks_before:
        asking.close()
    else:
        assert asking.go_on(lambda _: "yes") is None
        clock.advance(LIMIT_S + 1)
        assert isinstance(asking.go_on(lambda _: "yes"), TimeoutError)
        asks.set()

    assert over.wait(30)
    assert [type(answer) for answer in answers] == [NobodyAnswersError]
    assert asking.go_on(lambda _: "yes") is None


def test_commits_that_hang_for_ever_keep_none_from_being_asked_for_later():
    clock, over = Clock(), Event()
    asking: Asking[str, int, str] = Asking(1.0, 0, clock.monotonic_s)
    errors = []
    for _ in range(MOST + 1):
        asking.start(lambda _: str(over.wait(30)))
        clock.advance(2.0)
        errors.append(type(asking.go_on(lambda _: 1)))
    assert errors == [*[TimeoutError] * MOST, NotBegunError]

    clock.advance(FIRST_TRIAL_S)
    for _ in range(MOST):
        asking.start(lambda _: "done")
        while (ended := asking.go_on(lambda _: 1)) is None:
            pass
        assert ended == "done"
    over.set()


def test_who_asks_again_is_waited_for_though_others_run():
    """A question that waits for a turn of the loop comes too late in a stream that commits fast."""
    asking = Asking(60, 60)
    may_end = Event()

    def work(ask):
        said = [ask(1), ask(2)]
        may_end.wait(60)
        return said

    asking.start(work)
    answered = []

    def answer(question):
        answered.append(question)
        if question == 2:
            may_end.set()
        return question

    found = None
    while found is None:
        found = asking.go_on(answer, first_s=0)
        # Once it has asked twice, the call in which it did so lasts to the end.
        assert found is not None or len(answered) < 2
    assert found == [1, 2]
