"""Old versions of metadata, and orphans: found by listing, marked, proved, and deleted; and nothing else is."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable

from isotherm.core.deletion import Cause, Mark, Seen
from isotherm.core.model.decisions import Verdict
from isotherm.core.model.holds import Hold, HoldKind
from isotherm.core.model.jobs import Action
from isotherm.core.units import DAY_MS
from isotherm.store.database import to_json
from support.lab import started, uuid_of
from support.searching import APPLY, ORPHANS, REPORT, ended, files, filled, home, pass_by, plant, rows


def test_the_files_of_a_table_that_writes_into_anothers_folder_stay(lab_of):
    """As a table does that was made by the DDL of another one, `write.data.path` and all."""
    lab = lab_of()
    table = filled(lab)
    service = started(lab)
    pass_by(lab, service, 0.5)
    copy = lab.create("shop.copy", **{"write.data.path": f"{table.metadata.location}/data"})
    for hour in range(4):
        lab.append(copy, hour)
    had = rows(copy)

    pass_by(lab, service, 5)

    assert any(str(home(table)) in path for path in copy.inspect.files()["file_path"].to_pylist())
    assert "waiting" not in service.ledger.deletions(uuid_of(table))
    assert len(ended(service, Action.REMOVE_ORPHANS)) >= 2
    assert rows(copy) == had


def test_after_a_catalog_was_restored_nothing_goes_whatever_daemon_looks(lab_of):
    lab = lab_of()
    table = filled(lab, commits=8)
    service = started(lab)
    backup = table.refresh().metadata_location
    pass_by(lab, service, 0.25)
    for hour in range(8):
        lab.append(table, hour)
    newest, had = table.refresh().metadata_location, rows(table)
    pass_by(lab, service, 0.25)
    with closing(sqlite3.connect(f"{lab.root}/catalog.db")) as db, db:
        db.execute("UPDATE iceberg_tables SET metadata_location = ?", (backup,))
    service.stop()
    service = started(lab)

    pass_by(lab, service, 5)

    lost = StaticTable.from_metadata(newest)
    assert {
        one.snapshot_id: sorted(lost.scan(snapshot_id=one.snapshot_id).to_arrow()["id"].to_pylist())
        for one in lost.metadata.snapshots
    } == had
    assert any(one.reason == "stale" for one in service.ledger.operations())


def test_what_waits_after_an_expiry_is_no_surprise_for_a_search(lab_of):
    lab = lab_of(APPLY.replace("orphans: {", "orphans: {max_share: 0.5, "))
    table = filled(lab)
    waiting = plant(table, *(f"data/{number}.parquet" for number in range(300)))
    plant(table, *(f"data/more-{number}.parquet" for number in range(50)))
    service = started(lab)
    uuid, far_ms = uuid_of(table), lab.now_ms() + 90 * DAY_MS
    expired = [Mark(f"file://{path}", "job", Cause.EXPIRED, Seen(1, 1)) for path in waiting]
    service.ledger.mark(uuid, "job", expired, lab.now_ms(), due_at_ms=far_ms)

    pass_by(lab, service, 2)

    assert {one.state for one in ended(service, Action.REMOVE_ORPHANS)} == {"done"}
    assert service.ledger.deletions(uuid) == {"waiting": 350}
    service.stop()


def test_files_of_other_formats_and_tables_within_a_tables_folder_stay(lab_of):
    lab = lab_of(APPLY.replace("orphans: {", "orphans: {max_share: 1, "))
    table = filled(lab)
    theirs = plant(
        table,
        *(
            "data/delta/_delta_log/00000.json",
            "data/delta/p=1/a.parquet",
            "data/hudi/.hoodie/x",
            "data/hudi/b.parquet",
        ),
        *("data/nested/metadata/00000-a.metadata.json", "data/nested/data/c.parquet"),
    )
    (ours,) = plant(table, "data/d.parquet")
    service = started(lab)

    pass_by(lab, service, 5)

    assert not ours.exists()
    assert {*theirs} <= files(table)
    service.stop()


def test_an_age_that_is_raised_within_the_grace_is_obeyed(lab_of):
    """Somebody thinks of the savepoints of Flink."""
    lab = lab_of()
    table = filled(lab)
    service = started(lab)
    (planted,) = plant(table, "data/a.parquet")
    pass_by(lab, service, 1.75)
    assert service.ledger.deletions(uuid_of(table)).get("waiting") == 1

    (lab.config.policies / "all.yaml").write_text(APPLY.replace("older_than: 1d", "older_than: 30d"))
    pass_by(lab, service, 3)

    assert planted.exists()
    assert service.ledger.deletions(uuid_of(table)).get("kept") == 1
    service.stop()


@pytest.mark.parametrize("how", ["the policy", "a pause", "the table"])
def test_who_wants_nothing_deleted_any_more_is_obeyed_within_the_grace(lab_of, how):
    lab = lab_of()
    table = filled(lab)
    planted = plant(table, *ORPHANS)
    service = started(lab)
    pass_by(lab, service, 1.75)
    assert service.ledger.deletions(uuid_of(table)) == {"waiting": 4}

    if how == "the policy":
        (lab.config.policies / "all.yaml").write_text(REPORT)
    elif how == "a pause":
        hold = Hold(HoldKind.PAUSE, uuid_of(table), "shop.orders", "not now", lab.now_ms())
        lab.held.append((hold.key, to_json(hold).encode()))
    else:
        table.refresh().transaction().set_properties({"gc.enabled": "false"}).commit_transaction()
    pass_by(lab, service, 4)

    assert all(path.exists() for path in planted)
    service.stop()


def test_a_search_that_a_restart_has_ended_begins_again(lab_of):
    lab = lab_of()
    table = filled(lab)
    planted = plant(table, *ORPHANS)
    service = started(lab)
    lab.ahead_ms += 2 * DAY_MS
    while not len(service.searches):
        service.step(0)
    service.fold.close()
    service.ledger.close()

    again = started(lab)
    pass_by(lab, again, 4)

    assert not any(path.exists() for path in planted)
    first, *_ = [one for one in again.ledger.operations() if one.reason == "crashed"]
    assert first.outcome_why == "the daemon ended while it ran, or its end went wrong"
    again.stop()


def test_a_damaged_manifest_is_no_proof(lab_of):
    """What it names cannot be known: nothing is found, and the table says why."""
    lab = lab_of()
    table = filled(lab)
    planted = plant(table, *ORPHANS)
    manifest = Path(table.inspect.manifests()["path"][0].as_py().removeprefix("file://"))
    whole = manifest.read_bytes()
    service = started(lab)
    service.round()
    manifest.write_bytes(whole[: len(whole) // 2])

    pass_by(lab, service, 3)

    assert all(path.exists() for path in planted)
    assert {one.reason for one in ended(service, Action.REMOVE_ORPHANS)} == {"storage"}
    manifest.write_bytes(whole)
    pass_by(lab, service, 5)
    assert not any(path.exists() for path in planted)
    service.stop()


def test_many_tables_are_searched_one_after_another(lab_of):
    lab = lab_of()
    tables = [filled(lab, f"shop.t{number}") for number in range(6)]
    planted = [path for table in tables for path in plant(table, *ORPHANS)]
    service = started(lab)

    for _ in range(20):  # a search rests as long as it took, by the clock on the wall
        if any(path.exists() for path in planted):
            pass_by(lab, service, 3)

    assert not any(path.exists() for path in planted)
    assert all(
        one.verdict in {Verdict.CLEAN, Verdict.OFF, Verdict.UNSUPPORTED, Verdict.DUE, Verdict.RUNNING}
        for table in tables
        for one in service.fold.table(uuid_of(table)).of_table
    )
    service.stop()


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_search_that_takes_the_daemon_with_it_is_not_begun_again_at_once(lab_of, is_stopped):
    """As one does that finds more than there is memory. One that the daemon was stopped in is begun again at once."""
    lab = lab_of(REPORT)
    filled(lab)
    lab.ahead_ms += 4 * DAY_MS
    begun = 0
    for _ in range(12):
        service = started(lab)
        for _ in range(12):
            service.step(0)
            if len(service.searches):
                begun += 1
                break
        if is_stopped:
            service.stop()
        else:  # nothing is written down
            service.fold.close()
            service.ledger.close()
        lab.ahead_ms += 61_000

    assert begun == 12 if is_stopped else 1 < begun < 6, begun
    if not is_stopped:
        service = started(lab)
        service.step(0)
        assert {one.reason for one in service.ledger.operations()} == {"crashed"}
        service.stop()
