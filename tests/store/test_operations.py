"""What budgets count of an operation: what was read, not what was planned."""

from dataclasses import replace

import pytest

from isotherm.contract.identity import PartitionKey, TableId
from isotherm.core.model.jobs import JOB_BYTES_PER_S, Action, Outcome
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.core.units import DAY_MS, HOUR_MS
from isotherm.store import Ledger
from isotherm.store.ledger import Operation

GIB = 1024**3
BEGUN = Operation(
    "job", TableId("u", "t"), Action.COMPACT, PartitionKey("{}"), "", "", "", 0, 1_000, bytes_planned=GIB
)


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


@pytest.mark.parametrize(
    ("ahead_ms", "charged"),
    [(-HOUR_MS - 1, 0), (-HOUR_MS, 70), (0, 70), (HOUR_MS, 70), (HOUR_MS + 1, 0), (100 * DAY_MS, 0)],
)
def test_what_began_by_a_clock_that_was_ahead_uses_up_no_budget_for_so_long(ahead_ms, charged):
    ledger = Ledger(None)
    now_ms = 1000 * DAY_MS
    ledger.save(replace(BEGUN, started_at_ms=now_ms + ahead_ms, bytes_planned=70))

    assert ledger.bytes_read_within(HOUR_MS, now_ms) == charged
