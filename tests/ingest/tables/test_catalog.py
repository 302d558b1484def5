"""A catalog that takes the call and never answers is not waited for; its tables are found however deep they are."""

import socket
from urllib.parse import parse_qs, urlsplit

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from requests import ReadTimeout

from isotherm_ingest.tables.catalog import open_catalog
from isotherm_ingest.tables.lake import Lake
from support.servers import http_server


def test_a_catalog_that_never_answers_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as server:
        uri = f"http://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ReadTimeout):
            open_catalog("lake", {"type": "rest", "uri": uri}, answer_s=0.1)


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
