"""Nothing needed is deleted, whatever the daemon remembers and whatever it is told: whole daemons, real tables."""

import shutil
import sqlite3
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.exceptions import ForbiddenError, NoSuchTableError
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC

from isotherm.contract.paths import normalised
from isotherm.contract.summary import JOB_ID
from isotherm.core import observations as seen
from isotherm.core.deletion import LEFTOVER_GRACE_MS
from isotherm.core.model.decisions import Verdict
from isotherm.core.model.holds import Hold, HoldKind
from isotherm.core.model.jobs import Action, OutcomeKind
from isotherm.iceberg.compaction.replace_snapshot import AssertUnmoved
from isotherm.service.expiries import together_ms
from isotherm.store import FolderTakenError, Ledger, StateFolder
from isotherm.store.backup import back_up
from support.in_process import InProcess
from support.lab import EXPIRING, Lab, of, settle, started, uuid_of, wait_for_children, with_a_job

DAY_MS = 86_400_000
GRACE = EXPIRING.replace("delete_after: 0s", "delete_after: 1h").replace(", expire.delete_after", "")


def rows(table):
    return sorted(row["id"] for row in table.refresh().scan().to_arrow().to_pylist())


def every_snapshot_reads(table):
    for snapshot in table.refresh().metadata.snapshots:
        table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()


def turn(service, times=4):
    for _ in range(times):
        service.step(0)
        wait_for_children(service)


def with_waiting_files(lab):
    """A table, and a daemon that has expired snapshots; their files wait for an hour."""
    table = lab.create()
    for hour in (1, 1, 1, 1, 1, 9, 9):
        lab.append(table, hour)
    service = started(lab)
    for _ in range(40):
        turn(service, 1)
        if service.ledger.deletions(uuid_of(table)).get("waiting"):
            return table, service
    raise AssertionError("nothing expired")


def closed(service):
    """As after SIGKILL: nothing is said or saved any more."""
    service.maintainer.stop()
    service.fold.close()
    service.ledger.close()


def reborn(lab):
    lab.executor = InProcess()
    return started(lab)


def settled_for_days(lab, service, days=3):
    """The daemon with all that it does in some days: a person has allowed it to delete, and every grace is over."""
    settle(service)
    service.holds.lift(service.ledger.id, HoldKind.LEDGER)
    for _ in range(days):
        lab.ahead_ms += LEFTOVER_GRACE_MS + 60_000
        turn(service, 2)
        settle(service)


# --- memories that are wrong


@pytest.mark.parametrize("with_topic", [True, False], ids=["the topic counts", "the topic is lost too"])
def test_a_ledger_that_was_restored_deletes_nothing_that_went_live_since(lab, with_topic):
    """Backed up while a job ran, put back after it was committed: also what a power cut leaves of an unsynced one."""
    table, service = with_a_job(lab)
    backup = lab.root / "backup.db"
    back_up(lab.root / "state" / "ledger.db", backup)
    before = rows(table)
    settle(service)
    assert [s for s in table.refresh().snapshots() if JOB_ID in s.summary.additional_properties]
    closed(service)
    for leftover in (lab.root / "state").glob("ledger.db*"):
        leftover.unlink()
    shutil.copy(backup, lab.root / "state" / "ledger.db")
    if not with_topic:
        lab.held.clear()

    service = reborn(lab)
    turn(service)

    assert rows(table) == before
    assert bool(of(lab, seen.LedgerLost)) is with_topic
    if with_topic:
        assert "counts" in service.ledger.deletions_held()
    settled_for_days(lab, service)
    assert rows(table) == before
    every_snapshot_reads(table)
    service.stop()


def test_the_ledger_is_synced_before_what_it_says_is_done(tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")

    assert ledger.db.execute("PRAGMA synchronous").fetchone() == (2,)
    assert ledger.db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_an_act_is_counted_before_the_request_goes_out(lab):
    _, service = with_a_job(lab)
    counts = []

    def commit(real, *arguments):
        told = dict(lab.held)[f"{service.ledger.id}/acts"]
        stored = sqlite3.connect(lab.root / "state" / "ledger.db").execute(
            "SELECT value FROM facts WHERE name = 'acts'"
        )
        counts.append((b'"acts": 1' in told, int(stored.fetchone()[0])))
        return real(*arguments)

    service.maintainer.requests.on_commit = commit
    service.compactions.finish()

    assert counts == [(True, 1)]
    service.stop()


def test_two_processes_with_copies_of_one_ledger_notice_each_other(lab):
    _, service = with_a_job(lab)
    service.holds.act()
    clone = lab.root / "clone"
    clone.mkdir()
    back_up(lab.root / "state" / "ledger.db", clone / "ledger.db")
    other = lab.service(ledger=Ledger(clone / "ledger.db"))
    other.holds.act()

    service.holds.refresh(1)

    assert "copy of the ledger" in service.ledger.deletions_held()
    other.holds.refresh(1)
    assert other.ledger.deletions_held() is not None
    service.stop()


def test_a_restart_is_no_restored_ledger(lab):
    _, service = with_a_job(lab)
    settle(service)
    service.stop()
    for _ in range(3):
        service = reborn(lab)
        turn(service, 2)
        service.stop()

    assert of(lab, seen.LedgerLost) == []


def test_one_process_at_a_time_holds_a_state_folder(tmp_path):
    folder = StateFolder(tmp_path / "state")

    with pytest.raises(FolderTakenError, match=r"is held by process \d+"):
        StateFolder(tmp_path / "state")
    folder.release()
    StateFolder(tmp_path / "state").release()
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700


# --- answers that are lost


def lands_and_is_cut(real, *arguments):
    real(*arguments)
    raise ConnectionError("cut")


def lands_and_then(service, look):
    """The request takes effect, its answer is lost, and from then on each look at the table is `look`."""
    requests = service.maintainer.requests

    def cut(real, *arguments):
        requests.on_load = look
        return lands_and_is_cut(real, *arguments)

    requests.on_commit = cut


def test_a_lost_answer_and_then_not_found_deletes_nothing(lab):
    """A proxy that restarts: the connection is cut, then its default answer is 404."""
    table, service = with_a_job(lab)
    before, away = rows(table), [True]

    def missing(real, *arguments):
        if away:
            raise NoSuchTableError("default backend - 404")
        return real(*arguments)

    lands_and_then(service, missing)
    service.compactions.finish()

    (operation,) = service.ledger.operations()
    assert (operation.state, operation.asserted_head_id is not None) == ("unknown", True)
    assert rows(table) == before
    turn(service, 2)
    away.clear()
    settle(service)
    assert service.ledger.operations()[-1].state == "done"
    settled_for_days(lab, service)
    assert rows(table) == before
    service.stop()


def test_a_table_that_was_renamed_while_the_end_was_unknown_keeps_its_files(lab):
    table, service = with_a_job(lab)
    before, unseen = rows(table), [True]

    def away(real, *arguments):
        if unseen:
            raise ConnectionError("away")
        return real(*arguments)

    lands_and_then(service, away)
    service.compactions.finish()
    lab.catalog.rename_table("shop.orders", "shop.orders_v1")
    lab.create("shop.orders")
    unseen.clear()
    turn(service, 6)
    settled_for_days(lab, service)

    moved = lab.catalog.load_table("shop.orders_v1")
    assert rows(moved) == before
    ended = [one for one in service.ledger.operations() if one.table.uuid == uuid_of(table)]
    assert {one.state for one in ended if one.action is not Action.REMOVE_ORPHANS} == {"done"}
    assert {one.reason for one in ended if one.action is Action.REMOVE_ORPHANS} == {"other_history"}
    service.stop()


def test_files_of_an_unknown_commit_are_not_cleaned_up(lab):
    table, service = with_a_job(lab)

    def cut(*_):
        raise ConnectionError("cut")

    service.maintainer.requests.on_commit = cut
    service.compactions.finish()

    (operation,) = service.ledger.operations()
    assert operation.state == "unknown"
    assert service.ledger.deletions(uuid_of(table)) == {}
    home = lab.root / "warehouse"
    assert list(home.rglob(f"isotherm-{operation.job_id}-*.parquet"))
    assert list(home.rglob(f"*isotherm-{operation.job_id}*.avro"))

    # Once the head has moved on, they are marked; after the grace, and a look, they go.
    lab.append(table, 9)
    turn(service, 2)
    assert {one.state for one in service.ledger.operations() if one.job_id == operation.job_id} == {"failed"}
    assert list(home.rglob(f"isotherm-{operation.job_id}-*.parquet"))
    service.maintainer.requests.on_commit = None
    settled_for_days(lab, service)
    assert not list(home.rglob(f"*isotherm-{operation.job_id}*"))
    every_snapshot_reads(table)
    service.stop()


def test_a_request_that_lands_after_it_was_given_up_finds_its_files(lab):
    """The head comes back by a rollback, and a proxy lets the request through at last."""
    table, service = with_a_job(lab)
    before, held = rows(table), []

    def keep(_, *arguments):
        held.append(arguments)
        raise ConnectionError("cut")

    service.maintainer.requests.on_commit = keep
    service.compactions.finish()
    head = table.refresh().current_snapshot().snapshot_id
    older = table.metadata.snapshots[-2].snapshot_id
    table.manage_snapshots().set_current_snapshot(older).commit()
    turn(service, 2)
    assert service.ledger.operations()[-1].reason in {"lost", "conflict"}
    table.refresh().manage_snapshots().set_current_snapshot(head).commit()
    asked, requirements, updates = held[0]
    # A REST catalog knows nothing of what we assert of others.
    lab.catalog.commit_table(
        asked, [one for one in requirements if not isinstance(one, AssertUnmoved)], updates
    )
    service.maintainer.requests.on_commit = None
    settled_for_days(lab, service)

    assert rows(table) == before
    every_snapshot_reads(table)
    service.stop()


def test_a_job_whose_snapshot_expired_unseen_keeps_what_a_tag_still_needs(lab):
    """It landed, nobody knew; another daemon compacted again and expired its snapshot; a tag names one in between."""
    table, service = with_a_job(lab)
    before = rows(table)
    faulty = service.maintainer.requests
    unseen = [True]

    def away(real, *arguments):
        if unseen:
            raise ConnectionError("away")
        return real(*arguments)

    def cut(real, *arguments):
        faulty.on_load = away
        return lands_and_is_cut(real, *arguments)

    faulty.on_commit = cut
    service.compactions.finish()
    landed = table.refresh().current_snapshot().snapshot_id
    lab.append(table, 9)
    tagged = table.refresh().current_snapshot().snapshot_id
    table.manage_snapshots().create_tag(tagged, "q3").commit()
    table.refresh().overwrite(table.scan().to_arrow())  # takes the job's files out of the head
    lab.append(table, 9)
    table.refresh().maintenance.expire_snapshots().by_ids([landed]).commit()
    unseen.clear()
    settled_for_days(lab, service)

    found = table.refresh().scan(snapshot_id=tagged).to_arrow()
    assert set(before) < set(found["id"].to_pylist())
    every_snapshot_reads(table)
    service.stop()


def test_a_table_made_again_under_the_name_of_an_open_job_ends_nobody(lab):
    _, service = with_a_job(lab)
    closed(service)
    lab.catalog.drop_table("shop.orders")
    again = lab.create(spec=UNPARTITIONED_PARTITION_SPEC)
    lab.append(again, 1)

    service = reborn(lab)
    turn(service, 6)

    assert len(rows(again)) == 2
    assert {one.state for one in service.ledger.operations()} == {"running"}
    service.stop()


def test_a_mismatch_halts_the_table(lab):
    table, service = with_a_job(lab)
    real = service.maintainer.finished

    def lying():
        return [(job_id, replace(found, hash_written=found.hash_written + 1)) for job_id, found in real()]

    service.maintainer.finished = lying
    service.compactions.finish()

    assert "mismatch" in service.ledger.halted(uuid_of(table))
    assert [one.reason for one in of(lab, seen.TableHalted)] == ["mismatch"]
    assert not list((lab.root / "warehouse").rglob("isotherm-*.parquet"))
    service.stop()


# --- graces and looks


def test_files_go_after_their_grace_and_not_before(tmp_path):
    lab = Lab(tmp_path, policy=GRACE)
    table, service = with_waiting_files(lab)
    waiting = service.ledger.deletions(uuid_of(table))["waiting"]
    lab.ahead_ms += 59 * 60_000
    turn(service)
    assert service.ledger.deletions(uuid_of(table))["waiting"] >= waiting

    # Those of about one grace go together.
    lab.ahead_ms += 62 * 60_000
    turn(service)

    assert service.ledger.deletions(uuid_of(table))["deleted"] >= waiting
    every_snapshot_reads(table)
    service.stop()


@pytest.mark.parametrize("ahead_ms", [8 * DAY_MS, -2 * DAY_MS])
def test_a_clock_that_jumps_neither_expires_nor_deletes(tmp_path, ahead_ms):
    lab = Lab(tmp_path, policy=GRACE)
    table, service = with_waiting_files(lab)
    before = service.ledger.deletions(uuid_of(table))
    for hour in (9, 9, 9):
        lab.append(table, hour)
    snapshots = len(table.refresh().snapshots())
    wall = service.now_ms
    for part in (service, service.deletions, service.expiries, service.verdicts):
        name = "_now_ms" if part is service.verdicts else "now_ms"
        setattr(part, name, lambda: wall() + ahead_ms)
    turn(service, 6)

    assert service.ledger.deletions(uuid_of(table)) == before
    assert len(table.refresh().snapshots()) == snapshots
    assert "jumped" in service.deletions.everywhere()
    assert of(lab, seen.RoundPlanned)[-1].deletions_held
    service.stop()


def test_a_list_that_does_not_show_the_table_itself_keeps_its_files(tmp_path):
    """It is not the whole: a replica that lags, or a right that is missing."""
    lab = Lab(tmp_path, policy=GRACE)
    lab.create("other.t")
    table, service = with_waiting_files(lab)
    names = service.catalog.names
    service.catalog.names = lambda *_: replace(names(), names=["other.t"])
    for shows_it in (False, True):
        if shows_it:
            service.catalog.names = names
        for _ in range(40):
            lab.ahead_ms += 300_000
            turn(service, 1)
        assert bool(service.ledger.deletions(uuid_of(table)).get("deleted")) is shows_it
    service.stop()


def test_a_clock_that_differs_from_the_stores_deletes_nothing(tmp_path):
    lab = Lab(tmp_path, policy=GRACE)
    table, service = with_waiting_files(lab)
    before = service.ledger.deletions(uuid_of(table))
    service.stop()
    service = lab.service()
    # A machine that has been wrong since it started: nothing jumps.
    lab.ahead_ms = 8 * DAY_MS
    service.maintainer.lab = Lab.__new__(Lab)
    service.maintainer.lab.ahead_ms = 0
    service.start()
    turn(service, 6)

    assert service.ledger.deletions(uuid_of(table)) == before
    assert "ahead of that of the store" in service.deletions.everywhere()
    assert not list((lab.root / "warehouse").rglob("isotherm-clock-*"))
    service.stop()


@pytest.mark.parametrize("what", ["moved", "paused", "policy", "unmatched"])
def test_between_expiry_and_deletion_a_table_is_still_asked_for(tmp_path, what):
    lab = Lab(tmp_path, policy=GRACE)
    table, service = with_waiting_files(lab)
    before = service.ledger.deletions(uuid_of(table))
    match what:
        case "moved":
            service.events.term = 0
        case "paused":
            service.holds.put(Hold(HoldKind.PAUSE, uuid_of(table), "shop.orders", "a test", service.now_ms()))
        case "policy":
            (lab.config.policies / "all.yaml").write_text(
                lab.policy.replace("expire: {", "expire: {enabled: false, ")
            )
        case "unmatched":
            (lab.config.policies / "all.yaml").write_text(lab.policy.replace('"*"', "shop.other"))
    turn(service, 2)
    lab.ahead_ms += 2 * 3_600_000
    turn(service)

    assert service.ledger.deletions(uuid_of(table)) == before
    match what:
        case "moved":
            service.events.term = 2
        case "paused":
            service.holds.lift(uuid_of(table), HoldKind.PAUSE)
        case _:
            (lab.config.policies / "all.yaml").write_text(lab.policy)
    turn(service, 6)
    assert not service.ledger.deletions(uuid_of(table)).get("waiting", 0) >= before["waiting"]
    every_snapshot_reads(table)
    service.stop()


def test_a_fenced_daemon_deletes_nothing(tmp_path):
    lab = Lab(tmp_path, policy=GRACE)
    table, service = with_waiting_files(lab)
    before = service.ledger.deletions(uuid_of(table))
    service.events.is_member = False
    lab.ahead_ms += 2 * 3_600_000
    turn(service)

    assert service.ledger.deletions(uuid_of(table)) == before
    service.stop()


def test_a_table_that_waits_holds_up_no_other(tmp_path):
    lab = Lab(tmp_path, policy=GRACE)
    tables = [lab.create(name) for name in ("shop.aaa", "shop.bbb", "shop.ccc")]
    for table in tables:
        for hour in (1, 1, 1, 1, 1, 9, 9):
            lab.append(table, hour)
    service = started(lab)
    for _ in range(60):
        turn(service, 1)
        if all(service.ledger.deletions(uuid_of(table)).get("waiting") for table in tables):
            break
    first, second, third = tables
    service.holds.put(Hold(HoldKind.HALT, uuid_of(first), "shop.aaa", "a test", service.now_ms()))
    lab.catalog.drop_table("shop.bbb")
    lab.ahead_ms += 2 * 3_600_000
    turn(service, 8)

    assert service.ledger.deletions(uuid_of(third))["deleted"] > 0
    assert "deleted" not in service.ledger.deletions(uuid_of(first))
    assert "deleted" not in service.ledger.deletions(uuid_of(second))
    service.stop()


def test_a_table_within_another_tables_folder_keeps_its_files(tmp_path):
    """Whoever owns the outer table may take the inner one's files into a snapshot of his own."""
    lab = Lab(tmp_path, policy=GRACE)
    inner = lab.create("shop.orders_inner")
    lab.append(inner, 1)
    outer = lab.catalog.create_table(
        "shop.outer",
        inner.schema(),
        location=f"file://{lab.root}/warehouse/shop",
        partition_spec=inner.spec(),
    )
    (task,) = inner.scan().plan_files()
    outer.add_files([task.file.file_path])
    outer.overwrite(inner.scan().to_arrow())
    for hour in (9, 9, 9, 9):
        lab.append(outer, hour)
    service = started(lab)
    for _ in range(40):
        turn(service, 1)
        if service.ledger.deletions(uuid_of(outer)).get("waiting"):
            break
    lab.ahead_ms += 2 * 3_600_000
    turn(service, 8)

    assert len(rows(inner)) == 2
    assert any(one.kept and "elsewhere" in one.why for one in of(lab, seen.FilesDeleted))
    service.stop()


# --- expiries that do not go through


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
        assert may_send(service.catalog.load(name)) is None
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


@pytest.mark.parametrize("gap_s", [1, 400])
def test_a_table_made_in_the_place_of_one_that_is_gone_is_swept_as_any(tmp_path, gap_s):
    lab = Lab(tmp_path, policy=GRACE)
    old = lab.create()
    lab.append(old, 1)
    service = started(lab)
    settle(service)
    lab.catalog.drop_table("shop.orders")
    for _ in range(4):
        turn(service, 2)
        lab.ahead_ms += gap_s * 1000
    table = lab.create()
    assert table.location() == old.location()
    for hour in (1, 1, 1, 1, 1, 9, 9):
        lab.append(table, hour)
    for _ in range(40):
        turn(service, 1)
        if service.ledger.deletions(uuid_of(table)).get("waiting"):
            break
    # The old table is looked for in the whole catalog, twice.
    for _ in range(8):
        lab.ahead_ms += 2 * 3_600_000
        turn(service, 8)

    assert set(service.ledger.deletions(uuid_of(table))) == {"deleted"}
    every_snapshot_reads(table)
    service.stop()


@pytest.mark.parametrize(
    "record", [b"garbage", b'{"acts": 4611686018427387903, "process": "x"}', b'{"acts": 1e999}']
)
def test_a_forged_count_holds_once_and_a_person_can_lift_it(lab, record):
    _, service = with_a_job(lab)
    service.holds.act()
    lab.held.append((f"{service.ledger.id}/acts", record))
    turn(service, 2)
    assert "makes no sense" in service.ledger.deletions_held()
    service.holds.lift(service.ledger.id, HoldKind.LEDGER)
    for _ in range(2):
        turn(service, 2)
        service.holds.act()
        assert service.ledger.deletions_held() is None
    closed(service)
    service = reborn(lab)
    turn(service, 2)

    assert service.ledger.deletions_held() is None
    service.stop()


def test_a_lost_ledger_is_noticed_though_one_table_cannot_be_read(tmp_path):
    lab = Lab(tmp_path, policy=GRACE)
    table, service = with_waiting_files(lab)
    settle(service)
    closed(service)
    broken = lab.create("shop.aaa")
    Path(normalised(broken.metadata_location)).write_text("{")
    shutil.rmtree(lab.root / "state")
    lab.held.clear()

    service = reborn(lab)
    before = {one.snapshot_id for one in table.refresh().snapshots()}
    turn(service, 4)

    assert "the ledger of this daemon is new" in service.ledger.deletions_held()
    assert before <= {one.snapshot_id for one in table.refresh().snapshots()}
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


@given(uuid=st.uuids(), now_ms=st.integers(0, 10**13), grace_ms=st.integers(0, 10**10))
def test_files_wait_for_one_to_two_graces_and_have_one_end_in_each(uuid, now_ms, grace_ms):
    due_ms = together_ms(str(uuid), now_ms, grace_ms)

    assert now_ms + grace_ms <= due_ms < now_ms + 2 * max(grace_ms, 1)
    if grace_ms:
        assert due_ms == together_ms(str(uuid), due_ms - grace_ms, grace_ms)
        assert due_ms + grace_ms == together_ms(str(uuid), due_ms - grace_ms + 1, grace_ms)


def test_the_files_of_many_tables_come_due_at_all_times_of_the_grace():
    hours = Counter(
        together_ms(f"{number:08x}-0000-4000-8000-000000000000", 0, DAY_MS) // 3_600_000
        for number in range(2400)
    )

    assert set(hours) == set(range(24, 48))
    assert max(hours.values()) < 150, "a hundred in each, more or less"
