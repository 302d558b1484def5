"""An upsert that has announced itself commits along the history since it began: none of that expires under it."""

import pytest

from isotherm.contract.events import Intent
from isotherm.core.units import MINUTE_MS
from support.deleting import turn
from support.lab import Lab, started, uuid_of

POLICY = """
tables: "*"
compact: {enabled: false}
expire: {keep_for: 10m, keep_last: 5, at_once: 2, every: 0s}
"""


def ids_of(table):
    return {snapshot.snapshot_id for snapshot in table.refresh().snapshots()}


@pytest.mark.parametrize("end", ["closed", "silence"])
def test_what_an_upsert_began_on_stays_while_it_renews_its_intent(tmp_path, end):
    lab = Lab(tmp_path, policy=POLICY)
    table = lab.create()
    service = started(lab)

    def say(state="open"):
        now_ms = lab.now_ms()
        lab.announce(
            Intent(
                table_uuid=uuid_of(table),
                table="shop.orders",
                intent_id="merge",
                writer="w",
                state=state,
                at_ms=now_ms,
                expires_at_ms=now_ms + 15 * MINUTE_MS,
            )
        )

    say()
    for hour in range(8):
        lab.append(table, hour)
    every = ids_of(table)
    for _ in range(12):
        lab.ahead_ms += 10 * MINUTE_MS
        say()
        turn(service, 5)

    assert ids_of(table) == every
    if end == "closed":
        say("closed")
        turn(service, 5)
    lab.ahead_ms += 16 * MINUTE_MS
    turn(service, 10)
    assert len(ids_of(table)) == 5
    service.stop()
