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


def intent(lab, table, state="open", **more):
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
            **more,
        )
    )


def begun(tmp_path):
    """A daemon, and a table to which others have written since an upsert began."""
    lab = Lab(tmp_path, policy=POLICY)
    table = lab.create()
    service = started(lab)
    intent(lab, table)
    for hour in range(8):
        lab.append(table, hour)
    turn(service, 5)
    return lab, table, service


@pytest.mark.parametrize("end", ["closed", "silence"])
def test_what_an_upsert_began_on_stays_while_it_renews_its_intent(tmp_path, end):
    lab, table, service = begun(tmp_path)
    every = ids_of(table)
    for _ in range(12):
        lab.ahead_ms += 10 * MINUTE_MS
        intent(lab, table)
        turn(service, 5)

    assert ids_of(table) == every
    if end == "closed":
        intent(lab, table, "closed")
        turn(service, 5)
    lab.ahead_ms += 16 * MINUTE_MS
    turn(service, 10)
    assert len(ids_of(table)) == 5
    service.stop()


def test_and_while_the_daemon_takes_in_nothing_for_longer_than_a_renewal_lasts(tmp_path):
    lab, table, service = begun(tmp_path)
    every = ids_of(table)
    for _ in range(8):
        lab.ahead_ms += 20 * MINUTE_MS
        intent(lab, table)
        turn(service, 5)

    assert ids_of(table) == every
    service.stop()


def test_and_where_a_renewal_is_the_first_that_is_heard_of_it(tmp_path):
    """The fold was lost, or another daemon had the table: the topic is not read from its beginning again."""
    lab = Lab(tmp_path, policy=POLICY)
    table, since_ms = lab.create(), lab.now_ms()
    service = started(lab)
    for hour in range(8):
        lab.append(table, hour)
    turn(service, 1)
    every = ids_of(table)
    lab.ahead_ms += 180 * MINUTE_MS
    intent(lab, table, since_ms=since_ms)
    turn(service, 20)

    assert ids_of(table) == every
    service.stop()


def test_a_writer_whose_clock_is_ahead_loses_nothing(tmp_path):
    lab = Lab(tmp_path, policy=POLICY)
    table = lab.create()
    service = started(lab)
    intent(lab, table, since_ms=lab.now_ms() + 180 * MINUTE_MS)
    turn(service, 1)

    (kept,) = service.fold.intents(uuid_of(table))
    assert kept.at_ms <= lab.now_ms()
    service.stop()
