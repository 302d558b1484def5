"""The shop's tables change while it trades: PostgreSQL tells what became of them, and the referee follows it."""

import time
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import IntegerType, LongType, NestedField, StringType
from rich.console import Console

from isotherm.demo.alterations import FIRST, LAST, Alteration, moments
from isotherm.demo.files import DemoFolder, write_files
from isotherm.demo.lake import Rows, SeenFile, live
from isotherm.demo.referee import Compared, Referee
from isotherm.demo.report import Report, render
from isotherm.demo.stack import Postgres
from isotherm.demo.witness import Witness
from isotherm.demo.workload import Pace, Workload
from isotherm_ingest.streams import load_streams

WITHIN_S = 60
SOURCE = "shop.public."


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    server = Postgres(tmp_path_factory.mktemp("postgres"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def connection(postgres: Postgres) -> Iterator["psycopg.Connection[Any]"]:
    """To a database without tables."""
    with psycopg.connect(postgres.dsn, autocommit=True) as connected:
        connected.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        yield connected


@pytest.mark.parametrize("seed", range(20))
def test_every_alteration_has_its_moment_early_in_the_trade_and_a_seed_gives_the_same_ones(seed: int) -> None:
    found = moments(seed)

    assert set(found.values()) == set(Alteration)
    assert all(FIRST <= number < LAST for number in found)
    assert found == moments(seed)
    assert found != moments(seed + 1)


@pytest.mark.stack
def test_after_the_first_seconds_of_trade_every_table_is_as_it_was_altered(
    postgres: Postgres, connection: "psycopg.Connection[Any]"
) -> None:
    workload = Workload(postgres.dsn, 7, Pace(orders_per_s=400))
    workload.set_up()
    before = columns(connection)
    workload.start()
    deadline_s = time.monotonic() + WITHIN_S
    while workload.transactions < LAST + 40 and workload.error is None and time.monotonic() < deadline_s:
        time.sleep(0.05)
    workload.stop()

    assert workload.error is None
    assert [one for _, one in sorted(moments(7).items())] == workload.altered
    assert set(columns(connection)) - set(before) == {
        "customers.points bigint",
        "orders.channel text",
        "orders.remark text",
        "reviews.review_id bigint",
        "reviews.order_id bigint",
        "reviews.stars smallint",
        "reviews.words text",
        "reviews.changed_at timestamp with time zone",
    }
    assert set(before) - set(columns(connection)) == {
        "customers.points integer",
        "orders.note text",
        "payments.reference text",
    }
    for rows in (
        "customers WHERE points > 2147483647",
        "orders WHERE channel IS NOT NULL",
        "orders WHERE remark IS NOT NULL",
        "reviews",
    ):
        assert count(connection, rows) > 0, rows


def columns(connection: "psycopg.Connection[Any]") -> list[str]:
    """`table.column type`, by PostgreSQL's information schema."""
    return [
        f"{table}.{column} {kind}"
        for table, column, kind in connection.execute(
            "SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = 'public'"
        )
    ]


def count(connection: "psycopg.Connection[Any]", rows: str) -> int:
    [number] = connection.execute(f"SELECT count(*) FROM {rows}".encode()).fetchone() or [0]
    return int(number)


def test_each_table_has_a_stream_and_the_last_one_takes_what_comes_later(tmp_path: Path) -> None:
    folder = DemoFolder(tmp_path / "my demo")
    write_files(folder, "127.0.0.1:9092", [Path("a.jar")], 0, 0)
    streams = load_streams(folder.streams_yaml)

    orders, reviews = streams.stream_of(f"{SOURCE}orders"), streams.stream_of(f"{SOURCE}reviews")
    assert orders is not None
    assert reviews is not None
    assert (orders.table, orders.names) == ("shop.orders", {"remark": ("note",)})
    assert (reviews.table, reviews.names) == ("shop.{table}", {})
    assert reviews is streams.stream_of(f"{SOURCE}whatever")
    assert streams.stream_of("shop.other.reviews") is None


# What the referee makes of a lake that was altered


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """A lake with `shop.orders`, of which one file is older than all that was altered."""
    catalog = load_catalog(
        "lake", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}"
    )
    catalog.create_namespace("shop")
    schema = Schema(
        NestedField(1, "order_id", LongType(), required=False),
        NestedField(2, "pieces", IntegerType(), required=False),
        NestedField(3, "note", StringType(), required=False),
        NestedField(4, "gone", StringType(), required=False),
    )
    table = catalog.create_table("shop.orders", schema)
    append(table, order_id=1, pieces=2, note="old", gone="x")
    with table.update_schema() as change:
        change.rename_column("note", "remark").update_column("pieces", LongType())
        change.add_column("channel", StringType())
    append(table, order_id=2, pieces=2**40, remark="new", channel="web")
    return catalog


def append(table: Table, **row: Any) -> None:
    table.append(pa.Table.from_pylist([row], schema=table.schema().as_arrow()))


@pytest.fixture
def source(connection: "psycopg.Connection[Any]") -> "psycopg.Connection[Any]":
    """PostgreSQL with the same two rows, and without the column that was dropped there."""
    connection.execute(
        "CREATE TABLE orders (order_id bigint PRIMARY KEY, pieces bigint, remark text, channel text);"
        f"INSERT INTO orders VALUES (1, 2, 'old', NULL), (2, {2**40}, 'new', 'web')"
    )
    return connection


@pytest.fixture
def compared(postgres: Postgres, catalog: Catalog, tmp_path: Path) -> Any:
    witness = Witness({}, "127.0.0.1:1", "isotherm.control", seed=1)
    referee = Referee(postgres.dsn, catalog, witness, tmp_path)

    def compare(name: str = "shop.orders") -> Compared | None:
        return referee.compare(with_scan=True).get(name)

    return compare


@pytest.mark.stack
def test_rows_of_before_and_after_are_compared_in_the_columns_that_the_source_has_now(
    source: "psycopg.Connection[Any]", compared: Any
) -> None:
    """Also where the source has yet to rename one, of which the streams say it."""
    found = compared()

    assert found.source[0] == 2
    assert found.source == found.lake == found.scan
    assert compared("shop.reviews") is None

    source.execute("ALTER TABLE orders RENAME COLUMN remark TO note")

    assert compared() == found


@pytest.mark.stack
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE orders SET channel = 'shop' WHERE order_id = 1",
        "UPDATE orders SET remark = NULL WHERE order_id = 1",
        "UPDATE orders SET pieces = pieces % 2147483648",
        "ALTER TABLE orders ADD COLUMN later text",
    ],
)
def test_a_value_or_a_column_that_the_lake_does_not_have_is_missed(
    source: "psycopg.Connection[Any]", compared: Any, change: str
) -> None:
    source.execute(change.encode())

    assert not compared().is_equal


@pytest.mark.stack
def test_a_table_that_the_source_has_and_the_lake_has_not_is_missed(
    source: "psycopg.Connection[Any]", compared: Any
) -> None:
    source.execute("CREATE TABLE reviews (review_id bigint PRIMARY KEY); INSERT INTO reviews VALUES (1)")

    assert not compared("shop.reviews").is_equal


def test_rewritten_by_a_newer_schema_rows_have_the_sum_that_they_had(catalog: Catalog) -> None:
    """Columns are found by id: as null, by their new name, in their new width."""
    table = catalog.load_table("shop.orders")
    rows = Rows()
    before = files(table)
    sums = rows.count_and_sum(before, table.schema())
    table.overwrite(table.scan().to_arrow())
    after = files(table)

    assert {file.path for file in before}.isdisjoint(file.path for file in after)
    assert sums == rows.count_and_sum(after, table.schema())

    table.overwrite(table.scan(row_filter="order_id = 1").to_arrow(), "order_id = 2")

    assert sums != rows.count_and_sum(files(table), table.schema())
    rows.close()


def files(table: Table) -> list[SeenFile]:
    head = table.current_snapshot()
    assert head is not None
    return list(live(table, head).values())


# What is told of it


def test_the_report_names_all_that_was_altered_in_one_line() -> None:
    report = Report(
        seed=1,
        maintained_by="isotherm",
        promises={},
        evidence={},
        tables=(),
        latency_s={},
        merges_recomputed=0,
        merges_recomputed_by_maintenance=0,
        appends_repeated=0,
        batches_failed=0,
        bytes_ingested=0,
        bytes_rewritten=0,
        read_s=0,
        snapshots_expired=0,
        files_deleted=0,
        hot_partitions_touched=0,
        partitions_compacted=0,
        rows_written=0,
        seconds=0,
        startup_seconds=0,
        peak_memory_mb={},
        truncates=2,
        altered=(Alteration.CREATE.what, Alteration.DROP.what),
    )
    text = StringIO()
    render(report, Console(width=200, file=text))

    assert (
        "altered meanwhile: reviews made, payments.reference dropped, customers truncated 2 times"
        in text.getvalue().splitlines()
    )
