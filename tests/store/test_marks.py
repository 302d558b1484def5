"""A file that is marked stays marked, whatever marks it again and comes to nothing."""

import sqlite3

import pytest

from isotherm.contract.identity import TableId
from isotherm.core.deletion import Cause, Mark, Seen
from isotherm.core.model.jobs import Action
from isotherm.store import Ledger
from isotherm.store.ledger import Operation

HOUR_MS = 3_600_000


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(tmp_path / "ledger.db")
    yield made
    made.close()


def marks(job_id, *paths):
    return [Mark(path, job_id, Cause.EXPIRED, Seen(7, 70)) for path in paths]


def due(ledger, at_ms):
    return {mark.path: mark for mark in ledger.due_deletions("t", at_ms, 100)}


def test_an_expiry_that_comes_to_nothing_gives_back_what_it_marked_again(ledger):
    ledger.mark("t", "first", marks("first", "a", "b", "c", "d"), 1, snapshots=[1])
    ledger.confirm_marks("first", HOUR_MS)
    ledger.deleted("t", ["c"], 2)
    ledger.kept("t", {"d": "a snapshot reaches it"}, 2)
    before, known = due(ledger, HOUR_MS), ledger.deletions("t")
    ledger.mark("t", "second", marks("second", "b", "c", "d", "e"), 3, snapshots=[1])
    assert set(due(ledger, HOUR_MS)) == {"a"}
    ledger.drop_marks("second")

    assert due(ledger, HOUR_MS) == before
    assert due(ledger, HOUR_MS - 1) == {}
    assert (ledger.deletions("t"), ledger.expired_by("first")) == (known, [1])


def test_of_all_tables_the_file_is_known_that_waits_longest(ledger):
    assert ledger.oldest_due_ms() is None
    for uuid, due_at_ms in (("b", 30), ("a", 20), ("c", 10)):
        ledger.mark(uuid, "job", marks("job", "x", "y"), 1, due_at_ms=due_at_ms)
    ledger.deleted("c", ["x", "y"], 11)

    assert ledger.oldest_due_ms() == 20


def test_an_expiry_that_lands_has_its_own_grace_for_what_it_marked_again(ledger):
    ledger.mark("t", "first", marks("first", "a"), 1, due_at_ms=2)
    ledger.mark("t", "second", marks("second", "a"), 3, snapshots=[1])
    ledger.confirm_marks("second", HOUR_MS)

    assert due(ledger, HOUR_MS - 1) == {}
    assert due(ledger, HOUR_MS)["a"].job_id == "second"
    ledger.drop_marks("second")  # it has ended: there is nothing to drop
    assert due(ledger, HOUR_MS)["a"].job_id == "second"


def test_marks_are_given_back_a_slice_at_a_time(ledger):
    old, new = [f"old{n:03}" for n in range(20)], [f"new{n:03}" for n in range(20)]
    ledger.mark("t", "first", marks("first", *old), 1, due_at_ms=2)
    ledger.mark("t", "second", marks("second", *old, *new), 3)
    ledger.save(operation("second"))
    turns = 1
    ledger.drop_marks("second", 3)
    while ledger.is_settling("t"):
        assert ledger.settle_marks(3)
        turns += 1

    assert turns >= 40 / 6
    assert set(due(ledger, 2)) == set(old)
    assert ledger.deletions("t") == {"waiting": 20}


DAMAGED = [
    "{",
    "5",
    "{}",
    "[]",
    '["first"]',
    "[1,2,3,4,5,6,7,8,9,10]",
    "",
    '["a","waiting","expired",null,null,1,1e99,0,"",null]',
]


@pytest.mark.parametrize("damaged", DAMAGED)
def test_what_cannot_be_read_of_a_file_keeps_no_other_from_being_given_back(ledger, damaged):
    """It stays where it is, as if it had not been marked before: orphan removal finds it, if nothing needs it."""
    for uuid in ("t", "u"):
        ledger.mark(uuid, f"first {uuid}", marks("first", "a", "b"), 1, due_at_ms=2)
        ledger.mark(uuid, f"second {uuid}", marks("second", "a", "b"), 3)
    ledger.db.execute("UPDATE deletions SET before = ? WHERE uuid = 't' AND path = 'a'", (damaged,))
    ledger.drop_marks("second t")
    ledger.drop_marks("second u")

    assert not ledger.settle_marks(), "nothing of any table is left to be settled"
    assert set(due(ledger, 2)) == {"b"}
    assert ledger.deletions("t") == {"waiting": 1}
    assert ledger.deletions("u") == {"waiting": 2}


def operation(job_id):
    return Operation(job_id, TableId("t", "shop.t"), Action.EXPIRE, None, "", "", "", 1, 0)


def test_a_verdict_on_a_file_that_an_expiry_has_marked_since_is_no_word_on_that(ledger):
    """A sweep that is under way looks at the table before that expiry."""
    ledger.mark("t", "first", marks("first", "a"), 1, due_at_ms=2)
    ledger.mark("t", "second", marks("second", "a"), 3)
    ledger.kept("t", {"a": "a snapshot reaches it"}, 4)
    ledger.confirm_marks("second", HOUR_MS)

    assert set(due(ledger, HOUR_MS)) == {"a"}


@pytest.mark.parametrize("end", ["deleted", "kept", "postponed"])
def test_what_came_of_many_files_is_saved_at_once(ledger, end):
    paths = [f"file {number}" for number in range(20)]
    ledger.mark("t", "job", marks("job", *paths), 1, due_at_ms=2)
    saved = []
    ledger.db.set_trace_callback(
        lambda sql: saved.append(sql) if sql.startswith(("BEGIN", "COMMIT")) else None
    )
    if end == "deleted":
        ledger.deleted("t", paths, 3)
    else:
        getattr(ledger, end)("t", dict.fromkeys(paths, "why"), 3)

    assert saved == ["BEGIN IMMEDIATE", "COMMIT"]
    assert due(ledger, 3) == {}


def test_any_number_of_files_is_asked_for_in_texts_that_sqlite_takes(ledger):
    paths = [f"s3://lake/shop/orders/data/{number:06}.parquet" for number in range(12_000)]
    ledger.mark("t", "job", marks("job", *paths[1:]), 1, due_at_ms=2)
    ledger.db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 300_000)

    assert ledger.waiting_among("t", iter(paths)) == len(paths) - 1
    ledger.postponed("t", dict.fromkeys(paths, "gc.enabled=false"), 10)
    assert ledger.due_deletions("t", 10, 1) == []
    assert ledger.overdue("t", 10).files == len(paths) - 1
