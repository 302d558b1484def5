"""Where tables lie is remembered, in the order in which it was seen."""

import sqlite3

import pytest

from isotherm.store import Ledger
from isotherm.store.ledger.places import CHARS_OF_PLACE, MOST_PLACES_CHARS
from isotherm.store.ledger.schema import VERSIONS


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(tmp_path / "ledger.db")
    yield made
    made.close()


def of(ledger, uuid):
    return [(one.location, one.is_home, one.is_gone) for one in ledger.places() if one.uuid == uuid]


def test_the_first_place_stays_the_first(ledger):
    ledger.place("a", "z://first")
    ledger.place("a", "a://second", ["a://data"])
    ledger.place("a", "z://first")

    assert of(ledger, "a") == [
        ("z://first", True, False),
        ("a://second", True, False),
        ("a://data", False, False),
    ]


def test_the_home_of_a_table_is_where_it_was_seen_first(ledger):
    ledger.place("a", "z://first", ["a://data"])
    ledger.place("a", "a://second")
    ledger.place("b", "b://other")

    assert [ledger.home(uuid) for uuid in "abc"] == ["z://first", "b://other", None]


def test_only_the_places_that_are_asked_for_are_read(ledger):
    for number, location in enumerate(
        ["s3://x/shop/orders", "s3://x/crm", "s3a://x/shop/orders/in", "file:/lake/a"]
    ):
        ledger.place(str(number), location)

    assert [one.uuid for one in ledger.places(["shop/orders", "lake/a"])] == ["0", "2", "3"]
    assert ledger.places([]) == []
    assert len(ledger.places()) == 4


def test_a_place_that_is_spelled_in_no_plain_way_is_always_read(ledger):
    spelled = [
        "s3://x//shop/orders",
        "hdfs://nn/./shop",
        "file:///a/../b",
        "s3://x/shop?v",
        "s3://x/sh\top",
        "s3://x/a#b",
    ]
    for number, location in enumerate([*spelled, "s3://x/shop", "file:///lake/shop"]):
        ledger.place(str(number), location)

    assert [one.location for one in ledger.places(["elsewhere"])] == spelled


def test_a_table_that_comes_back_has_all_its_places_again(ledger):
    for location in ("first", "second"):
        ledger.place("a", location)
    ledger.place("b", "first")
    ledger.left("a")
    assert [one.is_gone for one in ledger.places()] == [True, True, False]
    ledger.place("a", "second")

    assert not any(one.is_gone for one in ledger.places())


def test_a_folder_that_a_property_chose_may_become_the_location(ledger):
    ledger.place("a", "first", ["second"])
    ledger.place("a", "second")
    ledger.place("a", "third", ["first"])

    assert of(ledger, "a") == [("first", True, False), ("second", True, False), ("third", True, False)]


def test_a_ledger_of_the_version_before_keeps_its_places_and_nobody_is_gone(tmp_path):
    path = tmp_path / "ledger.db"
    database = sqlite3.connect(path)
    for number, sql in enumerate(VERSIONS[:3], start=1):
        database.executescript(f"{sql}; PRAGMA user_version={number}")
    database.execute("INSERT INTO locations VALUES ('a', 'later', 2, 0), ('a', 'first', 1, 1)")
    database.commit()
    database.close()
    ledger = Ledger(path)

    assert of(ledger, "a") == [("first", True, False), ("later", True, False)]
    ledger.close()


def test_what_is_gone_is_asked_for_at_the_same_cost_however_many_tables_there_are(ledger):
    counts, steps = [], []
    ledger.place("gone", "s3://lake/gone", ["s3://lake/data"])
    ledger.left("gone")
    ledger.left("never seen")
    ledger.db.set_progress_handler(lambda: steps.append(1), 1)
    for tables in (range(3), range(3, 300)):
        for number in tables:
            ledger.place(f"table {number}", f"s3://lake/{number}")
        steps.clear()

        assert ledger.gone() == {"gone", "never seen"}
        counts.append(len(steps))
    assert counts[0] == counts[1]


def filled(ledger, uuid):
    """Have a table at one more place until there is no room; the numbers of those for which there was."""
    number = 0
    while ledger.place(uuid, f"s3://lake/{number}/{'y' * 8000}"):
        number += 1
    return range(number)


def test_the_places_of_a_table_have_a_bound_and_those_of_before_stay(ledger):
    numbers = filled(ledger, "a")
    before, ends = [location for location, *_ in of(ledger, "a")][:-1], "y" * 8000
    ledger.place("b", "s3://lake/b")
    for number in range(1000, 1020):
        assert not ledger.place("a", f"s3://lake/{number}/{ends}", [f"s3://data/{number}"])
        newest = [f"s3://lake/{number}/{ends}", f"s3://data/{number}"]
        # Where it lies now is known too, until it lies elsewhere.
        assert [location for location, *_ in of(ledger, "a")] == [*before, *newest]
        assert not ledger.place("a", *newest[:1], newest[1:])

    assert len(numbers) == len(before) == MOST_PLACES_CHARS // (CHARS_OF_PLACE + len("s3://lake/100/") + 8000)
    assert ledger.place("a", before[3])
    assert ledger.home("a") == before[0]
    assert ledger.place("b", "s3://lake/elsewhere")


def test_a_place_for_which_there_was_no_room_gives_way_to_one_for_which_there_is(ledger):
    """Else any number of short ones would stand behind a long one, and count for nothing."""
    assert ledger.place("a", "s3://lake/a")
    assert not ledger.place("a", "s3://lake/a", ["x" * MOST_PLACES_CHARS])
    assert len(of(ledger, "a")) == 2
    assert ledger.place("a", "s3://lake/b")
    assert ledger.place("a", "s3://lake/c")

    assert [location for location, *_ in of(ledger, "a")] == ["s3://lake/a", "s3://lake/b", "s3://lake/c"]


def test_a_table_that_was_at_too_many_places_is_gone_and_comes_back_with_all_of_them(ledger):
    filled(ledger, "a")
    before = [location for location, *_ in of(ledger, "a")]
    ledger.left("a")
    assert all(is_gone for *_, is_gone in of(ledger, "a"))
    assert ledger.place("a", before[0])

    assert [(one, False) for one in before[:-1]] == [(one, gone) for one, _, gone in of(ledger, "a")]
