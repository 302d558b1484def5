"""What goes wrong with one table, one store or one moment stops no deletion for ever, and none of another table."""

from pathlib import Path

import pytest
import requests
from pyiceberg.exceptions import BadRequestError

from isotherm.contract.events import END_MS
from isotherm.contract.paths import normalised
from isotherm.core import observations as seen
from isotherm.core.deletion import Cause, Mark
from isotherm.core.model.holds import Hold, HoldKind
from isotherm.core.model.jobs import Action
from isotherm.service.late_files import LATE_AT_ONCE, LATE_MS
from isotherm.service.ports import Fenced, Unavailable
from isotherm.store.database import StoreTrouble
from support.faults import FaultyCatalog
from support.in_process import InProcess
from support.lab import EAGER, EXPIRING, Lab, event_of, of, started, uuid_of, wait_for_children, with_a_job

DAY_MS = 86_400_000
POLICY = EXPIRING.replace("compact: {min_files: 3}", "compact: {enabled: false}")
GRACE = POLICY.replace("delete_after: 0s", "delete_after: 1h").replace(", expire.delete_after", "")


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path, policy=GRACE)


def turn(service, times=4):
    for _ in range(times):
        service.step(0)
        wait_for_children(service)


def filled(lab, name="shop.orders"):
    table = lab.create(name)
    for hour in (1, 1, 1, 1, 1):
        lab.append(table, hour)
    return table


def until_files_wait(lab, service, *tables):
    for _ in range(60):
        lab.ahead_ms += 1000
        turn(service, 1)
        if all(service.ledger.deletions(uuid_of(table)).get("waiting") for table in tables):
            return
    raise AssertionError("nothing expired")


def not_owned(service, uuid):
    """The group gives a table to another daemon."""
    service.events.owns = lambda one: one != uuid
    service.events.tenure = lambda one: None if one == uuid else 1


def again(lab, service):
    service.maintainer.stop()
    service.fold.close()
    service.ledger.close()
    lab.executor = InProcess()
    return started(lab)


# --- clocks


def test_a_stores_clock_is_looked_at_by_another_table_where_the_one_that_saw_it_cannot(lab):
    tables = [filled(lab, "shop.a"), filled(lab, "shop.b")]
    service = started(lab)
    asked, real = [], service.maintainer.clock_skew_ms

    def skew(loaded):
        asked.append(loaded.table.name)
        return 600_000

    service.maintainer.clock_skew_ms = skew
    turn(service, 6)
    assert "ahead" in service.deletions.everywhere()
    saw_it = asked[-1]

    def mended(loaded):
        if loaded.table.name == saw_it:
            raise Unavailable("ExpiredToken")
        return real(loaded)

    service.maintainer.clock_skew_ms = mended
    for _ in range(20):
        lab.ahead_ms += 400_000
        service.step(0)

    assert service.deletions.everywhere() is None
    (other,) = [table for table in tables if ".".join(table.name()) != saw_it]
    turn(service, 8)
    assert len(other.refresh().snapshots()) < 5
    service.stop()


def test_a_table_whose_files_cannot_be_deleted_is_tried_ever_more_rarely_beside_one_that_is_well(lab):
    dead, well = filled(lab, "shop.dead"), filled(lab, "shop.well")
    service = started(lab)
    until_files_wait(lab, service, dead, well)
    lab.ahead_ms += 2 * 3_600_000
    tries, sweep = [], service.maintainer.start_sweep

    def no_sweep(loaded, wanted):
        if loaded.table.name == "shop.dead":
            tries.append(1)
            raise Unavailable("AWS Error NETWORK_CONNECTION")
        return sweep(loaded, wanted)

    service.maintainer.start_sweep = no_sweep
    for _ in range(60):
        lab.ahead_ms += 10_000
        turn(service, 1)

    assert service.ledger.deletions(uuid_of(well)).get("deleted")
    assert 1 < len(tries) < 9
    service.stop()


def test_a_clock_that_cannot_be_looked_at_keeps_an_expiry_back_ever_more_rarely(lab):
    filled(lab)
    service = started(lab)
    tries = []

    def no_clock(_):
        tries.append(1)
        raise Unavailable("AWS Error NETWORK_CONNECTION")

    service.maintainer.clock_skew_ms = no_clock
    for _ in range(60):
        lab.ahead_ms += 10_000
        turn(service, 1)

    assert 1 < len(tries) < 9
    service.stop()


def test_nothing_is_forgotten_while_the_clock_is_in_doubt(lab):
    table = filled(lab)
    service = started(lab)
    until_files_wait(lab, service, table)
    known = len(service.ledger.operations())
    assert known
    for part in (service, service.deletions):
        part.now_ms = lambda: lab.now_ms() + 200 * DAY_MS
    for _ in range(30):
        lab.ahead_ms += 60_000
        service.step(0)

    assert "jumped" in service.deletions.everywhere()
    assert len(service.ledger.operations()) == known
    service.stop()


def test_a_daemon_that_is_never_idle_forgets_what_is_long_over(lab):
    table = lab.create()
    event = lab.append(table, 1)
    service = started(lab)
    turn(service)
    calls, prune = [], service.ledger.prune
    service.ledger.prune = lambda *arguments: calls.append(1) or prune(*arguments)
    for _ in range(80):
        lab.ahead_ms += 60_000
        lab.announce(event)
        service.step(0)

    assert 1 <= len(calls) <= 3
    service.stop()


def test_after_a_night_without_a_look_a_sweep_reports_some_of_the_files_that_are_late(lab):
    tables = [lab.create(f"shop.{name}") for name in "ab"]
    for table in tables:
        lab.append(table, 1)
    service = started(lab)
    turn(service)
    each, now_ms = LATE_AT_ONCE * 6 // 10, service.now_ms()
    for table in tables:
        marks = [Mark(f"{table.location()}/data/{n}", "job", Cause.EXPIRED, None) for n in range(each)]
        service.ledger.mark(uuid_of(table), "job", marks, now_ms, due_at_ms=now_ms)
    service.stop()
    service.fold.close()
    service.ledger.close()
    lab.ahead_ms += LATE_MS + 60_000
    service = started(lab)
    for postponed in (LATE_AT_ONCE, 2 * each, 2 * each):
        service.deletions.sweep()

        told = [one for one in of(lab, seen.FilesDeleted) if one.postponed]
        assert sum(one.postponed for one in told) == postponed
    assert {one.why for one in told} == {service.deletions.survey.why_not("shop.a")}
    service.stop()


# --- tables that are not ours any more


@pytest.mark.parametrize("why", ["dropped", "moved"])
def test_files_of_a_table_that_is_not_ours_for_weeks_are_kept_and_counted(lab, why):
    table = filled(lab)
    other = lab.create("shop.other")
    lab.append(other, 1)
    service = started(lab)
    until_files_wait(lab, service, table)
    waiting = service.ledger.deletions(uuid_of(table))["waiting"]
    if why == "dropped":
        lab.catalog.drop_table("shop.orders")
    else:
        not_owned(service, uuid_of(table))
    for _ in range(4):
        lab.ahead_ms += 7 * DAY_MS
        turn(service, 3)
    assert service.ledger.deletions(uuid_of(table)) == {"waiting": waiting}
    lab.ahead_ms += 8 * DAY_MS  # they were told as late once, and then count from there
    turn(service, 3)

    assert service.ledger.deletions(uuid_of(table)) == {"kept": waiting}
    (told,) = [one for one in of(lab, seen.FilesDeleted) if one.kept]
    assert (told.table.name, told.kept) == ("shop.orders", waiting)
    service.stop()


def test_a_daemon_that_was_off_for_weeks_gives_nothing_up_before_it_knows_its_tables(lab):
    table = filled(lab)
    service = started(lab)
    until_files_wait(lab, service, table)
    service.maintainer.stop()
    service.fold.close()
    service.ledger.close()
    for file in (lab.root / "state").glob("fold.db*"):
        file.unlink()
    lab.executor = InProcess()
    lab.ahead_ms += 40 * DAY_MS
    service = started(lab)
    owns, is_assigned = service.events.owns, service.events.is_assigned
    service.events.owns, service.events.is_assigned = lambda _: False, lambda: False
    turn(service, 2)
    service.events.owns, service.events.is_assigned = owns, is_assigned
    turn(service, 8)

    assert set(service.ledger.deletions(uuid_of(table))) == {"deleted"}
    service.stop()


def test_files_of_a_ledger_that_knew_no_places_are_deleted(lab):
    """As a ledger of an older version is brought up."""
    table = filled(lab)
    service = started(lab)
    until_files_wait(lab, service, table)
    service.ledger.db.execute("DELETE FROM places")
    service.follower.confirm = service.catalog.load
    lab.ahead_ms += 2 * 3_600_000
    turn(service, 4)

    assert set(service.ledger.deletions(uuid_of(table))) == {"deleted"}
    service.stop()


def test_marks_of_dropped_tables_take_no_turns(lab):
    table = filled(lab)
    service = started(lab)
    until_files_wait(lab, service, table)
    now_ms = service.now_ms()
    with service.ledger.transaction():
        for number in range(1000):
            service.ledger.db.execute(
                "INSERT INTO deletions (uuid, path, job_id, state, marked_at_ms, due_at_ms) "
                "VALUES (?, 'p', 'j', 'waiting', ?, ?)",
                (f"{number:05d}-dropped", now_ms, now_ms),
            )
    lab.ahead_ms += 2 * 3_600_000
    rounds = len(of(lab, seen.RoundPlanned))
    while not service.ledger.deletions(uuid_of(table)).get("deleted"):
        turn(service, 1)
        assert len(of(lab, seen.RoundPlanned)) - rounds < 12
    service.stop()


# --- expiries


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


# --- commits


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


# --- mistakes of ours


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


# --- a new ledger


def test_a_table_that_cannot_be_read_does_not_make_a_first_ledger_a_lost_one(tmp_path):
    lab = Lab(tmp_path)
    _, service = with_a_job(lab)
    broken = lab.create("shop.broken")
    Path(normalised(broken.metadata_location)).write_text("garbage")
    for _ in range(30):
        turn(service, 1)
        if [one for one in service.ledger.operations() if one.state == "done"]:
            break
    turn(service, 3)
    assert service.deletions.everywhere() is None
    service = again(lab, service)
    turn(service, 3)

    assert service.deletions.everywhere() is None
    service.stop()


def test_a_first_search_that_was_interrupted_does_not_make_a_first_ledger_a_lost_one(lab):
    for number in range(3):
        lab.append(lab.create(f"shop.t{number}"), 1)
    service = started(lab)
    service.rounds.begin(60)
    service.rounds.go_on(-1.0)
    assert len(service.fold.names()) == 1
    service = again(lab, service)
    turn(service, 3)

    assert service.deletions.everywhere() is None
    service.stop()


def test_a_ledger_that_was_exchanged_is_doubted(lab):
    lab.append(lab.create(), 1)
    service = started(lab)
    turn(service, 3)
    service.maintainer.stop()
    service.fold.close()
    service.ledger.close()
    for file in (lab.root / "state").glob("ledger.db*"):
        file.unlink()
    lab.held.clear()
    lab.executor = InProcess()
    service = started(lab)
    turn(service, 3)

    assert "the fold beside it is not" in service.deletions.everywhere()
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
    assert set(service.rounds.admission.begun_at_ms) == {uuid_of(table)}
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
