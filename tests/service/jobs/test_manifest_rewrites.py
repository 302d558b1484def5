"""The daemon makes fewer manifests of a table that is only appended to: from the verdict to the announced snapshot."""

from pathlib import Path

import pytest
from pyiceberg.exceptions import ForbiddenError
from pyiceberg.transforms import DayTransform

from isotherm.audit.evidence_reader import commits_of
from isotherm.contract.summary import JOB_ID
from isotherm.core import observations as seen
from isotherm.core.model.decisions import Verdict
from isotherm.core.model.holds import HoldKind
from isotherm.core.model.jobs import Action, OutcomeKind
from isotherm.core.model.refusals import Reason
from isotherm.iceberg.clean_metadata import RemoveSpecs
from support.builders import HOUR
from support.head_files import live, manifests
from support.held import hold_of, put
from support.lab import Lab, believed, counted, of, settle, started, uuid_of

ONLY_MANIFESTS = """
tables: "*"
compact: {enabled: false}
expire: {enabled: false}
manifests: {min_count: 3, max_per_partition: 1}
"""
HOURS = (1, 2, 3, 1, 2, 3, 1, 2, 3)


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path, policy=ONLY_MANIFESTS)


def filled(lab, name="shop.orders"):
    """A table with nine manifests and three partitions, the newest of which is hot."""
    table = lab.create(name)
    for hour in HOURS:
        lab.append(table, hour)
    return table


def ids(table):
    return sorted(table.refresh().scan().to_arrow()["id"].to_pylist())


def ours(table):
    found = table.refresh().snapshots()
    return [one for one in found if JOB_ID in one.summary.additional_properties]


def verdict(service, table):
    decided = service.fold.table(uuid_of(table)).of_table
    (said,) = (one for one in decided if one.action is Action.REWRITE_MANIFESTS)
    return said.verdict


def test_many_manifests_become_one_and_everybody_is_told(lab):
    table = filled(lab)
    before, read = live(table), ids(table)
    service = started(lab)

    settle(service)

    assert len(manifests(table)) == 1
    assert (live(table), ids(table)) == (before, read)
    (ended,) = of(lab, seen.JobEnded)
    assert (ended.action, ended.outcome, ended.label) == (
        Action.REWRITE_MANIFESTS,
        OutcomeKind.DONE,
        "(manifests)",
    )
    assert (ended.files_before, ended.files_after) == (9, 1)
    (snapshot,) = ours(table)
    assert ended.snapshot_id == snapshot.snapshot_id
    announced = [one for one in lab.topic.messages if str(snapshot.snapshot_id).encode() in one]
    assert len(announced) == 1
    assert believed(service, uuid_of(table)) == counted(lab.scan())
    assert verdict(service, table) is Verdict.CLEAN
    # Nothing of it is debt, and it is not done again.
    settle(service)
    assert len(ours(table)) == 1
    service.stop()


def test_so_they_do_where_the_first_spec_is_gone(lab):
    """As where `expire.clean_expired_metadata` has removed it: nothing uses it any more."""
    table = lab.create()
    with table.update_spec() as update:
        update.remove_field("at_hour").add_field("at", DayTransform(), "at_day")
    removed = RemoveSpecs(spec_ids=[0])
    lab.catalog.commit_table(table.refresh(), (), (removed,))
    for hour in HOURS:
        lab.append(table.refresh(), hour)
    before, read = live(table), ids(table)
    service = started(lab)

    settle(service)

    assert [one.spec_id for one in table.refresh().metadata.partition_specs] == [1]
    assert ([one.outcome for one in of(lab, seen.JobEnded)], len(manifests(table))) == ([OutcomeKind.DONE], 1)
    assert (live(table), ids(table)) == (before, read)
    service.stop()


def test_of_a_partition_that_is_hot_no_file_comes_or_leaves(lab):
    """As an audit reads the table, which knows nothing of what the daemon thinks."""
    table = filled(lab)
    service = started(lab)
    settle(service)
    for hour in (3, 3, 3, 3, 3, 3):
        lab.append(table, hour)
    settle(service)

    found = [one for one in commits_of(table.refresh()) if one.is_ours]
    assert [one.touches for one in found] == [(), ()]
    assert {one.operation for one in found} == {"replace"}
    service.stop()


@pytest.mark.parametrize("kind", [HoldKind.HALT, HoldKind.PAUSE])
def test_a_table_that_somebody_holds_at_the_last_moment_is_left_alone(lab, kind):
    """Another daemon, or a person, says so while the manifests are read."""
    table = filled(lab)
    service, loads = started(lab), []

    def meanwhile(real, *arguments):
        if not loads:
            put(lab, hold_of(table, kind))
        loads.append(1)
        return real(*arguments)

    service.maintainer.requests.on_load = meanwhile
    for _ in range(20):
        service.step(0)

    assert [(one.state, one.reason) for one in service.ledger.operations()] == [("failed", kind_of(kind))]
    assert ours(table) == []
    service.stop()


def kind_of(kind):
    return Reason.HALTED if kind is HoldKind.HALT else Reason.PAUSED


def test_manifests_of_two_kinds_are_no_reason_for_a_rewrite(tmp_path):
    """Each of them is one already: it would be due, and come to nothing, for ever."""
    policy = ONLY_MANIFESTS.replace(
        "min_count: 3, max_per_partition: 1", "min_count: 2, max_per_partition: 0.1"
    )
    lab = Lab(tmp_path, policy=policy)
    table = filled(lab)
    with table.update_spec() as update:
        update.add_identity("what")
    for hour in (4, 5, 6):
        lab.append(table.refresh(), hour)
    service = started(lab)
    settle(service)

    assert [one.state for one in service.ledger.operations()] == ["done"]
    assert len(manifests(table)) == 2
    assert verdict(service, table) is Verdict.CLEAN
    service.stop()


def test_off_by_policy_means_off(tmp_path):
    lab = Lab(
        tmp_path,
        policy=ONLY_MANIFESTS.replace("manifests: {", "manifests: {enabled: false, "),
    )
    table = filled(lab)
    service = started(lab)

    settle(service)

    assert len(manifests(table)) == 9
    assert verdict(service, table) is Verdict.OFF
    service.stop()


def test_a_lost_answer_is_looked_up_and_nothing_is_done_twice(lab):
    table = filled(lab)
    service = started(lab)

    def landed_and_lost(real, *arguments):
        real(*arguments)
        service.maintainer.requests.on_load = lost
        raise ConnectionError("cut")

    def lost(*_):
        raise ConnectionError("cut")

    service.maintainer.requests.on_commit = landed_and_lost
    settle(service)

    ends = [(one.job_id, one.outcome) for one in of(lab, seen.JobEnded)]
    assert [end for _, end in ends] == [OutcomeKind.UNKNOWN, OutcomeKind.DONE]
    assert len({job_id for job_id, _ in ends}) == 1
    assert len(ours(table)) == 1
    assert believed(service, uuid_of(table)) == counted(lab.scan())
    service.stop()


def test_while_the_end_of_one_is_open_no_other_begins(lab):
    """Its request may be on its way, and the table rests: nothing else would end it."""
    table = filled(lab)
    service = started(lab)

    def cut(*_):
        raise ConnectionError("cut")

    service.maintainer.requests.on_commit = cut
    turn(service)
    lab.ahead_ms += HOUR
    turn(service)

    assert [one.state for one in service.ledger.operations()] == ["unknown"]
    assert ours(table) == []
    service.stop()


def test_what_a_restart_has_left_open_is_looked_up_in_the_table(lab):
    """The daemon dies after its request went out, before it was answered, or heard."""
    table = filled(lab)
    service = started(lab)

    def dies(*_):
        raise KeyboardInterrupt

    service.maintainer.requests.on_commit = dies
    with pytest.raises(KeyboardInterrupt):
        turn(service)
    assert [one.state for one in service.ledger.operations()] == ["running"]
    lab.append(table, 4)

    again = lab.settled()
    assert [one.state for one in again.ledger.operations()] == ["failed"]
    lab.ahead_ms += HOUR
    settle(again)

    assert [one.state for one in again.ledger.operations()] == ["done", "failed"]
    assert len(ours(table)) == 1
    assert len(manifests(table)) == 1
    again.stop()


def turn(service):
    for _ in range(50):
        service.step(0)


def test_one_that_fails_waits_longer_each_time(lab):
    table = filled(lab)
    paths = [Path(one.manifest_path.removeprefix("file://")) for one in manifests(table)]
    service = started(lab)

    def meanwhile(real, *arguments):
        if any(path.stat().st_size > 100 for path in paths):
            for path in paths:
                path.write_bytes(path.read_bytes()[:100])
            lab.ahead_ms += 10_000  # so long it takes to read all of them
        return real(*arguments)

    service.maintainer.requests.on_load = meanwhile
    turn(service)

    (operation,) = service.ledger.operations()
    assert (operation.state, operation.reason) == ("failed", Reason.UNEXPECTED)
    assert "stay as they are: UnreadableError" in operation.outcome_why
    # Nothing was sent, and nobody waited: no other commit is held up.
    assert service.expiries.operations.may_commit(Action.EXPIRE, "another job")
    assert verdict(service, table) is Verdict.WAITING
    service.stop()


def test_one_that_is_refused_after_long_reading_holds_up_no_other(lab):
    """Nobody waited for the reading, and the request was answered at once."""
    table = filled(lab)
    service, times = started(lab), []

    def slow(real, *arguments):
        times.append(1)
        lab.ahead_ms += 300_000 if len(times) == 1 else 0
        return real(*arguments)

    def refused(*_):
        raise ForbiddenError("not yours")

    service.maintainer.requests.on_load = slow
    service.maintainer.requests.on_commit = refused
    turn(service)

    (operation,) = service.ledger.operations()
    assert (operation.state, operation.reason) == ("failed", Reason.REFUSED)
    assert operation.sent_at_ms is not None
    assert service.expiries.operations.may_commit(Action.EXPIRE, "another job")
    assert ours(table) == []
    service.stop()
