"""What Spark reports of its scans to a REST catalog, mirrored to the port as an ingress would."""

import http.client
import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest
from prometheus_client import CollectorRegistry
from py4j.protocol import Py4JJavaError

from isotherm.core.observations import Reported
from isotherm.runtime.clock import monotonic_s
from isotherm.service.health import Health
from isotherm.service.tables.scan_reports import ScanReports
from isotherm.telemetry.http import serve

pytestmark = pytest.mark.spark

CATALOG = "reading"
TABLE = "shop.all of it.orders"


@contextmanager
def rest_catalog(
    metadata_location: str, metadata: str, daemon: int, mirrored: "Queue[bytes]"
) -> Iterator[str]:
    """As much of a REST catalog as a reader needs, with one table under every name, and a mirror of its reports."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith("/v1/config"):
                self._answer(200, {"defaults": {}, "overrides": {}})
            elif re.fullmatch(r"/v1/namespaces/[^/]+/tables/[^/?]+(\?.*)?", self.path):
                self._answer(200, {"metadata-location": metadata_location, "metadata": json.loads(metadata)})
            else:
                self._answer(404, {"error": {"message": "none", "type": "NoSuchViewException", "code": 404}})

        do_HEAD = do_GET  # noqa: N815 (the name that the library asks for)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path.endswith("/metrics"):
                mirror = http.client.HTTPConnection("127.0.0.1", daemon, timeout=60)
                mirror.request("POST", self.path, body)
                mirror.getresponse().read()
                mirror.close()
                mirrored.put(body)
                with suppress(ConnectionError):  # who reports waits for no answer
                    self._answer(204, None)
            else:
                # A reader's catalog takes no commits.
                error = {"message": "for readers", "type": "ForbiddenException", "code": 403}
                self._answer(403, {"error": error})

        def _answer(self, status: int, content: object) -> None:
            body = b"" if content is None else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def reports() -> ScanReports:
    reports = ScanReports(monotonic_s)
    reports.take(frozenset({TABLE}))
    return reports


@pytest.fixture
def mirrored() -> "Queue[bytes]":
    """Every report that has reached the port."""
    return Queue()


@pytest.fixture
def reader(spark: Any, lake: Any, reports: ScanReports, mirrored: "Queue[bytes]") -> Iterator[Any]:
    """A Spark session that knows the table by a REST catalog."""
    lake.create_namespace_if_not_exists("reports")
    rows = pa.table({"id": pa.array(range(9), pa.int64()), "what": pa.array(["a"] * 9)})
    properties = {"format-version": "2", "write.merge.mode": "merge-on-read"}
    table = lake.create_table("reports.orders", rows.schema, properties=properties)
    table.append(rows)
    port = serve("127.0.0.1", 0, CollectorRegistry(), Health(monotonic_s()), reports)
    metadata = table.metadata.model_dump_json(by_alias=True, exclude_none=True)
    prefix = f"spark.sql.catalog.{CATALOG}"
    with rest_catalog(table.metadata_location, metadata, port, mirrored) as url:
        spark.conf.set(prefix, "org.apache.iceberg.spark.SparkCatalog")
        spark.conf.set(f"{prefix}.type", "rest")
        spark.conf.set(f"{prefix}.uri", url)
        yield spark
    for key in (prefix, f"{prefix}.type", f"{prefix}.uri"):
        spark.conf.unset(key)
    lake.drop_table("reports.orders")


NAME = f"{CATALOG}.shop.`all of it`.orders"
READ, WRITERS = Reported.COUNTED, Reported.NO_SCAN
STATEMENTS = {
    f"SELECT count(id) FROM {NAME} WHERE id > 3": [READ],
    # The first looks whether whole files may go, and asks for nothing that a reader would not ask for.
    f"DELETE FROM {NAME} WHERE id = 3": [READ] + [WRITERS] * 2,
    f"MERGE INTO {NAME} t USING (SELECT 3L AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE": [WRITERS],
}


def test_a_query_is_a_read_and_what_a_writer_looks_for_is_none(
    reader: Any, reports: ScanReports, mirrored: "Queue[bytes]"
) -> None:
    for statement, expected in STATEMENTS.items():
        with suppress(Py4JJavaError):
            reader.sql(statement).collect()
        for _ in expected:
            mirrored.get(timeout=120)
        scans, outcomes = reports.take(frozenset({TABLE}))

        assert outcomes == Counter(expected), statement
        assert scans == Counter({TABLE: expected.count(READ)} if READ in expected else {})
