"""Whatever goes wrong with one table stays with it: the others, and the daemon, do not notice."""

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record
from pyiceberg.utils import datetime

from isotherm.contract.identity import TableId
from isotherm.contract.paths import normalised
from isotherm.core import observations as seen
from isotherm.core.backoff import OUTAGES
from isotherm.core.model.jobs import Action, OutcomeKind, Take
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.threads import NotBegunError
from isotherm.iceberg.values import loaded_table
from isotherm.service.barrier import AWAY_IN_A_ROW, LONG_S, MOST_ASIDE, Barrier
from isotherm.service.ports import (
    Fenced,
    NotAsked,
    NotYetKnown,
    Refused,
    StoreAway,
    TableMissing,
    Unavailable,
    Unreadable,
)
from isotherm.store.ledger import Operation
from support.fakes import Clock
from support.in_process import AtOnce
from support.lab import (
    EXPIRING,
    Lab,
    believed,
    counted,
    event_of,
    of,
    settle,
    started,
    until_a_job_runs,
    uuid_of,
    wait_for_children,
)


def three_tables(lab):
    tables = [lab.create(f"shop.{name}") for name in ("aaa", "bbb", "ccc")]
    for table in tables:
        lab.append(table, 1)
    return tables


def failing(service, name, error, method="load"):
    """The catalog fails for one table, as long as the list is not empty."""
    real, faults = getattr(service.catalog, method), [error]

    def load(asked, *more):
        asked_name = asked if isinstance(asked, str) else asked.table.name
        if faults and asked_name == name:
            raise faults[0]
        return real(asked, *more)

    setattr(service.catalog, method, load)
    return faults


# --- by itself


class Seen(list):
    def of(self, kind):
        return [one for one in self if isinstance(one, kind)]


def barrier():
    heard, clock = Seen(), [0.0]
    return Barrier(heard.append, lambda: clock[0]), heard, clock


def test_pauses_grow_and_end_with_success():
    made, heard, clock = barrier()
    pauses = []
    for _ in range(12):
        with made.around("t", "looking"):
            raise RuntimeError("ours")
        began = clock[0]
        while made.is_aside("t"):
            clock[0] += 5
        pauses.append(clock[0] - began)

    assert pauses[:4] == [10, 20, 40, 80]
    assert pauses[-1] == 3600
    assert "RuntimeError: ours" in heard.of(seen.TableFailed)[0].traceback
    with made.around("t", "looking"):
        made.went_well("t")
    assert [one.name for one in heard.of(seen.TableRecovered)] == ["t"]
    with made.around("t", "looking"):
        raise RuntimeError("again")
    clock[0] += 10
    assert not made.is_aside("t")


def test_a_table_fails_until_nothing_of_it_does():
    """Looking at it goes well all the same where a job, an expiry or a deletion has a key of its own."""
    made, heard, clock = barrier()
    for key in ("t", "uuid/expire", "job"):
        with made.around("t", "working on it", key):
            raise RuntimeError("ours")

    made.went_well("t")
    made.forget("job")
    assert heard.of(seen.TableRecovered) == []
    made.forget("uuid/expire")
    assert [one.name for one in heard.of(seen.TableRecovered)] == ["t"]
    # One that is gone takes all with it, and so does time what nobody tries again.
    for table in ("gone", "left"):
        with made.around(table, "working on it", f"{table}/expire"):
            raise RuntimeError("ours")
    made.forget("gone")
    assert [one.name for one in heard.of(seen.TableRecovered)] == ["t", "gone"]
    clock[0] += LONG_S
    made.try_again()
    assert len(heard.of(seen.TableRecovered)) == 2
    clock[0] += 10
    made.try_again()
    assert [one.name for one in heard.of(seen.TableRecovered)] == ["t", "gone", "left"]


def test_what_fails_for_a_table_under_another_name_is_told_of_that_one():
    made, heard, _ = barrier()
    for name in ("before", "after"):
        with made.around(name, "ending job 1", "1"):
            raise RuntimeError("ours")

    assert [one.name for one in heard.of(seen.TableRecovered)] == ["before"]
    made.forget("after")
    assert [one.name for one in heard.of(seen.TableRecovered)] == ["before", "after"]


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


@pytest.mark.parametrize("error", [Fenced("another has our place"), KeyboardInterrupt()])
def test_what_concerns_the_whole_daemon_goes_through(error):
    made, *_ = barrier()

    with pytest.raises(type(error)), made.around("t", "looking"):
        raise error


def test_several_tables_in_a_row_without_an_answer_are_no_matter_of_the_tables():
    made, _, clock = barrier()
    for number in range(AWAY_IN_A_ROW):
        assert not made.is_away
        with made.around(f"t{number}", "looking"):
            raise Unavailable("time-out")

    assert made.is_away
    made.try_again()
    assert not made.is_away
    # After an outage of everything one answer is enough: all that only did not answer are looked at again at once.
    made.went_well("t0")
    assert not made.is_aside("t2")
    assert clock == [0.0]


def test_pauses_of_a_table_that_does_not_answer_grow_though_others_go_well():
    made, _, clock = barrier()
    tries = 0
    for _ in range(100):
        clock[0] += 10
        made.try_again()
        made.went_well("well")
        if not made.is_aside("dead"):
            tries += 1
            with made.around("dead", "looking"):
                raise Unavailable("time-out")

    assert tries < 9


def test_what_was_not_asked_for_has_not_failed_and_stands_first_in_the_next_round():
    made, heard, _ = barrier()
    for number in range(AWAY_IN_A_ROW):
        with made.around(f"t{number}", "looking"):
            raise NotAsked("the catalog did not answer")

    assert made.is_away
    assert made.not_asked == {"t0", "t1", "t2"}
    assert not any(made.is_aside(name) for name in made.not_asked)
    assert heard == []
    made.try_again()
    assert (made.is_away, made.not_asked) == (False, set())


def test_after_an_outage_of_everything_one_answer_is_enough():
    made, _, clock = barrier()
    made.went_well("well")
    for _ in range(40):
        clock[0] += 10
        if not made.is_aside("t"):
            with made.around("t", "looking"):
                raise Unavailable("time-out")
    assert made.is_aside("t")
    made.went_well("well")

    assert not made.is_aside("t")


def test_names_that_nobody_has_are_forgotten_when_their_pause_is_over():
    made, _, clock = barrier()
    for number in range(MOST_ASIDE + 100):
        if number == MOST_ASIDE - 10:
            clock[0] += 11
        with made.around(f"t{number}", "looking"):
            raise Refused("400")

    assert made.is_aside(f"t{MOST_ASIDE + 99}")
    for known, pause_s in (("t0", 10), (f"t{MOST_ASIDE + 99}", 20)):
        with made.around(known, "looking"):
            raise Refused("400")
        clock[0] += 10
        assert made.is_aside(known) == (pause_s > 10), "the second pause in a row is longer"
        clock[0] += 10


@pytest.mark.parametrize("error", [Unreadable("format version 4"), TableMissing("no"), RuntimeError("ours")])
def test_tables_that_make_no_sense_are_not_an_outage(error):
    made, *_ = barrier()
    for number in range(10):
        with made.around(f"t{number}", "looking"):
            raise error

    assert not made.is_away


# --- in the daemon


@pytest.mark.parametrize(
    "error", [Unreadable("damaged"), RuntimeError("a mistake of ours"), RecursionError()]
)
@pytest.mark.parametrize("method", ["load", "scan"])
def test_one_table_that_fails_keeps_no_other_from_being_maintained(lab, error, method):
    tables = [lab.create(f"shop.{name}") for name in ("aaa", "bbb")]
    for table in tables:
        for hour in (1, 1, 1, 2, 3, 4):
            lab.append(table, hour)
    service = started(lab)
    failing(service, "shop.aaa", error, method)
    for _ in range(60):
        service.step(0)
        wait_for_children(service)
        if [one for one in of(lab, seen.JobEnded) if one.table.name == "shop.bbb"]:
            break

    ended = [one for one in of(lab, seen.JobEnded) if one.table.name == "shop.bbb"]
    assert [one.outcome for one in ended] == [OutcomeKind.DONE]
    assert {one.name for one in of(lab, seen.TableFailed)} == {"shop.aaa"}
    service.stop()


def test_a_partition_whose_manifests_cannot_be_read_keeps_no_other_table_from_being_maintained(lab):
    tables = [lab.create(f"shop.{name}") for name in ("aaa", "bbb")]
    for table in tables:
        for hour in (1, 1, 2, 3, 4):
            lab.append(table, hour)
    service = started(lab)
    settle(service)
    oldest = tables[0].refresh().metadata.snapshots[0]
    (manifest,) = oldest.manifests(tables[0].io)
    Path(normalised(manifest.manifest_path)).write_bytes(b"Obj?")
    for table in tables:
        lab.append(table, 1)
        for hour in (5, 6):
            lab.append(table, hour)
    for _ in range(60):
        service.step(0)
        wait_for_children(service)
        if [one for one in of(lab, seen.JobEnded) if one.table.name == "shop.bbb"]:
            break

    ended = {(one.table.name, one.outcome) for one in of(lab, seen.JobEnded)}
    assert ended == {("shop.aaa", OutcomeKind.FAILED), ("shop.bbb", OutcomeKind.DONE)}
    (failed,) = {one.why for one in of(lab, seen.JobEnded) if one.table.name == "shop.aaa"}
    assert manifest.manifest_path in failed
    assert not of(lab, seen.TableFailed)
    service.stop()


def test_a_partition_that_cannot_be_bound_keeps_no_other_of_its_table_from_being_compacted(lab):
    table = lab.create()
    for hour in (1, 1, 2, 2, 2, 2, 3, 4):
        lab.append(table, hour)
    oldest = table.refresh().metadata.snapshots[0]
    (manifest,) = oldest.manifests(table.io)
    service = started(lab)
    settle(service)
    Path(normalised(manifest.manifest_path)).write_bytes(b"Obj?")
    for hour in (1, 1, 1, 5, 6):  # more to save there than in hour 2, so it comes first
        lab.append(table, hour)
    for _ in range(60):
        service.step(0)
        wait_for_children(service)

    ended = {(one.label, one.outcome, one.reason) for one in of(lab, seen.JobEnded)}
    assert ("at_hour=2026-01-01-01", OutcomeKind.FAILED, Reason.CORRUPT_FILE) in ended
    assert ("at_hour=2026-01-01-02", OutcomeKind.DONE, Reason.COMMITTED) in ended
    (quarantine,) = service.ledger.quarantined(uuid_of(table)).values()
    assert manifest.manifest_path in quarantine.why
    service.stop()


def test_a_partition_beyond_the_year_9999_is_compacted_as_any_other(lab):
    """PostgreSQL's infinity, which Spark writes."""
    table = lab.create()
    for hour in (1, 1, 1, 1):
        lab.append(table, hour)
    for number in range(4):
        append_far(lab, table, number)
    for hour in (2, 3, 4):
        lab.append(table, hour)
    had = sorted(table.refresh().scan(selected_fields=("id",)).to_arrow()["id"].to_pylist())
    service = started(lab)
    lab.ahead_ms += 2 * 86_400_000  # nobody writes there any more
    for _ in range(60):
        service.step(0)
        wait_for_children(service)

    done = {one.label for one in of(lab, seen.JobEnded) if one.outcome is OutcomeKind.DONE}
    assert done == {"at_hour=2026-01-01-01", f"at_hour={FAR_HOUR}"}
    assert sorted(table.refresh().scan(selected_fields=("id",)).to_arrow()["id"].to_pylist()) == had
    service.stop()


FAR_HOUR = 70_392_300


def append_far(lab, table, number):
    """A row of the year 10000, as PyIceberg itself cannot write one."""
    path = lab.root / f"far-{number}.parquet"
    rows = {
        "id": pa.array([1000 + number], pa.int64()),
        "at": pa.array([FAR_HOUR * 3_600_000_000], pa.int64()).cast(pa.timestamp("us", "UTC")),
        "what": pa.array(["far"], pa.string()),
    }
    schema = schema_to_pyarrow(table.schema())
    pq.write_table(pa.table(rows).cast(schema), path)
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file://{path}",
        file_format=FileFormat.PARQUET,
        partition=Record(FAR_HOUR),
        record_count=1,
        file_size_in_bytes=path.stat().st_size,
    )
    file.spec_id = table.spec().spec_id
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datetime, "to_human_hour", str)  # it has no name for that folder
        with table.refresh().transaction() as begun, begun.update_snapshot().fast_append() as commit:
            commit.append_data_file(file)
    lab.announce(event_of(table.refresh()))


def test_a_table_that_is_mended_is_maintained_again(lab):
    tables = three_tables(lab)
    service = started(lab)
    faults = failing(service, "shop.bbb", RuntimeError("a mistake of ours"))
    settle(service)
    assert set(service.fold.names().values()) == {"shop.aaa", "shop.ccc"}
    faults.clear()
    lab.ahead_ms += 11_000
    settle(service)

    assert set(service.fold.names().values()) == {"shop.aaa", "shop.bbb", "shop.ccc"}
    assert [one.name for one in of(lab, seen.TableRecovered)] == ["shop.bbb"]
    assert believed(service, uuid_of(tables[1])) == counted(lab.scan("shop.bbb"))
    service.stop()


def test_where_nothing_answers_a_round_ends_early_and_the_next_begins_behind(lab):
    for number in range(8):
        lab.append(lab.create(f"shop.t{number}"), 1)
    service = started(lab)
    settle(service)
    asked = []
    real = service.catalog.load

    def away(name):
        asked.append(name)
        raise Unavailable("time-out")

    service.catalog.load = away
    service.round()
    first = list(asked)
    assert len(first) == AWAY_IN_A_ROW
    assert service.health.missing(service.monotonic_s()) == ["the catalog does not answer"]
    service.round()
    assert set(asked[len(first) : 2 * len(first)]).isdisjoint(first)

    service.catalog.load = real
    lab.ahead_ms += 1000
    service.round()
    service.round()
    assert service.health.missing(service.monotonic_s()) == []
    service.stop()


def test_tables_that_nobody_can_read_keep_no_other_from_being_found(lab):
    for number in range(12):
        lab.append(lab.create(f"shop.a{number:02}"), 1)
    last = lab.create("shop.zzz")
    lab.append(last, 1, announce=False)
    service = started(lab)
    real = service.catalog.load

    def locked(name):
        if name != "shop.zzz":
            raise Unavailable("time-out")
        return real(name)

    service.catalog.load = locked
    rounds = 0
    while "shop.zzz" not in service.fold.names().values():
        service.round()
        lab.ahead_ms += 10_000
        rounds += 1
        assert rounds < 12

    service.stop()


@pytest.mark.parametrize("count", [1, 12])
def test_names_that_cut_the_connection_leave_others_their_turn(lab, count):
    """After each of them the catalog is not asked for a while, which is no failure of the names behind them."""
    other = lab.create("shop.other")
    dead = [lab.create(f"shop.dead{number}").name() for number in range(count)]
    names = {".".join(name) for name in dead}
    real = lab.catalog.load_table

    def cut(name):
        if name in names:
            raise requests.exceptions.ConnectionError("Remote end closed connection without response")
        return real(name)

    lab.catalog.load_table = cut
    service = started(lab)
    for _ in range(400):
        service.step(0)
        lab.ahead_ms += 1000
        if "shop.other" in service.fold.names().values():
            break
    assert "shop.other" in service.fold.names().values()
    for _ in range(60):
        lab.append(other, 1)
        service.step(0)
        lab.ahead_ms += 30_000
        wait_for_children(service)
    planned = [one for one in of(lab, seen.TablePlanned) if one.table.name == "shop.other"]
    assert len(planned) > 20
    service.stop()


@pytest.mark.parametrize("fault", [Refused("403"), NotYetKnown("the next list says it")], ids=["403", "list"])
def test_a_table_that_refuses_us_or_is_not_known_yet_is_no_outage(fault):
    made, *_ = barrier()
    for number in range(10):
        with made.around(f"t{number}", "looking"):
            raise fault

    assert not made.is_away


def test_operations_of_tables_that_are_gone_keep_no_other_from_being_settled(lab):
    table = lab.create()
    lab.append(table, 1)
    service = started(lab)
    settle(service)
    for number in range(30):
        gone = Operation(
            f"gone{number}",
            TableId(f"u{number}", f"shop.gone{number}"),
            Action.EXPIRE,
            None,
            "",
            "",
            "",
            0,
            number,
        )
        service.ledger.save(gone)
    live = Operation(
        "live", TableId(uuid_of(table), "shop.orders"), Action.EXPIRE, None, "", "", "", 0, 10**6
    )
    service.ledger.save(live)
    for _ in range(6):
        service.round()
        lab.ahead_ms += 1000
    assert "live" not in {one.job_id for one, _ in service.ledger.unfinished()}

    # They are given up after a week, and nothing is deleted for it.
    lab.ahead_ms += 8 * 86_400_000
    for _ in range(4):
        service.round()
    assert not [one for one, _ in service.ledger.unfinished() if one.action is Action.EXPIRE]
    assert {one.reason for one in service.ledger.operations() if one.job_id.startswith("gone")} == {"gone"}
    service.stop()


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
    "looking for the fate of open operations": lambda service: (service.ledger, "unfinished"),
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


def test_a_turn_of_the_loop_does_not_wait_for_a_long_round(lab):
    for number in range(6):
        lab.append(lab.create(f"shop.t{number}"), 1)
    service = started(lab)
    real = service.catalog.load

    def slow(name):
        lab.ahead_ms += 1500
        return real(name)

    service.catalog.load = slow
    service.step(0)

    assert service.rounds.is_open
    assert 0 < len(service.fold.names()) < 6
    for _ in range(5):
        service.step(0)
    assert len(service.fold.names()) == 6
    service.stop()


def test_what_was_left_open_in_dead_buckets_costs_a_turn_of_the_loop_one_time_out(lab):
    service = started(lab)
    for number in range(10):
        table = TableId(f"u{number}", f"shop.dead{number}")
        service.ledger.save(Operation(f"open{number}", table, Action.EXPIRE, None, "", "", "", 0, number))

    def dead(_):
        lab.ahead_ms += 30_000
        raise StoreAway("no answer")

    service.catalog.load = dead
    before_ms = lab.ahead_ms
    service.step(0)

    assert lab.ahead_ms - before_ms <= 60_000
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


def test_a_catalog_that_has_lost_everything_for_a_moment_makes_nothing_gone(lab):
    three_tables(lab)
    service = started(lab)
    settle(service)
    load, names = service.catalog.load, service.catalog.names

    def lost(name):
        raise TableMissing(name)

    service.catalog.load = lost
    for name in ("shop.aaa", "shop.bbb", "shop.ccc"):
        service.follower.suspects.add(name)
    for _ in range(3):
        service.round()
        lab.ahead_ms += 400_000
    assert of(lab, seen.TableGone) == []

    # Nor where the list is empty as well: that is no list.
    service.catalog.names = lambda *_: type(names())([], {})
    for _ in range(3):
        service.round()
        lab.ahead_ms += 4_000_000
    assert of(lab, seen.TableGone) == []
    service.catalog.load, service.catalog.names = load, names
    lab.ahead_ms += 4_000_000
    settle(service)
    assert len(service.fold.names()) == 3
    service.stop()


def test_a_table_that_is_made_again_is_found_though_another_daemon_had_the_old_one(lab):
    table = lab.create()
    lab.append(table, 1)
    old = uuid_of(table)
    service = started(lab)
    service.events.elsewhere.add(old)
    settle(service)
    assert service.fold.names() == {}
    lab.catalog.drop_table("shop.orders")
    again = lab.create()
    lab.append(again, 5)
    settle(service)

    assert list(service.fold.names()) == [uuid_of(again)]
    service.stop()


def test_a_job_that_takes_the_daemon_with_it_counts_against_its_partition(lab):
    table = lab.create()
    for hour in (1, 1, 1, 2, 3, 4):
        lab.append(table, hour)
    begun = 0
    for _ in range(12):
        service = started(lab)
        for _ in range(12):
            service.step(0)
            service.maintainer.wait(0)
            if service.compactions.start_bound():
                break
        begun += len(lab.executor.running())
        # As SIGKILL for the whole group: the child is gone, and nothing is written down.
        for job_id in list(lab.executor.running()):
            lab.executor.cancel(job_id)
        service.fold.close()
        service.ledger.close()
        lab.ahead_ms += 61_000

    assert begun < 6
    service = started(lab)
    service.step(0)
    (quarantine,) = service.ledger.quarantined(uuid_of(table)).values()
    assert quarantine.failures >= 3
    assert "crashed" in quarantine.why
    service.stop()


def test_a_binding_that_takes_the_daemon_with_it_counts_against_its_partition(lab):
    """As one does whose manifests hold more than there is memory."""
    table = lab.create()
    for hour in (1, 1, 1, 2, 3, 4):
        lab.append(table, hour)
    begun = 0
    for _ in range(12):
        service = started(lab)
        for _ in range(12):
            service.step(0)
            if len(service.compactions):
                begun += 1
                break
        service.fold.close()
        service.ledger.close()
        lab.ahead_ms += 61_000

    assert begun < 6
    service = started(lab)
    service.step(0)
    (quarantine,) = service.ledger.quarantined(uuid_of(table)).values()
    assert quarantine.failures >= 3
    assert "crashed" in quarantine.why
    assert service.ledger.bytes_read_within(86_400_000, service.now_ms()) == 0
    service.stop()


def test_a_binding_that_lasts_for_rounds_is_no_crash(lab):
    """It has a thread to itself and others wait for it."""
    table = lab.create()
    for hour in (1, 1, 1, 2, 3, 4):
        lab.append(table, hour)
    service = started(lab)
    bound = service.maintainer.bound
    service.maintainer.bound = list
    for _ in range(8):
        service.step(0)
        lab.ahead_ms += 11_000
    service.maintainer.bound = bound
    settle(service)

    assert [one.outcome for one in of(lab, seen.JobEnded)] == [OutcomeKind.DONE]
    assert service.ledger.quarantined(uuid_of(table)) == {}
    service.stop()


@pytest.mark.parametrize(
    ("error", "kind"),
    [(NotBegunError("16 threads hang"), Unavailable), (TimeoutError("not done after 600s"), Refusal)],
)
def test_a_binding_that_was_given_up_is_no_fault_of_its_partition(lab, error, kind):
    """Or that was never begun, because too many threads hang already."""

    class Hanging(AtOnce):
        def beside(self, _):
            return GivenUp()

    class GivenUp:
        def start(self, name, _):
            self.name = name

        def ended(self):
            return [(self.name, error)]

    lab.threads = Hanging()
    table = lab.create()
    lab.append(table, 1)
    maintainer = lab.maintainer(lab.executor)
    key = next(iter(lab.scan()))
    maintainer.start_binding(
        loaded_table(table, "shop.orders"), key, "job", "hour 1", Take(), 1, "hash", "why"
    )

    ((_, result),) = maintainer.bound()
    assert isinstance(result, kind)
    assert str(error) in str(result)
    assert result.reason in OUTAGES if isinstance(result, Refusal) else True


def test_the_default_lab_is_quiet(tmp_path):
    """The barrier says nothing where nothing is wrong."""
    lab = Lab(tmp_path)
    three_tables(lab)
    lab.settled().stop()

    assert of(lab, seen.TableFailed) == []


def test_what_goes_well_costs_the_same_however_many_others_are_aside():
    def steps(aside):
        clock = Clock()
        barrier = Barrier(lambda _: None, clock.monotonic_s)
        barrier.went_well("shop.sound")
        for number in range(aside):
            barrier.put_aside(f"dead.t{number}", is_away=True)
        count = []

        def note(frame, event, _):
            del event
            frame.f_trace_opcodes = True
            count.append(1)
            return note

        sys.settrace(note)
        try:
            barrier.went_well("shop.other")
        finally:
            sys.settrace(None)
        return len(count)

    assert steps(1000) == steps(1)
