"""A catalog's client: it follows no redirect, asks for every snapshot, and takes no number that Java could not."""

import json
from pathlib import Path

import psutil
import pytest
from pyiceberg.exceptions import BadRequestError

from isotherm.clients.catalog import open_catalog
from isotherm.clients.metadata_checks import LARGEST_COUNT
from isotherm.clients.metadata_file import NEWEST
from isotherm.clients.storage import properties_with_retries
from isotherm.iceberg.catalog import IcebergCatalog, connect
from isotherm.runtime.config import CatalogConfig
from isotherm.service.ports import TableMissing, Unreadable
from support.lab import SCHEMA
from support.object_store import BUCKET, object_store
from support.rest_answers import rest
from support.servers import http_server


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_catalog_that_redirects_a_request_to_change_something_is_not_followed(status):
    """`requests` would follow a POST with a GET, whose answer looks like that of a commit."""
    asked = []

    def answer(method, path):
        asked.append(method)
        if path.startswith("/v1/config"):
            return 200, {"defaults": {}, "overrides": {}}
        return status, {}, {"Location": "/elsewhere"}

    with http_server(answer) as url:
        catalog = connect(rest(url))
        with pytest.raises(BadRequestError, match=r"redirects POST .* to /elsewhere"):
            catalog.create_namespace("shop")

    assert asked == ["GET", "POST"]


def test_a_catalog_that_redirects_a_question_is_followed():
    """Several times too, and page by page; each answer on the way has the same limits."""

    def answer(_, path):
        if "config" in path:
            return 200, {"defaults": {}, "overrides": {}}
        if path.startswith(("/v1", "/moved/v1")):
            return 307, {}, {"Location": f"/moved{path}"}
        after = None if "pageToken" in path else "x"
        return 200, {"namespaces": [["shop" if after else "lake"]], "next-page-token": after}

    with http_server(answer) as url:
        assert connect(rest(url)).list_namespaces() == [("shop",), ("lake",)]


@pytest.mark.parametrize("where", ["defaults", "overrides"])
def test_every_snapshot_is_asked_for_whatever_the_server_configures(where):
    """A snapshot that is not shown would be taken for gone, and its files deleted."""
    asked = []

    def answer(_, path):
        asked.append(path)
        if "config" in path:
            return 200, {"defaults": {}, "overrides": {}, where: {"snapshot-loading-mode": "refs"}}
        return 404, {"error": {"message": "no", "type": "NoSuchTableException", "code": 404}}

    with http_server(answer) as server, pytest.raises(TableMissing):
        IcebergCatalog(connect(rest(server))).load("shop.orders")

    assert asked[-1].endswith("tables/orders?snapshots=all")


def test_tables_with_the_same_credentials_share_a_client_of_their_store(tmp_path):
    with object_store() as store:
        properties = {
            "type": "sql",
            "uri": f"sqlite:///{tmp_path}/c.db",
            "warehouse": f"s3://{BUCKET}/w",
            **store.properties(),
        }
        made = connect(CatalogConfig(properties=properties))
        made.create_namespace("shop")
        names = [f"shop.t{number}" for number in range(30)]
        for name in names:
            made.create_table(name, SCHEMA)
        catalog = IcebergCatalog(connect(CatalogConfig(properties=properties)))
        before = psutil.Process().num_fds()
        loaded = [catalog.load(name) for name in names]

        # A client takes two or three; the store itself, in this process too, a few for its answers.
        assert psutil.Process().num_fds() - before < len(loaded)


def test_nobody_but_the_caller_leaves_snapshots_out(lab):
    """Whoever deletes files takes what no snapshot names for gone."""
    table = lab.create()
    for hour in (1, 2, 3):
        lab.append(table, hour)
    asked = {**lab.properties, NEWEST: "1"}
    whole = open_catalog("lake", properties_with_retries(asked), 5).load_table("shop.orders")
    cut = open_catalog("lake", properties_with_retries(lab.properties), 5, newest=1).load_table("shop.orders")

    assert (len(whole.metadata.snapshots), len(cut.metadata.snapshots)) == (3, 1)


def test_no_server_leaves_snapshots_out():
    """By its configuration; what it answers is what it has."""
    asked = []

    def answer(_, path):
        asked.append(path)
        if "config" in path:
            return 200, {"defaults": {NEWEST: "1"}, "overrides": {NEWEST: "1"}}
        return 200, {"namespaces": []}

    with http_server(answer) as url:
        catalog = open_catalog("lake", {"type": "rest", "uri": url}, 5)
        assert catalog.list_namespaces() == []
    assert asked
    assert NEWEST not in catalog.properties


def with_snapshots(**changes):
    def change(metadata):
        for snapshot in metadata["snapshots"]:
            snapshot.update({name.replace("_", "-"): number for name, number in changes.items()})

    return change


def with_head(number):
    def change(metadata):
        with_snapshots(snapshot_id=number)(metadata)
        metadata["current-snapshot-id"] = metadata["refs"]["main"]["snapshot-id"] = number

    return change


def with_log(log, number):
    def change(metadata):
        metadata[log][-1]["timestamp-ms"] = number

    return change


NUMBERS = {
    "a snapshot-id": with_head(10**30),
    "a snapshot's sequence-number": with_snapshots(sequence_number=LARGEST_COUNT),
    "a snapshot's timestamp-ms": with_snapshots(timestamp_ms=LARGEST_COUNT),
    "last-updated-ms": lambda metadata: metadata.update({"last-updated-ms": 2**63 - 1}),
    "last-sequence-number": lambda metadata: metadata.update({"last-sequence-number": 2**63 - 1}),
    "next-row-id": lambda metadata: metadata.update({"format-version": 3, "next-row-id": 2**63 - 1}),
    "the timestamp-ms of a log": with_log("snapshot-log", 10**30),
    "the timestamp-ms of a log, that of versions": with_log("metadata-log", -(10**30)),
}


@pytest.mark.parametrize(("what", "change"), NUMBERS.items(), ids=NUMBERS)
def test_a_table_with_a_number_after_which_none_of_javas_comes_is_not_read(lab, what, change):
    """No store of ours could keep it, and our own commit would write a greater one."""
    table = lab.create()
    lab.append(table, 1)
    path = Path(table.metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_text())
    change(metadata)
    path.write_text(json.dumps(metadata))

    with pytest.raises(Unreadable, match=f"a number of [0-9]+ digits as {what.partition(',')[0]} "):
        IcebergCatalog(lab.catalog).load("shop.orders")


def test_a_table_with_great_numbers_that_are_taken_is_compacted_and_read_again(lab):
    table = lab.create()
    for hour in (1, 1, 1, 9, 9):
        lab.append(table, hour)
    path = Path(table.metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_text())
    metadata["last-sequence-number"] = metadata["last-updated-ms"] = LARGEST_COUNT - 2
    path.write_text(json.dumps(metadata))
    service = lab.settled()
    head = table.refresh().metadata.current_snapshot()

    assert [one.reason for one in service.ledger.operations()] == ["committed"]
    assert (head.sequence_number, head.timestamp_ms) == (LARGEST_COUNT - 1, LARGEST_COUNT - 1)
    service.stop()
