"""Names that an address cannot hold as they are, on Iceberg's own REST server: what is there is found, and kept."""

import pytest

from isotherm.core import observations as seen
from isotherm.iceberg.catalog import IcebergCatalog
from isotherm_ingest.tables.lake import Lake
from support.lab import EXPIRING, SCHEMA, of, started

pytestmark = pytest.mark.stack

ODD = ["Nord Süd", "it's", "a&b", "a+b", "a,b", "a=b", "x:y", "x;y", "(a)", "[a]", "a@b", "~", "日本"]
MINUTE_MS = 60_000


def made(lab, *levels):
    for depth in range(1, len(levels)):
        lab.writer.create_namespace_if_not_exists(levels[:depth])
    return lab.writer.create_table(levels, SCHEMA)


def test_every_table_is_listed_and_loaded_by_its_name(rest_lab):
    lab = rest_lab()
    tables = [made(lab, odd, odd, "c", odd) for odd in ODD] + [made(lab, "plain", odd) for odd in ODD]
    uuids = {".".join(table.name()): str(table.metadata.table_uuid) for table in tables}
    catalog = IcebergCatalog(lab.catalog)
    listing = catalog.names()

    assert (set(listing.names), listing.unlisted) == (uuids.keys(), {})
    assert {name: catalog.lies(name).uuid for name in listing.names} == uuids
    # ingest has a client of its own.
    assert set(Lake("lake", lab.properties).names(None)) == uuids.keys()


def test_tables_whose_levels_are_joined_to_one_text_are_each_found(rest_lab):
    lab = rest_lab()
    tables = [made(lab, *levels) for levels in (("a", "b", "c"), ("a", "b.c"))]
    uuids = [str(table.metadata.table_uuid) for table in tables]
    catalog = IcebergCatalog(lab.catalog)
    names = catalog.names().names

    assert names == ["a.b%2Ec", "a.b.c"]
    assert Lake("lake", lab.properties).names(None) == names
    for name, number in zip(names, (1, 0), strict=True):
        assert catalog.load(name).table.uuid == catalog.lies(name).uuid == uuids[number]


@pytest.mark.parametrize("odd", ["a..b", "trail."])
def test_a_table_with_an_empty_level_in_its_name_is_looked_at(rest_lab, odd):
    lab = rest_lab()
    tables = [made(lab, "plain", odd), made(lab, odd, "t")]
    catalog = IcebergCatalog(lab.catalog)
    found = {catalog.lies(name).uuid for name in catalog.names().names}

    assert found == {str(table.metadata.table_uuid) for table in tables}


def test_a_second_entry_below_such_a_name_keeps_its_files(rest_lab):
    lab = rest_lab(EXPIRING)
    table = lab.create()
    for _ in range(8):
        lab.append(table, 1, announce=False)
    for levels in (("münchen",), ("münchen", "raw")):
        lab.writer.create_namespace(levels)
    twin = lab.writer.register_table(("münchen", "raw", "copy"), table.refresh().metadata_location)
    service = started(lab)
    for turn in range(400):
        service.step(0)
        service.maintainer.wait(0.2)
        if of(lab, seen.TableHalted) or of(lab, seen.FilesDeleted):
            break
        if turn % 5 == 4:
            lab.ahead_ms += MINUTE_MS
            lab.is_ahead_ms += MINUTE_MS

    assert [len(twin.scan(snapshot_id=one.snapshot_id).to_arrow()) for one in twin.snapshots()] == [
        2 * number for number in range(1, 9)
    ]
    (halted,) = of(lab, seen.TableHalted)
    assert halted.reason == "two_entries"
    service.stop()
