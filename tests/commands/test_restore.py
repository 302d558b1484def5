"""`isotherm orphans`: what is in quarantine is listed, and comes back when a person says so."""

import json
import os
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from isotherm.cli import app
from isotherm.commands.inspector import Inspector
from isotherm.commands.restore import RestoreAnswer, _print
from isotherm.core.model.holds import Hold, HoldKind
from isotherm.core.quarantine import FOLDER
from isotherm.runtime.config import load_config
from isotherm.store.ledger import Ledger
from support.in_process import WithoutPauses
from support.lab import Lab, started, uuid_of
from support.searching import ORPHANS, POLICY, REPORT, filled, home, pass_by, plant
from support.worked import configured

QUARANTINE = POLICY.replace("MODE", "quarantine, keep_for: 5d")


@pytest.fixture
def lab(tmp_path):
    """A table with four files in quarantine, and a daemon that has put them there."""
    lab = Lab(tmp_path, policy=QUARANTINE, threads=WithoutPauses())
    configured(lab)
    lab.table = filled(lab)
    plant(lab.table, *ORPHANS)
    service = started(lab)
    pass_by(lab, service, 4)
    service.stop()
    yield lab
    lab.executor.stop()


@pytest.fixture
def ask(monkeypatch, lab):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    return lambda *words: CliRunner().invoke(
        app, ["orphans", *words, "--config", str(lab.root / "isotherm.yaml")]
    )


def there(lab):
    return {name for name in ORPHANS if (home(lab.table) / name).exists()}


def test_what_is_in_quarantine_is_listed_with_its_times(ask, lab):
    answer = json.loads(ask("shop.orders", "-o", "json").stdout)
    files = answer["quarantine"]

    assert {one["path"] for one in files} == {f"{lab.table.metadata.location}/{name}" for name in ORPHANS}
    assert {one["size_bytes"] for one in files} == {15}
    # For five days at least, and until the next end of a day of this table.
    assert all(5 <= (one["until_ms"] - one["since_ms"]) / 86_400_000 <= 6 for one in files)
    said = " ".join(ask("shop.orders").stdout.split())
    assert "in quarantine since" in said
    assert "4 files (60 B) in quarantine: `isotherm orphans shop.orders --restore PATH` puts one back" in said


def test_by_a_policy_that_only_reports_it_stays_and_plan_says_why(lab, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    (lab.root / "policies" / "all.yaml").write_text(REPORT)
    service = started(lab)
    pass_by(lab, service, 16)  # `keep_for` is as long as it is by itself
    assert len(service.ledger.files_in_quarantine(uuid_of(lab.table))) == 4
    inspector = Inspector(load_config(lab.root / "isotherm.yaml"))
    said = inspector.waiting_files(uuid_of(lab.table), lab.now_ms())

    assert said == "4 files should be deleted by now: the policy says orphans.mode: report"
    assert service.deletions.overdue_s() == 0
    service.stop()


def test_what_the_table_needs_from_quarantine_is_said_where_nobody_puts_it_back(ask, lab):
    (source,) = lab.table.inspect.files()["file_path"].to_pylist()[:1]
    late = home(lab.table) / "data" / "a.parquet"
    (place,) = (home(lab.table) / FOLDER).glob("*/data/a.parquet")
    late.write_bytes(Path(source.removeprefix("file://")).read_bytes())
    lab.table.refresh().add_files([f"file://{late}"])
    late.unlink()
    said = " ".join(ask("shop.orders").stdout.split())
    assert "needs 1 file of these where they were; the daemon puts them back after its next search" in said

    (lab.root / "policies" / "all.yaml").write_text(POLICY.replace("MODE", "off"))
    said = " ".join(ask("shop.orders").stdout.split())
    assert "nobody puts them back, because the policy says orphans.mode: off" in said
    assert str(place) in "".join(ask("shop.orders").stdout.split())
    inspector = Inspector(load_config(lab.root / "isotherm.yaml"))
    assert inspector.unwatched(uuid_of(lab.table)) == (
        "4 files in quarantine: nobody looks whether the table needs one again (orphans.mode: off); "
        "`isotherm orphans shop.orders` does"
    )
    (lab.root / "policies" / "all.yaml").write_text(REPORT)
    assert Inspector(load_config(lab.root / "isotherm.yaml")).unwatched(uuid_of(lab.table)) is None


def named_and_missed(lab):
    """The table comes to name a file that is in quarantine; where that lay."""
    (source,) = lab.table.inspect.files()["file_path"].to_pylist()[:1]
    late = home(lab.table) / "data" / "a.parquet"
    late.write_bytes(Path(source.removeprefix("file://")).read_bytes())
    lab.table.refresh().add_files([f"file://{late}"])
    late.unlink()
    return late


def test_where_another_table_claims_the_folder_no_put_back_is_promised(ask, lab):
    late = named_and_missed(lab)
    ledger = Ledger(lab.root / "state" / "ledger.db")
    ledger.place("another", f"file://{home(lab.table)}/data")
    ledger.close()
    said = " ".join(ask("shop.orders").stdout.split())

    assert "needs 1 file of these where they were; the daemon puts none back, because another table" in said
    assert "after its next search" not in said
    assert ask("shop.orders", "--restore", "data/a.parquet").exit_code == 1  # it is too short
    assert not late.exists()


def test_while_a_table_is_left_alone_no_put_back_is_promised(ask, lab):
    named_and_missed(lab)
    ledger = Ledger(lab.root / "state" / "ledger.db")
    ledger.hold(Hold(HoldKind.HALT, uuid_of(lab.table), "shop.orders", "mismatch: rows", 5), told=True)
    ledger.close()
    said = " ".join(ask("shop.orders").stdout.split())

    assert "nobody puts them back until that is over: the table is halted: mismatch: rows" in said


@pytest.mark.parametrize("left", ["off", "paused", "off and gc.enabled"])
def test_where_no_search_may_be_made_and_nobody_puts_back_that_is_said(ask, lab, left):
    ledger = Ledger(lab.root / "state" / "ledger.db")
    ledger.see(uuid_of(lab.table), 99, lab.now_ms())  # its history went back
    if left == "paused":
        pause = Hold(HoldKind.PAUSE, uuid_of(lab.table), "shop.orders", "by hand", lab.now_ms())
        ledger.hold(pause, told=True)
    else:
        (lab.root / "policies" / "all.yaml").write_text(POLICY.replace("MODE", "off"))
    ledger.close()
    if "gc.enabled" in left:
        with lab.table.transaction() as change:
            change.set_properties({"gc.enabled": "false"})
    (note,) = json.loads(ask("shop.orders", "-o", "json").stdout)["notes"][-1:]

    assert note.startswith("Whether the table needs some of these was not looked at; nobody puts them back")
    assert ("paused: by hand" if left == "paused" else "orphans.mode: off") in note


def test_where_another_tables_metadata_lies_here_the_daemon_proves_what_it_knows(ask, lab):
    other = filled(lab, "shop.others")
    shutil.copy(max((home(other) / "metadata").glob("*.metadata.json")), home(lab.table) / "metadata")
    answer = json.loads(ask("shop.orders", "-o", "json").stdout)

    assert "The daemon proves that of those that it knows" in answer["notes"][-1]


def test_what_is_not_back_is_not_said_to_be_in_quarantine(capsys):
    """Somebody was faster, or took it away again."""
    _print(
        RestoreAnswer("shop.orders", (), {"s3://b/t/_isotherm_quarantine/j/data/a": "it is there no more"})
    )

    said = " ".join(capsys.readouterr().err.split())
    assert "could not be restored: s3://b/t/_isotherm_quarantine/j/data/a: it is there no more" in said
    assert "stays" not in said


def test_where_no_search_may_be_made_what_lies_in_quarantine_is_listed_all_the_same(ask, lab):
    with lab.table.transaction() as change:
        change.set_properties({"gc.enabled": "false"})
    result = ask("shop.orders", "-o", "json")

    assert result.exit_code == 1
    assert "gc.enabled=false" in result.stderr
    answer = json.loads(result.stdout)
    assert (len(answer["quarantine"]), answer["listed"], answer["orphans"]) == (4, 0, [])
    assert "The daemon proves that of each, and puts back what is needed." in answer["notes"][-1]
    assert ask("shop.orders", "--restore", "all").exit_code == 0
    assert ask("shop.orders", "-o", "json").stdout == ""


def test_what_is_there_already_is_said_and_that_the_daemon_may_take_it_away(ask, lab):
    (place,) = (home(lab.table) / FOLDER).glob("*/data/a.parquet")
    plant(lab.table, "data/a.parquet")[0].write_bytes(place.read_bytes())
    result = ask("shop.orders", "--restore", "data/a.parquet")

    assert result.exit_code == 0
    assert "already there:" in result.stdout
    assert "restored" not in result.stdout
    assert place.exists()


def test_one_comes_back_however_it_is_named(ask, lab):
    assert ask("shop.orders", "--restore", "data/a.parquet").exit_code == 0
    assert there(lab) == {"data/a.parquet"}
    whole = f"{home(lab.table)}/metadata/d.stats"  # as another program spells it
    (place,) = (home(lab.table) / FOLDER).glob("*/metadata/c-m0.avro")
    result = ask("shop.orders", "--restore", whole, "--restore", f"file:{place}")

    assert result.exit_code == 0, result.output
    assert there(lab) == {"data/a.parquet", "metadata/c-m0.avro", "metadata/d.stats"}
    assert f"restored file://{whole}" in result.stdout.replace("\n", "")
    assert "younger than orphans.older_than" in " ".join(result.stdout.split())


def test_all_come_back_without_a_ledger_and_a_second_time_there_is_nothing(ask, lab):
    for path in lab.root.rglob("*.db*"):
        if path.parent.name == "state":
            path.unlink()
    answer = json.loads(ask("shop.orders", "--restore", "all", "-o", "json").stdout)

    assert (len(answer["restored"]), answer["failed"], answer["old"]) == (4, {}, [])
    assert there(lab) == {*ORPHANS}
    again = ask("shop.orders", "--restore", "all")
    assert (again.exit_code, again.stdout.strip()) == (0, "nothing is in the quarantine of shop.orders")


def test_a_restored_file_is_left_alone_for_as_long_as_an_orphan_must_be_old(ask, lab):
    """The time of the restore is the file's, and the lab's is days ahead: so that is set here as it would be."""
    ask("shop.orders", "--restore", "all")
    assert all(
        (home(lab.table) / name).stat().st_mtime * 1000 > lab.now_ms() - lab.ahead_ms - 60_000
        for name in ORPHANS
    )
    for name in ORPHANS:
        os.utime(home(lab.table) / name, (lab.now_ms() / 1000,) * 2)
    service = started(lab)
    pass_by(lab, service, 0.75)

    assert there(lab) == {*ORPHANS}
    service.stop()


def test_a_file_in_the_way_is_not_written_over(ask, lab):
    plant(lab.table, "data/a.parquet")[0].write_bytes(b"newer")
    result = ask("shop.orders", "--restore", "all")

    assert result.exit_code == 1
    assert "1 file could not be restored" in result.output
    assert "another file is at" in " ".join(result.output.split())
    assert (home(lab.table) / "data/a.parquet").read_bytes() == b"newer"
    assert there(lab) == {*ORPHANS}
    assert len(list((home(lab.table) / FOLDER).glob("*/data/a.parquet"))) == 1


def test_of_several_that_had_one_name_the_newest_comes_back(ask, lab):
    older = Path(f"{home(lab.table)}/{FOLDER}/older/data/a.parquet")
    older.parent.mkdir(parents=True)
    older.write_bytes(b"older")
    os.utime(older, (0, 0))

    assert ask("shop.orders", "--restore", "data/a.parquet").exit_code == 0
    assert (home(lab.table) / "data/a.parquet").read_bytes() == b"nobody knows me"
    assert older.exists()


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("shop.orders", "--restore", "data/b.parquet"), 2, "there is no data/b.parquet in the quarantine"),
        (("shop.none", "--restore", "all"), 2, "shop.none"),
        (
            ("shop.orders", "--versions", "--restore", "all"),
            2,
            "old versions of metadata are in no quarantine",
        ),
    ],
)
def test_what_a_person_has_mistyped_changes_nothing(ask, lab, words, code, says):
    result = ask(*words)

    assert result.exit_code == code, result.output
    assert says in " ".join(result.output.split())
    assert there(lab) == set()
