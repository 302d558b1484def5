"""A table's owner chooses neither code, hosts nor keys; what the server vends is what its files are read with."""

import json
import pickle
from pathlib import Path

import pytest

from isotherm.clients.storage import RetryingFileIO
from isotherm.contract.paths import normalised
from isotherm.iceberg.catalog import IcebergCatalog, connect
from isotherm.iceberg.compaction.rewrite import files_of
from isotherm.iceberg.maintainer import IcebergMaintainer
from isotherm.parquet.table_description import table_of
from isotherm.runtime.clock import now_ms
from isotherm.runtime.config import CatalogConfig
from support.servers import http_server

EVIL = {
    "py-io-impl": "nowhere.Code",
    "s3.endpoint": "http://evil.example.com",
    "s3.proxy-uri": "http://evil.example.com",
    "s3.access-key-id": "evil",
    "gcs.service.host": "http://evil.example.com",
    "token": "evil",
}
VENDED = {"s3.access-key-id": "vended", "s3.session-token": "for an hour"}


def test_the_properties_of_a_table_reach_neither_the_client_of_its_files_nor_that_of_a_rewrite(lab):
    table = lab.create(**EVIL)
    for hour in (1, 1, 1, 9, 9):
        lab.append(table, hour)
    service = lab.settled()
    loaded = lab.catalog.load_table("shop.orders")

    assert [one.reason for one in service.ledger.operations()] == ["committed"]
    assert EVIL.items() <= loaded.properties.items()
    assert "evil" not in str(loaded.io.properties)
    service.stop()


@pytest.fixture
def vending(lab):
    """A REST catalog of one table, with credentials that the server vends for it, and some of the operator's."""
    table = lab.create(**EVIL)
    lab.append(table, 1)
    answer = {
        "metadata-location": table.refresh().metadata_location,
        "metadata": json.loads(Path(normalised(table.metadata_location)).read_text()),
        "config": {"s3.region": "from the server", "s3.access-key-id": "superseded"},
        "storage-credentials": [{"prefix": "file:", "config": dict(VENDED)}],
    }
    config = {"defaults": {}, "overrides": {}}
    with http_server(lambda _, path: (200, config if path == "/v1/config" else answer)) as url:
        properties = {"type": "rest", "uri": url, "s3.endpoint": "http://store.example.com", "token": "ours"}
        catalog = connect(CatalogConfig(properties=properties))
        catalog.vended = answer["storage-credentials"][0]["config"]
        yield catalog


def test_what_the_server_vends_for_a_table_is_what_its_files_are_read_with(vending):
    loaded = IcebergCatalog(vending).load("shop.orders")
    found = loaded.handle.io.properties

    assert VENDED.items() <= found.items()
    assert (found["s3.region"], found["s3.endpoint"]) == ("from the server", "http://store.example.com")
    assert "evil" not in str(found)
    assert loaded.handle.properties["py-io-impl"] == "nowhere.Code", "the table keeps its properties"
    again = IcebergCatalog(vending).load("shop.orders").handle.io
    assert again is loaded.handle.io
    vending.vended["s3.session-token"] = "for the next hour"
    renewed = IcebergCatalog(vending).load("shop.orders").handle.io
    assert renewed.properties["s3.session-token"] == "for the next hour"


def test_a_rewrite_gets_the_properties_with_which_the_table_is_read_here(vending):
    given = []

    class Executor:
        def start(self, *values):
            given.append(pickle.loads(pickle.dumps(values)))  # noqa: S301 (as on the way to another process)

    loaded = IcebergCatalog(vending).load("shop.orders")
    IcebergMaintainer(vending, Executor(), now_ms).start(loaded, "a job")
    ((_, description, properties),) = given

    assert str(table_of(description).table_uuid) == loaded.table.uuid
    assert VENDED.items() <= properties.items()
    assert all(isinstance(text, str) for text in properties.values())


def test_the_table_of_a_rewrite_chooses_no_code(lab):
    table = lab.create(**EVIL)

    assert isinstance(files_of(table.metadata, {}), RetryingFileIO)
