"""A table counts as gone only after two looks that saw everything."""

import pytest

from isotherm.core.deletion import Cause, Mark
from isotherm.service.ports import Refused
from isotherm.service.survey.table_search import AGAIN_AFTER_S
from support.lab import started, uuid_of


@pytest.mark.parametrize("sees", ["everything", "nothing", "not every namespace", "not every table"])
def test_a_table_counts_as_gone_only_after_two_looks_that_saw_everything(world, sees):
    unlisted = {"hidden": "403"} if sees == "not every namespace" else {}
    if sees == "not every table":
        world.faults["other.a"] = Refused("403")
    world.ledger.place("gone", "file:///elsewhere")
    world.list(**unlisted)
    world.turns()
    ours = uuid_of(world.lab.catalog.load_table("shop.orders"))
    world.survey.want_holders({"gone"}, "one that is hidden" if sees == "nothing" else ours)
    gone = []
    for at_s in (0.0, AGAIN_AFTER_S - 1, AGAIN_AFTER_S, 2 * AGAIN_AFTER_S, 3 * AGAIN_AFTER_S):
        world.passed_s = at_s
        world.list(**unlisted)
        world.turns()
        gone.append("gone" in world.gone())

    assert gone == [False, False, *[sees == "everything"] * 3]


def test_the_second_look_is_at_a_list_that_is_younger_than_the_first(world):
    """A table that is renamed during the first look is under its new name in the second."""
    world.ledger.place("gone", "file:///elsewhere")
    world.list()
    world.turns()
    world.survey.want_holders({"gone"}, uuid_of(world.lab.catalog.load_table("shop.orders")))
    world.passed_s = 10.0
    world.turns()
    world.passed_s = 10.0 + AGAIN_AFTER_S
    world.turns()
    assert world.gone() == set()
    world.passed_s += AGAIN_AFTER_S
    world.list()
    world.turns()
    assert world.gone() == {"gone"}


def test_deletion_waits_for_a_name_that_was_this_table_when_it_was_looked_at(lab):
    """A fold that is rebuilt knows a table only after its first scan."""
    table = lab.create()
    for hour in (1, 2, 3):
        lab.append(table, hour)
    lab.catalog.create_namespace("other")
    lab.catalog.register_table("other.a", lab.catalog.load_table("shop.orders").metadata_location)
    service = started(lab)
    service.consume(service.events.poll(0))
    service.survey.listed(service.catalog.names(), service.monotonic_s(), float("inf"), is_whole=True)
    while service.survey.seen_since_ms() is None:
        service.survey.turn()
    lab.catalog.drop_table("other.a")
    service.follower.confirm("shop.orders")
    path = f"{table.location()}/data/isotherm-job-0.parquet"
    service.ledger.mark(uuid_of(table), "job", [Mark(path, "job", Cause.LEFTOVER, None)], 0, due_at_ms=0)
    service.deletions.sweep()
    service.maintainer.wait(30)

    assert not list(service.maintainer.swept())
    service.stop()


def test_tables_that_come_and_go_do_not_keep_a_search_from_its_end(world):
    world.ledger.place("gone", "file:///elsewhere")
    world.survey.want_holders({"gone"}, uuid_of(world.lab.catalog.load_table("shop.orders")))
    for number in range(3):
        world.lab.create(f"other.t{number}")
        world.list()
        world.lab.catalog.drop_table(f"other.t{number}")
        world.turns()
        world.passed_s += AGAIN_AFTER_S
    assert world.gone() == {"gone"}


def test_a_table_that_shows_up_again_is_not_gone(world):
    found = uuid_of(world.lab.catalog.load_table("other.b"))
    world.ledger.place(found, "file:///elsewhere")
    world.survey.want_holders({found}, uuid_of(world.lab.catalog.load_table("shop.orders")))
    for _ in range(3):
        world.list()
        world.turns()
        world.passed_s += AGAIN_AFTER_S
    assert world.gone() == set()
