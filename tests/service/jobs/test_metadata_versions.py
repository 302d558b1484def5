"""Old versions of a table's metadata go, the newest stay, and those that a catalog may go back to."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable

from isotherm.core.model.jobs import Action
from isotherm.iceberg.orphan_search import find
from isotherm.service.jobs.folder_searches import search_of
from support.lab import started, uuid_of
from support.searching import ended, files, filled, pass_by, plant, rows


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


@pytest.mark.parametrize("has_metadata_off", [True, False])
def test_with_the_policy_that_operations_gives_for_it_nothing_is_deleted(lab_of, has_metadata_off):
    """`expire` alone says nothing of old metadata.json files."""
    said = Path(__file__).parents[3].joinpath("docs/operations.md").read_text()
    off = ["expire: {enabled: false}", "metadata: {enabled: false}", "orphans: {mode: off}"]
    assert all(f"`{one}`" in said for one in off)
    if not has_metadata_off:
        off[1] = "metadata: {keep_last: 5, at_once: 3, older_than: 1d}"
    lab = lab_of("\n".join(['tables: "*"', "compact: {enabled: false}", *off, ""]))
    table = filled(lab, commits=14)
    there = files(table)
    service = started(lab)
    pass_by(lab, service, 4)

    assert (there <= files(table)) is has_metadata_off
    service.stop()
