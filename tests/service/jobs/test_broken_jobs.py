"""A job that is cancelled, or at which we make a mistake, ends alone, and its files are found."""

import pytest
from pyiceberg.exceptions import BadRequestError

from isotherm.core import observations as seen
from isotherm.core.model.holds import Hold, HoldKind
from isotherm.core.model.jobs import Action
from isotherm.service.ports import Fenced
from isotherm.store.database import StoreTrouble
from support.deleting import ONLY_EXPIRY as GRACE
from support.deleting import again, filled, turn, until_files_wait
from support.lab import EAGER, Lab, of, started, uuid_of, with_a_job


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path, policy=GRACE)


def test_a_branch_that_was_faster_on_an_old_server_is_a_lost_race(tmp_path):
    """It answers 400; that is no fault of the partition."""
    lab = Lab(tmp_path)
    table, service = with_a_job(lab)
    answers = ["Cannot add snapshot with sequence number 9 older than last sequence number 9"]

    def commit(real, *arguments):
        if answers:
            raise BadRequestError(answers.pop())
        return real(*arguments)

    service.maintainer.requests.on_commit = commit
    service.compactions.finish()

    assert [one.state for one in service.ledger.operations()] == ["done"]
    assert not answers
    assert not service.ledger.holds(uuid_of(table))
    service.stop()


@pytest.mark.parametrize("error", [Fenced("another has our place"), StoreTrouble("the disk is full")])
@pytest.mark.parametrize("what", ["compaction", "expiry"])
def test_what_ends_the_daemon_ends_it_in_a_last_look_too(lab, what, error):
    if what == "compaction":
        (lab.root / "policies" / "all.yaml").write_text(EAGER)
        _, service = with_a_job(lab)
    else:
        filled(lab)
        service = started(lab)

    def ends():
        raise error

    service.holds.act = ends
    with pytest.raises(type(error)):
        turn(service, 10)


@pytest.mark.parametrize("method", ["leftovers", "delete_at_once", "cancel"])
@pytest.mark.parametrize("how", ["the stream comes back", "paused", "moved", "stopped"])
def test_a_mistake_while_a_job_is_cancelled_ends_that_job_alone(tmp_path, how, method):
    lab = Lab(tmp_path)
    table, service = with_a_job(lab)

    def mistake(*_):
        raise RuntimeError("a mistake of ours")

    setattr(service.maintainer, method, mistake)
    match how:
        case "the stream comes back":
            lab.append(table, 1)
        case "paused":
            service.holds.put(Hold(HoldKind.PAUSE, uuid_of(table), "shop.orders", "x", service.now_ms()))
            service.compactions.cancel_held()
        case "moved":
            service.events.term = 2
        case "stopped":
            service.stop()
    if how != "stopped":
        for _ in range(3):
            service.step(0)
        service.stop()

    assert not len(service.compactions)
    assert {one.name for one in of(lab, seen.TableFailed)} == {"shop.orders"}


@pytest.mark.parametrize(
    ("part", "method"),
    [
        ("maintainer", "read"),
        ("maintainer", "swept"),
        ("maintainer", "finished"),
        ("maintainer", "bound"),
        ("catalog", "names"),
        ("catalog", "clock_skew_ms"),
    ],
)
def test_a_mistake_in_what_concerns_no_single_table_is_told_and_tried_again(lab, part, method):
    table = filled(lab)
    service = started(lab)
    real, calls = getattr(getattr(service, part), method), []

    def mistake(*_):
        calls.append(1)
        raise RuntimeError("a mistake of ours")

    setattr(getattr(service, part), method, mistake)
    for _ in range(5):
        service.step(0)
    assert calls
    assert len(calls) < 5
    assert of(lab, seen.TableFailed)
    setattr(getattr(service, part), method, real)
    lab.ahead_ms += 11_000
    until_files_wait(lab, service, table)

    assert of(lab, seen.TableRecovered)
    service.stop()


def test_the_files_of_a_job_are_found_though_a_process_died_while_it_deleted_them(tmp_path):
    lab = Lab(tmp_path)
    table, service = with_a_job(lab)
    folder = table.location().removeprefix("file://")
    (first,) = lab.root.rglob("isotherm-*-00000.parquet")
    assert str(first).startswith(folder)
    for number in (1, 2):
        first.with_name(first.name.replace("00000", f"{number:05d}")).write_bytes(first.read_bytes())
    first.unlink()
    service = again(lab, service)
    turn(service, 6)

    (operation,) = [one for one in service.ledger.operations() if one.job_id in first.name]
    assert (operation.action, operation.state) == (Action.COMPACT, "failed")
    assert service.ledger.deletions(uuid_of(table)).get("waiting") == 2
    service.stop()


def test_the_files_of_a_job_are_found_though_its_table_writes_elsewhere_by_now(tmp_path):
    lab = Lab(tmp_path)
    table, service = with_a_job(lab)
    with table.refresh().transaction() as change:
        change.set_properties({"write.data.path": f"file://{lab.root}/elsewhere"})
    service = again(lab, service)
    turn(service, 6)

    assert service.ledger.deletions(uuid_of(table)).get("waiting") == 1
    service.stop()


def test_what_is_deleted_at_once_is_written_down_before(tmp_path):
    lab = Lab(tmp_path)
    table, service = with_a_job(lab)
    (file,) = lab.root.rglob("isotherm-*.parquet")
    noted = []

    def dies(*_):
        noted.append(service.ledger.deletions(uuid_of(table)))
        raise KeyboardInterrupt

    service.maintainer.delete_at_once = dies
    lab.append(table, 1)
    with pytest.raises(KeyboardInterrupt):
        service.step(0)

    assert noted == [{"waiting": 1}]
    assert file.exists()
