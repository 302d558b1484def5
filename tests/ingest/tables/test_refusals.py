"""What a table's owner may not choose where ingest writes it."""

import pytest
from py4j.protocol import Py4JJavaError
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.types import LongType, NestedField

from isotherm.clients.storage import RetryingFileIO
from isotherm.contract.paths import PLACES
from isotherm.contract.summary import INGEST_PIPELINE, INGEST_TOKEN
from isotherm_ingest.failures import CommitTooLate, TableRefused, Verdict, verdict
from isotherm_ingest.tables.java_table import Fence, JavaTable
from isotherm_ingest.tables.lake import Lake, TableNow
from isotherm_ingest.tables.refusals import must_be_written
from support.spark import CATALOG

OURS = "abfss://c@ours.dfs.core.windows.net/lake/t"
CODE = {"write.location-provider.impl": "java.util.Timer"}


def table(location="s3://lake/t", lies="", io=None, **properties):
    """A table without snapshots, as its catalog has it."""
    metadata = new_table_metadata(
        Schema(NestedField(1, "id", LongType())),
        UNPARTITIONED_PARTITION_SPEC,
        UNSORTED_SORT_ORDER,
        location,
        properties,
    )
    files = RetryingFileIO(io or {})
    own = f"{lies or location}/metadata/1.json"
    files.may_ask(own)
    return TableNow(Table(("shop", "t"), metadata, own, files, NoopCatalog("lake")))


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        (CODE, "shop.t names code that is to run here"),
        ({"write.format.default": "orc"}, "shop.t is to have files in orc"),
        ({"encryption.key-id": "k"}, "shop.t is to have encrypted files"),
    ],
)
def test_a_table_chooses_neither_code_nor_files_that_nobody_writes_here(properties, why):
    with pytest.raises(TableRefused, match=why):
        must_be_written(table(**properties))


@pytest.mark.parametrize("name", [*PLACES, "location"])
@pytest.mark.parametrize(
    ("lies", "place", "why"),
    [
        ("s3://lake/t", "file:///var/lib/isotherm", "is on a disk of this machine"),
        ("s3://lake/t", "s3://lake/t/../u", "may name another place"),
        ("s3://lake/t", "hdfs://evil:8020/x", "on another host: hdfs://evil is not asked"),
        ("hdfs://ours/t", "hdfs://evil:8020/x", "on another host: hdfs://evil is not asked"),
        ("hdfs://ours/t", "hdfs://ours:9999/x", "on another host: hdfs://ours:9999 is not asked"),
        ("s3://lake/t", "webhdfs://evil/x", "a store that ingest does not write"),
        ("s3://lake/t", "http://evil/x", "a store that ingest does not write"),
        (OURS, "abfss://c@evil.example/x", "on another host: evil.example is neither"),
    ],
)
def test_a_table_chooses_no_disk_and_no_host(name, lies, place, why):
    with pytest.raises(TableRefused, match=why):
        must_be_written(table(place, lies) if name == "location" else table(lies, **{name: place}))


@pytest.mark.parametrize(
    ("lies", "place", "io"),
    [
        ("s3://lake/t", "s3a://other/x", {}),
        ("s3://lake/t", "gs://other/x", {}),
        ("file:///wh/t", "/elsewhere/x", {}),
        ("hdfs://ours:8020/t", "hdfs://ours/x", {}),
        ("hdfs:///t", "hdfs:///x", {}),
        ("s3://lake/t", "hdfs://second/x", {"hdfs.host": "second"}),
        ("s3://lake/t", "hdfs://second/x", {"warehouse": "hdfs://second/wh"}),
        (OURS, "abfs://other@ours.dfs.core.windows.net/x", {}),
        (OURS, "wasbs://other@ours.blob.core.windows.net/x", {}),
        ("s3://lake/t", OURS, {"adls.account-name": "ours"}),
        # A client of the operator's own may know other stores.
        ("cosn://lake/t", "cosn://lake/x", {}),
    ],
)
def test_ordinary_places_are_written(lies, place, io):
    for name in PLACES:
        must_be_written(table(lies, io=io, **{name: place}))
    must_be_written(table(lies, io=io))


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({"retry.min-wait-ms": "2000000000", "retry.max-wait-ms": "2147483647"}, "wait up to 2147483 s"),
        ({"retry.num-retries": "1000", "retry.max-wait-ms": "61000"}, "wait up to 61 s"),
        ({"status-check.min-wait-ms": "100000", "status-check.max-wait-ms": "100000"}, "wait up to 100 s"),
        ({"status-check.num-retries": "1000000"}, "looked for 1000000 times"),
        ({"retry.max-wait-ms": "long"}, "no number where one is due"),
    ],
)
def test_a_table_has_all_others_wait_no_longer_than_a_minute_between_two_tries(properties, why):
    with pytest.raises(TableRefused, match=why):
        must_be_written(table(**{f"commit.{name}": value for name, value in properties.items()}))


@pytest.mark.parametrize(
    "properties",
    [
        {"retry.num-retries": "20"},
        {"retry.num-retries": "100", "retry.min-wait-ms": "1000", "retry.max-wait-ms": "60000"},
        {"retry.num-retries": "0", "retry.total-timeout-ms": "2147483647"},
        # It is never reached.
        {"retry.max-wait-ms": "600000"},
        {"status-check.num-retries": "20", "status-check.max-wait-ms": "30000"},
    ],
)
def test_ordinary_tries_are_made_as_the_table_says(properties):
    must_be_written(table(**{f"commit.{name}": value for name, value in properties.items()}))


@pytest.fixture
def orders(lake, lake_folder, request):
    """A table, and what loads it as ingest does, under a name of its own."""
    name = f"refusals.t{abs(hash(request.node.name))}"
    lake.create_namespace_if_not_exists("refusals")
    made = lake.create_table(name, Schema(NestedField(1, "id", LongType())))
    return made, lambda: Lake(CATALOG, lake_folder.pyiceberg_properties).load(name)


def say(made, properties):
    with made.refresh().transaction() as change:
        change.set_properties(properties)


@pytest.mark.spark
def test_what_an_owner_says_after_the_look_is_seen_where_java_loads_the_table(spark, orders):
    made, load = orders
    now = load()
    say(made, CODE)

    with pytest.raises(TableRefused, match="names code"):
        JavaTable(spark, f"{CATALOG}.{now.name}", now)


@pytest.mark.spark
def test_what_an_owner_says_while_it_is_committed_is_seen_before_anything_is_written_for_it(spark, orders):
    made, load = orders
    now = load()
    ours = JavaTable(spark, f"{CATALOG}.{now.name}", now)
    say(made, CODE)

    with pytest.raises(Py4JJavaError, match="names code"):
        ours.append([], {INGEST_PIPELINE: "shop", INGEST_TOKEN: "{}"})

    assert load().head is None


class Ancestors:
    """What Iceberg hands to a fence, as Py4J has it."""

    def __init__(self, ids):
        self._ids = iter(ids)

    def iterator(self):
        return self

    def hasNext(self):  # noqa: N802 (Java's name)
        return True

    def next(self):
        self._id = next(self._ids)
        return self

    def snapshotId(self):  # noqa: N802 (Java's name)
        return self._id

    def summary(self):
        return {}


def test_a_history_that_an_owner_bends_to_a_circle_while_it_is_committed_ends_the_commit():
    fence = Fence(7, "shop", str, 60)

    assert not fence.validate(Ancestors([3, 2, 1] * 2))
    assert fence.errorMessage() == "by the table's metadata, snapshot 3 came before itself"
    assert fence.validate(Ancestors([8, 7]))


@pytest.mark.spark
def test_a_commit_that_comes_too_late_fails_for_its_table_and_is_not_tried_at_once(spark, orders):
    _, load = orders
    now = load()
    ours = JavaTable(spark, f"{CATALOG}.{now.name}", now, try_for_s=-1)

    with pytest.raises(CommitTooLate, match="others commit to") as late:
        ours.append([], {INGEST_PIPELINE: "shop", INGEST_TOKEN: "{}"})

    assert verdict(late.value) is Verdict.FAILED
    assert load().head is None
