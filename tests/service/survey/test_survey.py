"""What is known of all the catalog's tables before a file of one of them goes."""

from dataclasses import replace

import pytest

from isotherm.core.model.holds import Hold, HoldKind
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.service.ports import Lies, Unavailable
from isotherm.service.survey.second_entries import A_TURN_FOR_S
from isotherm.service.survey.survey import PAUSE_S, TWICE_S
from support.lab import uuid_of
from support.surveys import START_MS


def test_a_file_may_go_only_if_every_name_was_looked_at_after_it_was_marked(world):
    assert world.survey.seen_since_ms() is None
    world.list()
    assert world.survey.seen_since_ms() is None
    world.turns()
    assert world.survey.seen_since_ms() == START_MS - 1
    assert sorted(world.asked) == ["other.a", "other.b", "shop.orders"]
    assert list(world.survey.names()) == ["other.a", "other.b", "shop.orders"]


def test_a_namespace_without_an_answer_keeps_files_waiting(world):
    world.list()
    world.turns()
    listing = world.catalog.names()
    listing.unlisted["federated"] = "time-out"
    world.survey.listed(replace(listing, silent=["federated"]), 0.0, 60.0, is_whole=False)
    world.turns()
    assert world.survey.seen_since_ms() is None
    assert "namespace federated" in world.survey.why_not("shop.orders")
    assert "time-out" in world.survey.why_not("shop.orders")


def test_a_new_name_is_looked_at_alone_and_counts_until_then(world):
    world.list()
    world.turns()
    world.lab.create("other.new")
    world.asked.clear()
    world.passed_s = 60.0
    world.list()
    assert world.survey.seen_since_ms() is None
    world.turns()
    assert world.asked == ["other.new"]
    assert world.survey.seen_since_ms() == START_MS - 1


def test_all_are_looked_at_again_where_files_wait_for_it_and_not_too_often(world):
    world.list()
    world.turns()
    world.asked.clear()
    world.passed_s = 1000.0
    world.list()
    world.turns()
    assert world.asked == []
    world.survey.want()
    world.turns()
    assert len(world.asked) == 3
    assert world.survey.seen_since_ms() == START_MS + 1_000_000 - 1
    world.survey.want()
    world.passed_s = 1000.0 + PAUSE_S - 1
    world.turns()
    assert len(world.asked) == 3
    world.passed_s += 1
    world.turns()
    assert len(world.asked) == 6


def test_a_long_look_is_followed_by_a_longer_pause(world):
    world.list()
    world.turns()
    world.passed_s = 1000.0
    world.survey.want()
    world.survey.turn()
    world.passed_s += 3600.0
    world.turns()
    world.asked.clear()
    world.survey.want()
    world.passed_s += 8 * 3600.0
    world.turns()
    assert world.asked == []
    world.passed_s += 3600.0
    world.turns()
    assert len(world.asked) == 3


def test_a_list_that_is_old_is_not_the_newest(world):
    world.good_for_s = 700.0
    world.list()
    world.turns()
    world.passed_s = 700.0
    assert world.survey.seen_since_ms() is not None
    world.passed_s = 701.0
    assert world.survey.seen_since_ms() is None
    world.survey.not_listed("403")
    assert "403" in world.survey.why_not("shop.orders")
    assert "403" in world.ledger.obstacles()["survey"]
    world.list()
    world.turns()
    assert world.survey.seen_since_ms() is not None
    assert world.ledger.obstacles() == {}


def test_a_name_that_was_dropped_keeps_nothing_waiting_any_more(world):
    world.faults["other.a"] = Unavailable("time-out")
    world.list()
    world.turns()
    assert "other.a" in world.ledger.obstacles()["survey"]
    world.lab.catalog.drop_table("other.a")
    world.passed_s = 60.0
    world.list()
    assert world.ledger.obstacles() == {}


def test_a_file_that_was_marked_after_the_list_waits_for_another(world):
    world.list()
    world.passed_s = 100.0
    world.turns()
    assert world.survey.seen_since_ms() == START_MS - 1


@pytest.mark.parametrize("reason", [Reason.MISMATCH, Reason.TWO_ENTRIES])
def test_a_table_that_is_halted_for_something_else_keeps_its_second_entry_unseen(world, reason):
    uuid = uuid_of(world.lab.catalog.load_table("other.a"))
    world.known = {uuid: "shop.a"}
    hold = Hold(HoldKind.HALT, uuid, "shop.a", str(Refusal(reason, "a test")), 0)
    world.ledger.hold(hold, told=True)
    world.list()
    world.turns()
    assert (world.survey.seen_since_ms() is not None) is (reason is Reason.TWO_ENTRIES)


def test_a_name_that_was_looked_at_before_we_knew_its_table_is_looked_at_again(world):
    uuid = uuid_of(world.lab.catalog.load_table("other.a"))
    world.list()
    world.turns()
    assert world.survey.compare_names("other.a", uuid)
    assert not world.survey.compare_names("shop.a", uuid)
    world.known = {uuid: "shop.a"}
    assert world.survey.seen_since_ms() is None
    world.turns()
    assert world.twice == [("other.a", uuid)]


def test_a_name_that_was_gone_by_one_answer_and_is_listed_again_is_looked_at_again(world):
    """A replica that lags has neither the table yet, nor its name in the list of its namespace."""
    uuid = uuid_of(world.lab.catalog.load_table("other.a"))
    world.known = {uuid: "shop.a"}
    world.list()
    world.lab.catalog.rename_table("other.a", "other.hidden")
    world.turns()
    world.lab.catalog.rename_table("other.hidden", "other.a")
    assert world.survey.seen_since_ms() is None
    world.passed_s = 60.0
    world.list()
    world.turns()
    assert world.twice == [("other.a", uuid)]


@pytest.mark.parametrize("settles", [True, False])
def test_a_second_entry_is_told_once_and_keeps_no_other_table_waiting(world, settles):
    world.settles = settles
    uuid = uuid_of(world.lab.catalog.load_table("other.a"))
    world.known = {uuid: "shop.a"}
    world.list()
    world.turns()
    assert world.twice == [("other.a", uuid)]
    assert (world.survey.seen_since_ms() is not None) is settles


def test_a_namespace_that_is_registered_anew_takes_some_seconds_of_a_turn_and_all_of_it_is_settled_at_last(
    world,
):
    """Each name is loaded under both its names, in the loop. Forty of half a minute each had it count as stuck."""
    names, settle = [f"other.t{number:02}" for number in range(20)], world.tell_apart
    world.known = {uuid_of(world.lab.create(name)): f"shop.{name}" for name in names}
    loaded_s, longest_s = 3.0, 0.0

    def slow(table):
        world.passed_s += loaded_s
        return settle(table)

    world.tell_apart = slow
    world.list()
    for _ in range(60):
        began_s = world.passed_s
        world.survey.turn()
        longest_s = max(longest_s, world.passed_s - began_s)
        world.passed_s += 10.0

    assert longest_s <= A_TURN_FOR_S + loaded_s
    assert {name for name, _ in world.twice} == set(names)
    assert world.survey.seen_since_ms() is not None


def test_a_place_that_is_no_text_is_told_and_keeps_nobody_waiting(world):
    real = world.catalog.lies
    world.catalog.lies = lambda name: Lies("u", "file:///\ud800", {}) if name == "other.a" else real(name)
    world.list()
    world.turns()
    world.passed_s = TWICE_S
    world.turns()
    assert world.survey.seen_since_ms() is not None
    assert "other.a" in world.heard[0].what


def test_a_table_that_was_at_too_many_places_is_told_and_keeps_nobody_waiting(world):
    """Where it lies now is known. Who does not maintain it learns of it here alone."""
    uuid = uuid_of(world.lab.catalog.load_table("other.a"))
    for end in ("y" * 8000, ""):
        number = 0
        while number < 500 and world.ledger.place(uuid, f"s3://lake/{number}{end}"):
            number += 1
    world.list()
    world.turns()
    world.turns()

    told = [one.error for one in world.heard if "other.a" in one.what]
    assert len(told) == 1
    assert "were changed too often" in told[0]
    assert world.survey.seen_since_ms() is not None
    lies = world.catalog.lies("other.a").location
    assert lies in [one.location for one in world.ledger.places() if one.uuid == uuid]
