"""Work beside the loop: one thing after another, and never more threads than that."""

from threading import Event

from isotherm.iceberg.threads import Beside
from support.fakes import Clock

LIMIT_S = 60


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
