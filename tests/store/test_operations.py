"""What budgets count of an operation: what was read, not what was planned."""

from dataclasses import replace

import pytest

from isotherm.contract.identity import UNPARTITIONED, PartitionKey, TableId
from isotherm.core.model.files import FileKind, LiveFile
from isotherm.core.model.job_limits import JOB_BYTES_PER_S
from isotherm.core.model.jobs import Action, CompactionJob, Destination, Outcome, OutcomeKind
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.core.units import DAY_MS, HOUR_MS
from isotherm.store import Ledger
from isotherm.store.ledger import Operation

GIB = 1024**3
BEGUN = Operation(
    "job", TableId("u", "t"), Action.COMPACT, PartitionKey("{}"), "", "", "", 0, 1_000, bytes_planned=GIB
)
DESTINATION = Destination("s3://b/t", "day=1", {"write.data.path": "s3://b/d"})


def ended(after_ms, bytes_read=0):
    outcome = Outcome.refused("job", Refusal(Reason.CANCELLED, "the stream came back"))
    return replace(BEGUN, bytes_read=bytes_read).ended(outcome, 1_000 + after_ms)


@pytest.mark.parametrize(
    ("operation", "charged"),
    [
        (BEGUN, GIB),
        (replace(BEGUN, bytes_read=GIB // 3), GIB // 3),
        (ended(60_000, bytes_read=GIB // 3), GIB // 3),
        (ended(2_000), 2 * JOB_BYTES_PER_S),
        (ended(10**9), GIB),
        (ended(-5_000), 0),
    ],
    ids=[
        "it runs",
        "it has read",
        "it failed after it read",
        "cancelled soon",
        "cancelled late",
        "clock went back",
    ],
)
def test_a_budget_is_charged_what_was_read(tmp_path, operation, charged):
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.save(operation)

    now_ms = operation.started_at_ms + 100
    assert ledger.bytes_read_within(1000, now_ms) == ledger.bytes_read_within(1000, now_ms, "u") == charged
    ledger.close()


def test_when_a_partitions_data_was_last_rewritten_before_a_time_is_remembered():
    """A job that failed, one that merged deletes alone, one later, and another table's are none."""
    ledger = Ledger(None)

    def save(job_id, at_ms, after=1, **fields):
        done = replace(
            BEGUN, job_id=job_id, state="done", ended_at_ms=at_ms, files_before=9, files_after=after
        )
        ledger.save(replace(done, **fields))

    save("first", 1_000)
    save("second", 2_000)
    save("later", 9_000)
    save("failed", 3_000, state="failed")
    save("merged", 3_000, after=9)
    save("elsewhere", 3_000, table=TableId("other", "t"))

    assert ledger.compacted("u", 9_000) == {PartitionKey("{}"): 2_000}
    assert ledger.compacted("u", 1_000) == {}


@pytest.mark.parametrize(
    ("ahead_ms", "charged"),
    [(-HOUR_MS - 1, 0), (-HOUR_MS, 70), (0, 70), (HOUR_MS, 70), (HOUR_MS + 1, 0), (100 * DAY_MS, 0)],
)
def test_what_began_by_a_clock_that_was_ahead_uses_up_no_budget_for_so_long(ahead_ms, charged):
    ledger = Ledger(None)
    now_ms = 1000 * DAY_MS
    ledger.save(replace(BEGUN, started_at_ms=now_ms + ahead_ms, bytes_planned=70))

    assert ledger.bytes_read_within(HOUR_MS, now_ms) == charged


def expiry(ledger, job_id, began_ms, ended_ms, reason=None):
    begun = replace(BEGUN, job_id=job_id, action=Action.EXPIRE, partition=None, started_at_ms=began_ms)
    done = Outcome(job_id, OutcomeKind.DONE, Reason.COMMITTED, "it is done")
    outcome = done if reason is None else Outcome.refused(job_id, Refusal(reason, "it was away"))
    ledger.save(begun.ended(outcome, ended_ms))


@pytest.mark.parametrize("reason", [None, Reason.CATALOG], ids=["done", "failed"])
def test_an_expiry_that_a_clock_far_ahead_has_stamped_keeps_no_table_from_the_next(reason):
    ledger = Ledger(None)
    now_ms = 1000 * DAY_MS
    expiry(ledger, "ahead", now_ms + 900 * DAY_MS, now_ms + 900 * DAY_MS, reason)
    assert not ledger.setbacks("u", now_ms)
    assert not ledger.last_done("u", now_ms)

    expiry(ledger, "before", now_ms - DAY_MS, now_ms - DAY_MS + 1000)
    assert not ledger.setbacks("u", now_ms)
    assert ledger.last_done("u", now_ms) == {Action.EXPIRE: now_ms - DAY_MS}


def test_no_row_is_taken_apart_where_the_last_of_its_kind_was_done():
    ledger = Ledger(None)
    now_ms = 1000 * DAY_MS
    for number, reason in enumerate((Reason.CATALOG, None, Reason.CATALOG)):
        expiry(ledger, f"{number}", now_ms - DAY_MS + number, now_ms - DAY_MS + number, reason)
    ledger.db.execute("UPDATE operations SET value = '{' WHERE job_id <> '2'")

    assert ledger.setbacks("u", now_ms)[Action.EXPIRE].failures == 1
    ledger.db.execute("DELETE FROM operations WHERE job_id = '2'")
    assert not ledger.setbacks("u", now_ms)


def test_what_failed_while_the_clock_sprang_ahead_is_tried_again_soon():
    ledger = Ledger(None)
    now_ms = 1000 * DAY_MS
    expiry(ledger, "sprang", now_ms - 1000, now_ms + 900 * DAY_MS, Reason.CATALOG)

    held = ledger.setbacks("u", now_ms)[Action.EXPIRE]
    assert (held.failures, held.until_ms < now_ms + HOUR_MS) == (1, True)


def test_a_ledger_keeps_no_file_of_a_job():
    """A partition of a million files would be 236 MB for each write, and one of four million no text that SQLite takes."""
    files = tuple(LiveFile(f"s3://b/{number}", FileKind.DATA, 1, 1, 1) for number in range(1000))
    others = frozenset((f"s3://b/other-{number}", None) for number in range(1000))
    job = CompactionJob(
        "job", BEGUN.table, UNPARTITIONED, "", 0, 5, 7, files, files, others, 1, "", "", DESTINATION, staying=files
    )  # fmt: skip
    ledger = Ledger(None)
    ledger.save(BEGUN, job)

    ((operation, found),) = ledger.unfinished()

    assert operation == BEGUN
    assert found == replace(job, data_files=(), delete_files=(), staying=(), bystanders=frozenset())
    assert (found.destination, found.base_snapshot_id, found.base_sequence_number) == (DESTINATION, 5, 7)


def test_what_jobs_have_read_is_added_up_however_much_it_was_said_to_be():
    """Manifests say how large files are; a sum beyond 2**63 is an error to SQLite."""
    ledger = Ledger(None)
    for number in range(3):
        ledger.save(replace(BEGUN, job_id=f"{number}", bytes_planned=2**63 - 1))

    assert ledger.bytes_read_within(HOUR_MS, 1_000) > 2**64
