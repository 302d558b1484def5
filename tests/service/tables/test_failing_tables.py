"""What failed is left aside for longer each time, and looked at again once it may go well: the barrier alone."""

import sys

import pytest

from isotherm.core import observations as seen
from isotherm.service.ports import (
    Fenced,
    NotAsked,
    NotYetKnown,
    NoWord,
    Refused,
    TableMissing,
    TableSilent,
    Unavailable,
    Unreadable,
)
from isotherm.service.tables.failing_tables import (
    AWAY_IN_A_ROW,
    LONG_S,
    MOST_ASIDE,
    NO_WORD_PAUSE_S,
    OF_OTHERS,
    Barrier,
)
from support.memory_topics import Clock


class Seen(list):
    def of(self, kind):
        return [one for one in self if isinstance(one, kind)]


def barrier():
    heard, clock = Seen(), [0.0]
    return Barrier(heard.append, lambda: clock[0]), heard, clock


def test_pauses_grow_and_end_with_success():
    made, heard, clock = barrier()
    pauses = []
    for _ in range(12):
        with made.around("t", "looking"):
            raise RuntimeError("ours")
        began = clock[0]
        while made.is_aside("t"):
            clock[0] += 5
        pauses.append(clock[0] - began)

    assert pauses[:4] == [10, 20, 40, 80]
    assert pauses[-1] == 3600
    assert "RuntimeError: ours" in heard.of(seen.TableFailed)[0].traceback
    with made.around("t", "looking"):
        made.went_well("t")
    assert [one.name for one in heard.of(seen.TableRecovered)] == ["t"]
    with made.around("t", "looking"):
        raise RuntimeError("again")
    clock[0] += 10
    assert not made.is_aside("t")


def test_what_failed_last_is_kept_by_table_until_it_is_over():
    """Jobs have keys of their own, and what concerns no table is left out."""
    made, _, _ = barrier()
    with made.around("t", "looking"):
        raise Unavailable("no such bucket")
    with made.around("t", "binding a rewrite", "job-1"):
        raise RuntimeError("ours")
    with made.around("u", "binding a rewrite", "job-2"):
        raise RuntimeError("ours")
    made.guard("reading", lambda: 1 / 0)

    assert made.troubles() == {
        "t": ("looking", "no such bucket"),
        "u": ("binding a rewrite", "RuntimeError: ours"),
    }
    made.went_well("t")
    assert made.troubles()["t"] == ("binding a rewrite", "RuntimeError: ours")
    made.forget("t")
    assert made.troubles().keys() == {"u"}


@pytest.mark.parametrize("for_long", [False, True])
def test_an_answer_that_says_nothing_is_over_with_the_outage_and_is_none_by_itself(for_long):
    """A server's 500, or a token that is over: all tables waited for up to an hour once it was mended."""
    made, heard, clock = barrier()
    for _ in range(20):
        for name in ("a.t", "b.t"):
            with made.around(name, "looking"):
                said = NoWord("500: a null pointer")
                if for_long:
                    raise Unreadable(f"{said}; for long") from said
                raise said
        began = clock[0]
        while made.is_aside("a.t"):
            clock[0] += 5

    assert clock[0] - began == NO_WORD_PAUSE_S
    assert not made.is_away
    assert made.makes_no_sense("a.t")
    assert not made.is_settled("a.t")
    for name in ("a.t", "b.t"):
        with made.around(name, "looking"):
            raise NoWord("500")
        assert made.is_aside(name)
    with made.around("c.t", "looking"):
        made.went_well("c.t")
    assert not made.is_aside("a.t")
    assert not made.is_aside("b.t")
    # Told once an hour, with what there is to do.
    failed = heard.of(seen.TableFailed)
    assert len(failed) == (2 * (1 + clock[0] // 3600) if for_long else 0)
    assert {one.remedy for one in failed} <= {OF_OTHERS}
    clock[0] += LONG_S
    with made.around("a.t", "looking"):
        raise NoWord("500")
    assert made.is_settled("a.t")


def test_a_table_that_is_left_out_of_the_policies_fails_no_more():
    """That is what a person is told to do about it. The alert went on for ever."""
    made, heard, clock = barrier()
    maintained = {"t"}
    made.is_maintained = maintained.__contains__
    for turn in range(3):
        with made.around("t", "looking"):
            raise Unreadable("damaged")
        clock[0] += 3600
        if turn == 1:
            maintained.clear()

    assert len(heard.of(seen.TableFailed)) == 2
    assert [one.name for one in heard.of(seen.TableRecovered)] == ["t"]
    assert [one.what for one in heard.of(seen.TrySoon)] == ["table t"] * 4
    made.guard("reading the policies", lambda: 1 / 0)
    assert heard.of(seen.TableFailed)[-1].name == "all tables (reading the policies)"


def test_work_of_a_table_that_is_left_out_of_the_policies_fails_no_more_with_the_next_round():
    """Nobody tries it again."""
    made, heard, _ = barrier()
    maintained = {"t"}
    made.is_maintained = maintained.__contains__
    with made.around("t", "expiring snapshots", "uuid/expire"):
        raise RuntimeError("ours")
    made.guard("reading the policies", lambda: 1 / 0)
    made.try_again()
    assert set(made.failing) == {"t", "all tables (reading the policies)"}

    maintained.clear()
    made.try_again()

    assert set(made.failing) == {"all tables (reading the policies)"}
    assert [one.name for one in heard.of(seen.TableRecovered)] == ["t"]


def test_a_table_fails_until_nothing_of_it_does():
    """Looking at it goes well all the same where a job, an expiry or a deletion has a key of its own."""
    made, heard, clock = barrier()
    for key in ("t", "uuid/expire", "job"):
        with made.around("t", "working on it", key):
            raise RuntimeError("ours")

    made.went_well("t")
    made.forget("job")
    assert heard.of(seen.TableRecovered) == []
    made.forget("uuid/expire")
    assert [one.name for one in heard.of(seen.TableRecovered)] == ["t"]
    # One that is gone takes all with it, and so does time what nobody tries again.
    for table in ("gone", "left"):
        with made.around(table, "working on it", f"{table}/expire"):
            raise RuntimeError("ours")
    made.forget("gone")
    assert [one.name for one in heard.of(seen.TableRecovered)] == ["t", "gone"]
    clock[0] += LONG_S
    made.try_again()
    assert len(heard.of(seen.TableRecovered)) == 2
    clock[0] += 10
    made.try_again()
    assert [one.name for one in heard.of(seen.TableRecovered)] == ["t", "gone", "left"]


def test_what_fails_for_a_table_under_another_name_is_told_of_that_one():
    made, heard, _ = barrier()
    for name in ("before", "after"):
        with made.around(name, "ending job 1", "1"):
            raise RuntimeError("ours")

    assert [one.name for one in heard.of(seen.TableRecovered)] == ["before"]
    made.forget("after")
    assert [one.name for one in heard.of(seen.TableRecovered)] == ["before", "after"]


@pytest.mark.parametrize("error", [Fenced("another has our place"), KeyboardInterrupt()])
def test_what_concerns_the_whole_daemon_goes_through(error):
    made, *_ = barrier()

    with pytest.raises(type(error)), made.around("t", "looking"):
        raise error


def test_several_tables_in_a_row_without_an_answer_are_no_matter_of_the_tables():
    made, _, clock = barrier()
    for number in range(AWAY_IN_A_ROW):
        assert not made.is_away
        with made.around(f"t{number}", "looking"):
            raise Unavailable("time-out")

    assert made.is_away
    made.try_again()
    assert not made.is_away
    # After an outage of everything one answer is enough: all that only did not answer are looked at again at once.
    made.went_well("t0")
    assert not made.is_aside("t2")
    assert clock == [0.0]


def test_pauses_of_a_table_that_does_not_answer_grow_though_others_go_well():
    made, _, clock = barrier()
    tries = 0
    for _ in range(100):
        clock[0] += 10
        made.try_again()
        made.went_well("well")
        if not made.is_aside("dead"):
            tries += 1
            with made.around("dead", "looking"):
                raise Unavailable("time-out")

    assert tries < 9


def test_what_was_not_asked_for_has_not_failed_and_stands_first_in_the_next_round():
    made, heard, _ = barrier()
    for number in range(AWAY_IN_A_ROW):
        with made.around(f"t{number}", "looking"):
            raise NotAsked("the catalog did not answer")

    assert made.is_away
    assert made.not_asked == {"t0", "t1", "t2"}
    assert not any(made.is_aside(name) for name in made.not_asked)
    assert heard == []
    made.try_again()
    assert (made.is_away, made.not_asked) == (False, set())


def test_after_an_outage_of_everything_one_answer_is_enough():
    made, _, clock = barrier()
    made.went_well("well")
    for _ in range(40):
        clock[0] += 10
        if not made.is_aside("t"):
            with made.around("t", "looking"):
                raise Unavailable("time-out")
    assert made.is_aside("t")
    made.went_well("well")

    assert not made.is_aside("t")


def test_names_that_nobody_has_are_forgotten_when_their_pause_is_over():
    made, _, clock = barrier()
    for number in range(MOST_ASIDE + 100):
        if number == MOST_ASIDE - 10:
            clock[0] += 11
        with made.around(f"t{number}", "looking"):
            raise Refused("400")

    assert made.is_aside(f"t{MOST_ASIDE + 99}")
    for known, pause_s in (("t0", 10), (f"t{MOST_ASIDE + 99}", 20)):
        with made.around(known, "looking"):
            raise Refused("400")
        clock[0] += 10
        assert made.is_aside(known) == (pause_s > 10), "the second pause in a row is longer"
        clock[0] += 10


@pytest.mark.parametrize("error", [Unreadable("format version 4"), TableMissing("no"), RuntimeError("ours")])
def test_tables_that_make_no_sense_are_not_an_outage(error):
    made, *_ = barrier()
    for number in range(10):
        with made.around(f"t{number}", "looking"):
            raise error

    assert not made.is_away


@pytest.mark.parametrize(
    "fault",
    [Refused("403"), NotYetKnown("the next list says it"), TableSilent("timed out")],
    ids=["403", "list", "silent"],
)
def test_a_table_that_refuses_us_or_is_not_known_yet_is_no_outage(fault):
    made, *_ = barrier()
    for number in range(10):
        with made.around(f"t{number}", "looking"):
            raise fault

    assert not made.is_away


def test_what_goes_well_costs_the_same_however_many_others_are_aside():
    def steps(aside):
        clock = Clock()
        barrier = Barrier(lambda _: None, clock.monotonic_s)
        barrier.went_well("shop.sound")
        for number in range(aside):
            barrier.put_aside(f"dead.t{number}", is_away=True)
        count = []

        def note(frame, event, _):
            del event
            frame.f_trace_opcodes = True
            count.append(1)
            return note

        sys.settrace(note)
        try:
            barrier.went_well("shop.other")
        finally:
            sys.settrace(None)
        return len(count)

    assert steps(1000) == steps(1)
