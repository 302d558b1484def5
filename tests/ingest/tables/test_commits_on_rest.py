"""Commits of ingest to a real REST catalog, behind a front that hands requests on twice: judged by PyIceberg's reader."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyiceberg.catalog import load_catalog

from isotherm.contract.summary import INGEST_PIPELINE, INGEST_TOKEN
from isotherm_ingest.tables.java_table import JavaTable
from isotherm_ingest.tables.lake import TableNow
from support.http_front import Answer, Front, Guard, Request, http_front
from support.rest_catalog import RestServer

pytestmark = [pytest.mark.spark, pytest.mark.stack]

NAME = "shop.orders"
ROWS = pa.table({"id": [1]})
SUMMARY = {INGEST_PIPELINE: "shop", INGEST_TOKEN: '{"topics":{}}'}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestServer]:
    server = RestServer(tmp_path_factory.mktemp("rest"))
    yield server
    server.process.stop()


@pytest.fixture
def front(server: RestServer, spark: Any, tmp_path: Path) -> Iterator[Front]:
    """Before a catalog that Spark knows as `rest`."""
    with http_front(server.catalog_of_files(tmp_path / "warehouse", tmp_path / "catalog.db")) as front:
        prefix = f"spark.sql.catalog.{tmp_path.name}"
        spark.conf.set(prefix, "org.apache.iceberg.spark.SparkCatalog")
        for name, value in {"type": "rest", "uri": front.url, "cache-enabled": "false"}.items():
            spark.conf.set(f"{prefix}.{name}", value)
        yield front


@pytest.fixture
def table(front: Front) -> Any:
    catalog = load_catalog("rest", type="rest", uri=front.url)
    catalog.create_namespace("shop")
    table = catalog.create_table(NAME, ROWS.schema)
    table.append(ROWS)
    return table


def lists_of(table: Any) -> set[str]:
    """The manifest lists on disk."""
    return {f"file://{path}" for path in Path(table.location().removeprefix("file:")).rglob("snap-*.avro")}


def test_a_commit_that_was_heard_twice_has_its_manifest_list(spark, front, table, tmp_path):
    """The first copy has landed, and the answer, a conflict, is to the second. Iceberg would delete what it wrote."""
    ours = JavaTable(spark, f"{tmp_path.name}.{NAME}", TableNow(table))
    fault = front.add("POST", "/tables/", "twice")
    with pytest.raises(Py4JJavaError, match="has committed snapshot"):
        ours.append([], SUMMARY)

    head = table.refresh().current_snapshot()
    assert fault.met == 1
    assert head.summary.additional_properties[INGEST_PIPELINE] == "shop"
    assert len(head.manifests(table.io)) == 1
    assert table.scan().to_arrow().to_pylist() == [{"id": 1}]


class Overtaking(Guard):
    """Somebody else commits just before the next commit is heard."""

    def __init__(self, upstream: str) -> None:
        self.table = load_catalog("direct", type="rest", uri=upstream).load_table(NAME)
        self.is_due = True

    def refusal(self, request: Request) -> Answer | None:
        if request.method == "POST" and self.is_due:
            self.is_due = False
            self.table.append(ROWS)
        return None


def test_what_an_attempt_wrote_that_lost_a_race_is_deleted_once_another_has_landed(
    spark, front, table, tmp_path
):
    ours = JavaTable(spark, f"{tmp_path.name}.{NAME}", TableNow(table.refresh()))
    front.guard = Overtaking(front.upstream)
    ours.append([], SUMMARY)

    assert not front.guard.is_due
    snapshots = table.refresh().snapshots()
    assert len(snapshots) == 3
    assert len(lists_of(table)) == 3
    assert table.scan().to_arrow().num_rows == 2
