"""A ledger that was restored, copied, lost or forged is noticed, and nothing is deleted by it."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from isotherm.contract.paths import normalised
from isotherm.contract.summary import JOB_ID
from isotherm.core import observations as seen
from isotherm.core.model.holds import HoldKind
from isotherm.service.ports import NoWord, Unavailable
from isotherm.store import FolderTakenError, Ledger, StateFolder
from isotherm.store.backup import back_up
from support.deleting import (
    GRACE,
    closed,
    every_snapshot_reads,
    reborn,
    rows,
    settled_for_days,
    turn,
    with_waiting_files,
)
from support.lab import Lab, of, settle, with_a_job


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


@pytest.mark.parametrize("said", [NoWord("500: a null pointer"), Unavailable("a time-out")])
def test_a_lost_ledger_is_noticed_though_the_table_with_our_work_is_not_shown_at_first(tmp_path, said):
    """One answer of a server in trouble is not all that there is to be found of a table."""
    lab = Lab(tmp_path, policy=GRACE)
    _, service = with_waiting_files(lab)
    settle(service)
    closed(service)
    lab.append(lab.create("shop.aaa"), 1)
    shutil.rmtree(lab.root / "state")
    lab.held.clear()

    service = reborn(lab)
    load = service.catalog.load

    def troubled(name):
        if name == "shop.orders":
            raise said
        return load(name)

    service.catalog.load = troubled
    turn(service, 12)
    assert service.ledger.is_new
    service.catalog.load = load
    for _ in range(4):
        lab.ahead_ms += 300_000
        turn(service, 4)

    assert "the ledger of this daemon is new" in service.ledger.deletions_held()
    service.stop()
