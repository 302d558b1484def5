"""Threads for what many tables need at once, or for what the loop waits for: not too many, and few where the system gives few."""

import weakref
from threading import Event, Thread

import pytest

from isotherm.iceberg.threads import Threads
from isotherm.runtime.hanging import MOST


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
