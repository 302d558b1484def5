"""How long files wait for a name that is silent, refused, or gone."""

from dataclasses import replace

import pytest

from isotherm.iceberg.identify_tables import TRIES
from isotherm.service.ports import Refused, StoreAway, TableMissing, Unavailable
from isotherm.service.survey.survey import PATIENCE_S, TWICE_S
from isotherm.service.survey.unanswered_names import LONGEST_PAUSE_S, SILENT_AGAIN_S
from support.surveys import World, too_many

SLOW_S = 20.0


@pytest.fixture
def world(lab):
    for name in ("shop.orders", *(f"other.t{number:02}" for number in range(20)), "zoo.copy"):
        lab.create(name)
    made = World(lab)
    yield made
    made.ledger.close()


def slowly(world):
    """Each name takes a while, so that a look takes longer than what must lie between two answers."""
    real = world.catalog.lies

    def lies(name):
        world.passed_s += SLOW_S
        return real(name)

    world.catalog.lies = lies


def test_one_answer_in_a_long_look_does_not_count_as_two(world):
    """A replica that lags does not have a table yet that was just registered."""
    slowly(world)
    world.faults["zoo.copy"] = TableMissing("not yet here")
    world.list()
    world.survey.turn()
    world.survey.turn()
    assert world.passed_s > TWICE_S
    assert world.asked.count("zoo.copy") == 1
    assert world.survey.seen_since_ms() is None


def test_an_answer_behind_a_pause_that_the_catalog_wants_does_not_count_as_two(world):
    world.faults |= {"other.t00": too_many("150"), "zoo.copy": TableMissing("not yet here")}
    world.list()
    world.turns(2)
    del world.faults["other.t00"]
    world.passed_s = 150.0
    world.turns(2)
    assert world.asked.count("zoo.copy") == 1
    assert world.survey.seen_since_ms() is None


def test_a_process_asks_twice_itself_where_the_one_before_had_no_answer_all_day(world):
    """However long its first look takes."""
    world.faults["zoo.copy"] = Unavailable("time-out")
    world.list()
    while world.passed_s < PATIENCE_S + LONGEST_PAUSE_S:
        world.turns(2)
        world.passed_s += 600.0
    slowly(world)
    world.restart(after_s=SILENT_AGAIN_S)
    world.turns(2)
    assert world.passed_s > 0
    assert world.survey.seen_since_ms() is None


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_name_that_is_silent_and_refused_by_turns_keeps_files_waiting_for_a_day(world, is_restarted):
    """It may be a gateway that has two ways of having no answer."""
    world.list()
    seen, number = [], 0
    for hours in range(27):
        if is_restarted and hours in (8, 16):
            world.restart(after_s=60.0)
        for _ in range(6):
            number += 1
            world.faults["zoo.copy"] = Refused("403") if number % 2 else Unavailable("time-out")
            world.passed_s += 600.0
            world.survey.want()
            world.turns(2)
        seen.append(world.survey.seen_since_ms() is not None)
    assert not any(seen[:22])
    assert seen[-1]
    assert world.asked.count("zoo.copy") < 27 * 6 * TRIES


@pytest.mark.parametrize("restarts_h", [(), (12,), (26,)], ids=["never", "during it", "at its end"])
def test_an_outage_of_the_whole_catalog_is_no_silence_of_a_name(world, restarts_h):
    """It gave no answer just before and just after it: that is no day."""
    world.list()
    world.turns(2)
    world.faults["zoo.copy"] = Unavailable("time-out")
    seen = []
    for hours in range(60):
        if hours in restarts_h:
            world.restart(after_s=60.0)
        world.away = 1 <= hours < 27
        for _ in range(6):
            world.passed_s += 600.0
            world.survey.want()
            world.turns(3)
        seen.append(world.survey.seen_since_ms() is not None)
    assert not any(seen[: 27 + 18])
    assert seen[-1]


@pytest.mark.parametrize("asked_s", [0.0, 60.0], ids=["before", "after"])
def test_a_name_is_gone_once_a_list_that_was_asked_for_after_the_answer_does_not_have_it(world, asked_s):
    world.list()
    world.lab.catalog.drop_table("zoo.copy")
    world.passed_s = 30.0
    world.turns(2)
    assert world.survey.seen_since_ms() is None
    listing = world.catalog.names()
    world.passed_s = 60.0
    world.survey.listed(listing, asked_s, 600.0, is_whole=True)
    assert (world.survey.seen_since_ms() is not None) is (asked_s == 60.0)


def test_a_catalog_in_which_tables_come_and_go_all_the_time_keeps_files_waiting_for_minutes(world):
    """In each list is a name that is gone when it is looked at: it counts when it has been gone for minutes."""
    waited = 0
    for number in range(200):
        if number % 10 == 0:
            world.lab.create(f"other.new{number}")
            world.list()
            world.lab.catalog.drop_table(f"other.new{number}")
        world.survey.want()
        world.turns(2)
        world.passed_s += 60.0
        waited += world.survey.seen_since_ms() is None
    assert 20 <= waited <= 80


DEAD, TIME_OUT_S = 25, 150.0


@pytest.mark.parametrize(
    "fault", [StoreAway("a dead bucket"), Unavailable("time-out")], ids=["store", "catalog"]
)
def test_many_names_that_cost_a_time_out_each_keep_files_waiting_for_a_day_and_not_for_ever(world, fault):
    for number in range(DEAD):
        world.lab.create(f"dead.t{number:03}")
    real = world.catalog.lies

    def lies(name):
        if name.startswith("dead."):
            world.passed_s += TIME_OUT_S
            raise fault
        return real(name)

    world.catalog.lies = lies
    late_s = []
    while world.passed_s < 3 * PATIENCE_S:
        world.list()
        world.survey.want()
        world.turns(1)
        world.passed_s += 300.0
        seen_ms = world.survey.seen_since_ms()
        assert seen_ms is None or world.passed_s >= PATIENCE_S
        late_s.append((world.passed_s, seen_ms and (world.now_ms() - seen_ms) / 1000))

    late = [late for at_s, late in late_s if at_s > 2 * PATIENCE_S]
    assert None not in late
    assert max(late) < PATIENCE_S / 2


@pytest.mark.parametrize("is_there", [True, False])
def test_the_day_of_a_silent_name_goes_on_though_its_namespace_is_not_listed_now_and_then(world, is_there):
    world.faults["zoo.copy"] = Unavailable("time-out")
    whole = world.catalog.names()
    names = [name for name in whole.names if name != "zoo.copy"]
    short = replace(
        whole, names=names, unlisted={} if is_there else {"zoo": "502"}, silent=() if is_there else ["zoo"]
    )
    seen = []
    for minute in range(0, 2 * 1440, 10):
        is_hidden = minute % 720 == 60
        world.survey.listed(short if is_hidden else whole, world.passed_s, 1e9, is_whole=not is_hidden)
        world.survey.want()
        world.turns(1)
        world.passed_s += 600.0
        if not is_hidden:
            seen.append(world.survey.seen_since_ms() is not None)

    # A namespace that answers without the name ends its silence. Of one that is hidden no time counts between.
    assert not any(seen[:140])
    assert any(seen) is not is_there
