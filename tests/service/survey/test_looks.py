"""A look at the catalog's names, piece by piece: what it asks for again, where it ends, and what it has learnt."""

from collections import deque

import pytest

from isotherm.iceberg.identify_tables import SILENT_AT_ONCE, TRIES, Look
from isotherm.service.ports import Lies, NotAsked, NoWord, Refused, StoreAway, TableMissing, Unavailable
from isotherm.service.survey.survey import PATIENCE_S
from support.lab import uuid_of
from support.surveys import START_MS, World, too_many


def test_many_names_are_looked_at_piece_by_piece(world):
    world.survey = world.begun(names_at_once=2)
    world.list()
    world.survey.turn()
    assert len(world.asked) == 2
    world.survey.turn()
    assert world.survey.seen_since_ms() is None
    world.survey.turn()
    assert world.survey.seen_since_ms() == START_MS - 1


def test_a_look_that_is_cut_short_is_followed_by_one_that_goes_on_there(world):
    """More names without an answer than one look asks for: files must not wait for ever for those behind."""
    away = [f"other.away{number}" for number in range(2 * SILENT_AT_ONCE)]
    for name in away:
        world.lab.create(name)
        world.faults[name] = Unavailable("time-out")
    while world.passed_s < 2 * PATIENCE_S:
        world.passed_s += 3600.0
        world.list()
        world.survey.want()
        world.turns()
    seen_ms = world.survey.seen_since_ms()

    assert world.now_ms() - seen_ms < 3 * 3_600_000
    assert "other.away" in world.survey.why_not("shop.orders")


class Limiting(World):
    """Lets so many requests through in a minute, and says for how long it wants none."""

    limit = 2

    def lies(self, name):
        minute = int(self.passed_s // 60)
        self.minutes = getattr(self, "minutes", [])
        self.minutes.append(minute)
        if self.minutes.count(minute) > self.limit or name in self.limited:
            self.refused += 1
            raise too_many("60")
        return super().lies(name)

    limited, refused = (), 0


@pytest.fixture
def limiting(lab):
    for name in ("shop.orders", *(f"other.t{number}" for number in range(6))):
        lab.create(name)
    made = Limiting(lab)
    yield made
    made.ledger.close()


def test_a_catalog_that_limits_requests_is_looked_at_slowly_and_wholly(limiting):
    """Also where tables that hold files back are searched for: what is asked in pieces has shown everything."""
    limiting.ledger.place("gone", "file:///elsewhere")
    limiting.survey.want_holders({"gone"}, uuid_of(limiting.lab.catalog.load_table("shop.orders")))
    for _ in range(240):
        limiting.passed_s += 10.0
        if limiting.passed_s % 300 == 0:
            limiting.list()
        limiting.turns(2)

    assert limiting.survey.seen_since_ms() is not None
    assert limiting.gone() == {"gone"}
    # It is left alone for as long as it says: one request of those that were too many in each minute.
    assert limiting.refused <= limiting.passed_s / 60


def test_one_name_that_is_always_too_many_keeps_no_look_from_its_end(limiting):
    limiting.limited, limiting.limit = ["other.t0"], 1000
    limiting.list()
    for _ in range(120):
        limiting.passed_s += 10.0
        limiting.turns(2)
    assert "6 of the" not in limiting.survey.why_not("shop.orders")
    assert "other.t0 for instance" in limiting.survey.why_not("shop.orders")
    while limiting.passed_s < 2 * PATIENCE_S:
        limiting.passed_s += 600.0
        limiting.list()
        limiting.survey.want()
        limiting.turns(2)
    assert limiting.survey.seen_since_ms() is not None


def test_what_was_never_asked_for_never_counts_as_looked_at(world):
    """Not after a day either."""
    for number in range(2 * SILENT_AT_ONCE):
        world.lab.create(f"other.t{number}")

    def silent(name):
        raise Unavailable(f"{name}: all away")

    world.catalog.lies = silent
    for hours in range(60):
        world.passed_s = hours * 3600.0
        world.list()
        world.turns(1)
    assert world.survey.seen_since_ms() is None


def asked(answers, is_stopped=lambda: False, listed=()):
    calls = []

    def is_listed(name):
        if listed == "silence":
            raise Unavailable("time-out")
        return name in listed

    def lies(name):
        calls.append(name)
        answer = answers.get(name)
        if isinstance(answer, Exception):
            raise answer
        return Lies(f"uuid of {name}", "file:///", {})

    return Look(lies, is_listed, deque(sorted(answers))).go_on(is_stopped), calls


def test_a_slow_name_is_asked_for_again_behind_all_others():
    looked, calls = asked({"a": Unavailable("time-out"), "b": None, "c": None})
    assert calls == ["a", "b", "c", *"a" * (TRIES - 1)]
    assert (set(looked.found), looked.silent) == ({"b", "c"}, {"a": "time-out"})


def test_a_catalog_that_does_not_answer_is_not_asked_for_every_name():
    looked, calls = asked({f"t{number:03}": NotAsked("away") for number in range(500)})
    assert len(calls) == SILENT_AT_ONCE
    assert (len(looked.silent), len(looked.unasked)) == (SILENT_AT_ONCE, 500 - SILENT_AT_ONCE)


def test_stores_that_do_not_answer_are_no_word_on_the_catalog():
    looked, calls = asked({f"t{number}": StoreAway("a bucket") for number in range(20)})
    assert len(calls) == 20 * TRIES
    assert (looked.unread, len(looked.silent)) == ({}, 20)


def test_a_look_that_is_stopped_knows_nothing_of_the_rest():
    looked, calls = asked({"a": None, "b": None}, lambda: True)
    assert calls == []
    assert (looked.silent, set(looked.unasked)) == ({}, {"a", "b"})


def test_what_is_missing_and_not_listed_any_more_is_gone():
    looked, _ = asked({"a.t": TableMissing("none"), "b.t": TableMissing("none")}, listed=["b.t"])
    assert (looked.gone, looked.missing) == (["a.t"], ["b.t"])
    looked, _ = asked({"a.t": TableMissing("none")}, listed="silence")
    assert (looked.gone, looked.missing) == ([], ["a.t"])


def test_a_token_that_is_over_and_a_server_in_trouble_are_no_word_on_a_table():
    looked, _ = asked({"a": NoWord("500: a null pointer"), "b": Refused("403")})
    assert (set(looked.silent), set(looked.unread)) == ({"a"}, {"b"})
