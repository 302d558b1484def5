"""After an expiry nobody who reads a table as of a time gets another snapshot than the one that was current then, and each
snapshot is the child of the one that it was."""

from datetime import datetime, timedelta

import pytest

from isotherm.core.model.jobs import OutcomeKind
from isotherm.iceberg.expiry import expire, read
from isotherm.runtime.clock import now_ms
from support.lab import Lab, uuid_of
from support.rewriting import bound, commit, partitions, rewritten


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


def test_a_snapshot_keeps_the_name_of_a_parent_that_goes(tmp_path):
    """By it a writer who began there commits, and what was staged there is published on nothing else."""
    lab = Lab(tmp_path)
    table = lab.create()
    known = [lab.append(table, 1).snapshot_id for _ in range(4)]
    table.manage_snapshots().create_branch(known[0], "aside").commit()
    table.refresh().append(table.scan().to_arrow(), branch="aside")
    before = {one.snapshot_id: one.parent_snapshot_id for one in table.refresh().metadata.snapshots}
    reading = read(table, [known[1], known[2]], now_ms())
    expire(lab.catalog, "shop.orders", uuid_of(table), reading, "job", lambda _: None, now_ms())

    after = {one.snapshot_id: one.parent_snapshot_id for one in table.refresh().metadata.snapshots}
    assert after == {key: parent for key, parent in before.items() if key not in known[1:3]}
    assert after[known[3]] == known[2]


BEHIND = timedelta(seconds=70)


class Late(datetime):
    """The clock of a machine that is behind its writers', for PyIceberg."""

    @classmethod
    def now(cls, tz=None):
        return datetime.fromtimestamp(now_ms() / 1000, tz) - BEHIND


def expiry(lab, table, at_ms):
    reading = read(table, [snapshot.snapshot_id for snapshot in table.snapshots()][:2], at_ms)
    return expire(lab.catalog, "shop.orders", uuid_of(table), reading, "job", lambda _: None, at_ms).outcome


def compaction(lab, table, at_ms):
    (key,) = partitions(table)
    job = bound(table, key)
    return commit(lab.catalog, job, rewritten(table, job), now_ms=at_ms)


@pytest.mark.parametrize("work", [expiry, compaction])
def test_metadata_of_a_machine_that_is_behind_its_writers_is_not_older_than_their_commits(
    tmp_path, monkeypatch, work
):
    """Iceberg's Java does not load a table whose metadata is older, by more than a minute, than its newest snapshot. Nor
    is it younger than the version before, or no writer with a right clock could commit."""
    lab = Lab(tmp_path)
    table = lab.create()
    for _ in range(4):
        lab.append(table, 1)
    before = table.refresh().metadata
    with monkeypatch.context() as patch:
        patch.setattr("pyiceberg.table.update.datetime", Late)
        outcome = work(lab, table, now_ms() - int(BEHIND.total_seconds() * 1000))
    after = table.refresh().metadata

    assert outcome.kind is OutcomeKind.DONE
    assert after.metadata_log[-1].timestamp_ms == before.last_updated_ms
    assert max(entry.timestamp_ms for entry in after.snapshot_log) <= after.last_updated_ms
    assert 0 < after.last_updated_ms - before.last_updated_ms <= 1
