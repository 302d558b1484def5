"""Killed before any write to the fold or the ledger, the daemon loses nothing: the next one brings all to its end.

Writes to the two stores are counted, and the process "dies" before one of them: nothing more is written, what was not
committed is rolled back, the rewriting child is gone. `make test` plays a sample, `make soak` every write there is.
"""

from collections import Counter

import pytest

from isotherm.contract.summary import JOB_ID
from isotherm.core.deletion import LEFTOVER_GRACE_MS
from support.lab import EXPIRING, Lab, believed, counted, settle, wait_for_children

THRIFTY = EXPIRING.replace("keep_last: 2, at_once: 2", "keep_last: 3, at_once: 3")
WRITES = ("INSERT", "UPDATE", "DELETE", "COMMIT")


class Killed(BaseException):
    """As SIGKILL: nothing of ours handles it."""


class Countdown:
    """How many writes are still to come before the end; counts them all where there is none."""

    def __init__(self, left=None):
        self.left, self.seen = left, 0

    def tick(self):
        self.seen += 1
        if self.left is not None and self.seen >= self.left:
            raise Killed


class Doomed:
    """An SQLite connection that ends with the process."""

    def __init__(self, real, countdown):
        self.real, self._countdown = real, countdown

    def __getattr__(self, name):
        return getattr(self.real, name)

    def execute(self, sql, *values):
        if sql.startswith(WRITES) or (sql == "ROLLBACK" and self._countdown.left is not None):
            self._countdown.tick()
        return self.real.execute(sql, *values)

    def executemany(self, sql, *values):
        self._countdown.tick()
        return self.real.executemany(sql, *values)


def live_until_killed(lab, countdown):
    """Let a daemon live until it is killed. Returns whether it came to rest before."""
    service = lab.service()
    stores = (service.fold, service.ledger)
    for store in stores:
        store.db = Doomed(store.db, countdown)
    try:
        service.start()
        settle(service)
    except Killed:
        lab.executor.stop()
        return False
    finally:
        for store in stores:
            store.db.real.close()  # a connection that is closed rolls back what it had not committed
    return True


def story(folder):
    """A table with a partition to compact and snapshots to expire; its events stand on the topic."""
    lab = Lab(folder, policy=THRIFTY)
    table = lab.create()
    for hour in (1, 1, 1, 2, 3, 4):
        lab.append(table, hour)
    return lab, table, sorted(map(repr, table.refresh().scan().to_arrow().to_pylist()))


def judge(lab, table, rows, where):
    service = lab.service()
    service.start()
    settle(service)
    for _ in range(2):
        wait_for_children(service)
        service.step(0)
    # What a dead daemon's jobs have left waits for a day.
    lab.ahead_ms += LEFTOVER_GRACE_MS
    service.step(0)
    settle(service)
    uuid = str(table.metadata.table_uuid)

    assert believed(service, uuid) == counted(lab.scan()), where
    assert rows == sorted(map(repr, table.refresh().scan().to_arrow().to_pylist())), where
    operations = {one.job_id: one for one in service.ledger.operations()}
    assert {one.state for one in operations.values()} <= {"done", "failed"}, where
    summaries = [s.summary.additional_properties for s in table.snapshots()]
    ours = Counter(summary[JOB_ID] for summary in summaries if JOB_ID in summary)
    assert set(ours.values()) <= {1}, where
    assert {operations[job_id].state for job_id in ours} <= {"done"}, where
    assert service.ledger.unfinished() == [], where
    assert not set(service.ledger.deletions(uuid)) & {"marked", "waiting"}, where

    # On disk is what some snapshot reaches, and nothing of ours beside it.
    reachable = {
        entry.data_file.file_path
        for snapshot in table.snapshots()
        for manifest in snapshot.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io)
    }
    on_disk = {f"file://{path}" for path in (lab.root / "warehouse").rglob("isotherm-*.parquet")}
    assert on_disk <= reachable, where
    assert all(table.scan(snapshot_id=s.snapshot_id).to_arrow() is not None for s in table.snapshots())
    service.stop()


def play(folder, kill_at):
    """Dies before one write, and before another of its next life; gives whether it lived so long."""
    lab, table, rows = story(folder)
    came_to_rest = live_until_killed(lab, Countdown(kill_at))
    live_until_killed(lab, Countdown(max(kill_at // 3, 1)))
    judge(lab, table, rows, f"killed before write {kill_at}")
    lab.executor.stop()
    return not came_to_rest


@pytest.mark.parametrize("kill_at", [45, 70])
def test_killed_before_a_write_nothing_is_lost(tmp_path, kill_at):
    assert play(tmp_path, kill_at)


@pytest.mark.soak
def test_soak_of_every_write(tmp_path):
    kill_at = 1
    while play(tmp_path / str(kill_at), kill_at):
        kill_at += 1

    assert kill_at > 50
