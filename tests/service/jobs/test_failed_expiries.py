"""An expiry that dies, is refused or comes too late marks nothing, and is tried again."""

import pytest
from pyiceberg.exceptions import ForbiddenError

from isotherm.core import observations as seen
from isotherm.core.model.decisions import Verdict
from isotherm.core.model.jobs import Action, OutcomeKind
from isotherm.core.units import DAY_MS
from support.deleting import GRACE, closed, every_snapshot_reads, reborn, turn
from support.lab import Lab, of, started, uuid_of, wait_for_children


def test_a_rollback_while_it_is_read_for_an_expiry_keeps_what_the_policy_keeps(tmp_path):
    lab = Lab(tmp_path, policy=GRACE.replace("min_files: 3", "min_files: 100"))
    table = lab.create()
    for hour in (1, 1, 1, 1, 9, 9):
        lab.append(table, hour)
    service = started(lab)
    while not len(service.expiries):
        service.step(0)
    wait_for_children(service)
    ids = [one.snapshot_id for one in table.refresh().snapshots()]
    # It was decided to keep the last two, when there were six.
    table.manage_snapshots().rollback_to_snapshot(ids[1]).commit()

    turn(service, 10)
    left = {one.snapshot_id for one in table.refresh().snapshots()}
    assert set(ids[:2]) <= left
    service.stop()


def test_an_expiry_that_died_before_its_request_marks_nothing(tmp_path):
    lab = Lab(tmp_path, policy=GRACE)
    table = lab.create()
    for hour in (1, 1, 1, 9, 9):
        lab.append(table, hour)
    service = started(lab)

    def die(name, may_send):
        assert may_send(service.catalog.load(name), False) is None
        raise KeyboardInterrupt

    service.maintainer.start_expiring = lambda *_: None
    service.maintainer.expired = die
    with pytest.raises(KeyboardInterrupt):
        turn(service, 10)
    assert service.ledger.deletions(uuid_of(table))["marked"] > 0
    snapshots = len(table.refresh().snapshots())
    closed(service)
    (lab.config.policies / "all.yaml").write_text(
        lab.policy.replace("expire: {", "expire: {enabled: false, ")
    )

    service = reborn(lab)
    turn(service, 4)
    # The request might be on its way: for a day nobody says that it was not.
    assert service.ledger.deletions(uuid_of(table))["marked"] > 0
    lab.ahead_ms += DAY_MS
    turn(service, 4)

    assert len(table.refresh().snapshots()) == snapshots
    assert service.ledger.deletions(uuid_of(table)) == {}
    every_snapshot_reads(table)
    service.stop()


def test_an_expiry_that_is_refused_is_tried_ever_more_rarely_and_says_why(tmp_path):
    lab = Lab(tmp_path, policy=GRACE.replace("min_files: 3", "enabled: false"))
    table = lab.create()
    for hour in (1, 1, 1, 9, 9):
        lab.append(table, hour)
    service = started(lab)

    def forbid(*_):
        raise ForbiddenError("Principal 'isotherm' is not authorized for op UPDATE_TABLE")

    service.maintainer.requests.on_commit = forbid
    turn(service, 10)
    ended = [one for one in service.ledger.operations() if one.action is Action.EXPIRE]
    assert [(one.state, one.reason) for one in ended] == [("failed", "refused")]
    (decision,) = [one for one in service.fold.table(uuid_of(table)).of_table if one.action is Action.EXPIRE]
    assert decision.verdict is Verdict.WAITING
    assert "not authorized for op UPDATE_TABLE" in decision.why
    assert service.ledger.deletions(uuid_of(table)) == {}

    lab.ahead_ms += 61_000
    turn(service, 6)
    lab.ahead_ms += 61_000
    turn(service, 6)
    assert len(service.ledger.operations()) == 2
    service.maintainer.requests.on_commit = None
    lab.ahead_ms += 61_000
    turn(service, 6)
    assert service.ledger.operations()[0].state == "done"
    service.stop()


def test_a_tag_between_plan_and_commit_stops_only_that_expiry(tmp_path):
    lab = Lab(tmp_path, policy=GRACE.replace("min_files: 3", "enabled: false"))
    table = lab.create()
    for hour in (1, 1, 1, 9, 9):
        lab.append(table, hour)
    service = started(lab)
    oldest = table.refresh().snapshots()[0].snapshot_id

    def tag(real, *arguments):
        if "q3" not in table.refresh().metadata.refs:
            table.manage_snapshots().create_tag(oldest, "q3").commit()
        return real(*arguments)

    service.maintainer.requests.on_commit = tag
    turn(service, 10)
    lab.ahead_ms += 2 * 3_600_000
    turn(service, 8)

    assert oldest in {one.snapshot_id for one in table.refresh().snapshots()}
    every_snapshot_reads(table)
    # What could go went, and its files after it.
    assert len(table.snapshots()) < 5
    assert service.ledger.deletions(uuid_of(table))["deleted"] > 0
    assert OutcomeKind.DONE in {one.outcome for one in of(lab, seen.JobEnded)}
    service.stop()


def test_a_policy_that_keeps_more_stops_an_expiry_that_is_being_read(tmp_path):
    lab = Lab(tmp_path, policy=GRACE.replace("min_files: 3", "enabled: false"))
    table = lab.create()
    for hour in (1, 1, 1, 9, 9):
        lab.append(table, hour)
    service = started(lab)
    while not len(service.expiries):
        service.step(0)
    service.maintainer.wait(30)
    (lab.config.policies / "all.yaml").write_text(lab.policy.replace("keep_last: 2", "keep_last: 4"))
    for _ in range(2):
        service.reload_policies()
    service.expiries.finish()

    (operation,) = service.ledger.operations()
    assert (operation.state, operation.reason) == ("failed", "stale")
    assert len(table.refresh().snapshots()) == 5
    service.stop()
