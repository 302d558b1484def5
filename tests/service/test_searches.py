"""Old versions of metadata, and orphans: found by listing, marked, proved, and deleted; and nothing else is."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable

from isotherm.core import observations as seen
from isotherm.core.deletion import Cause, Mark, Seen
from isotherm.core.model.decisions import Verdict
from isotherm.core.model.holds import Hold, HoldKind
from isotherm.core.model.jobs import Action
from isotherm.iceberg.orphans import find
from isotherm.service.searches import search_of
from isotherm.store.database import to_json
from support.lab import Lab, of, started, uuid_of, wait_for_children

DAY_MS = 86_400_000
POLICY = """
tables: "*"
compact: {enabled: false}
expire: {enabled: false}
metadata: {keep_last: 5, at_once: 3, older_than: 1d}
orphans: {mode: MODE, older_than: 1d, every: 1d}
"""
APPLY, REPORT = (POLICY.replace("MODE", mode) for mode in ("apply", "report"))


@pytest.fixture
def lab_of(tmp_path):
    labs = []

    def make(policy=APPLY):
        labs.append(Lab(tmp_path, policy=policy))
        return labs[-1]

    yield make
    for lab in labs:
        lab.executor.stop()


def filled(lab, name="shop.orders", commits=4, **properties):
    table = lab.create(name, **{"write.metadata.previous-versions-max": "3", **properties})
    for hour in range(commits):
        lab.append(table, hour)
    return table


def home(table):
    return Path(table.metadata.location.removeprefix("file://"))


def plant(table, *names):
    """Files that nobody knows."""
    made = [home(table) / name for name in names]
    for path in made:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"nobody knows me")
    return made


def files(table):
    return {path for path in home(table).rglob("*") if path.is_file()}


def rows(table):
    """The rows of each snapshot, by PyIceberg's own scan."""
    table.refresh()
    return {
        one.snapshot_id: sorted(table.scan(snapshot_id=one.snapshot_id).to_arrow()["id"].to_pylist())
        for one in table.metadata.snapshots
    }


def pass_by(lab, service, days):
    """So many days, in which the daemon turns every six hours."""
    for _ in range(round(days * 4)):
        lab.ahead_ms += DAY_MS // 4
        for _ in range(6):
            service.step(0)
            wait_for_children(service)


def ended(service, action):
    return [one for one in service.ledger.operations() if one.action is action and one.state != "running"]


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


def test_a_number_that_an_event_made_up_keeps_nothing_from_going(lab_of):
    """The table would count as cut back until it has so many commits."""
    lab = lab_of()
    table = filled(lab)
    service = started(lab)
    pass_by(lab, service, 0.25)
    event = lab.append(table, 9, announce=False)
    lab.announce(event.model_copy(update={"sequence_number": 10**15}))
    (planted,) = plant(table, "data/a.parquet")

    pass_by(lab, service, 5)

    assert not planted.exists()
    assert {one.state for one in ended(service, Action.REMOVE_ORPHANS)} == {"done"}
    service.stop()


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


def test_versions_of_a_table_of_before_are_looked_at_once(lab_of):
    """One that was dropped without its files, and made again in the same folder."""
    lab = lab_of()
    filled(lab, commits=8)
    lab.catalog.drop_table("shop.orders")
    table = filled(lab, commits=8)
    uuid = uuid_of(table)
    others = {
        path for path in files(table) if path.name.endswith(".metadata.json") and uuid not in path.read_text()
    }
    service = started(lab)

    pass_by(lab, service, 3)

    kept = service.ledger.deletions(uuid)["kept"]
    loaded = service.catalog.load("shop.orders")
    policy = service.verdicts.policy_of(service.fold.table(uuid)).policy
    again = search_of(service.ledger, loaded, Action.TRIM_METADATA, policy, (), lab.now_ms())
    assert (kept, len(again.theirs)) == (len(others), len(others))
    assert find(loaded.handle, again).files == 0
    assert others <= files(table)
    service.stop()


def test_the_ledger_knows_how_far_a_table_had_come_where_nothing_else_shows_it(lab_of):
    """Its newest versions are lost too: the store was restored with the catalog, but for its data."""
    lab = lab_of()
    table = filled(lab, commits=8)
    service = started(lab)
    (planted,) = plant(table, "data/a.parquet")
    backup, old = table.refresh().metadata_location, files(table)
    pass_by(lab, service, 0.25)
    for hour in range(8):
        lab.append(table, hour)
    pass_by(lab, service, 0.25)
    newer = files(table) - old
    for path in newer:
        if path.name.endswith(".metadata.json"):
            path.unlink()
    with closing(sqlite3.connect(f"{lab.root}/catalog.db")) as db, db:
        db.execute("UPDATE iceberg_tables SET metadata_location = ?", (backup,))
    service.stop()
    service = started(lab)

    pass_by(lab, service, 5)

    assert planted.exists()
    assert {path for path in newer if path.suffix == ".parquet"} <= files(table)
    assert any("its history went back" in one.outcome_why for one in service.ledger.operations())
    service.stop()


@pytest.mark.parametrize("since_d", [0.25, 1.75])
def test_where_somebody_else_writes_the_table_through_another_catalog_nothing_goes(lab_of, since_d):
    """As where a daemon is tried on a copy of the catalog; it is noticed at each of the two looks."""
    lab = lab_of()
    table = filled(lab, commits=8)
    service = started(lab)
    planted = plant(table, "data/a.parquet")
    backup = table.refresh().metadata_location
    pass_by(lab, service, since_d)
    with closing(sqlite3.connect(f"{lab.root}/catalog.db")) as db:
        for hour in range(8):
            lab.append(table, hour, announce=False)
        theirs = table.refresh().metadata_location
        before = files(table)
        with db:
            db.execute("UPDATE iceberg_tables SET metadata_location = ?", (backup,))

    pass_by(lab, service, 4)

    assert before <= files(table)
    assert {*planted} <= files(table)
    production = StaticTable.from_metadata(theirs)
    assert len(production.scan().to_arrow()) == 32
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


ORPHANS = ("data/a.parquet", "data/at_hour=2026-01-01-01/b.parquet", "metadata/c-m0.avro", "metadata/d.stats")
OF_OTHERS = ("data/_tmp/e.parquet", "data/.hidden", "metadata/version-hint.text", "metadata/v7.metadata.json")


def test_orphans_go_and_nothing_else_does(lab_of):
    lab = lab_of()
    table = filled(lab)
    planted, others = plant(table, *ORPHANS), plant(table, *OF_OTHERS)
    (namesake,) = plant(table, "data/copies/" + Path(table.inspect.files()["file_path"][0].as_py()).name)
    before, had = files(table), rows(table)
    service = started(lab)
    pass_by(lab, service, 1)
    assert files(table) == before  # what is younger may be about to be committed

    pass_by(lab, service, 4)

    assert not {path for path in planted if path.exists()}
    assert {*others, namesake} <= files(table)
    assert rows(table) == had
    (told, *_) = [
        one for one in of(lab, seen.FolderSearched) if one.files and one.action is Action.REMOVE_ORPHANS
    ]
    assert (told.files, told.marked) == (4, 4)
    service.stop()


def test_a_report_deletes_nothing(lab_of):
    lab = lab_of(REPORT)
    table = filled(lab)
    planted = plant(table, *ORPHANS)
    service = started(lab)

    pass_by(lab, service, 5)

    assert all(path.exists() for path in planted)
    (told, *_) = ended(service, Action.REMOVE_ORPHANS)
    assert told.state == "done"
    assert told.outcome_why.startswith("4 of ")
    assert told.outcome_why.endswith("; nothing is deleted (orphans.mode: report)")
    assert {one.marked for one in of(lab, seen.FolderSearched) if one.action is Action.REMOVE_ORPHANS} == {0}
    service.stop()


def test_what_is_found_again_within_the_grace_stays(lab_of):
    """Somebody adds a file that lay there for days: the second look reads all that the table reaches by then."""
    lab = lab_of()
    table = filled(lab)
    source = Path(table.inspect.files()["file_path"][0].as_py().removeprefix("file://"))
    late, gone = (home(table) / "data" / name for name in ("late.parquet", "gone.parquet"))
    for path in (late, gone):
        path.write_bytes(source.read_bytes())
    service = started(lab)
    pass_by(lab, service, 1.75)
    assert service.ledger.deletions(uuid_of(table)) == {"waiting": 2}

    table.refresh()
    table.add_files([f"file://{late}"])
    pass_by(lab, service, 3)

    assert (late.exists(), gone.exists()) == (True, False)
    assert len(rows(table)) == 5
    service.stop()


def test_old_versions_of_the_metadata_go_and_the_newest_stay(lab_of):
    lab = lab_of()
    table = filled(lab, commits=20)
    had = rows(table)
    service = started(lab)

    pass_by(lab, service, 5)

    table.refresh()
    left = {path for path in files(table) if path.name.endswith(".metadata.json")}
    named = {Path(one.metadata_file.removeprefix("file://")) for one in table.metadata.metadata_log}
    assert named | {Path(table.metadata_location.removeprefix("file://"))} <= left
    # Three that it names, two more so that five stay, and itself.
    assert len(left) == 6
    assert rows(table) == had
    oldest = min(left)
    assert StaticTable.from_metadata(f"file://{oldest}").scan().to_arrow().num_rows > 0
    (done, *_) = ended(service, Action.TRIM_METADATA)
    assert "versions that the table does not name any more" in done.outcome_why
    service.stop()


def test_a_table_that_trims_itself_is_left_alone(lab_of):
    lab = lab_of()
    table = filled(lab, commits=12, **{"write.metadata.delete-after-commit.enabled": "true"})
    (old,) = plant(table, "metadata/00000-11111111-2222-3333-4444-555555555555.metadata.json")
    service = started(lab)

    pass_by(lab, service, 4)

    assert old.exists()
    assert ended(service, Action.TRIM_METADATA) == []
    service.stop()


def test_a_version_that_the_catalog_was_set_back_to_stays(lab_of):
    """An older version is registered again in the grace: it is the newest one then."""
    lab = lab_of()
    table = filled(lab, commits=12)
    back_to = min(path for path in files(table) if path.name.endswith(".metadata.json"))
    service = started(lab)
    pass_by(lab, service, 1.75)
    assert service.ledger.deletions(uuid_of(table)).get("waiting", 0) >= 4

    lab.catalog.drop_table("shop.orders")
    lab.catalog.register_table("shop.orders", f"file://{back_to}")
    pass_by(lab, service, 4)

    assert back_to.exists()
    assert lab.catalog.load_table("shop.orders").metadata_location == f"file://{back_to}"
    service.stop()


def test_what_lies_in_the_folder_of_another_table_stays(lab_of):
    lab = lab_of()
    table = filled(lab)
    lab.catalog.create_namespace_if_not_exists("inner")
    inner = lab.catalog.create_table(
        "inner.orders", table.schema(), location=f"{table.metadata.location}/data/inner"
    )
    lab.append(inner, 1)
    had, there = rows(inner), files(inner)
    service = started(lab)

    pass_by(lab, service, 6)

    assert there <= files(inner)
    assert rows(inner) == had
    assert service.ledger.deletions(uuid_of(table)) == {}
    service.stop()


def test_a_folder_that_is_reached_by_another_name_has_no_orphans(lab_of, tmp_path):
    """The table writes through a link: each of its files would be an orphan by its path."""
    lab = lab_of()
    alias = tmp_path / "alias"
    table = lab.create(**{"write.data.path": f"file://{alias}"})
    (home(table) / "data").mkdir(parents=True, exist_ok=True)
    alias.symlink_to(home(table) / "data")
    for hour in range(4):
        lab.append(table, hour)
    had = rows(table)
    service = started(lab)

    pass_by(lab, service, 6)

    assert rows(table) == had
    service.stop()


def test_links_lead_nowhere(lab_of, tmp_path):
    lab = lab_of()
    table = filled(lab)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious.parquet").write_bytes(b"not yours")
    (home(table) / "data" / "link").symlink_to(elsewhere)
    (home(table) / "data" / "link.parquet").symlink_to(elsewhere / "precious.parquet")
    service = started(lab)

    pass_by(lab, service, 6)

    assert (elsewhere / "precious.parquet").exists()
    service.stop()


def test_a_folder_that_cannot_be_listed_is_no_empty_one(lab_of, monkeypatch):
    lab = lab_of()
    table = filled(lab)
    plant(table, *ORPHANS)
    scandir = os.scandir

    def refusing(path):
        if str(path).rstrip("/").endswith("/data"):
            raise PermissionError(path)
        return scandir(path)

    service = started(lab)
    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", refusing)
        pass_by(lab, service, 2)

    assert {one.reason for one in ended(service, Action.REMOVE_ORPHANS)} == {"storage"}
    service.stop()


def test_where_most_of_a_folder_looks_like_orphans_a_person_must_look(lab_of):
    lab = lab_of()
    table = filled(lab)
    planted = plant(table, *(f"data/{number}.parquet" for number in range(1001)))
    service = started(lab)

    pass_by(lab, service, 5)

    assert all(path.exists() for path in planted)
    assert {one.reason for one in ended(service, Action.REMOVE_ORPHANS)} == {"orphans"}
    (decision,) = [
        one for one in service.fold.table(uuid_of(table)).of_table if one.action is Action.REMOVE_ORPHANS
    ]
    assert "orphans.max_share" in decision.why
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
    first, *_ = [one for one in again.ledger.operations() if one.reason == "stopped"]
    assert first.outcome_why == "the daemon ended while it ran"
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
