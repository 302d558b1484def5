"""What budgets count of an operation: what was read, not what was planned."""

from dataclasses import replace

import pytest

from isotherm.contract.identity import PartitionKey, TableId
from isotherm.core.model.jobs import JOB_BYTES_PER_S, Action, Outcome
from isotherm.core.model.refusals import Reason, Refusal
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

    assert ledger.bytes_read_since(0) == ledger.bytes_read_since(0, "u") == charged
    ledger.close()
