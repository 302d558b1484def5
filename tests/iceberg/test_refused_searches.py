"""Where a table or its folders are not what they were, a search finds nothing, and says why."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from isotherm.core.deletion import Cause
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.core.orphan_findings import Refused
from isotherm.core.quarantine import FOLDER
from isotherm.iceberg import orphan_search
from isotherm.iceberg.orphan_search import find
from support.lab import uuid_of
from support.search_alone import put, search_of


def test_more_files_than_can_be_compared_are_said_to_be_too_many(on_disk, monkeypatch):
    table = on_disk.create()
    on_disk.append(table, 1)
    monkeypatch.setattr(orphan_search, "MOST", 2)

    result = find(table.refresh(), search_of(table))

    assert result.refusal == Refusal(Reason.UNSUPPORTED, "its folders hold more than 2 files")


def test_a_table_in_the_place_of_another_is_not_searched(on_disk):
    table = on_disk.create()
    on_disk.append(table, 1)
    wanted = search_of(table)
    on_disk.catalog.drop_table("shop.orders")
    on_disk.create()

    result = find(table, wanted)

    assert isinstance(result, Refused)
    assert result.refusal.reason is Reason.GONE


@pytest.mark.parametrize("cause", [Cause.ORPHAN, Cause.OLD_VERSION])
def test_a_catalog_that_does_not_know_all_is_not_believed(on_disk, cause):
    table = on_disk.create()
    for hour in range(4):
        on_disk.append(table, hour)
    first = sorted(Path(table.refresh().metadata_location.removeprefix("file://")).parent.glob("*.json"))[1]
    on_disk.catalog.drop_table("shop.orders")
    table = on_disk.catalog.register_table("shop.orders", f"file://{first}")

    result = find(table, search_of(table, cause))

    assert (result.refusal.reason, "is further than the catalog's version" in result.refusal.why) == (
        Reason.OTHER_HISTORY,
        True,
    )


def test_a_folder_that_leads_elsewhere_is_not_searched(on_disk):
    table = on_disk.create()
    on_disk.append(table, 1)
    data = Path(table.refresh().metadata.location.removeprefix("file://")) / "data"
    data.rename(data.with_name("elsewhere"))
    data.symlink_to(data.with_name("elsewhere"))

    result = find(table, search_of(table))

    assert isinstance(result, Refused)
    assert "is a link" in result.refusal.why


def test_a_table_whose_history_went_back_is_not_searched(on_disk):
    table = on_disk.create()
    on_disk.append(table, 1)

    result = find(table, search_of(table, seen_through=2))

    assert result.refusal == Refusal(
        Reason.STALE, "its history went back: its last sequence number is 1, it was 2"
    )


@pytest.mark.parametrize("why", ["gc.enabled", "history", "damage"])
def test_a_search_that_is_refused_tells_what_lies_in_quarantine(on_disk, why):
    """A ledger that was lost knows nothing of it, and the table may need it."""
    table = on_disk.create()
    on_disk.append(table, 1)
    put(table, f"{FOLDER}/j/data/a.parquet")
    wanted = search_of(table, seen_through=9 if why == "history" else 0)
    if why == "gc.enabled":
        with table.transaction() as change:
            change.set_properties({"gc.enabled": "false"})
    elif why == "damage":
        Path(table.refresh().current_snapshot().manifest_list.removeprefix("file://")).write_bytes(b"no list")

    result = find(table.refresh(), wanted)

    assert isinstance(result, Refused)
    assert [one.path for one in result.quarantine] == [f"{table.metadata.location}/{FOLDER}/j/data/a.parquet"]
    assert find(table, replace(wanted, cause=Cause.OLD_VERSION)).quarantine in (None, ())
    alone = find(table, replace(wanted, cause=Cause.QUARANTINED))
    assert (alone.quarantine, alone.refusal.reason) == (result.quarantine, Reason.GC_DISABLED)


def test_what_lies_in_the_place_of_another_table_is_not_told_as_its_quarantine(on_disk):
    table = on_disk.create()
    on_disk.append(table, 1)
    put(table, f"{FOLDER}/j/data/a.parquet")
    wanted = search_of(table)
    on_disk.catalog.drop_table("shop.orders")
    on_disk.create()

    assert find(table, wanted).quarantine is None


def test_other_tables_are_told_also_where_the_catalog_does_not_know_all_of_this_one(on_disk):
    table, other = on_disk.create(), on_disk.create("shop.other")
    for one in (table, other):
        for hour in range(4):
            on_disk.append(one, hour)
    mine, theirs = (
        sorted(Path(one.refresh().metadata_location.removeprefix("file://")).parent.glob("*.json"))
        for one in (table, other)
    )
    shutil.copy(theirs[-1], mine[0].parent)
    on_disk.catalog.drop_table("shop.orders")
    table = on_disk.catalog.register_table("shop.orders", f"file://{mine[1]}")

    result = find(table, search_of(table))

    assert "is further than the catalog's version" in result.refusal.why
    assert result.strangers == {uuid_of(other)}
