"""What writers said is kept in the fold alone. Where it cannot be read, they may write anything until they speak again."""

import pytest

from isotherm.contract.events import Intent, OpenWindow
from isotherm.core import observations as seen
from isotherm.core.model.writers import Word
from isotherm.core.units import DAY_MS, HOUR_MS
from support.lab import EAGER, Lab, of, started, uuid_of


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path, policy=EAGER)


def intent_of(lab, uuid):
    now_ms = lab.now_ms()
    return Intent(
        table_uuid=uuid,
        table="shop.orders",
        intent_id="merge",
        writer="w",
        state="open",
        at_ms=now_ms,
        expires_at_ms=now_ms + HOUR_MS,
        partitions=('{"1000":"elsewhere"}',),
    )


def why_hot(lab, service, uuid):
    row = service.fold.table(uuid)
    policy = service.verdicts.policy_of(row).policy
    return {key: service.verdicts.why_hot(row, key, policy) or "" for key in lab.scan("shop.orders")}


@pytest.mark.parametrize(
    ("name", "said"),
    [("words", "writer w said last cannot be read"), ("intents", "means to write any partition")],
)
def test_what_a_writer_said_and_cannot_be_read_holds_its_table_until_it_is_over(lab, name, said):
    table = lab.create("shop.orders")
    service = started(lab)
    lab.append(table, 1, 2)
    service.step(0)
    lab.ahead_ms += DAY_MS
    uuid = uuid_of(table)
    service.fold.save_word(uuid, Word("w", lab.now_ms(), OpenWindow()))
    service.fold.open_intent(intent_of(lab, uuid), lab.now_ms(), is_known=True)
    before = why_hot(lab, service, uuid)
    assert service.fold.db.execute(f"UPDATE {name} SET value = '{{' WHERE uuid = ?", (uuid,)).rowcount
    lab.seen.clear()

    lab.append(table, 3)
    service.step(0)

    assert service.fold.table(uuid).state.head == table.refresh().current_snapshot().snapshot_id
    assert not of(lab, seen.TableFailed)
    assert not any(said in why for why in before.values())
    assert all(said in why for why in why_hot(lab, service, uuid).values())
    service.fold.save_word(uuid, Word("w", lab.now_ms(), OpenWindow()))
    assert service.fold.close_intent(uuid, "merge") is not None
    assert not any(said in why for why in why_hot(lab, service, uuid).values())
    service.stop()
