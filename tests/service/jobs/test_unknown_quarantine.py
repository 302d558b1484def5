"""A daemon whose ledger does not know what is in a table's quarantine finds it by listing, and puts back what is needed."""

import shutil
from pathlib import Path

import pytest

from isotherm.core import observations as seen
from isotherm.core.quarantine import FOLDER
from isotherm.core.units import DAY_MS
from isotherm.service.jobs import folder_searches, quarantine_listings
from isotherm.service.jobs.deletions import Deletions
from support.lab import of, started, uuid_of
from support.memory_topics import MemoryKeyedTopic
from support.searching import ORPHANS, POLICY, filled, home, inside, missed, pass_by, plant, rows

QUARANTINE = POLICY.replace("MODE", "quarantine, keep_for: 5d")


def in_quarantine(service):
    return sum(files for files, _ in service.ledger.quarantines().values())


def without_its_ledger(lab, service):
    """The daemon again, whose ledger was lost. It is doubted."""
    service.maintainer.stop()
    service.fold.close()
    service.ledger.close()
    for path in lab.root.rglob("ledger.db*"):
        path.unlink()
    lab.held.clear()
    return started(lab)


def believed(lab, service):
    """`isotherm resume`."""
    MemoryKeyedTopic(lab.held).write(f"{service.ledger.id}/ledger", None)


def test_a_ledger_that_was_lost_finds_again_what_is_in_quarantine_and_keeps_it_for_the_whole_time(lab_of):
    lab = lab_of(QUARANTINE)
    table = filled(lab)
    plant(table, *ORPHANS)
    service = started(lab)
    pass_by(lab, service, 4)
    service = without_its_ledger(lab, service)
    pass_by(lab, service, 2)
    assert in_quarantine(service) == 0  # while the ledger is doubted nothing is done
    believed(lab, service)
    pass_by(lab, service, 2)

    assert in_quarantine(service) == 4
    assert len(inside(table)) == 4
    pass_by(lab, service, 8)
    assert inside(table) == {}
    service.stop()


@pytest.mark.parametrize("hinders", ["history", "gc.enabled"])
def test_what_the_table_needs_comes_back_though_no_search_may_be_made_and_the_ledger_does_not_know_it(
    lab_of, hinders
):
    lab = lab_of(QUARANTINE)
    table = filled(lab)
    plant(table, *ORPHANS)
    service = started(lab)
    late = missed(lab, service, table)
    if hinders == "gc.enabled":
        with table.transaction() as change:
            change.set_properties({"gc.enabled": "false"})
    service = without_its_ledger(lab, service)
    if hinders == "history":
        service.ledger.see(uuid_of(table), 99, lab.now_ms())
    pass_by(lab, service, 2)
    # While the ledger is doubted nothing is done.
    assert (in_quarantine(service), late.exists()) == (0, False)
    believed(lab, service)
    pass_by(lab, service, 3)

    assert late.exists()
    assert sum(one.files for one in of(lab, seen.FilesRestored)) == 1
    assert len(rows(table)) == 5
    # What is left is known again, is told, and stays while nothing may be deleted.
    assert in_quarantine(service) == len(ORPHANS) + 1
    assert [one.files for one in of(lab, seen.QuarantineCounted)][-1] == len(ORPHANS) + 1
    pass_by(lab, service, 12)
    assert set(inside(table)) == {*ORPHANS, "data/gone.parquet"}
    service.stop()


def test_a_quarantine_is_listed_alone_once_a_day_and_not_where_a_search_may_be_made(lab_of):
    lab = lab_of(QUARANTINE)
    table = filled(lab, **{"gc.enabled": "false"})
    other = filled(lab, "shop.others")
    service = started(lab)
    pass_by(lab, service, 1)
    listed, start = [], service.maintainer.start_search

    def start_and_note(loaded, job_id, search):
        listed.append((loaded.table.name, str(search.cause)))
        start(loaded, job_id, search)

    service.maintainer.start_search = start_and_note
    pass_by(lab, service, 4)

    assert 4 <= listed.count(("shop.orders", "quarantined")) <= 5
    assert {one for one in listed if one[1] == "quarantined"} == {("shop.orders", "quarantined")}
    # It is no operation, and nobody takes it for a search that failed.
    assert {one.table.name for one in service.ledger.operations()} == {"shop.others"}
    assert uuid_of(other) != uuid_of(table)
    service.stop()


def test_however_many_tables_cannot_be_listed_a_turn_looks_at_a_few_of_them(lab_of, monkeypatch):
    """Some catalogs say `gc.enabled=false` of each table, and most may have no policy."""
    monkeypatch.setattr(quarantine_listings, "LOOKED_AT", 2)
    lab = lab_of(QUARANTINE.replace('tables: "*"', 'tables: "shop.*"'))
    for name in ("raw.a", "raw.b", "raw.c", "raw.d", "raw.e"):
        filled(lab, name, 1, **{"gc.enabled": "false"})
    service = started(lab)
    pass_by(lab, service, 1)
    looks, ask = [], Deletions.why_not

    def counted(deletions, *arguments):
        looks[-1] += 1
        return ask(deletions, *arguments)

    monkeypatch.setattr(Deletions, "why_not", counted)
    lab.ahead_ms += 2 * DAY_MS
    for _ in range(5):
        looks.append(0)
        service.listings.turn()
    assert looks == [2, 2, 1, 0, 0]
    service.stop()


def test_what_is_put_into_a_quarantine_by_hand_is_known_at_the_next_listing(lab_of):
    lab = lab_of(QUARANTINE)
    table = filled(lab, **{"gc.enabled": "false"})
    service = started(lab)
    pass_by(lab, service, 1)
    plant(table, f"{FOLDER}/j/data/a.parquet")
    pass_by(lab, service, 1.5)

    assert in_quarantine(service) == 1
    assert (home(table) / FOLDER / "j/data/a.parquet").exists()
    service.stop()


def test_what_may_be_in_the_quarantine_of_a_table_that_was_here_before_is_not_taken_over(lab_of):
    lab = lab_of(QUARANTINE)
    table, other = filled(lab), filled(lab, "shop.others")
    (file,) = plant(table, f"{FOLDER}/j/data/a.parquet")
    theirs = max((home(other) / "metadata").glob("*.metadata.json"))
    version = Path(shutil.copy(theirs, home(table) / "metadata"))
    service = started(lab)
    pass_by(lab, service, 8)
    assert in_quarantine(service) == 0
    assert file.exists()
    # A person says that it is gone: only from then on the time of what is here passes.
    version.unlink()
    pass_by(lab, service, 2)

    assert in_quarantine(service) == 1
    pass_by(lab, service, 2)
    assert file.exists()
    pass_by(lab, service, 5)
    assert not file.exists()
    service.stop()


def test_a_search_is_told_of_a_large_quarantine_some_at_a_time(lab_of, monkeypatch):
    monkeypatch.setattr(folder_searches, "KNOWN_AT_ONCE", 2)
    lab = lab_of(QUARANTINE)
    table = filled(lab)
    plant(table, *ORPHANS)
    service = started(lab)
    pass_by(lab, service, 4)
    told, slices = [], []
    start, ask = service.maintainer.start_search, service.ledger.files_in_quarantine

    def start_and_note(loaded, job_id, search):
        told.append(search.quarantined)
        start(loaded, job_id, search)

    def ask_and_note(uuid, after="", limit=-1):
        answer = ask(uuid, after, limit)
        slices.append(len(answer))
        return answer

    service.maintainer.start_search = start_and_note
    service.ledger.files_in_quarantine = ask_and_note
    pass_by(lab, service, 1.5)

    places = {one.place for one in ask(uuid_of(table))}
    assert len(places) == len(ORPHANS)
    assert places in told
    assert slices[:3] == [2, 2, 0]
    service.stop()
