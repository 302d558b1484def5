"""A mistake of ours in any part of the daemon ends no daemon, is told, and is over with its cause."""

import pytest

from isotherm.core import observations as seen
from support.lab import (
    EXPIRING,
    Lab,
    believed,
    counted,
    of,
    settle,
    started,
    three_tables,
    until_a_job_runs,
    uuid_of,
    wait_for_children,
)

# --- by itself


def test_a_table_of_which_no_expiry_can_begin_fails_though_it_is_looked_at(tmp_path):
    lab = Lab(tmp_path, policy=EXPIRING)
    table = lab.create()
    for _ in range(5):
        lab.append(table, 1)
    service = started(lab)
    service.ledger.is_open = broken
    for _ in range(40):
        lab.ahead_ms += 60_000
        service.step(0)

    assert {one.doing for one in of(lab, seen.TableFailed)} == {"beginning to expire"}
    assert of(lab, seen.TableRecovered) == []
    service.stop()


# --- in the daemon


def test_a_mistake_while_deleting_is_over_with_the_next_sweep_that_goes_well(lab):
    three_tables(lab)
    service = started(lab)
    settle(service)
    service.deletions.ledger.tables_to_sweep, sweep = (
        (lambda _: 1 / 0),
        service.deletions.ledger.tables_to_sweep,
    )
    service.round()
    (failed,) = of(lab, seen.TableFailed)
    assert failed.name == "all tables (beginning to delete files)"
    service.deletions.ledger.tables_to_sweep = sweep
    lab.ahead_ms += 11_000
    service.round()

    assert [one.name for one in of(lab, seen.TableRecovered)] == [failed.name]
    service.stop()


def broken(*_, **__):
    raise RuntimeError("a mistake of ours")


MISTAKES = {
    "reading the policies": lambda service: (service.rounds, "reload_policies"),
    "looking again where messages were lost": lambda service: (service.events, "losses"),
    "reading what is held back": lambda service: (service.hold_topic, "read"),
    "looking for the fate of open operations": lambda service: (service.ledger, "open_jobs"),
    "planning": lambda service: (service.fold, "agenda"),
    "forgetting what is long over": lambda service: (service.ledger, "prune"),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_of_ours_in_any_part_of_a_turn_ends_no_daemon_and_is_over_with_it(lab, what):
    table, *_ = three_tables(lab)
    service = started(lab)
    settle(service)
    part, name = MISTAKES[what](service)
    sound = getattr(part, name)
    setattr(part, name, broken)
    lab.ahead_ms += 3_700_000
    for _ in range(3):
        service.step(0)
    assert {one.name for one in of(lab, seen.TableFailed)} == {f"all tables ({what})"}

    setattr(part, name, sound)
    lab.append(table, 7, announce=False)
    lab.ahead_ms += 3_700_000
    settle(service)
    assert [one.name for one in of(lab, seen.TableRecovered)] == [f"all tables ({what})"]
    assert believed(service, uuid_of(table)) == counted(lab.scan("shop.aaa"))
    service.stop()


def test_nothing_begins_while_our_own_mistake_keeps_us_from_reading_what_is_held_back(lab):
    table = lab.create()
    for hour in (1, 1, 1, 2, 3, 4):
        lab.append(table, hour)
    service = started(lab)
    service.hold_topic.read = broken
    for _ in range(20):
        service.step(0)

    assert of(lab, seen.RoundPlanned)[-1].requests
    assert of(lab, seen.JobStarted) == []
    service.stop()


def test_a_message_at_which_we_fail_is_set_aside_and_the_others_are_taken(lab):
    tables = three_tables(lab)
    service = started(lab)
    settle(service)
    real = service.catalog.changes_of

    def changes_of(asked, go_on):
        if any(event.table_uuid == uuid_of(tables[1]) for _, event in asked):
            raise RuntimeError("a mistake of ours")
        return real(asked, go_on)

    service.catalog.changes_of = changes_of
    for table in tables:
        lab.append(table, 2)
    service.consume(service.events.poll(0))

    assert len(of(lab, seen.EventApplied)[-2:]) == 2
    assert ["it could not be taken in" in one.reason for one in of(lab, seen.EventRejected)] == [True]
    settle(service)
    assert believed(service, uuid_of(tables[1])) == counted(lab.scan("shop.bbb"))
    service.stop()


def test_messages_that_could_not_be_saved_are_handed_out_again(lab):
    import sqlite3

    (table, *_) = three_tables(lab)
    service = started(lab)
    settle(service)
    committed = service.events.committed

    def full(*_):
        raise sqlite3.OperationalError("database or disk is full")

    service.catalog.changes_of = full
    lab.append(table, 2)
    with pytest.raises(sqlite3.OperationalError):
        service.step(0)
    service.stop()

    assert service.events.committed == committed


def test_a_mistake_at_the_end_of_a_job_ends_that_job_alone(lab):
    table = lab.create()
    for hour in (1, 1, 1, 2, 3, 4):
        lab.append(table, hour)
    service = started(lab)
    until_a_job_runs(service)
    wait_for_children(service)
    real = service.maintainer.start_commit

    def crash(*_):
        service.maintainer.start_commit = real
        raise RuntimeError("a mistake of ours")

    service.maintainer.start_commit = crash
    for _ in range(8):
        for _ in range(4):
            service.step(0)
            wait_for_children(service)
        lab.ahead_ms += 61_000

    assert [one.doing[:11] for one in of(lab, seen.TableFailed)] == ["ending job "]
    states = [(one.state, one.reason) for one in service.ledger.operations()]
    assert ("failed", "crashed") in states
    assert states[0][0] == "done"
    service.stop()
