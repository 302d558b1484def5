"""What no list shows is asked by its name."""

from types import SimpleNamespace

import pytest

from isotherm.contract.identity import TableId
from isotherm.service.ports import Listing, Refused, TableMissing, Unavailable
from isotherm.service.tables.hidden_names import HiddenNames
from isotherm.service.tables.missing_tables import GONE_AFTER_S
from isotherm.service.tables.seen_names import SeenNames
from isotherm.store import Ledger

OURS = TableId("ours", "zoo.new")


class World:
    """A table with an old name, whose namespace may not be listed."""

    def __init__(self):
        self.now_s, self.asked, self.answer = 0.0, [], TableMissing("none")
        self.seen = SeenNames(Ledger(None))
        self.seen.keep({"shop.old": "ours", "zoo.new": "ours", "shop.other": "another"})
        lists = SimpleNamespace(newest=Listing(["zoo.new"], unlisted={"shop": "403"}))
        self.hidden = HiddenNames(self.seen, lists, self, lambda: self.now_s)

    def load(self, name):
        self.asked.append(name)
        if isinstance(self.answer, Exception):
            raise self.answer
        return SimpleNamespace(table=TableId(self.answer, name))

    def later(self, *answers):
        for answer in answers:
            self.now_s += GONE_AFTER_S
            self.answer = answer
            self.hidden.ask(OURS)
        return set(self.seen.of("ours"))


MISSING = TableMissing("none")


def test_a_name_is_over_once_it_is_missing_twice_in_a_row():
    world = World()
    both = {"shop.old", "zoo.new"}
    assert world.later(MISSING) == both
    assert world.later("ours", MISSING) == both
    assert world.later(Unavailable("time-out"), MISSING) == both
    assert world.later(Refused("403"), MISSING) == both
    assert world.later(MISSING) == {"zoo.new"}
    assert world.seen.of("another") == ["shop.other"]


def test_a_name_that_is_another_table_is_over():
    assert World().later("another") == {"zoo.new"}


def test_a_name_is_asked_now_and_then_however_often_its_table_is_confirmed():
    world = World()
    for _ in range(100):
        world.now_s += GONE_AFTER_S / 10
        world.answer = Refused("403")
        world.hidden.ask(OURS)
    assert len(world.asked) == pytest.approx(10, abs=1)
    assert set(world.asked) == {"shop.old"}
