"""An expiry whose end is unknown, or that a replica lags behind, is found, and keeps no other waiting."""

from pathlib import Path

import pytest
import requests

from isotherm.contract.events import END_MS
from isotherm.contract.paths import normalised
from isotherm.core import observations as seen
from isotherm.core.model.refusals import Reason
from isotherm.core.units import DAY_MS
from support.deleting import ONLY_EXPIRY as GRACE
from support.deleting import POLICY, filled, turn, until_files_wait
from support.faults import FaultyCatalog
from support.in_process import InProcess
from support.lab import EXPIRING, Lab, event_of, of, settle, started, uuid_of


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path, policy=GRACE)


def test_an_expiry_that_landed_is_found_by_a_daemon_that_was_away_for_weeks_and_has_a_new_fold(tmp_path):
    lab = Lab(tmp_path, policy=GRACE.replace("delete_after: 1h", "delete_after: 30d"))
    table = filled(lab)
    service = started(lab)
    real = service.maintainer.expired

    def die(*arguments):
        real(*arguments)
        raise KeyboardInterrupt

    service.maintainer.expired = die
    with pytest.raises(KeyboardInterrupt):
        turn(service, 20)
    marked = service.ledger.deletions(uuid_of(table))["marked"]
    assert len(table.refresh().snapshots()) < 5
    service.maintainer.stop()
    service.fold.close()
    service.ledger.close()
    for file in (lab.root / "state").glob("fold.db*"):
        file.unlink()
    lab.executor = InProcess()
    lab.ahead_ms += 8 * DAY_MS
    service = started(lab)
    for _ in range(10):
        lab.ahead_ms += 10_000
        turn(service, 1)

    operation = service.ledger.operations()[-1]
    assert (operation.state, operation.outcome_why) == ("done", "found in the table afterwards")
    assert service.ledger.deletions(uuid_of(table))["waiting"] >= marked
    assert service.ledger.tables_to_sweep(service.now_ms() + 29 * DAY_MS) == [], (
        "the policy's grace is longer"
    )
    service.stop()


def test_no_expiry_begins_while_the_end_of_one_is_unknown(tmp_path):
    """It would take its marks over, and drop them when the first one lands."""
    lab = Lab(tmp_path, policy=POLICY)
    table = filled(lab)
    service = started(lab)
    late = []

    def commit(real, *arguments):
        if late:
            return real(*arguments)
        late.append((real, arguments))
        raise requests.exceptions.ReadTimeout("no answer")

    service.maintainer.requests.on_commit = commit
    for _ in range(30):
        turn(service, 1)
        if late:
            break
    marked = service.ledger.deletions(uuid_of(table))["marked"]
    turn(service, 10)
    assert not len(service.expiries)
    real, arguments = late[0]
    real(*arguments)
    for _ in range(30):
        lab.ahead_ms += 600_000
        turn(service, 1)

    assert service.ledger.deletions(uuid_of(table))["deleted"] >= marked
    service.stop()


@pytest.mark.parametrize("goes_on", [True, False])
def test_an_expiry_whose_answer_was_lost_keeps_no_other_waiting_once_the_table_has_gone_on(tmp_path, goes_on):
    lab = Lab(tmp_path, policy=POLICY)
    table = filled(lab)
    service = started(lab)
    lost = []

    def commit(real, *arguments):
        if lost:
            return real(*arguments)
        lost.append(arguments)
        raise requests.exceptions.ReadTimeout("no answer")

    service.maintainer.requests.on_commit = commit
    for _ in range(30):
        turn(service, 1)
        if lost:
            break
    for _ in range(12):
        lab.ahead_ms += 600_000
        if goes_on:
            lab.append(table, 1)
        turn(service, 2)

    assert bool(of(lab, seen.SnapshotsExpired)) is goes_on
    assert len(table.refresh().scan().to_arrow()) == lab.rows
    service.stop()


def test_a_policy_that_stops_expiring_stops_the_deletion_that_is_under_way(lab):
    table = filled(lab)
    service = started(lab)
    until_files_wait(lab, service, table)
    stopped = []
    service.maintainer.stop_sweep = stopped.append
    service.maintainer.swept = list  # it takes long
    lab.ahead_ms += 2 * 3_600_000
    turn(service, 3)
    assert stopped == []
    policy = lab.policy.replace("expire: {", "expire: {enabled: false, ")
    (lab.root / "policies" / "all.yaml").write_text(policy)
    turn(service, 4)

    assert set(stopped) == {uuid_of(table)}
    service.stop()


def test_an_expiry_that_began_on_an_old_answer_loses_no_mark_of_the_one_before(lab):
    """A replica of the catalog that lags shows the table as it was before that expiry, for some seconds."""
    table = filled(lab)
    service = started(lab)
    old = []

    def commit(real, *arguments):
        old.append(lab.catalog.load_table("shop.orders"))
        return real(*arguments)

    service.maintainer.requests.on_commit = commit
    until_files_wait(lab, service, table)
    waiting = service.ledger.deletions(uuid_of(table))
    expiries = len(service.ledger.operations())
    real = service.catalog.catalog
    service.catalog.catalog = FaultyCatalog(real, on_load=lambda *_: old[-1])
    for _ in range(3):
        lab.ahead_ms += 4000
        turn(service, 1)
    service.catalog.catalog = real

    assert len(service.ledger.operations()) > expiries
    assert set(service.rounds.due.admission.begun_at_ms) == {uuid_of(table)}
    assert service.ledger.deletions(uuid_of(table)) == waiting
    service.stop()


def test_a_replica_that_lags_behind_what_was_seen_proves_nothing(lab):
    """A file was registered again, and the daemon has seen it; then the catalog shows the table as it was before."""
    table = lab.create()
    lab.append(table, 1)
    table.refresh().delete("id >= 0")
    for _ in range(2):
        lab.append(table, 1)
    service = started(lab)
    until_files_wait(lab, service, table)
    marks = service.ledger.due_deletions(uuid_of(table), END_MS, 1000)
    data = [mark.path for mark in marks if mark.path.endswith(".parquet")]
    old = lab.catalog.load_table("shop.orders")
    table.refresh().add_files([data[0]])
    lab.announce(event_of(table.refresh()))
    service.follower.suspects.add("shop.orders")
    turn(service, 1)
    real, lab.catalog.load_table = lab.catalog.load_table, lambda *_: old
    for _ in range(4):
        lab.ahead_ms += 50 * 60_000
        turn(service)
    lab.catalog.load_table = real

    assert Path(normalised(data[0])).exists()
    assert "last sequence number" in service.ledger.overdue(uuid_of(table), END_MS).why
    for _ in range(4):
        lab.ahead_ms += 50 * 60_000
        turn(service)
    assert service.ledger.deletions(uuid_of(table))["kept"] == 1
    assert data[0] in [task.file.file_path for task in table.refresh().scan().plan_files()]
    table.refresh().scan().to_arrow()
    service.stop()


def test_an_expiry_that_landed_is_not_settled_as_failed_by_a_replica_that_lags(tmp_path):
    """Its files would never be deleted."""
    lab = Lab(tmp_path, policy=GRACE)
    table = filled(lab)
    service = started(lab)
    uuid, old, has_landed = uuid_of(table), [], []

    def load(real, *arguments):
        return old[-1] if has_landed == [True] else real(*arguments)

    def commit(real, *arguments):
        real(*arguments)
        if not has_landed:
            has_landed.append(True)
            raise requests.exceptions.ReadTimeout("no answer")

    service.catalog.catalog = service.maintainer.requests
    service.catalog.catalog.on_commit, service.catalog.catalog.on_load = commit, load
    for _ in range(60):
        old.append(lab.catalog.load_table("shop.orders"))
        lab.append(table, 1)
        lab.ahead_ms += 1000
        turn(service, 1)
        if has_landed:
            break
    marked = service.ledger.deletions(uuid)["marked"]
    for _ in range(4):
        lab.ahead_ms += 11_000
        turn(service, 1)
    assert service.ledger.deletions(uuid)["marked"] == marked
    has_landed.append(True)  # the replica has caught up
    for _ in range(4):
        lab.ahead_ms += 60_000
        turn(service, 1)

    assert service.ledger.deletions(uuid)["waiting"] >= marked
    assert of(lab, seen.SnapshotsExpired)[0].files_marked == marked
    service.stop()


def test_tags_past_their_own_age_are_dropped_and_what_they_kept_goes_by_the_rules_of_all(tmp_path):
    lab = Lab(tmp_path, policy=EXPIRING)
    table = lab.create()
    for hour in (1, 2, 3, 4, 5):
        lab.append(table, hour)
    first = table.refresh().metadata.snapshots[0].snapshot_id
    table.manage_snapshots().create_tag(first, "q3", max_ref_age_ms=1).commit()
    table.refresh().manage_snapshots().create_tag(first, "kept").commit()
    before = table.refresh().scan().to_arrow().num_rows
    service = started(lab)
    settle(service)

    assert set(table.refresh().metadata.refs) == {"main", "kept"}
    assert table.metadata.snapshots[0].snapshot_id == first
    assert table.scan().to_arrow().num_rows == before
    table.manage_snapshots().remove_tag("kept").commit()
    lab.append(table, 6)
    settle(service)

    assert first not in {one.snapshot_id for one in table.refresh().metadata.snapshots}
    service.stop()


def test_where_the_daemon_died_while_tags_alone_were_dropped_the_next_expiry_is_not_kept_waiting(tmp_path):
    """No file goes for it, however late it lands."""
    lab = Lab(tmp_path, policy=EXPIRING)
    table = lab.create()
    lab.append(table, 1)
    tag(table, "q3")
    service = started(lab)

    def dies(real, *arguments):
        real(*arguments)
        raise KeyboardInterrupt

    service.maintainer.requests.on_commit = dies
    with pytest.raises(KeyboardInterrupt):
        turn(service)
    assert set(table.refresh().metadata.refs) == {"main"}
    again = started(lab)
    tag(table.refresh(), "q4")
    settle(again)
    lab.ahead_ms += 120_000
    settle(again)

    assert set(table.refresh().metadata.refs) == {"main"}
    ends = [(one.state, one.reason) for one in again.ledger.operations()]
    assert ends == [("done", Reason.COMMITTED), ("failed", Reason.CANCELLED)]
    again.stop()


def tag(table, name):
    head = table.refresh().metadata.current_snapshot_id
    table.manage_snapshots().create_tag(head, name, max_ref_age_ms=1).commit()
