"""A name that nobody can read or that does not answer keeps files waiting for a bounded time, and is asked ever more rarely."""

import pytest

from isotherm.core.observations import TrySoon
from isotherm.iceberg.identify_tables import TRIES
from isotherm.service.ports import Refused, StoreAway, TableMissing, Unavailable, Unreadable
from isotherm.service.survey.survey import PATIENCE_S, TWICE_S
from isotherm.service.survey.unanswered_names import LONGEST_PAUSE_S, SILENT_AGAIN_S
from support.lab import uuid_of
from support.surveys import START_MS

ANSWERS = [Refused("403"), Unreadable("version 7"), TableMissing("none"), RuntimeError("ours")]


@pytest.mark.parametrize("fault", ANSWERS, ids=["refused", "unreadable", "missing", "mistake"])
def test_what_nobody_can_read_keeps_no_file_waiting_once_it_has_said_so_twice(world, fault):
    world.faults["other.a"] = fault
    world.list()
    world.turns()
    assert world.survey.seen_since_ms() is None
    world.passed_s = TWICE_S
    world.turns()
    assert world.survey.seen_since_ms() == START_MS - 1
    assert len([one for one in world.heard if isinstance(one, TrySoon)]) == 1


@pytest.mark.parametrize("fault", ANSWERS, ids=["refused", "unreadable", "missing", "mistake"])
def test_an_answer_that_passes_does_not_hide_a_second_entry(world, fault):
    """A replica that lags does not have a table yet that was just registered."""
    uuid = uuid_of(world.lab.catalog.load_table("other.a"))
    world.known = {uuid: "shop.a"}
    world.faults["other.a"] = fault
    world.list()
    world.turns()
    del world.faults["other.a"]
    world.passed_s = TWICE_S
    world.turns()
    assert world.twice == [("other.a", uuid)]


@pytest.mark.parametrize("fault", [StoreAway("a bucket"), Unavailable("time-out")], ids=["store", "catalog"])
def test_silence_keeps_files_waiting_for_a_day(world, fault):
    world.faults["other.a"] = fault
    world.list()
    for hours in range(23):
        world.passed_s = hours * 3600.0
        world.turns()
        assert world.survey.seen_since_ms() is None


def test_names_that_do_not_answer_hide_none_of_the_others(world):
    for number in range(8):
        name = f"other.away{number}"
        world.lab.create(name)
        world.faults[name] = Unavailable("time-out")
    for hours in range(30):
        world.passed_s = hours * 3600.0
        world.list()
        world.survey.want()
        world.turns()
    assert "shop.orders" in world.asked
    assert world.asked.count("shop.orders") > 1


@pytest.mark.parametrize("fault", [Refused("403"), StoreAway("a bucket")], ids=["refused", "silent"])
def test_an_old_name_of_a_table_that_nobody_may_read_by_now_does_not_hold_its_files_for_ever(world, fault):
    uuid = uuid_of(world.lab.catalog.load_table("shop.orders"))
    world.known = {uuid: "shop.orders"}
    world.list()
    world.turns()
    world.lab.catalog.rename_table("shop.orders", "shop.renamed")
    world.lab.create("shop.orders")
    # As who follows the table does, where its name gives another one.
    world.survey.seen_names.end_of(uuid, ["shop.orders"])
    world.faults["shop.orders"] = fault
    world.known = {uuid: "shop.renamed"}
    world.list()
    world.turns()
    assert not world.survey.compare_names("shop.renamed", uuid)
    while world.passed_s < 2 * PATIENCE_S:
        world.passed_s += 3600.0
        world.list()
        world.survey.want()
        world.turns()
    assert world.survey.seen_since_ms() is not None
    assert world.survey.compare_names("shop.renamed", uuid)


def test_a_name_without_an_answer_keeps_files_waiting_for_a_day_and_is_asked_ever_more_rarely(world):
    world.faults["other.a"] = Unavailable("time-out")
    world.list()
    world.turns()
    assert world.survey.seen_since_ms() is None
    assert "other.a for instance: time-out" in world.survey.why_not("shop.orders")
    asked = world.asked.count("other.a")
    assert asked == TRIES
    world.passed_s = SILENT_AGAIN_S - 1
    world.turns()
    assert world.asked.count("other.a") == asked
    times = 0
    while world.passed_s < PATIENCE_S:
        world.passed_s += 600.0
        before = len(world.asked)
        world.turns()
        times += len(world.asked) > before
    assert times <= PATIENCE_S / LONGEST_PAUSE_S + 7
    while world.survey.seen_since_ms() is None and world.passed_s < 3 * PATIENCE_S:
        world.passed_s += 600.0
        world.survey.want()
        world.turns()
    assert world.survey.seen_since_ms() is not None


def silent_for(world, hours):
    """Look for some hours at a catalog of which one name gives no answer; whether that was waited for."""
    for _ in range(round(hours * 6)):
        world.passed_s += 600.0
        world.survey.want()
        world.turns(2)
    return world.survey.seen_since_ms() is not None


def test_a_daemon_that_is_restarted_each_day_waits_no_longer_for_a_silent_name(world):
    world.faults["other.a"] = Unavailable("time-out")
    world.list()
    world.turns()
    assert not silent_for(world, 20)
    world.restart(after_s=120.0)
    world.turns()
    # Of the twenty hours those count after which it was asked once more.
    assert not silent_for(world, 3)
    assert silent_for(world, 6)


@pytest.mark.parametrize("what", ["a long break", "an answer", "a name made again", "a clock set back"])
def test_what_a_process_before_saw_of_a_silent_name_does_not_count_after(world, what):
    world.faults["other.a"] = Unavailable("time-out")
    world.list()
    world.turns()
    assert not silent_for(world, 20)
    if what == "an answer":
        world.faults.clear()
        silent_for(world, 1.5)
        world.faults["other.a"] = Unavailable("time-out")
    if what == "a name made again":
        world.lab.catalog.drop_table("other.a")
        world.list()
        world.lab.create("other.a")
    after_s = {"a long break": 30 * 3600.0, "a clock set back": -20 * 3600.0}.get(what, 120.0)
    world.restart(after_s)
    world.turns()
    assert not silent_for(world, 22)
    assert silent_for(world, 3)


def test_a_process_asks_a_silent_name_for_minutes_itself_and_believes_no_catalog_that_shows_nothing(world):
    world.faults["other.a"] = Unavailable("time-out")
    world.list()
    world.turns()
    assert silent_for(world, 25)
    world.restart(after_s=120.0)
    world.turns()
    assert world.survey.seen_since_ms() is None
    assert silent_for(world, 0.5)
    world.restart(after_s=120.0)
    world.faults |= dict.fromkeys(("shop.orders", "other.b"), Unavailable("time-out"))
    assert not silent_for(world, 3)


def test_a_name_that_was_known_and_is_silent_now_counts_as_not_looked_at(world):
    """Also one that a policy matches: it may be a second entry by now."""
    world.list()
    world.turns()
    world.faults["shop.orders"] = Unavailable("time-out")
    world.passed_s = 1000.0
    world.survey.want()
    world.turns()
    assert world.survey.seen_since_ms() is None


@pytest.mark.parametrize("fault", [Refused("403"), Unavailable("time-out")], ids=["refused", "silent"])
def test_a_name_that_nobody_can_read_is_looked_at_again_once_the_clock_is_believed_again(world, fault):
    world.faults["other.a"] = fault
    world.list()
    world.turns()
    while world.passed_s < 2 * PATIENCE_S:
        world.passed_s += 3600.0
        world.list()
        world.survey.want()
        world.turns()
    assert world.survey.seen_since_ms() is not None
    world.trouble = "it jumped"
    world.turns()
    assert world.survey.seen_since_ms() is None
    world.trouble = None
    world.turns()
    assert world.survey.seen_since_ms() == world.now_ms() - 1


def test_a_name_that_answers_after_hours_keeps_files_waiting_for_one_more_at_most(world):
    world.faults["other.a"] = Unavailable("time-out")
    world.list()
    while world.passed_s < 12 * 3600.0:
        world.turns()
        world.passed_s += 600.0
    del world.faults["other.a"]
    world.passed_s += LONGEST_PAUSE_S
    world.list()
    world.turns()
    assert world.survey.seen_since_ms() is not None
