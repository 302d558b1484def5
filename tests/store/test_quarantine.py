"""The quarantine in the ledger: what is there, since when, and what became of it."""

import pytest

from isotherm.core.deletion import Cause, Mark, Seen
from isotherm.store import Ledger
from isotherm.store.ledger.quarantine import Quarantined

SEEN = Seen(7, 10)
A, B = "s3://lake/t/data/a", "s3://lake/t/data/b"
IN_A, IN_B = "s3://lake/t/_isotherm_quarantine/j/data/a", "s3://lake/t/_isotherm_quarantine/j/data/b"


@pytest.fixture
def ledger():
    """Two orphans; one of them was moved at 100, until 500."""
    ledger = Ledger(None)
    ledger.mark_found("t", "j", [Mark(one, "j", Cause.ORPHAN, SEEN) for one in (A, B)], 10, 20)
    ledger.moved("t", {A: (IN_A, 9)}, 100, 500)
    return ledger


def test_a_file_in_quarantine_waits_for_its_time_as_any_other_waits(ledger):
    assert ledger.files_in_quarantine("t") == [Quarantined(IN_A, 9, 100, 500)]
    assert ledger.quarantines() == {"t": (1, 9)}
    assert ledger.due_deletions("t", 499, 10) == [Mark(B, "j", Cause.ORPHAN, SEEN)]
    assert ledger.due_deletions("t", 500, 10, [Cause.QUARANTINED]) == [
        Mark(IN_A, "j", Cause.QUARANTINED, SEEN)
    ]
    assert ledger.deletions("t") == {"moved": 1, "waiting": 2}


def test_what_was_restored_is_nobodys_to_delete_and_may_be_found_once_more(ledger):
    ledger.restored("t", {IN_A: "missing: a person has put it back", B: "no file in quarantine"}, 200)

    assert ledger.files_in_quarantine("t") == []
    assert ledger.due_deletions("t", 500, 10) == [Mark(B, "j", Cause.ORPHAN, SEEN)]
    assert ledger.mark_found("t", "k", [Mark(A, "k", Cause.ORPHAN, SEEN)], 300, 400) == 1
    assert [one.job_id for one in ledger.due_deletions("t", 500, 10) if one.path == A] == ["k"]


def test_what_a_search_finds_there_is_taken_over_only_if_nothing_is_known_of_it(ledger):
    assert ledger.adopt("t", "k", {IN_A: 9, IN_B: 5}, SEEN, 300, 900, 250) == 1

    assert ledger.files_in_quarantine("t") == [
        Quarantined(IN_A, 9, 100, 500),
        Quarantined(IN_B, 5, 300, 900),
    ]
    # The move of it is written down after all: then that is when it came. What was promised of it holds.
    ledger.moved("t", {B: (IN_B, 5)}, 200, 600)
    assert ledger.files_in_quarantine("t")[1] == Quarantined(IN_B, 5, 200, 900)
    assert ledger.due_deletions("t", 899, 10, [Cause.QUARANTINED]) == [
        Mark(IN_A, "j", Cause.QUARANTINED, SEEN)
    ]
    assert ledger.quarantines() == {"t": (2, 14)}


def test_what_came_to_its_end_and_lies_there_again_is_taken_over_as_new(ledger):
    """Somebody moved the folder away and back, or the table was another daemon's for weeks."""
    ledger.restored("t", {IN_A: "missing: somebody has put it back"}, 200)
    # It was listed before its end, so nothing shows that it is there.
    assert ledger.adopt("t", "k", {IN_A: 8}, SEEN, 300, 900, 200) == 0
    assert ledger.files_in_quarantine("t") == []

    assert ledger.adopt("t", "k", {IN_A: 8}, SEEN, 300, 900, 201) == 1
    assert ledger.files_in_quarantine("t") == [Quarantined(IN_A, 8, 300, 900)]
    assert ledger.adopt("t", "k", {IN_A: 8}, SEEN, 400, 999, 400) == 0
    assert ledger.files_in_quarantine("t") == [Quarantined(IN_A, 8, 300, 900)]


def test_files_come_from_the_ledger_some_at_a_time(ledger):
    ledger.moved("t", {B: (IN_B, 5)}, 100, 500)

    assert [one.place for one in ledger.files_in_quarantine("t", limit=1)] == [IN_A]
    assert [one.place for one in ledger.files_in_quarantine("t", IN_A, 1)] == [IN_B]
    assert ledger.files_in_quarantine("t", IN_B, 1) == []


def test_whose_time_is_not_over_and_who_stays_longer(ledger):
    assert ledger.not_over("t", [IN_A, IN_B], 500, 401) == {IN_A}
    assert ledger.not_over("t", [IN_A, IN_B], 500, 400) == frozenset()
    ledger.postponed("t", {IN_A: "x"}, 600)
    ledger.keep_longer("t", [IN_A], 800)

    assert ledger.files_in_quarantine("t") == [Quarantined(IN_A, 9, 100, 900)]
    assert ledger.overdue("t", 19) is None


def test_what_was_promised_holds_though_the_policy_says_less_and_the_file_is_looked_at_early(ledger):
    ledger.look_soon("t", [IN_A], 200)
    assert ledger.due_deletions("t", 200, 10, [Cause.QUARANTINED])
    assert ledger.files_in_quarantine("t") == [Quarantined(IN_A, 9, 100, 500)]
    assert ledger.not_over("t", [IN_A], 499, 1) == {IN_A}
    assert ledger.not_over("t", [IN_A], 500, 1) == frozenset()
    ledger.keep_longer("t", [IN_A], 1)

    assert ledger.due_deletions("t", 499, 10, [Cause.QUARANTINED]) == []
    assert ledger.due_deletions("t", 500, 10, [Cause.QUARANTINED])
    # A longer time is a promise too, once a look has found it.
    ledger.keep_longer("t", [IN_A], 800)
    assert ledger.not_over("t", [IN_A], 899, 1) == {IN_A}


def test_what_stays_in_quarantine_by_its_policy_is_not_overdue(ledger):
    assert ledger.oldest_due_ms() == 20
    ledger.deleted("t", [B], 30)

    assert ledger.oldest_due_ms() is None
    assert ledger.tables_to_sweep(500) == ["t"]


def test_what_seems_to_be_needed_is_looked_at_soon_and_nothing_is_put_off_by_it(ledger):
    ledger.look_soon("t", [IN_A, B], 300)
    ledger.look_soon("t", [IN_A], 400)

    assert ledger.due_deletions("t", 299, 10, [Cause.QUARANTINED]) == []
    assert len(ledger.due_deletions("t", 300, 10, [Cause.QUARANTINED])) == 1
    assert ledger.due_deletions("t", 20, 10) == [Mark(B, "j", Cause.ORPHAN, SEEN)]


def test_what_was_promised_of_a_file_holds_when_it_is_taken_over_again(ledger):
    """It was kept, or somebody has put it back and away again, and the policy says less by now."""
    ledger.restored("t", {IN_A: "missing: somebody has put it back"}, 200)
    ledger.adopt("t", "k", {IN_A: 8}, SEEN, 300, 400, 250)

    assert ledger.files_in_quarantine("t") == [Quarantined(IN_A, 8, 300, 500)]
    assert ledger.due_deletions("t", 499, 10, [Cause.QUARANTINED]) == []
    assert ledger.due_deletions("t", 500, 10, [Cause.QUARANTINED])


def test_what_a_clock_has_dated_that_was_ahead_was_moved_by_now(ledger):
    ledger.there_by_now("t", [IN_A, B], 150)
    assert ledger.files_in_quarantine("t") == [Quarantined(IN_A, 9, 100, 500)]
    ledger.there_by_now("t", [IN_A, B], 70)

    assert ledger.files_in_quarantine("t") == [Quarantined(IN_A, 9, 70, 500)]


def test_what_is_in_quarantine_is_found_without_reading_all_that_was_deleted(ledger):
    asked = []
    ledger.db.set_trace_callback(asked.append)
    ledger.files_in_quarantine("t")
    ledger.db.set_trace_callback(None)
    (how,) = ledger.db.execute(f"EXPLAIN QUERY PLAN {asked[-1]}").fetchall()

    assert "USING INDEX deletions_quarantined (uuid=? AND path>?)" in how[-1]
