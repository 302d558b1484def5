"""How long files of a table wait for a name that may be a second entry of it."""

from dataclasses import replace

import pytest

from isotherm.service.ports import Refused, TableMissing, Unavailable
from isotherm.service.survey.survey import PATIENCE_S, TWICE_S
from isotherm.service.survey.unanswered_names import LONGEST_PAUSE_S, SILENT_AGAIN_S
from support.lab import uuid_of
from support.surveys import World


@pytest.fixture
def world(lab):
    for name in ("shop.orders", *(f"other.t{number:02}" for number in range(20)), "zoo.copy"):
        lab.create(name)
    made = World(lab)
    yield made
    made.ledger.close()


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
