"""Work beside the loop: one thing after another; it goes on as long as it gets on, and is given up where it does not."""

import weakref
from queue import SimpleQueue
from threading import Barrier, Event, Thread, get_ident

import pytest

from isotherm.iceberg.asking import Asking, NobodyAnswersError
from isotherm.iceberg.patience import MOST_S
from isotherm.iceberg.stopping import IsStopped
from isotherm.iceberg.threads import Beside, Threads
from isotherm.runtime.hanging import FIRST_TRIAL_S, MOST, NotBegunError
from support.memory_topics import Clock

LIMIT_S = 10.0


def test_work_that_gets_on_takes_as_long_as_it_takes() -> None:
    now_s, step = [0.0], Barrier(2, timeout=30)
    beside: Beside[str] = Beside(LIMIT_S, lambda: now_s[0])

    def work(is_stopped: IsStopped) -> str:
        for _ in range(5):
            step.wait()
            is_stopped()
            step.wait()
        return "done"

    beside.start("a proof", work)
    ended: list[object] = []
    for _ in range(5):
        now_s[0] += LIMIT_S - 1
        step.wait()
        step.wait()
        ended += beside.ended()
    beside.wait(30)

    assert [*ended, *beside.ended()] == [("a proof", "done")]


def test_work_that_hangs_in_one_step_is_given_up_and_told_to_stop() -> None:
    now_s, asked, go_on, over = [0.0], Event(), Event(), Event()
    beside: Beside[str] = Beside(LIMIT_S, lambda: now_s[0])
    stopped = []

    def work(is_stopped: IsStopped) -> str:
        stopped.append(is_stopped())
        asked.set()
        go_on.wait(30)
        stopped.append(is_stopped())
        over.set()
        return "too late"

    beside.start("a proof", work)
    assert asked.wait(30)
    now_s[0] += LIMIT_S + 1
    ((name, error),) = beside.ended()
    go_on.set()

    assert (name, type(error)) == ("a proof", TimeoutError)
    assert over.wait(30)
    assert stopped == [False, True]
    assert not list(beside.ended())


def test_what_was_forgotten_keeps_the_next_thing_waiting_until_it_has_ended():
    clock, may_end, begun = Clock(), Event(), []
    beside: Beside[str] = Beside(LIMIT_S, clock.monotonic_s)

    def work(name):
        def do(is_stopped):
            begun.append(name)
            assert may_end.wait(30)
            return f"{name}, stopped" if is_stopped() else name

        return do

    beside.start("first", work("first"))
    for number in range(20):
        beside.start(f"{number}", work(f"{number}"))
        beside.forget("first" if number == 0 else f"{number - 1}")
    assert list(beside.ended()) == []
    assert set(begun) <= {"first"}
    may_end.set()
    ended = []
    while not ended:
        beside.wait(30)
        ended += beside.ended()

    assert ended == [("19", "19")]
    assert begun == ["first", "19"]


def test_what_was_forgotten_and_hangs_is_waited_for_no_longer_than_its_limit():
    clock, never = Clock(), Event()
    beside: Beside[str] = Beside(LIMIT_S, clock.monotonic_s)
    beside.start("hangs", lambda _: str(never.wait(30)))
    beside.forget("hangs")
    beside.start("next", lambda _: "done")
    clock.advance(LIMIT_S)
    assert list(beside.ended()) == []
    clock.advance(1)
    assert list(beside.ended()) == []
    beside.wait(30)

    assert list(beside.ended()) == [("next", "done")]
    never.set()


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


def test_where_many_threads_hang_for_ever_no_other_is_begun_until_calls_end_again():
    clock, over, begun = Clock(), Event(), []
    beside: Beside[str] = Beside(1.0, clock.monotonic_s)

    def hangs(_):
        begun.append(1)
        return str(over.wait(30))

    ended = []
    for number in range(MOST + 5):
        beside.start(f"{number}", hangs)
        beside.wait(0)
        clock.advance(2.0)
        ended += beside.ended()
    assert [type(error) for _, error in ended] == [*[TimeoutError] * MOST, *[NotBegunError] * 5]
    assert len(begun) == MOST

    clock.advance(FIRST_TRIAL_S)
    for number in range(50):
        beside.start(f"{number}", lambda _: "done")
        beside.wait(30)
        assert list(beside.ended()) == [(f"{number}", "done")]
    over.set()


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


def test_what_the_loop_waits_for_hangs_in_no_more_threads_of_a_store_than_so_many():
    over, begun = Event(), []
    threads = Threads()

    def hangs():
        begun.append(1)
        return str(over.wait(30))

    for _ in range(MOST + 5):
        with pytest.raises(TimeoutError):
            threads.within(0, "gs://lake", hangs)
    assert len(begun) == MOST
    assert threads.within(30, "gs://other", lambda: 7) == 7
    over.set()


@pytest.fixture
def no_thread(monkeypatch: pytest.MonkeyPatch) -> Event:
    """The system gives no thread while this is set, as where a limit on them is reached."""
    refused, start = Event(), Thread.start

    def refusing(thread: Thread) -> None:
        if refused.is_set():
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(Thread, "start", refusing)
    return refused


def test_a_thread_that_the_system_does_not_give_ends_one_piece_of_work_and_no_other(no_thread: Event) -> None:
    beside: Beside[int] = Beside(LIMIT_S)
    asking: Asking[int, int, int] = Asking(LIMIT_S, 30)
    no_thread.set()
    beside.start("first", lambda _: 1)
    asking.start(lambda ask: ask(1))

    ((name, refusal),) = beside.ended()
    assert (name, type(refusal), type(asking.go_on(lambda asked: asked))) == (
        "first",
        NotBegunError,
        NotBegunError,
    )
    no_thread.clear()
    beside.start("second", lambda _: 2)
    beside.wait(30)
    asking.start(lambda ask: ask(2))
    assert [*beside.ended(), asking.go_on(lambda asked: asked)] == [("second", 2), 2]


@pytest.mark.parametrize("given", [0, 1, 3])
def test_where_the_system_gives_fewer_threads_fewer_things_are_at_once(
    monkeypatch: pytest.MonkeyPatch, given: int
) -> None:
    begun, start = [], Thread.start

    def some(thread: Thread) -> None:
        if len(begun) == given:
            raise RuntimeError("can't start new thread")
        begun.append(thread)
        start(thread)

    monkeypatch.setattr(Thread, "start", some)
    done = list(Threads().each(lambda item: item * 2, range(20), 5))

    assert done == list(range(0, 40, 2))
    for thread in begun:
        thread.join(30)
        assert not thread.is_alive()


def test_an_error_of_one_thing_comes_in_its_place_and_what_nobody_wants_is_not_begun() -> None:
    asked, go_on = [], Event()

    def work(item: int) -> int:
        asked.append(item)
        if item == 2:
            raise ValueError("two")
        if item > 2:
            go_on.wait(30)
        return item

    found = Threads().each(work, range(100), 2)
    assert [next(found), next(found)] == [0, 1]
    with pytest.raises(ValueError, match="two"):
        next(found)
    go_on.set()
    assert len(asked) <= 5


def test_what_was_given_is_let_go() -> None:
    """Each may be the list of a thousand manifests."""

    class Large:
        pass

    given = Threads().each(lambda _: Large(), range(20), 2)
    known = [weakref.ref(next(given)) for _ in range(19)]

    assert [one() for one in known[:-1]] == [None] * 18


def test_no_more_is_begun_than_twice_as_many_as_may_be_at_once_before_it_is_taken() -> None:
    """One list of manifests of a large table takes 60 MB, and a hundred of them waited for the first."""
    begun, go_on, is_full = [], Event(), Event()

    def work(item: int) -> int:
        begun.append(item)
        if item == 0:
            assert go_on.wait(30)
        if item == 3:
            is_full.set()
        return item

    found = Threads().each(work, range(100), 2)
    first = Thread(target=lambda: taken.append(next(found)))
    taken: list[int] = []
    first.start()
    assert is_full.wait(30)
    go_on.set()
    first.join(30)

    for item in found:
        taken.append(item)
        assert len(begun) <= len(taken) + 4
    assert taken == list(range(100))


def test_work_that_gets_on_and_on_is_given_up_all_the_same() -> None:
    """It keeps saying that it lives, and keeps the same work of every other table waiting."""
    clock, step = Clock(), Barrier(2, timeout=30)
    beside: Beside[str] = Beside(LIMIT_S, clock.monotonic_s)

    def work(is_stopped: IsStopped) -> str:
        for _ in range(2):
            step.wait()
            is_stopped()
            step.wait()
        return "never asked for"

    beside.start("of one table", work)
    ended = []
    for seconds in (MOST_S, 1):
        clock.advance(seconds)
        step.wait()
        step.wait()
        ended.append([*beside.ended()])
    (nothing, ((name, error),)) = ended

    assert not nothing
    assert name == "of one table"
    assert str(error) == "not done after 3h, though it got on; it begins again, and may take 6h then"


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
