"""Orphans are moved into a table's quarantine, wait there, and are deleted for good or put back."""

import os
import shutil
from pathlib import Path

import pytest

from isotherm.core import observations as seen
from isotherm.core.model.jobs import Action
from isotherm.core.quarantine import FOLDER
from support.lab import of, started, uuid_of
from support.searching import (
    APPLY,
    ORPHANS,
    POLICY,
    REPORT,
    ended,
    files,
    filled,
    home,
    inside,
    missed,
    pass_by,
    plant,
    rows,
)

QUARANTINE = POLICY.replace("MODE", "quarantine, keep_for: 5d")
OF_OTHERS = ("data/_tmp/e.parquet", "data/.hidden", "metadata/version-hint.text", "metadata/v7.metadata.json")


def in_quarantine(service):
    return sum(files for files, _ in service.ledger.quarantines().values())


def deleted(lab):
    return of(lab, seen.FilesDeleted)


def ruled(lab, policy):
    (lab.root / "policies" / "all.yaml").write_text(policy)


def put_back(table, name):
    """As a person would do it without us."""
    (place,) = (home(table) / FOLDER).glob(f"*/{name}")
    place.rename(home(table) / name)


def test_orphans_are_moved_wait_and_go_for_good_and_nothing_else_does(lab_of):
    lab = lab_of(QUARANTINE)
    table = filled(lab)
    planted, others = plant(table, *ORPHANS), plant(table, *OF_OTHERS)
    had = rows(table)
    service = started(lab)
    pass_by(lab, service, 4)

    assert not any(path.exists() for path in planted)
    assert inside(table) == dict.fromkeys(ORPHANS, b"nobody knows me")
    assert service.ledger.quarantines() == {uuid_of(table): (4, 60)}
    assert service.ledger.deletions(uuid_of(table)) == {"moved": 4, "waiting": 4}
    assert sum(one.moved for one in deleted(lab)) == 4
    assert sum(one.files for one in deleted(lab)) == 0
    (told, *_) = [one for one in ended(service, Action.REMOVE_ORPHANS) if one.files_marked]
    assert told.outcome_why.endswith(
        "4 are marked, and are moved into quarantine after 1d if they are still so"
    )
    pass_by(lab, service, 8)

    assert inside(table) == {}
    assert (sum(one.purged for one in deleted(lab)), sum(one.files for one in deleted(lab))) == (4, 4)
    assert {*others} <= files(table)
    assert rows(table) == had
    assert in_quarantine(service) == 0
    told = [(one.files, one.bytes) for one in of(lab, seen.QuarantineCounted)]
    assert (told[0], told[-1], set(told)) == ((4, 60), (0, 0), {(4, 60), (0, 0)})
    service.stop()


def test_before_their_time_is_over_none_goes_and_a_longer_time_counts_at_once(lab_of):
    lab = lab_of(QUARANTINE)
    table = filled(lab)
    plant(table, *ORPHANS)
    service = started(lab)
    pass_by(lab, service, 4)
    (since_ms,) = {one.since_ms for one in service.ledger.files_in_quarantine(uuid_of(table))}
    ruled(lab, QUARANTINE.replace("5d", "9d"))
    while lab.now_ms() < since_ms + 9 * 86_400_000:
        assert len(inside(table)) == 4
        pass_by(lab, service, 0.25)
    pass_by(lab, service, 2)

    assert inside(table) == {}
    service.stop()


def test_a_shorter_time_counts_for_nothing_that_is_there_already_also_where_a_look_comes_early(lab_of):
    lab = lab_of(QUARANTINE.replace("5d", "9d"))
    table = filled(lab)
    plant(table, *ORPHANS)
    service = started(lab)
    pass_by(lab, service, 4)
    (promised_ms,) = {one.until_ms for one in service.ledger.files_in_quarantine(uuid_of(table))}
    ruled(lab, QUARANTINE.replace("5d", "1d"))
    table.refresh()
    with table.transaction() as change:
        change.set_properties({"gc.enabled": "false"})  # all that is there is looked at by itself
    pass_by(lab, service, 2)
    with table.transaction() as change:
        change.remove_properties("gc.enabled")
    while lab.now_ms() < promised_ms:
        assert len(inside(table)) == 4
        assert {one.until_ms for one in service.ledger.files_in_quarantine(uuid_of(table))} == {promised_ms}
        pass_by(lab, service, 0.25)
    pass_by(lab, service, 2)

    assert inside(table) == {}
    service.stop()


def test_what_is_needed_again_is_put_back_soon_and_told(lab_of):
    lab = lab_of(QUARANTINE)
    table = filled(lab)
    service = started(lab)
    late = missed(lab, service, table)

    pass_by(lab, service, 2)

    assert late.exists()
    assert sum(one.files for one in of(lab, seen.FilesRestored)) == 1
    assert set(inside(table)) == {"data/gone.parquet"}
    assert len(rows(table)) == 5
    assert any(
        "1 file in quarantine are needed where they were" in one.outcome_why for one in removals(service)
    )
    service.stop()


def removals(service):
    return ended(service, Action.REMOVE_ORPHANS)


@pytest.mark.parametrize("hinders", ["report", "gc.enabled", "history"])
def test_what_is_needed_again_is_put_back_by_a_policy_that_only_reports_and_where_a_search_is_refused(
    lab_of, hinders
):
    lab = lab_of(QUARANTINE.replace("5d", "40d"))
    table = filled(lab)
    service = started(lab)
    late = missed(lab, service, table)
    if hinders == "report":
        ruled(lab, REPORT)
    elif hinders == "history":
        service.ledger.see(uuid_of(table), 99, lab.now_ms())
    else:
        with table.transaction() as change:
            change.set_properties({"gc.enabled": "false"})

    pass_by(lab, service, 3)

    assert late.exists()
    assert sum(one.files for one in of(lab, seen.FilesRestored)) == 1
    pass_by(lab, service, 50)
    assert set(inside(table)) == {"data/gone.parquet"}
    service.stop()


def test_a_policy_that_only_reports_by_now_stops_what_goes_from_quarantine_for_good(lab_of):
    lab = lab_of(QUARANTINE)
    table = filled(lab)
    plant(table, *ORPHANS)
    service = started(lab)
    pass_by(lab, service, 4)
    stopped = []
    service.maintainer.stop_sweep = stopped.append
    service.maintainer.swept = list  # it takes long
    pass_by(lab, service, 8)
    assert stopped == []
    ruled(lab, REPORT)
    pass_by(lab, service, 0.25)

    assert set(stopped) == {uuid_of(table)}
    service.stop()


def test_a_policy_that_does_not_look_puts_nothing_back(lab_of):
    lab = lab_of(QUARANTINE)
    table = filled(lab)
    service = started(lab)
    late = missed(lab, service, table)
    ruled(lab, POLICY.replace("MODE", "off"))
    pass_by(lab, service, 20)

    assert set(inside(table)) == {"data/gone.parquet", "data/late.parquet"}
    assert not late.exists()
    service.stop()


def test_what_was_away_and_is_there_again_is_known_at_the_next_search(lab_of):
    lab = lab_of(QUARANTINE)
    table = filled(lab)
    plant(table, *ORPHANS)
    service = started(lab)
    pass_by(lab, service, 4)
    folder, elsewhere = home(table) / FOLDER, home(table) / "looked_at"
    folder.rename(elsewhere)
    pass_by(lab, service, 1.5)
    assert in_quarantine(service) == 0
    elsewhere.rename(folder)
    pass_by(lab, service, 1.5)

    assert in_quarantine(service) == 4
    pass_by(lab, service, 8)
    assert inside(table) == {}
    service.stop()


def test_two_attempts_of_one_epoch_are_told_apart_and_the_later_one_comes_back(lab_of):
    lab = lab_of(QUARANTINE.replace("5d", "9d"))
    table = filled(lab)
    source = Path(table.inspect.files()["file_path"][0].as_py().removeprefix("file://"))
    (file,) = plant(table, "data/a.parquet")
    service = started(lab)
    pass_by(lab, service, 4)
    file.write_bytes(source.read_bytes())
    pass_by(lab, service, 4)
    assert not file.exists()
    file.write_bytes(source.read_bytes())
    table.refresh()
    table.add_files([f"file://{file}"])
    file.unlink()
    pass_by(lab, service, 2)

    assert file.read_bytes() == source.read_bytes()
    assert inside(table) == {"data/a.parquet": b"nobody knows me"}
    pass_by(lab, service, 12)
    assert inside(table) == {}
    assert file.exists()
    service.stop()


def test_what_a_person_has_put_back_is_left_alone_until_it_is_old_again(lab_of):
    lab = lab_of(QUARANTINE)
    table = filled(lab)
    plant(table, *ORPHANS)
    service = started(lab)
    pass_by(lab, service, 4)
    (place,) = (home(table) / FOLDER).glob("*/data/a.parquet")
    now_s = lab.now_ms() / 1000
    put_back(table, "data/a.parquet")
    os.utime(home(table) / "data/a.parquet", (now_s, now_s))

    pass_by(lab, service, 1.5)

    assert (home(table) / "data/a.parquet").exists()
    assert not place.exists()
    # The next search has seen that it is there no more.
    assert in_quarantine(service) == 3
    assert (sum(one.purged for one in deleted(lab)), of(lab, seen.FilesRestored)) == (0, [])
    pass_by(lab, service, 4)
    assert not (home(table) / "data/a.parquet").exists()
    service.stop()


@pytest.mark.parametrize(("policy", "stays"), [(REPORT, True), (APPLY, False)])
def test_by_another_policy_what_is_in_quarantine_stays_or_goes_in_its_time(lab_of, policy, stays):
    lab = lab_of(QUARANTINE)
    table = filled(lab)
    plant(table, *ORPHANS)
    service = started(lab)
    pass_by(lab, service, 4)
    ruled(lab, policy)
    pass_by(lab, service, 30)

    assert len(inside(table)) == (4 if stays else 0)
    service.stop()


def test_what_others_put_into_the_folder_is_no_file_of_ours(lab_of):
    lab = lab_of(QUARANTINE)
    table = filled(lab)
    theirs = plant(
        table,
        f"{FOLDER}/notes.parquet",
        f"{FOLDER}/job/notes.parquet",
        f"{FOLDER}/job/elsewhere/a.parquet",
        f"{FOLDER}/job/data/a.txt",
        f"{FOLDER}/job/data/_tmp/a.parquet",
    )
    service = started(lab)
    pass_by(lab, service, 14)

    assert all(path.exists() for path in theirs)
    assert in_quarantine(service) == 0
    service.stop()


def test_through_a_link_nothing_is_moved_out_of_the_table(lab_of, tmp_path):
    lab = lab_of(QUARANTINE)
    table = filled(lab)
    planted = plant(table, *ORPHANS)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (home(table) / FOLDER).symlink_to(elsewhere)
    service = started(lab)
    pass_by(lab, service, 6)

    assert all(path.exists() for path in planted)
    assert list(elsewhere.iterdir()) == []
    service.stop()


def test_where_the_metadata_of_another_table_lies_in_the_folder_nothing_goes_from_quarantine(lab_of):
    lab = lab_of(QUARANTINE)
    table, other = filled(lab), filled(lab, "shop.others")
    service = started(lab)
    late = missed(lab, service, table)
    theirs = max((home(other) / "metadata").glob("*.metadata.json"))
    version = Path(shutil.copy(theirs, home(table) / "metadata"))
    pass_by(lab, service, 10)

    assert set(inside(table)) == {"data/gone.parquet"}
    assert late.exists()  # what this table needs comes back all the same
    version.unlink()
    pass_by(lab, service, 3)
    assert inside(table) == {}
    service.stop()
