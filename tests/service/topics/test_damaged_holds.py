"""Rows of the ledger that say what is held back, and cannot be read."""

import pytest

from isotherm.core import observations as seen
from isotherm.core.model.holds import Hold, HoldKind
from isotherm.service.topics.holds import Holds
from isotherm.store import Ledger
from isotherm.store.database import to_json
from support.lab import Lab, of, settle, started
from support.memory_topics import MemoryKeyedTopic

HALT = Hold(HoldKind.HALT, "t", "shop.orders", "mismatch: rows", 5)
PAUSE = Hold(HoldKind.PAUSE, "u", "shop.carts", "for a test", 5)
SPOIL = "UPDATE holds SET value = '{' || value"
NO_UTF_8 = "UPDATE holds SET value = CAST(CAST(value AS BLOB) || x'F1' AS TEXT)"


@pytest.mark.parametrize("spoil", [SPOIL, NO_UTF_8], ids=["no JSON", "no text"])
@pytest.mark.parametrize("is_told", [True, False])
def test_a_damaged_row_that_holds_deletions_back_stops_nothing_else_and_can_be_lifted(
    tmp_path, is_told, spoil
):
    """All tables were set aside, and nothing was planned or forgotten any more."""
    lab = Lab(tmp_path)
    table = lab.create()
    for hour in (1, 1, 1, 1, 9, 9, 9, 9):
        lab.append(table, hour)
    service = started(lab)
    service.holds.doubt_ledger("a copy was put back")
    service.ledger.db.execute(f"{spoil}, told = ?", (is_told,))
    assert service.ledger.deletions_held() is not None
    settle(service)

    assert of(lab, seen.TableFailed) == []
    assert of(lab, seen.JobEnded)
    assert service.ledger.deletions_held().endswith("`isotherm resume` lets it delete again")
    MemoryKeyedTopic(lab.held).write(f"{service.ledger.id}/ledger", None)  # isotherm resume
    service.round()
    assert service.ledger.deletions_held() is None
    service.stop()


@pytest.mark.parametrize("value", [None, to_json(HALT).encode()], ids=["it is lifted", "it is said again"])
@pytest.mark.parametrize("spoil", [SPOIL, NO_UTF_8], ids=["no JSON", "no text"])
def test_a_damaged_hold_is_mended_from_the_topic(value, spoil):
    records, changed, told = [], [], []
    ledger = Ledger(None)
    holds = Holds(MemoryKeyedTopic(records), ledger, told.append, lambda: 1000, changed.append, lambda: 0.0)
    for one in (HALT, PAUSE):
        holds.put(one)
    ledger.db.execute(f"{spoil} WHERE uuid = 't'")
    changed.clear()
    MemoryKeyedTopic(records).write(HALT.key, value)
    holds.refresh(0)

    assert ledger.holds() == [*([] if value is None else [HALT]), PAUSE]
    assert [(one.uuid, one.partition) for one in changed] == [("t", None)]
    assert of_kind(told, seen.HoldRejected) == []


def of_kind(told, kind):
    return [one for one in told if isinstance(one, kind)]
