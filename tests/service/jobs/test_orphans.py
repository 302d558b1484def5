"""Orphans are found and deleted, and nothing else in a table's folder is."""

import os
from pathlib import Path

from isotherm.clients.listing import files_below
from isotherm.core import observations as seen
from isotherm.core.model.jobs import Action
from support.lab import of, started, uuid_of
from support.searching import ORPHANS, REPORT, ended, files, filled, home, pass_by, plant, rows

NO_TEXT = ("data/a?.parquet", "data/f?/a.parquet", "metadata/?-m0.avro", "metadata/00009-?.metadata.json")
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


def test_names_that_are_no_text_are_left_alone_and_end_no_search(lab_of):
    """A disk takes any bytes for a name; Python has those that are no UTF-8 as lone surrogates."""
    lab = lab_of()
    table = filled(lab)
    no_text = plant(table, *(name.replace("?", "\udcff") for name in NO_TEXT))
    (orphan,) = plant(table, "data/orphan.parquet")
    service = started(lab)

    pass_by(lab, service, 5)

    assert not orphan.exists()
    assert all(path.exists() for path in no_text)
    assert not of(lab, seen.TableFailed)
    assert {one.state for one in ended(service, Action.REMOVE_ORPHANS)} == {"done"}
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
    listed = [file.name for some in files_below(table.io, f"{home(table)}/data/") for file in some]
    assert "link/precious.parquet" not in listed, "nor is it looked for there"
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
