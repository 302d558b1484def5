"""The ledger forgets what is long over, a little at a time, and nothing else."""

from dataclasses import replace
from itertools import pairwise

import pytest

from isotherm.contract.identity import PartitionKey, TableId
from isotherm.core.deletion import Cause, Mark
from isotherm.core.lateness import Lateness
from isotherm.core.model.decisions import Decision, Plan, Verdict
from isotherm.core.model.jobs import Action, Outcome, OutcomeKind
from isotherm.core.model.refusals import Reason
from isotherm.core.partition_state import PartitionState
from isotherm.store import Fold, Ledger
from isotherm.store.ledger import Account, Operation
from isotherm.store.ledger.deletions import SETTLED_AT_ONCE
from isotherm.store.ledger.ledger import GIVEN_BACK_AT_ONCE, JOBS_AT_ONCE

DAY_MS = 86_400_000
NOW = 1000 * DAY_MS
KEY = PartitionKey("{}")


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(tmp_path / "ledger.db")
    made.settle_in()
    yield made
    made.close()


def operation(job_id, at_ms, kind=OutcomeKind.DONE):
    begun = Operation(job_id, TableId("u", "t"), Action.EXPIRE, None, "", "", "", 0, at_ms)
    return begun if kind is None else begun.ended(Outcome(job_id, kind, Reason.COMMITTED, ""), at_ms)


def account(snapshot_id, at_ms, *, announced=True):
    return Account(snapshot_id, snapshot_id, "ingest", at_ms, at_ms, at_ms, announced)


def test_only_what_is_over_for_long_enough_goes(ledger):
    for number, at_ms in enumerate((NOW - 91 * DAY_MS, NOW - 89 * DAY_MS)):
        ledger.save(operation(f"done{number}", at_ms))
        ledger.save(operation(f"open{number}", at_ms, None))
        ledger.account("u", [account(number, at_ms), account(10 + number, at_ms, announced=False)])
    for number, at_ms in enumerate((NOW - 8 * DAY_MS, NOW - 6 * DAY_MS)):
        marks = [Mark(f"{state}{number}", "j", Cause.EXPIRED, None) for state in ("gone", "kept", "waits")]
        ledger.mark("u", "j", marks, at_ms, due_at_ms=at_ms)
        ledger.deleted("u", [f"gone{number}"], at_ms)
        ledger.kept("u", {f"kept{number}": "reached"}, at_ms)

    assert not ledger.prune(NOW)

    assert {one.job_id for one in ledger.operations()} == {"done1", "open0", "open1"}
    assert {one.snapshot_id for one in ledger.accounts("u")} == {1, 10, 11}
    assert ledger.deletions("u") == {"deleted": 1, "kept": 1, "waiting": 2}


def test_a_ledger_that_may_have_taken_the_place_of_a_lost_one_forgets_no_job(tmp_path):
    """It tells by the jobs that it does not know whether it did: its own must not be among them."""
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.save(operation("ours", NOW - 91 * DAY_MS))

    ledger.prune(NOW)
    assert ledger.has_job("ours")
    ledger.settle_in()
    ledger.prune(NOW)
    assert not ledger.has_job("ours")
    ledger.close()


def test_what_an_expiry_took_is_known_for_as_long_as_a_file_of_it_waits(ledger):
    """A table may be held back for months, and be restored after that."""
    long_ago = NOW - 200 * DAY_MS
    for job_id in ("waits", "marked", "over"):
        ledger.save(operation(job_id, long_ago))
        due = None if job_id == "marked" else long_ago
        ledger.mark(
            "u", job_id, [Mark(job_id, job_id, Cause.EXPIRED, None)], long_ago, snapshots=[7], due_at_ms=due
        )
    ledger.deleted("u", ["over"], long_ago)

    assert not ledger.prune(NOW)

    assert [ledger.expired_by(job_id) for job_id in ("waits", "marked", "over")] == [[7], [7], []]


@pytest.mark.parametrize("files", [1, SETTLED_AT_ONCE + 1], ids=["at once", "in slices"])
def test_what_an_expiry_took_is_known_while_a_later_one_may_give_its_files_back(ledger, files):
    long_ago = NOW - 200 * DAY_MS
    for number, job_id in enumerate(("first", "second")):
        ledger.save(operation(job_id, long_ago + number, None))
        marks = [Mark(str(one), job_id, Cause.EXPIRED, None) for one in range(files)]
        ledger.mark("u", job_id, marks, long_ago, snapshots=[number])
        if job_id == "first":
            ledger.confirm_marks(job_id, long_ago)
            while ledger.settle_marks():
                pass
            ledger.save(operation(job_id, long_ago))

    ledger.prune(NOW)
    assert ledger.expired_by("first") == [0]
    ledger.drop_marks("second")
    ledger.save(operation("second", long_ago, OutcomeKind.FAILED))
    ledger.prune(NOW)
    assert ledger.expired_by("first") == [0]
    while ledger.settle_marks():
        pass
    assert ledger.deletions("u") == {"waiting": files}
    assert {mark.job_id for mark in ledger.due_deletions("u", NOW, files)} == {"first"}
    ledger.deleted("u", [str(one) for one in range(files)], NOW)
    ledger.prune(NOW)
    assert ledger.expired_by("first") == []


def test_what_cannot_be_read_of_a_marked_file_keeps_nothing_from_being_forgotten(ledger):
    long_ago = NOW - 200 * DAY_MS
    for number, job_id in enumerate(("first", "second")):
        ledger.save(operation(job_id, long_ago + number, None))
        marks = [Mark("a", job_id, Cause.EXPIRED, None)]
        ledger.mark("u", job_id, marks, long_ago, snapshots=[number], due_at_ms=None if number else NOW)
    ledger.save(operation("first", long_ago))
    ledger.db.execute("UPDATE deletions SET before = '{'")
    ledger.save(operation("another table's", long_ago))
    ledger.mark("t", "another table's", [], long_ago, snapshots=[7])

    ledger.prune(NOW)
    assert [ledger.expired_by(job_id) for job_id in ("first", "second", "another table's")] == [[], [1], []]


def test_what_expiries_took_is_looked_through_in_slices_and_forgotten_to_the_end(ledger):
    jobs = [f"{number:05d}" for number in range(JOBS_AT_ONCE + 2)]
    with ledger.transaction():
        for job_id in jobs:
            is_over = job_id in (jobs[0], jobs[-1])
            ledger.save(operation(job_id, NOW - (8 if is_over else 6) * DAY_MS))
            ledger.mark("u", job_id, [], NOW, snapshots=range(4))

    assert [ledger.prune(NOW, limit=10) for _ in range(4)] == [True, False, True, False]
    assert [job_id for job_id in jobs if not ledger.expired_by(job_id)] == [jobs[0], jobs[-1]]


def test_a_slice_costs_the_same_however_many_snapshots_expiries_took(ledger):
    counts, steps = [], []
    ledger.db.set_progress_handler(lambda: steps.append(1), 1)
    for taken in (range(2), range(2, 500)):
        for job_id in ("first", "second", "third"):
            ledger.save(operation(job_id, NOW))
            ledger.mark("u", job_id, [], NOW, snapshots=taken)
        steps.clear()
        ledger.prune(NOW)
        counts.append(len(steps))

    few, many = counts
    assert many < few + 100


def test_it_is_done_a_little_at_a_time(ledger):
    for number in range(25):
        ledger.account("u", [account(number, 0)])

    assert [ledger.prune(NOW, limit=10) for _ in range(4)] == [True, True, False, False]
    # Up to the newest everything was announced: without it nothing of a table that rests could be expired.
    assert [one.snapshot_id for one in ledger.accounts("u")] == [24]
    assert ledger.announced_through("u") == 24


def test_of_a_table_without_sequence_numbers_one_account_stays_too(ledger):
    """In version 1 every snapshot has the number 0."""
    for number in range(20):
        ledger.account("u", [replace(account(number, number), sequence_number=0)])
    while ledger.prune(NOW, limit=10):
        pass

    assert [one.snapshot_id for one in ledger.accounts("u")] == [19]
    assert ledger.announced_through("u") == 0


def test_of_snapshots_that_one_scan_found_the_account_of_the_newest_stays(ledger):
    """Whatever their ids: those after the one that stays would be announced again."""
    found = [
        replace(account(9 - number, 0), sequence_number=0, committed_at_ms=number) for number in range(5)
    ]
    ledger.account("u", found)
    while ledger.prune(NOW, limit=10):
        pass

    assert ledger.accounts("u") == [found[-1]]


def test_a_ledger_that_grows_too_large_forgets_the_oldest_history_and_nothing_open(tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    for number in range(3000):
        ledger.account("u", [account(number, NOW - 3000 + number)])
        ledger.save(operation(f"open{number}", NOW - 1, None)) if number % 100 == 0 else None
    marks = [Mark(f"waits{number}", "j", Cause.EXPIRED, None) for number in range(50)]
    ledger.mark("u", "j", marks, NOW, due_at_ms=NOW)
    before = ledger.size_bytes
    sizes = []
    while ledger.prune(NOW, limit=100, max_bytes=before // 2):
        sizes.append(ledger.size_bytes)

    assert before // 3 < ledger.size_bytes <= before // 2
    assert sizes == sorted(sizes, reverse=True)
    kept = [one.snapshot_id for one in ledger.accounts("u")]
    assert kept == list(range(kept[0], 3000))
    assert 100 < len(kept) < 2500
    assert len(ledger.unfinished()) == 30
    assert ledger.deletions("u") == {"waiting": 50}
    ledger.close()


def test_marks_are_confirmed_and_dropped_a_slice_at_a_time(ledger):
    marks = [Mark(f"f{number}", "j", Cause.EXPIRED, None) for number in range(12_000)]
    for job_id in ("landed", "failed"):
        ledger.mark(
            "u", job_id, [replace(mark, path=job_id + mark.path) for mark in marks], NOW, snapshots=[1, 2]
        )
    changed = []
    ledger.db.set_trace_callback(lambda _: changed.append(ledger.db.total_changes))
    ledger.confirm_marks("landed", NOW + 5)
    ledger.drop_marks("failed")
    assert ledger.deletions("u") == {"marked": 14_000, "waiting": 5000}

    while ledger.settle_marks():
        pass

    assert ledger.deletions("u") == {"waiting": 12_000}
    assert len(ledger.due_deletions("u", NOW + 5, 20_000)) == 12_000
    assert ledger.due_deletions("u", NOW + 4, 20_000) == []
    assert ledger.expired_by("landed") == [1, 2]
    assert ledger.expired_by("failed") == []
    # No statement changes more rows than a slice has; the tables behind its indexes count as one.
    assert max(after - before for before, after in pairwise(changed)) <= 5000


def test_only_what_is_confirmed_is_due(ledger):
    ledger.mark("u", "expiry", [Mark("marked", "expiry", Cause.EXPIRED, None)], NOW)
    ledger.mark("u", "job", [Mark("left", "job", Cause.LEFTOVER, None)], NOW, due_at_ms=NOW)

    assert [mark.path for mark in ledger.due_deletions("u", NOW, 10)] == ["left"]
    assert ledger.due_deletions("u", NOW, 10, [Cause.EXPIRED]) == []


def test_questions_about_a_time_read_an_index(ledger):
    plans = [
        ledger.db.execute(f"EXPLAIN QUERY PLAN {sql}", values).fetchall()
        for sql, values in (
            ("SELECT value FROM operations WHERE started_at_ms >= ? AND action = ?", (0, "compact")),
            (
                "SELECT SUM(bytes) FROM operations WHERE started_at_ms >= ? AND action = ? AND uuid = ?",
                (0, "compact", "u"),
            ),
            ("SELECT uuid, path FROM deletions WHERE ended_at_ms < ? LIMIT 5", (0,)),
            ("SELECT uuid FROM accounts WHERE announced AND received_at_ms < ? LIMIT 5", (0,)),
        )
    ]

    assert all("USING" in row[-1] and "INDEX" in row[-1] for plan in plans for row in plan), plans


@pytest.mark.parametrize(
    ("verdict", "score", "since"),
    [
        (Verdict.DUE, 1.5, 100),
        (Verdict.RUNNING, 1.5, 100),
        (Verdict.QUARANTINED, 1.5, 100),
        (Verdict.WAITING, 1.5, 100),
        (Verdict.HOT, 1.5, 100),
        (Verdict.DUE, 0.4, 100),
        (Verdict.RUNNING, 0.4, 100),
        (Verdict.QUARANTINED, 0.4, 100),
        (Verdict.WAITING, 0.4, 100),
        (Verdict.HOT, 0.4, None),
        (Verdict.CLEAN, 0.4, None),
        (Verdict.OFF, 1.5, None),
        (Verdict.RESTING, 1.5, None),
    ],
)
def test_a_debt_is_counted_from_when_it_first_was_due_whatever_it_waits_for(verdict, score, since):
    fold = Fold(None)
    table = TableId("u", "t")
    fold.save_partitions("u", {KEY: PartitionState()})

    def decided(kind, how_much, now_ms):
        decision = Decision(Action.COMPACT, KEY, "p", kind, how_much, "why")
        fold.save_decisions("u", Plan(table, (), (decision,), ()), now_ms)

    decided(Verdict.DUE, 1.2, 100)
    decided(verdict, score, 200)

    assert fold.tally("u").oldest_due_at_ms == since


@pytest.mark.parametrize(
    ("verdicts", "since"),
    [
        ([Verdict.HOT, Verdict.DUE], 200),
        ([Verdict.DUE, Verdict.DUE], 100),
        ([Verdict.DUE, Verdict.HOT, Verdict.DUE], 100),
        ([Verdict.WAITING, Verdict.RUNNING, Verdict.QUARANTINED, Verdict.DUE], 100),
        ([Verdict.DUE, Verdict.CLEAN, Verdict.DUE], 300),
        ([Verdict.HOT], None),
    ],
)
def test_a_partition_waits_for_its_turn_from_when_the_stream_first_left_it(verdicts, since):
    fold = Fold(None)
    fold.save_partitions("u", {KEY: PartitionState()})
    for number, verdict in enumerate(verdicts, start=1):
        decision = Decision(Action.COMPACT, KEY, "p", verdict, 1.5, "why")
        fold.save_decisions("u", Plan(TableId("u", "t"), (), (decision,), ()), 100 * number)

    assert fold.due_since("u", [KEY]).get(KEY) == since


def test_what_is_kept_of_a_table_goes_long_after_the_table_in_slices(ledger):
    old, young = NOW - 91 * DAY_MS, NOW - 89 * DAY_MS
    for number in range(25):
        ledger.learn(f"gone{number}", Lateness(), old)
        ledger.account(f"gone{number}", [account(1, old), account(2, old, announced=False)])
        ledger.place(f"gone{number}", f"s3://lake/gone{number}")
    for uuid, at_ms in (("there", old), ("moved", young)):
        ledger.learn(uuid, Lateness(), at_ms)
        ledger.account(uuid, [account(1, at_ms), account(2, at_ms, announced=False)])
    ledger.mark("gone1", "j", [Mark("waits", "j", Cause.EXPIRED, None)], old, due_at_ms=old)

    def kept():
        return [ledger.db.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0] for table in KEPT]

    assert kept() == [27, 54, 25, 1]
    assert not ledger.prune(NOW)
    assert kept() == [27, 54, 25, 1]
    assert [ledger.prune_gone(["there"], NOW, limit=10) for _ in range(4)] == [True, True, False, False]
    assert kept() == [2, 4, 25, 1]
    assert ledger.home("gone1") == "s3://lake/gone1"


KEPT = ("lateness", "accounts", "places", "deletions")


def test_the_room_of_what_is_forgotten_is_given_back_to_the_disk(ledger):
    """Each call gave back one page: the file kept the size that it once had."""
    ledger.account("u" * 3000, [account(number, NOW - 91 * DAY_MS) for number in range(1000)])
    before, _ = pages_of(ledger)

    ledger.prune(NOW)

    after, free = pages_of(ledger)
    assert free > 0
    assert before - after >= GIVEN_BACK_AT_ONCE


def pages_of(ledger):
    """How many pages the file has, and how many of them are free."""
    return tuple(
        ledger.db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count")
    )
