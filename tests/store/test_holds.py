"""Holds in the ledger."""

import pytest

from isotherm.contract.identity import PartitionKey
from isotherm.core.model.holds import Hold, HoldKind
from isotherm.store import Ledger


def wait_of(uuid):
    return Hold(
        HoldKind.QUARANTINE, uuid, uuid, "storage: 503", 1, PartitionKey("{}"), until_ms=10, failures=1
    )


@pytest.mark.parametrize(
    "value",
    [
        b"{",
        b'{"kind": "quarantine", "until_ms": 10}',
        b'{"kind": "quarantine", "until_ms": 10, "why": "\xf1"}',
    ],
    ids=["no JSON", "no hold", "no text"],
)
def test_a_wait_that_cannot_be_read_keeps_no_other_from_being_lifted(value):
    """Each round asks for them, so it would end the daemon again and again, for all tables."""
    ledger = Ledger(None)
    for uuid in ("damaged", "other"):
        ledger.hold(wait_of(uuid), told=True)
    assert ledger.db.execute(
        "UPDATE holds SET value = CAST(? AS TEXT) WHERE uuid = 'damaged'", (value,)
    ).rowcount

    assert ledger.over(10) == [wait_of("other")]
    assert ledger.over(9) == []
    ledger.close()
