"""How long files wait for a name of which a look does not show which table it is."""

from dataclasses import replace

import pytest

from isotherm.iceberg.identify_tables import TRIES
from isotherm.service.ports import Refused, StoreAway, TableMissing, Unavailable
from isotherm.service.survey.survey import PATIENCE_S, TWICE_S
from isotherm.service.survey.unanswered_names import LONGEST_PAUSE_S, SILENT_AGAIN_S
from support.lab import uuid_of
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


def unsettled(world):
    """A name of a table of ours, of which nobody can say whether it is a second entry."""
    uuid = uuid_of(world.lab.catalog.load_table("zoo.copy"))
    world.known, world.settles = {uuid: "shop.known"}, False
    world.list()
    return uuid


def test_a_name_that_may_be_a_second_entry_keeps_after_a_day_only_that_tables_files_waiting(world):
    uuid = unsettled(world)
    seen = []
    while world.passed_s < 2 * PATIENCE_S:
        world.turns(2)
        world.passed_s += 1800.0
        world.survey.want()
        seen.append(world.survey.seen_since_ms() is not None)
        assert not (seen[-1] and world.survey.compare_names("shop.known", uuid))
    assert not any(seen[:46])
    # Those of the one table are asked about in between, and keep nobody else waiting.
    assert all(seen[54:])
    world.settles = True
    world.known = {uuid: "zoo.copy"}
    world.passed_s += LONGEST_PAUSE_S
    world.turns(2)
    assert world.survey.compare_names("zoo.copy", uuid)


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("fault", [Refused("403"), Unavailable("time-out")], ids=["refused", "silent"])
def test_a_name_that_was_perhaps_a_second_entry_keeps_that_tables_files_waiting_whatever_it_says_later(
    world, fault, is_restarted
):
    uuid = unsettled(world)
    world.turns(2)
    if is_restarted:
        world.restart(after_s=SILENT_AGAIN_S)
    world.faults["zoo.copy"] = fault
    while world.survey.seen_since_ms() is None:
        assert world.passed_s < 2 * PATIENCE_S
        world.passed_s += 1800.0
        world.survey.want()
        world.turns(2)
    assert not world.survey.compare_names("shop.known", uuid)
    world.lab.catalog.drop_table("zoo.copy")
    world.list()
    assert not world.survey.compare_names("shop.known", uuid)
    world.list_twice()
    assert world.survey.compare_names("shop.known", uuid)
    assert not world.ledger.seen_names()


@pytest.mark.parametrize("is_settled", [True, False])
def test_a_second_name_of_which_no_list_tells_any_more_keeps_that_tables_files_waiting(world, is_settled):
    """Its namespace may not be listed; or it was known, the table was halted, and somebody has lifted that."""
    uuid = unsettled(world)
    world.settles = is_settled
    world.turns(2)
    assert world.ledger.seen_names() == {"zoo.copy": uuid}
    real = world.catalog.names

    def names():
        listing = real()
        return replace(
            listing, names=[one for one in listing.names if one != "zoo.copy"], unlisted={"zoo": "403"}
        )

    world.catalog.names = names
    world.faults["zoo.copy"] = Refused("403")
    for _ in range(4):
        world.passed_s += TWICE_S
        world.list()
        world.survey.want()
        world.turns(2)
    assert not world.survey.compare_names("shop.known", uuid)
    world.catalog.names = real
    world.faults.clear()
    world.known = {uuid: "zoo.copy"}
    world.list()
    world.survey.want()
    world.passed_s += LONGEST_PAUSE_S
    world.turns(4)
    assert world.survey.compare_names("zoo.copy", uuid)
    assert world.ledger.seen_names() == {"zoo.copy": uuid}


def test_the_day_of_a_second_name_goes_on_though_the_daemon_is_restarted_each_hour(world):
    uuid = unsettled(world)
    seen = []  # between the last question of a process and its end, no time counts
    for _ in range(40):
        for _ in range(6):
            world.turns(2)
            world.passed_s += 600.0
            world.survey.want()
        seen.append(world.survey.seen_since_ms() is not None)
        assert not (seen[-1] and world.survey.compare_names("shop.known", uuid))
        world.restart(after_s=SILENT_AGAIN_S)
    assert not any(seen[:20])
    assert seen[-1]


@pytest.mark.parametrize("what", ["settled", "gone", "silent"])
def test_a_second_name_that_was_something_else_meanwhile_keeps_files_waiting_for_a_day_again(world, what):
    unsettled(world)
    world.turns(2)
    world.passed_s += PATIENCE_S - LONGEST_PAUSE_S
    world.turns(2)
    world.settles = what == "settled"
    if what != "settled":
        world.faults["zoo.copy"] = TableMissing("dropped") if what == "gone" else Unavailable("time-out")
    world.passed_s += LONGEST_PAUSE_S / 2
    world.turns(2)
    world.faults.clear()
    world.settles = False
    world.restart(after_s=SILENT_AGAIN_S)
    world.turns(2)
    world.passed_s += LONGEST_PAUSE_S
    world.turns(2)
    assert world.survey.seen_since_ms() is None


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


@pytest.mark.parametrize("fault", [Refused("403"), Unavailable("time-out")], ids=["refused", "silent"])
@pytest.mark.parametrize("was_known", [True, False])
def test_a_second_name_that_is_looked_at_before_its_table_is_known_again_is_not_forgotten(
    world, fault, was_known
):
    """A fold that was lost knows a table only after its first scan, and the look may come before."""
    uuid = uuid_of(world.lab.catalog.load_table("other.t00"))
    if was_known:
        world.known, world.settles = {uuid: "shop.known"}, False
        world.list()
        world.turns(2)
        world.known = {}
        world.restart(after_s=SILENT_AGAIN_S)
    else:
        world.list()
    world.turns(3)
    assert world.ledger.seen_names() == ({"other.t00": uuid} if was_known else {})
    world.known, world.settles = {uuid: "shop.known"}, False
    assert not world.survey.compare_names("shop.known", uuid)
    world.faults["other.t00"] = fault

    while world.survey.seen_since_ms() is None:
        assert world.passed_s < 3 * PATIENCE_S
        world.passed_s += 1800.0
        world.survey.want()
        world.survey.compare_names("shop.known", uuid)
        world.turns(2)

    assert not world.survey.compare_names("shop.known", uuid)
    del world.faults["other.t00"]
    world.known = {uuid: "other.t00"}
    world.passed_s += 2 * PATIENCE_S
    world.survey.want()
    world.turns(3)
    assert world.survey.compare_names("other.t00", uuid)
    assert world.ledger.seen_names() == {"other.t00": uuid}


@pytest.mark.parametrize("fault", [Refused("403"), Unavailable("time-out")], ids=["refused", "silent"])
def test_the_first_name_of_a_table_keeps_its_files_waiting_where_a_fold_that_was_lost_meets_it_under_another(
    world, fault
):
    """Somebody has registered it once more because the first name refuses; who writes goes on under that."""
    uuid = uuid_of(world.lab.catalog.load_table("zoo.copy"))
    world.known = {uuid: "zoo.copy"}
    world.list()
    world.turns(2)
    world.faults["zoo.copy"] = fault
    table = world.lab.catalog.load_table("zoo.copy")
    world.lab.catalog.register_table("zoo.second", table.metadata_location)
    world.known = {uuid: "zoo.second"}
    world.restart(after_s=SILENT_AGAIN_S)
    while world.survey.seen_since_ms() is None:
        assert world.passed_s < 3 * PATIENCE_S
        world.passed_s += 1800.0
        world.survey.want()
        world.turns(2)

    assert not world.survey.compare_names("zoo.second", uuid)
    assert "zoo.copy may be a second entry of it" in world.survey.why_not("zoo.second")
    world.lab.catalog.drop_table("zoo.copy")
    world.list()
    assert not world.survey.compare_names("zoo.second", uuid)
    world.list_twice()
    assert world.survey.compare_names("zoo.second", uuid)


@pytest.mark.parametrize("wrong", ["empty", "one less"])
def test_one_list_without_a_name_does_not_end_it(world, wrong):
    """A catalog that is restarted, or a replica that lags, for a minute; then the name refuses, and nobody else knows of it."""
    uuid = uuid_of(world.lab.catalog.load_table("zoo.copy"))
    world.known = {uuid: "zoo.copy"}
    world.list()
    world.turns(2)
    whole = world.catalog.names()
    names = [] if wrong == "empty" else [one for one in whole.names if one != "zoo.copy"]
    world.survey.listed(replace(whole, names=names), world.passed_s, 1e9, is_whole=True)
    world.passed_s += 60.0
    world.list()
    world.passed_s += 3600.0
    if wrong == "empty":
        world.survey.listed(replace(whole, names=names), world.passed_s, 1e9, is_whole=True)
    world.list()

    assert world.ledger.seen_names()["zoo.copy"] == uuid
