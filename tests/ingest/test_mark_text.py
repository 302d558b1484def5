"""What stands beside an offset is read again as it was written, of as many tables as find room."""

import base64
import random
import uuid
import zlib

import pytest
from structlog.testing import capture_logs

from isotherm_ingest.mark_text import MOST_TEXT, Mark, decoded, encoded, names_of, unmarked
from isotherm_ingest.plan.cut_backs import Cut
from isotherm_ingest.plan.known import is_table

WORDS = [
    "order",
    "customer",
    "invoice",
    "payment",
    "shipment",
    "product",
    "price",
    "stock",
    "event",
    "session",
    "address",
    "region",
    "audit",
    "user",
]
END = 2_000_000_000


def packed(text):
    return "z" + base64.b85encode(zlib.compress(text.encode())).decode()


def quiet(count, seed=7):
    """Tables of three words each, that had their last rows long ago and need no more."""
    dice = random.Random(seed)
    names = set()
    while len(names) < count:
        names.add("shop." + "_".join(dice.sample(WORDS, 3)))
    return {
        name: (str(uuid.UUID(int=dice.getrandbits(128))), dice.randrange(END), END) for name in sorted(names)
    }


def same(said, other):
    return said.keys() == other.keys() and all(
        is_table(other[name][0], said[name][0]) and said[name][1:] == other[name][1:] for name in said
    )


@pytest.mark.parametrize("count", [0, 1, 40])
def test_few_tables_stand_there_in_plain_words(count):
    mark = Mark(
        END, "id", quiet(count), "me", frozenset(list(quiet(count))[:1]), names=names_of("shop.{table}")
    )
    text = encoded(mark)

    assert text.startswith('{"id":"id","by":"me","tables":{')
    assert (decoded(END, text), decoded(END, text).by) == (mark, "me")


@pytest.mark.parametrize("count", [60, 100, 170])
def test_of_very_many_tables_as_much_is_known_and_the_beginning_of_each_uuid(count):
    tables = {**quiet(count), "shop.new": ("", None, END - 9), "shop.ahead": ("9" * 36, END + 5, END + 5)}
    mark = Mark(END, "id", tables, "me", frozenset({"shop.new"}))
    text = encoded(mark)
    read = decoded(END, text)

    assert len(text.encode()) <= MOST_TEXT
    assert same(tables, read.tables)
    assert (read.topic_id, read.by, read.halted) == ("id", "me", mark.halted)
    assert unmarked(mark, text) == []
    # As a driver that begins commits it again.
    assert decoded(END, encoded(read)) == read


@pytest.mark.parametrize("count", [2, 100])
def test_the_cuts_of_a_partition_stand_there_and_which_tables_know_of_them(count):
    tables = quiet(count)
    first, *_, last = tables
    cuts = (Cut(1_700_000_000_000, 5, 9), Cut(1_700_000_000_001, 7, 8))
    mark = Mark(END, "id", tables, "me", cuts=cuts, since={first: cuts[0].seen_ms, last: cuts[1].seen_ms})
    read = decoded(END, encoded(mark))

    assert (read.cuts, read.since) == (mark.cuts, mark.since)
    assert '"cuts"' not in encoded(Mark(END, "id"))


def test_quiet_tables_that_find_no_room_are_named():
    mark = Mark(END, "id", {**quiet(400), "shop.a": ("0" * 36, END, END)})
    text = encoded(mark)
    kept = decoded(END, text).tables

    assert MOST_TEXT - 40 < len(text.encode()) <= MOST_TEXT
    assert set(unmarked(mark, text)) == quiet(400).keys() - kept.keys()
    # Though the driver that begins commits it again, and knows of those alone.
    assert not decoded(END, encoded(decoded(END, text))).is_whole
    assert decoded(END, encoded(Mark(END, "id", quiet(100)))).is_whole
    assert not decoded(END, encoded(Mark(END, "id", quiet(3), is_whole=False))).is_whole
    assert len(kept) > 170


def test_of_thousands_of_tables_no_more_are_tried_than_may_find_room():
    tables = {f"t{number}": ("", END, END) for number in range(5_000)}

    assert len(decoded(END, encoded(Mark(END, "id", tables))).tables) <= 1_000


def test_a_mark_of_an_older_version_is_read():
    text = '{"id":"x","by":"me","tables":{"shop.a":["0aa5","5",7],"shop.b":["",null,3]},"halted":["shop.b"]}'
    read = decoded(7, text)

    assert read == Mark(
        7, "x", {"shop.a": ("0aa5", 5, 7), "shop.b": ("", None, 3)}, "me", frozenset({"shop.b"})
    )


def test_where_there_is_no_room_for_all_tables_those_whose_vector_says_it_are_left_out():
    tables = {f"namespace.table_{number:03}": ("0" * 36, 100, 100) for number in range(400)}
    others = {"shop.quiet": ("1" * 36, 5, 100), "shop.behind": ("2" * 36, 5, 5)}
    mark = decoded(100, encoded(Mark(100, "id", {**tables, **others})))

    assert same(others, {name: mark.tables[name] for name in others})
    assert len(mark.tables) > 100


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "[]",
        "[" * 2000,
        '{"tables": {"a": 7}}',
        '{"tables": {"a": ["u", "x", 1]}}',
        '{"tables": {"a": ["u", 1e999, 1]}}',
        '{"cuts": [[1, 2]]}',
        '{"cuts": [[1, 2, 3]], "since": {"a": "x"}}',
        "z",
        "znonsense",
        packed("[]"),
        packed('{"names": ["a"], "uuids": "u"}'),
        packed('{"id": "", "by": "", "names": ["a"], "uuids": "u", "had": [], "reached": [1], "halted": []}'),
        packed('{"id": "", "by": "", "names": [], "uuids": "", "had": [], "reached": [], "halted": [7]}'),
    ],
)
def test_what_cannot_be_read_says_nothing_of_tables(text):
    with capture_logs() as logs:
        assert decoded(7, text) == Mark(7)
    assert [one["event"] for one in logs] in ([], ["mark_unreadable"])


def test_what_is_noted_finds_room_before_all_others():
    """A row that came when its table could not be written stands nowhere else."""
    mark = Mark(END, "id", {**quiet(400), "shop.zzz": ("", None, 5)})
    kept = decoded(END, encoded(mark)).tables

    assert len(kept) < 400
    assert kept["shop.zzz"] == ("", None, 5)
