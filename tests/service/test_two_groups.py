"""Two daemons of two groups on one catalog: nobody divides the tables between them, so both maintain every table.

It is a mistake of those who set them up, and costs work. It must cost nothing else. Judged by PyIceberg's scan of every
retained snapshot.
"""

import pytest

from isotherm.contract.summary import JOB_ID
from isotherm.core import observations as seen
from isotherm.core.model.holds import HoldKind
from isotherm.core.model.jobs import Action
from support.lab import (
    EXPIRING,
    Lab,
    believed,
    counted,
    of,
    started,
    until_a_job_runs,
    uuid_of,
    wait_for_children,
)

POLICY = EXPIRING.replace("delete_after: 0s", "delete_after: 1h").replace(", expire.delete_after", "")
MINUTE_MS = 60_000


class Pair:
    """Two labs with a state folder each, on the tables of the first."""

    def __init__(self, root, *, share_topics):
        self.one = Lab(root / "one", policy=POLICY)
        self.two = Lab(root / "two", policy=POLICY, properties=self.one.properties)
        if share_topics:
            self.two.topic, self.two.held = self.one.topic, self.one.held
        self.share_topics = share_topics
        self.table = self.one.create()
        self.written = set()

    def append(self, *hours):
        first = self.one.rows
        event = self.one.append(self.table, *hours)
        if not self.share_topics:
            self.two.announce(event)
        self.written |= set(range(first, self.one.rows))

    def turn(self, *services, times=1, minutes=0):
        for _ in range(times):
            for lab in (self.one, self.two):
                lab.ahead_ms += minutes * MINUTE_MS
            for service in services:
                service.step(0)
                wait_for_children(service)

    def judge(self, known):
        """Each retained snapshot reads what it read when it was first seen, and the newest reads all that was written."""
        for snapshot in self.table.refresh().snapshots():
            ids = sorted(self.table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()["id"].to_pylist())

            assert known.setdefault(snapshot.snapshot_id, ids) == ids
        assert sorted(self.table.scan().to_arrow()["id"].to_pylist()) == sorted(self.written)


@pytest.fixture(params=[True, False], ids=["the same topics", "topics of their own"])
def pair(request, tmp_path):
    pair = Pair(tmp_path, share_topics=request.param)
    yield pair
    pair.one.executor.stop()
    pair.two.executor.stop()


def ours(table):
    return [s for s in table.refresh().snapshots() if JOB_ID in s.summary.additional_properties]


def test_of_two_rewrites_of_one_partition_the_first_is_committed_and_the_other_thrown_away(pair):
    for hour in (1, 1, 1, 1, 9, 9, 9, 9):
        pair.append(hour)
    first, second = started(pair.one), started(pair.two)
    for service in (first, second):
        until_a_job_runs(service)
        wait_for_children(service)
    assert len(first.compactions) == len(second.compactions) == 1
    known = {}
    pair.turn(first, times=3)
    pair.turn(second, times=3)

    ends = [of(lab, seen.JobEnded)[0] for lab in (pair.one, pair.two)]
    assert [(one.outcome, one.reason) for one in ends] == [("done", "committed"), ("failed", "conflict")]
    assert len(ours(pair.table)) == 1
    pair.judge(known)
    for service in (first, second):
        service.stop()


def test_each_expires_and_deletes_beside_the_other_and_no_retained_snapshot_misses_a_file(pair):
    pair.append(1)
    first, second = started(pair.one), started(pair.two)
    # Both know the table before one of them has changed it: else the later one takes its ledger for a new one.
    pair.turn(first, second, times=4)
    known = {}
    for hour in (1, 1, 2, 3):
        pair.append(hour)
    for hour in (4, 4, 1, 5, 1, 6):
        pair.append(hour)
        # Each goes first once, and what it marked is due while the other is at work on the same table.
        first, second = second, first
        pair.turn(first, second, times=3, minutes=5)
        pair.judge(known)
    pair.turn(first, second, times=60, minutes=5)

    pair.judge(known)
    uuid = uuid_of(pair.table)
    for service in (first, second):
        done = {one.action for one in service.ledger.operations() if one.state == "done"}
        assert Action.EXPIRE in done
        assert set(service.ledger.deletions(uuid)) == {"deleted"}
        assert service.deletions.everywhere() is None
        assert {one.kind for one in service.ledger.holds()} <= {HoldKind.QUARANTINE}
        assert believed(service, uuid) == counted(pair.one.scan())
        assert not service.ledger.unfinished()
        service.stop()
    for lab in (pair.one, pair.two):
        assert of(lab, seen.LedgerLost) == of(lab, seen.TableFailed) == of(lab, seen.TableHalted) == []


def test_a_second_one_that_comes_later_expires_and_deletes_nothing_until_a_person_has_said_so(pair):
    for hour in (1, 1, 1, 1, 9, 9, 9, 9):
        pair.append(hour)
    first = started(pair.one)
    pair.turn(first, times=6)
    assert ours(pair.table)
    second = started(pair.two)
    for hour in (10, 11, 12):
        pair.append(hour)
    pair.turn(second, times=10, minutes=10)

    assert "is new, but shop.orders has a snapshot of job" in of(pair.two, seen.LedgerLost)[0].why
    assert Action.EXPIRE not in {one.action for one in second.ledger.operations()}
    assert second.ledger.deletions(uuid_of(pair.table)) == {}
    assert first.deletions.everywhere() is None
    pair.judge({})
    for service in (first, second):
        service.stop()
