"""Work beside the loop: one thing after another; it goes on as long as it gets on, and is given up where it does not."""

from threading import Barrier, Event, Thread

import pytest

from isotherm.iceberg.asking import Asking
from isotherm.iceberg.patience import MOST_S
from isotherm.iceberg.stopping import IsStopped
from isotherm.iceberg.threads import Beside
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
