"""What goes wrong with one table, one store or one moment stops no deletion for ever, and none of another table."""

from pathlib import Path

import pytest

from isotherm.contract.paths import normalised
from isotherm.core import observations as seen
from isotherm.core.deletion import Cause, Mark
from isotherm.core.units import DAY_MS
from isotherm.service.jobs.late_files import LATE_AT_ONCE, LATE_MS
from isotherm.service.ports import Unavailable
from support.deleting import ONLY_EXPIRY as GRACE
from support.deleting import again, filled, turn, until_files_wait
from support.in_process import InProcess
from support.lab import Lab, of, started, uuid_of, with_a_job


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path, policy=GRACE)


def not_owned(service, uuid):
    """The group gives a table to another daemon."""
    service.events.owns = lambda one: one != uuid
    service.events.tenure = lambda one: None if one == uuid else 1


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
    for part in (service, service.clocks, service.deletions):
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
