"""What no list shows is asked by its name."""

from types import SimpleNamespace

from isotherm.contract.identity import TableId
from isotherm.service.ports import Listing, Refused, TableMissing, Unavailable
from isotherm.service.tables.hidden_names import HiddenNames
from isotherm.service.tables.seen_names import TWICE_S, SeenNames
from isotherm.store import Ledger

OURS = TableId("ours", "zoo.new")


class World:
    """A table with an old name, whose namespace may not be listed."""

    def __init__(self):
        self.now_s, self.asked, self.answer = 0.0, [], TableMissing("none")
        self.seen = SeenNames(Ledger(None))
        self.seen.keep({"shop.old": "ours", "zoo.new": "ours", "shop.other": "another"})
        lists = SimpleNamespace(newest=Listing(["zoo.new"], unlisted={"shop": "403"}))
        reading_time = SimpleNamespace(tick=lambda: None)
        self.hidden = HiddenNames(self.seen, lists, self, reading_time, lambda: self.now_s)

    def lies_in_time(self, name):
        self.asked.append(name)
        if isinstance(self.answer, Exception):
            raise self.answer
        return SimpleNamespace(uuid=self.answer)

    def later(self, *answers):
        for answer in answers:
            self.now_s += TWICE_S
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
        world.now_s += TWICE_S / 10
        world.answer = Refused("403")
        world.hidden.ask(OURS)
    assert 3 <= len(world.asked) <= 6
    assert set(world.asked) == {"shop.old"}


def test_answers_that_take_long_leave_the_loop_to_others():
    world = World()
    world.seen.keep({f"shop.old{number}": "ours" for number in range(30)})
    asked_s = []

    def hanging(name):
        world.now_s += 30.0
        asked_s.append(world.now_s)
        raise Unavailable("time-out")

    world.lies_in_time = hanging
    while world.now_s < 3600.0:
        world.now_s += 10.0
        world.hidden.ask(OURS)
    assert 30.0 * len(asked_s) < 0.06 * 3600.0 + 30.0


def test_an_answer_of_long_ago_is_none_of_two_in_a_row():
    world = World()
    both = {"shop.old", "zoo.new"}
    assert world.later(MISSING) == both
    world.now_s += 7 * 3600.0
    assert world.later(MISSING) == both
    # Its table is confirmed once an hour, where its writer announces each commit.
    world.now_s += 3600.0
    assert world.later(MISSING) == {"zoo.new"}


def test_what_was_answered_of_another_table_or_before_a_list_showed_the_name_counts_no_more():
    world = World()
    assert world.later(MISSING) == {"shop.old", "zoo.new"}
    # Nobody confirms its table meanwhile.
    world.seen.end_but({"zoo.new", "shop.old"}, lambda _: False, world.now_s)
    assert world.later(MISSING) == {"shop.old", "zoo.new"}
    world.seen.keep({"shop.old": "another"})
    world.now_s += TWICE_S
    world.hidden.ask(TableId("another", "zoo.third"))
    assert "shop.old" in world.seen.of("another")


def test_a_name_that_stays_keeps_no_other_from_being_asked():
    """Its table is always confirmed just before the other one, and the loop rests after each answer."""
    world = World()
    world.seen.keep({"shop.gone": "theirs", "zoo.theirs": "theirs"})

    def answer(name):
        world.now_s += 0.05
        if name == "shop.old":
            raise Refused("403")
        raise TableMissing("none")

    world.lies_in_time = answer
    for _ in range(8):
        world.now_s += 3600.0
        world.hidden.ask(OURS)
        world.hidden.ask(TableId("theirs", "zoo.theirs"))
    assert world.seen.of("theirs") == ["zoo.theirs"]
    assert set(world.seen.of("ours")) == {"shop.old", "zoo.new"}
