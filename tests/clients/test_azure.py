"""Locations of Azure are read as Spark writes them, from the operator's account alone."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from isotherm.clients.azure import ForeignAccountError
from isotherm.clients.storage import RetryingFileIO, properties_with_retries

LAKE = {"adls.account-name": "lake"}
GERMANY = {**LAKE, "adls.dfs-storage-authority": ".dfs.core.cloudapi.de"}


@pytest.mark.parametrize(
    ("location", "properties", "path"),
    [
        ("abfss://tables@lake.dfs.core.windows.net/w/a.avro", LAKE, "tables/w/a.avro"),
        ("abfs://tables@LAKE.dfs.core.windows.net/w/a.avro", LAKE, "tables/w/a.avro"),
        ("wasbs://tables@lake.blob.core.windows.net/w/a@b.avro", LAKE, "tables/w/a@b.avro"),
        ("abfss://tables@lake.dfs.core.cloudapi.de/w/a.avro", GERMANY, "tables/w/a.avro"),
        ("abfss://tables/w/a.avro", {}, "tables/w/a.avro"),
        ("s3://tables@lake.dfs.core.windows.net/a", LAKE, "tables@lake.dfs.core.windows.net/a"),
        ("file:///w/x@y/a.avro", {}, "/w/x@y/a.avro"),
    ],
)
def test_a_location_of_azure_names_its_container_before_its_account(location, properties, path):
    assert RetryingFileIO.parse_location(location, properties)[2] == path


@pytest.mark.parametrize(
    ("host", "properties"),
    [
        ("other.dfs.core.windows.net", LAKE),
        ("lake.dfs.core.windows.net.evil.com", LAKE),
        ("lake.dfs.core.windows.net", GERMANY),
        ("evil@lake.dfs.core.windows.net", LAKE),
        ("lake.dfs.core.windows.net", {}),
    ],
)
def test_an_account_that_the_operator_did_not_name_is_not_asked(host, properties):
    io = RetryingFileIO(properties)
    for ask in (io.new_input, io.new_output, io.delete):
        with pytest.raises(
            ForeignAccountError, match=r"is not asked.*adls\.account-name in catalog\.properties"
        ):
            ask(f"abfss://tables@{host}/w/a.avro")


@contextmanager
def azure():
    """A host of Azure that has nothing, and what it was asked for."""
    asked = []

    class Blobs(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_GET(self):
            asked.append(self.path)
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_HEAD(self):
            self.do_GET()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Blobs)
    serving = threading.Thread(target=server.serve_forever, args=(0.05,))
    serving.start()
    try:
        yield f"127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        serving.join()


def test_the_account_is_asked_for_a_file_in_the_container_that_spark_wrote_to():
    with azure() as (host, asked):
        kinds = {f"adls.{kind}-storage-authority": host for kind in ("blob", "dfs")}
        kinds |= {f"adls.{kind}-storage-scheme": "http" for kind in ("blob", "dfs")}
        io = RetryingFileIO(properties_with_retries({**LAKE, **kinds, "adls.account-key": "a2V5"}))
        with pytest.raises(OSError, match="404 Not Found"):
            io.new_input(f"abfss://tables@{host}/w/a.avro").open()

    assert {path.split("?")[0].rstrip("/") for path in asked} == {"/lake/tables", "/lake/tables/w/a.avro"}
    assert "prefix=w/a.avro" in asked[-1]
