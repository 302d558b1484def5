"""After an expiry nobody who reads a table as of a time gets another snapshot than the one that was current then."""

import pytest

from isotherm.iceberg.expiry import expire, read
from isotherm.runtime.clock import now_ms
from support.lab import Lab, uuid_of


def a_tag_in_between(table, known):
    table.manage_snapshots().create_tag(known[1], "kept").commit()
    return [known[0], known[2]]


def a_rollback(table, known):
    table.manage_snapshots().rollback_to_snapshot(known[2]).commit()
    return known[3:]


def as_of(table, times):
    """By time: the snapshot that PyIceberg finds, where it finds one."""
    found = {at_ms: table.snapshot_as_of_timestamp(at_ms) for at_ms in times}
    return {at_ms: snapshot.snapshot_id for at_ms, snapshot in found.items() if snapshot is not None}


@pytest.mark.parametrize("happens", [a_tag_in_between, a_rollback])
def test_no_time_gets_another_snapshot_than_it_had(tmp_path, happens):
    lab = Lab(tmp_path)
    table = lab.create()
    known = [lab.append(table, 1).snapshot_id for _ in range(6)]
    going = happens(table, known)
    before = as_of(table.refresh(), [entry.timestamp_ms for entry in table.history()])
    reading = read(table, going, now_ms())
    expire(lab.catalog, "shop.orders", uuid_of(table), reading, "job", lambda _: None, now_ms())
    table.refresh()
    now = as_of(table, before)

    assert not {snapshot.snapshot_id for snapshot in table.metadata.snapshots} & set(going)
    assert now
    assert {at_ms: before[at_ms] for at_ms in now} == now
    assert now[max(before)] == table.metadata.current_snapshot_id
