"""Where a table or its folders are not what they were, a search finds nothing, and says why."""

from pathlib import Path

import pytest

from isotherm.core.deletion import Cause
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg import orphan_search
from isotherm.iceberg.orphan_search import find
from support.search_alone import search_of


def test_more_files_than_can_be_compared_are_said_to_be_too_many(on_disk, monkeypatch):
    table = on_disk.create()
    on_disk.append(table, 1)
    monkeypatch.setattr(orphan_search, "MOST", 2)

    result = find(table.refresh(), search_of(table))

    assert result == Refusal(Reason.UNSUPPORTED, "its folders hold more than 2 files")


def test_a_table_in_the_place_of_another_is_not_searched(on_disk):
    table = on_disk.create()
    on_disk.append(table, 1)
    wanted = search_of(table)
    on_disk.catalog.drop_table("shop.orders")
    on_disk.create()

    result = find(table, wanted)

    assert isinstance(result, Refusal)
    assert result.reason is Reason.GONE


@pytest.mark.parametrize("cause", [Cause.ORPHAN, Cause.OLD_VERSION])
def test_a_catalog_that_does_not_know_all_is_not_believed(on_disk, cause):
    table = on_disk.create()
    for hour in range(4):
        on_disk.append(table, hour)
    first = sorted(Path(table.refresh().metadata_location.removeprefix("file://")).parent.glob("*.json"))[1]
    on_disk.catalog.drop_table("shop.orders")
    table = on_disk.catalog.register_table("shop.orders", f"file://{first}")

    result = find(table, search_of(table, cause))

    assert (result.reason, "is further than the catalog's version" in result.why) == (
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

    assert isinstance(result, Refusal)
    assert "is a link" in result.why


def test_a_table_whose_history_went_back_is_not_searched(on_disk):
    table = on_disk.create()
    on_disk.append(table, 1)

    result = find(table, search_of(table, seen_through=2))

    assert result == Refusal(Reason.STALE, "its history went back: its last sequence number is 1, it was 2")
