"""The catalog for the threads of the driver: which tables there are, and what a table's owner must not choose."""

from itertools import islice
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table.refs import SnapshotRef
from pyiceberg.table.snapshots import Operation, SnapshotLogEntry, Summary
from pyiceberg.types import LongType, NestedField

from isotherm.clients.storage import RetryingFileIO
from isotherm.contract.summary import INGEST_PIPELINE, INGEST_TOKEN
from isotherm_ingest.failures import TableRefused
from isotherm_ingest.tables.lake import NEWEST_SNAPSHOTS, Lake
from isotherm_ingest.tables.offset_vector import RECENT_TOKENS, Source, encode
from isotherm_ingest.tables.refusals import must_be_written
from support.servers import http_server


def test_a_table_s_properties_choose_no_host_and_no_key_for_its_files(tmp_path):
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/warehouse",
        "s3.access-key-id": "ours",
    }
    lake = Lake("lake", properties)
    lake.catalog.create_namespace("shop")
    theirs = {
        "s3.endpoint": "http://elsewhere", "s3.access-key-id": "theirs", "s3.region": "there", "py-io-impl": "theirs.FileIO",
    }  # fmt: skip
    lake.catalog.create_table("shop.orders", Schema(NestedField(1, "id", LongType())), properties=theirs)
    now = lake.load("shop.orders")
    assert now is not None
    assert now.properties["s3.endpoint"] == "http://elsewhere"

    found = now.table.io.properties
    assert found["s3.access-key-id"] == "ours"
    assert not {"s3.endpoint", "s3.region"} & found.keys()
    assert isinstance(now.table.io, RetryingFileIO)


@pytest.mark.parametrize("top", ["shop", "Nord Süd", "it's"])
def test_tables_are_found_however_deep_their_namespace_is(top):
    below = {(): (top,), (top,): (top, "raw"), (top, "raw"): (top, "raw", "ü")}

    def answer(_, path):
        url = urlsplit(path)
        if url.path == "/v1/config":
            return 200, {"defaults": {}, "overrides": {}}
        if url.path == "/v1/namespaces":
            parent = tuple(one for one in parse_qs(url.query).get("parent", [""])[0].split("\x1f") if one)
            return 200, {"namespaces": [list(below[parent])] if parent in below else []}
        is_deep = url.path.count("%1F") == 2
        return 200, {"identifiers": [{"namespace": [top, "raw", "ü"], "name": "t"}] if is_deep else []}

    with http_server(answer) as url:
        lake = Lake("lake", {"type": "rest", "uri": url})

        assert lake.names(None) == [f"{top}.raw.ü.t"]
        assert lake.names(frozenset({f"{top}.raw"})) == []
        assert lake.names(frozenset({f"{top}.raw.ü"})) == [f"{top}.raw.ü.t"]


def test_each_table_of_an_sql_catalog_is_found(tmp_path):
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}"}
    lake = Lake("lake", properties)
    for name in ("a.t", "a.b.t", "ab.t"):
        lake.catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
        lake.catalog.create_table(name, Schema(NestedField(1, "id", LongType())))

    assert lake.names(None) == ["a.b.t", "a.t", "ab.t"]

    lake.catalog.create_table(("a", "b.t"), Schema(NestedField(1, "id", LongType())))

    assert lake.names(None) == ["a.b%2Et", "a.b.t", "a.t", "ab.t"]
    assert lake.names(frozenset({"a"})) == ["a.b%2Et", "a.t"]
    assert lake.load("a.b%2Et").uuid != lake.load("a.b.t").uuid
    assert lake.spark_name("a.b%2Et") == "`lake`.`a`.`b.t`"


@pytest.fixture
def lake(tmp_path):
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
    lake = Lake("lake", properties)
    lake.catalog.create_namespace("shop")
    rows = pa.table({"id": [1]})
    table = lake.catalog.create_table("shop.orders", rows.schema)
    table.append(rows)
    return lake


def with_history(lake, count, tokens, before_all=None):
    """The table with so many snapshots; those whose places, from the oldest on, are named have a token."""
    table = lake.catalog.load_table("shop.orders")
    first = table.metadata.snapshots[0]
    token = {INGEST_PIPELINE: "shop", INGEST_TOKEN: encode(Source({"t": {0: 5}}))}
    snapshots = [
        first.model_copy(
            update={
                "snapshot_id": place + 1,
                "parent_snapshot_id": place or before_all,
                "sequence_number": place + 1,
                "summary": Summary(Operation.APPEND, **(token if place in tokens else {})),
            }
        )
        for place in range(count)
    ]
    log = [SnapshotLogEntry(snapshot_id=one.snapshot_id, timestamp_ms=one.timestamp_ms) for one in snapshots]
    head = {"current_snapshot_id": count, "last_sequence_number": count}
    refs = {"main": SnapshotRef(snapshot_id=count, snapshot_ref_type="branch")}
    metadata = table.metadata.model_copy(
        update={"snapshots": snapshots, "snapshot_log": log, "refs": refs, **head}
    )
    location = f"{table.location()}/metadata/other.metadata.json"
    ToOutputFile.table_metadata(metadata, table.io.new_output(location))
    lake.catalog.drop_table("shop.orders")
    lake.catalog.register_table("shop.orders", location)


RECENT = range(1000 - RECENT_TOKENS, 1000)


@pytest.mark.parametrize(
    ("tokens", "read"),
    [(RECENT, NEWEST_SNAPSHOTS), (range(880, 880 + RECENT_TOKENS), 1000), (range(3), 1000), ((), 1000), (RECENT[1:], 1000)],
    ids=["newest", "before what others committed", "long ago", "never", "fewer than are asked for"],
)  # fmt: skip
def test_old_snapshots_are_read_only_where_the_newest_do_not_say_enough(lake, tokens, read):
    with_history(lake, 1000, tokens)
    now = lake.newest("shop.orders", lambda now: now.has_tokens("shop"))
    whole = lake.load("shop.orders")

    assert len(now.snapshots) == read
    assert now.token("shop") == whole.token("shop")
    assert now.found(now.token("shop")) == whole.found(whole.token("shop"))
    assert (now.head, now.rows, now.uuid) == (whole.head, whole.rows, whole.uuid)


def test_a_table_that_is_not_there_is_none(lake):
    assert lake.newest("shop.nothing", lambda _: True) is None


def test_a_history_that_goes_in_a_circle_is_refused_in_words_wherever_it_is_walked(lake):
    with_history(lake, 12, (), before_all=12)
    now = lake.load("shop.orders")

    with pytest.raises(
        TableRefused, match=r"shop.orders is not written: by its metadata, snapshot 12 came before itself"
    ):
        list(islice(now.ancestry(), 100))
    for walk in (now.token, now.has_tokens, lambda _: now.oldest):
        with pytest.raises(TableRefused):
            walk("shop")


def test_a_circle_below_all_tokens_that_are_asked_for_is_refused_too(lake):
    with_history(lake, RECENT_TOKENS + 5, range(5, RECENT_TOKENS + 5), before_all=5)
    now = lake.load("shop.orders")
    assert now.has_tokens("shop")

    with pytest.raises(TableRefused, match="snapshot 5 came before itself"):
        must_be_written(now)
