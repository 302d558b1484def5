"""A catalog that does not answer stops nothing for ever, and a table's owner chooses neither code, hosts nor keys."""

import json
import pickle
from pathlib import Path

import psutil
import pytest
from pyiceberg.exceptions import BadRequestError
from pyiceberg.io.pyarrow import PyArrowFileIO

from isotherm.clients.catalog import LARGEST_COUNT, open_catalog
from isotherm.clients.metadata_file import NEWEST
from isotherm.clients.retries import ATTEMPTS
from isotherm.clients.storage import RetryingFileIO, properties_with_retries
from isotherm.contract.paths import normalised
from isotherm.iceberg.catalog import IcebergCatalog, connect
from isotherm.iceberg.compaction.rewrite import files_of
from isotherm.iceberg.maintainer import IcebergMaintainer
from isotherm.parquet.table_description import table_of
from isotherm.runtime.breaker import Breaker
from isotherm.runtime.clock import now_ms
from isotherm.runtime.config import CatalogConfig
from isotherm.service.ports import NotAsked, TableMissing, Unavailable, Unreadable
from support.fakes import Clock
from support.http_front import http_front
from support.lab import SCHEMA
from support.object_store import BUCKET, object_store
from support.servers import Hang, http_server, silent_server

KEYS = {"s3.access-key-id": "a", "s3.secret-access-key": "b", "s3.region": "us-east-1"}
AWS = {"glue.region": "us-east-1", "glue.access-key-id": "a", "glue.secret-access-key": "b"}


def rest(uri, **properties):
    return CatalogConfig(properties={"type": "rest", "uri": uri, **properties}, timeout_s=0.2)


def test_a_rest_catalog_that_never_answers_is_unavailable():
    with silent_server() as server:
        with pytest.raises(Unavailable, match="timed out"):
            connect(rest(server.url))

        assert len(server.connections) == 1


def test_a_signed_rest_catalog_that_never_answers_is_unavailable_after_three_attempts():
    signed = {"rest.sigv4-enabled": "true", "rest.signing-region": "us-east-1"}
    keys = {"client.access-key-id": "a", "client.secret-access-key": "b", "client.region": "us-east-1"}
    with silent_server() as server:
        with pytest.raises(Unavailable, match="timed out"):
            connect(rest(server.url, **signed, **keys))

        assert len(server.connections) == 3


def test_a_token_that_never_comes_is_unavailable():
    with (
        silent_server() as tokens,
        http_server(lambda *_: (200, {"defaults": {}, "overrides": {}})) as catalog,
    ):
        with pytest.raises(Unavailable, match="timed out"):
            connect(rest(catalog, credential="a:b", **{"oauth2-server-uri": tokens.url}))

        assert len(tokens.connections) == 1


def test_a_rest_catalog_that_falls_silent_later_is_unavailable():
    asked = []

    def answer(_, path):
        asked.append(path)
        if path == "/v1/config":
            return 200, {"defaults": {}, "overrides": {}}
        raise Hang

    with http_server(answer) as url:
        catalog = IcebergCatalog(connect(rest(url)))
        with pytest.raises(Unavailable, match="timed out"):
            catalog.load("shop.orders")

    assert asked == ["/v1/config", "/v1/namespaces/shop/tables/orders?snapshots=all"]


def test_a_catalog_that_did_not_answer_is_not_asked_for_the_next_table_at_once():
    asked, is_back, clock = [], [], Clock()

    def answer(_, path):
        if path == "/v1/config":
            return 200, {"defaults": {}, "overrides": {}}
        asked.append(path)
        if is_back:
            return 404, {"error": {"message": "no such table", "type": "NoSuchTableException", "code": 404}}
        raise Hang

    with http_server(answer) as url:
        catalog = IcebergCatalog(connect(rest(url)), breaker=Breaker(clock.monotonic_s))
        with pytest.raises(Unavailable, match="timed out"):
            catalog.load("shop.orders")
        for name in ("shop.orders", "shop.items"):
            with pytest.raises(NotAsked, match="asked again in 5 s"):
                catalog.load(name)
        with pytest.raises(NotAsked):
            catalog.names()
        assert asked == ["/v1/namespaces/shop/tables/orders?snapshots=all"]
        clock.advance(5)
        is_back.append(True)
        for name in ("shop.orders", "shop.items"):
            with pytest.raises(TableMissing):
                catalog.load(name)


def test_an_answer_that_trickles_in_is_given_up_as_a_whole():
    """Each byte comes well within the time-out, and the last one never."""

    def answer(_, path):
        return 200, {"defaults": {}, "overrides": {}}

    with http_server(answer) as upstream, http_front(upstream) as front:
        catalog = connect(rest(front.url))
        front.add("GET", "/v1/namespaces", "trickle")
        with pytest.raises(Unavailable, match=r"timed out: \d+ bytes came"):
            IcebergCatalog(catalog).names()


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


def test_nobody_at_the_address_of_a_rest_catalog_is_unavailable():
    with silent_server() as server:
        port = server.port
    with pytest.raises(Unavailable, match="Connection refused"):
        connect(rest(f"http://127.0.0.1:{port}"))


def test_glue_that_never_answers_is_unavailable_after_three_attempts():
    with silent_server() as server:
        config = CatalogConfig(properties={"type": "glue", "glue.endpoint": server.url, **AWS}, timeout_s=0.2)
        catalog = IcebergCatalog(connect(config))
        with pytest.raises(Unavailable, match=r"[Tt]ime"):
            catalog.load("shop.orders")

        assert len(server.connections) == 3
        assert all(isinstance(text, str) for text in catalog.catalog.properties.values())


def test_a_hive_metastore_that_never_answers_is_unavailable():
    with silent_server() as server:
        address = server.url.replace("http://", "thrift://")
        config = CatalogConfig(properties={"type": "hive", "uri": address}, timeout_s=0.2)
        for _ in range(2):
            with pytest.raises(Unavailable, match=r"[Tt]ime"):
                IcebergCatalog(connect(config)).load("shop.orders")

        assert len(server.connections) == 2


@pytest.mark.parametrize("hangs_up", [True, False])
def test_a_store_that_does_not_answer_is_asked_once_by_each_attempt_of_ours(hangs_up):
    """PyArrow's three attempts, multiplied by our six, took minutes for one read."""
    with silent_server(hangs_up=hangs_up) as server:
        properties = properties_with_retries({"s3.endpoint": server.url, "s3.request-timeout": "1", **KEYS})
        file = PyArrowFileIO(properties).new_input("s3://lake/a")
        with pytest.raises(OSError, match="NETWORK_CONNECTION"):
            file.exists()

        assert len(server.connections) == 1


def test_a_store_that_did_not_answer_is_not_asked_for_the_next_file_at_once():
    with silent_server(hangs_up=True) as server:
        files = RetryingFileIO(
            properties_with_retries({"s3.endpoint": server.url, "s3.request-timeout": "1", **KEYS})
        )
        with pytest.raises(OSError, match="NETWORK_CONNECTION"):
            files.new_input("s3://lake/a").open()
        asked = len(server.connections)
        for ask in (
            files.new_input("s3://lake/b").open,
            files.new_output("s3://lake/c").create,
            lambda: files.delete("s3://lake/d"),
        ):
            with pytest.raises(OSError, match="s3://lake did not answer; it is asked again"):
                ask()

        assert asked == ATTEMPTS
        assert len(server.connections) == asked


def test_time_outs_of_a_store_are_short_unless_the_operator_says_otherwise():
    ours = properties_with_retries({})

    assert (ours["s3.connect-timeout"], ours["s3.request-timeout"]) == ("5", "20")
    assert properties_with_retries({"s3.request-timeout": "90"})["s3.request-timeout"] == "90"


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
