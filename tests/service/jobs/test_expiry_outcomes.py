"""What came of an expiry is judged by what the policy keeps, and marks files only where the end is known."""

from dataclasses import replace

import pytest
from pyiceberg.exceptions import ForbiddenError

from isotherm.contract.identity import TableId
from isotherm.core.deletion import Cause, Mark
from isotherm.core.model.jobs import Action
from isotherm.core.units import HOUR_MS
from isotherm.service.jobs.operations import LATE_MS
from isotherm.store.ledger import Operation
from support.deleting import ONLY_EXPIRY, again, followed, turn
from support.lab import EXPIRING, Lab, started, uuid_of, wait_for_children


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path, policy=EXPIRING)


def expiring(tmp_path):
    """A table of which snapshots may go, and a daemon that is about to send the request."""
    lab = Lab(tmp_path, policy=ONLY_EXPIRY)
    table = lab.create()
    for hour in (1, 1, 1, 9, 9):
        lab.append(table, hour)
    service = started(lab)
    while not len(service.expiries):
        service.step(0)
    return lab, table, service


def test_an_expiry_is_judged_by_what_the_policy_keeps_at_the_moment_of_its_request(tmp_path):
    """All that goes lies behind the head still. But of the last two that the policy keeps one was to go."""
    _, table, service = expiring(tmp_path)
    wait_for_children(service)
    known = [one.snapshot_id for one in table.refresh().metadata.snapshots]
    table.manage_snapshots().rollback_to_snapshot(known[-2]).commit()

    service.expiries.finish()

    assert [(one.state, one.reason) for one in service.ledger.operations()] == [("failed", "stale")]
    assert [one.snapshot_id for one in table.refresh().metadata.snapshots] == known
    service.stop()


def test_an_expiry_whose_end_nobody_knows_confirms_no_mark(tmp_path):
    _, table, service = expiring(tmp_path)

    def cut(*_):
        raise ConnectionError("cut")

    service.maintainer.requests.on_commit = cut
    wait_for_children(service)
    service.expiries.finish()

    assert [one.state for one in service.ledger.operations()] == ["unknown"]
    assert set(service.ledger.deletions(uuid_of(table))) == {"marked"}
    service.stop()


def test_an_expirys_request_is_waited_for_from_when_it_was_sent(tmp_path):
    """However long it took to read what it leaves. The table rests, so nothing but the time ends the waiting."""
    lab, _, service = expiring(tmp_path)

    def cut(*_):
        raise ConnectionError("cut")

    service.maintainer.requests.on_commit = cut
    wait_for_children(service)
    lab.ahead_ms += LATE_MS - HOUR_MS
    service.expiries.finish()
    (operation,) = service.ledger.operations()
    assert operation.state == "unknown"

    lab.ahead_ms += LATE_MS - HOUR_MS
    assert service.expiries.settle(operation) is False
    lab.ahead_ms += 2 * HOUR_MS
    assert service.expiries.settle(operation) is True
    service.stop()


@pytest.mark.parametrize("lost", [("q3",), None], ids=["a tag was dropped", "nobody can say"])
def test_where_an_expiry_may_have_dropped_a_tag_no_file_goes(tmp_path, lost):
    _, table, service = expiring(tmp_path)
    real = service.maintainer.expired
    service.maintainer.expired = lambda *arguments: replace(real(*arguments), lost_refs=lost)
    wait_for_children(service)
    service.expiries.finish()

    (operation,) = service.ledger.operations()
    assert operation.state == "done"
    assert ("stay for orphan removal (`orphans.mode: apply`)" in operation.outcome_why) is (lost is None)
    assert service.ledger.deletions(uuid_of(table)) == {}
    assert (service.ledger.halted(uuid_of(table)) is None) is (lost is None)
    service.stop()


@pytest.mark.parametrize(
    "lost", [(), ("tag",), None], ids=["no tag was lost", "a tag was lost", "nobody knows"]
)
def test_where_the_end_of_an_expiry_that_landed_is_not_saved_it_is_known_afterwards(tmp_path, lost):
    """Without its marks it would be one that took nothing: it counted as cancelled, a day later."""
    lab, table, service = expiring(tmp_path)
    real = service.maintainer.expired
    service.maintainer.expired = lambda *arguments: replace(real(*arguments), lost_refs=lost)
    wait_for_children(service)
    taken = end_unsaved(service, table)
    assert not set(taken) & {one.snapshot_id for one in table.refresh().metadata.snapshots}

    service = again(lab, service)
    turn(service, 4)

    (operation,) = [one for one in service.ledger.operations() if one.action is Action.EXPIRE]
    assert (operation.state, operation.expired) == ("done", len(taken))
    service.stop()


def test_where_the_end_of_an_expiry_that_was_refused_is_not_saved_its_marks_are_as_before(tmp_path):
    lab, table, service = expiring(tmp_path)

    def forbid(*_):
        raise ForbiddenError("no right")

    service.maintainer.requests.on_commit = forbid
    wait_for_children(service)
    taken = end_unsaved(service, table)
    assert set(taken) < {one.snapshot_id for one in table.refresh().metadata.snapshots}

    service = again(lab, service)
    turn(service, 4)
    assert set(service.ledger.deletions(uuid_of(table))) == {"marked"}
    lab.ahead_ms += LATE_MS
    turn(service, 1)
    assert [one.state for one in service.ledger.operations() if one.base_metadata] == ["failed"]
    assert service.ledger.deletions(uuid_of(table)) == {}
    service.stop()


def end_unsaved(service, table):
    """Have an expiry end as if the daemon were killed before that is saved. Returns what it was to take."""
    service.ledger.db.execute(
        "CREATE TEMP TRIGGER killed BEFORE UPDATE ON operations WHEN NEW.state <> 'running' "
        "BEGIN SELECT RAISE (ABORT, 'killed'); END"
    )
    service.expiries.finish()
    (operation,) = service.ledger.operations()
    assert operation.state == "running"
    assert set(service.ledger.deletions(uuid_of(table))) == {"marked"}
    taken = service.ledger.expired_by(operation.job_id)
    assert taken
    return taken


def test_another_table_under_the_name_says_nothing_of_an_expiry(lab):
    table, service = followed(lab)
    uuid = uuid_of(table)
    operation = Operation("job", TableId(uuid, "shop.orders"), Action.EXPIRE, None, "", "", "", 0, 0)
    service.ledger.save(operation)
    service.ledger.mark(uuid, "job", [Mark("file", "job", Cause.EXPIRED, None)], 0, snapshots=[1])
    lab.catalog.drop_table("shop.orders")
    lab.create()

    assert service.expiries.settle(operation) is False
    assert service.ledger.deletions(uuid) == {"marked": 1}
    service.stop()
