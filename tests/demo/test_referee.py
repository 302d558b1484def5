"""The witness and the referee must be able to say no: tables that somebody has spoiled, and what they say of them."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import HourTransform
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

from isotherm.audit.evidence import (
    Commit,
    Evidence,
    FilesChecked,
    Judged,
    Judgement,
    Promise,
    SourceCompared,
)
from isotherm.audit.promises import judge
from isotherm.contract.events import WindowGranted, WindowRequested, encode
from isotherm.contract.identity import UNPARTITIONED
from isotherm.contract.summary import JOB_ID, POLICY_HASH, WINDOW_ID
from isotherm.demo.lake import Rows, SeenFile, local_path
from isotherm.demo.logbook import Logbook, Tail
from isotherm.demo.referee import Referee, canonical, sum_of
from isotherm.demo.report import promises, quantiles
from isotherm.demo.witness import SeenTable, Witness
from support.audited import intent

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "at", TimestamptzType(), required=False),
    NestedField(3, "note", StringType(), required=False),
)
BY_HOUR = PartitionSpec(PartitionField(2, 1000, HourTransform(), "at_hour"))


def orders(*ids: int, hour: int = 5) -> pa.Table:
    at = datetime(2026, 11, 21, hour, tzinfo=UTC)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "at": pa.array([at] * len(ids), pa.timestamp("us", "UTC")),
            "note": pa.array([f"n{one}" for one in ids]),
        }
    )


@pytest.fixture
def properties(tmp_path: Path) -> dict[str, str]:
    folder = tmp_path / "a lake"
    folder.mkdir()
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}


@pytest.fixture
def catalog(properties: dict[str, str]) -> Catalog:
    catalog = load_catalog("lake", **properties)
    catalog.create_namespace("shop")
    catalog.create_table("shop.orders", SCHEMA, partition_spec=BY_HOUR)
    return catalog


@pytest.fixture
def witness(properties: dict[str, str]) -> Witness:
    """One that looks when it is told to; nothing listens."""
    return Witness(properties, "127.0.0.1:1", "isotherm.control", seed=1)


@pytest.fixture
def rows() -> Iterator[Rows]:
    reader = Rows()
    yield reader
    reader.close()


def history(seen: SeenTable, **more: Any) -> Evidence:
    ids = frozenset(seen.commits)
    filled = {
        "announced": ids,
        "accounted": ids,
        "files": FilesChecked(1, 1),
        "now_ms": 10**15,
        "rows": tuple(seen.rows),
        **more,
    }
    commits = tuple(seen.commits.values())
    return Evidence(table=seen.name, transforms=seen.transforms, commits=commits, rules={}, **filled)


def verdicts(given: Evidence) -> dict[Promise, Judged]:
    return {one.promise: one.verdict for one in judge(given)}


def test_the_witness_follows_what_is_live(catalog: Catalog, witness: Witness, rows: Rows) -> None:
    table = catalog.load_table("shop.orders")
    table.append(orders(1, 2))
    witness.look(catalog, rows)
    table.append(orders(3, hour=6))
    table.append(orders(4))
    witness.look(catalog, rows)

    seen = witness.tables["shop.orders"]
    assert [True, True, True] == [commit.is_write for commit in seen.commits.values()]
    assert sorted(seen.files_by_partition().values()) == [1, 2]
    assert seen.transforms == {1000: "hour"}
    assert rows.count_and_sum(seen.live.values(), SCHEMA)[0] == 4


def test_a_commit_in_our_name_that_loses_rows_breaks_a_promise(
    catalog: Catalog, witness: Witness, rows: Rows
) -> None:
    table = catalog.load_table("shop.orders")
    table.append(orders(1, 2))
    table.append(orders(3))
    table.delete("id = 3", snapshot_properties={JOB_ID: "job-1"})
    witness.look(catalog, rows)

    seen = witness.tables["shop.orders"]
    found = verdicts(history(seen))
    assert [(one.files_before, one.files_after) for one in seen.rewritten] == [(2, 1)]
    assert [(one.before[0], one.after[0]) for one in seen.rows] == [(3, 2)]
    assert found[Promise.SAME_ROWS] is Judged.BROKEN


def test_a_file_that_is_gone_breaks_a_promise(catalog: Catalog, witness: Witness, rows: Rows) -> None:
    table = catalog.load_table("shop.orders")
    table.append(orders(1, 2))
    table.append(orders(3))
    witness.look(catalog, rows)
    assert witness.check_files(catalog)["shop.orders"].missing == ()

    victim = next(iter(witness.tables["shop.orders"].live))
    Path(local_path(victim)).unlink()

    files = witness.check_files(catalog)["shop.orders"]
    found = verdicts(history(witness.tables["shop.orders"], files=files))
    assert [line.split(" (")[0] for line in files.missing] == [victim]
    assert found[Promise.NOTHING_NEEDED_DELETED] is Judged.BROKEN


def test_position_deletes_are_applied(tmp_path: Path, rows: Rows) -> None:
    data, deletes = tmp_path / "it's data.parquet", tmp_path / "deletes.parquet"
    pq.write_table(orders(1, 2, 3).cast(schema_to_pyarrow(SCHEMA)), data)
    gone = {"file_path": [f"file://{data}", f"file:{data}", "file:///elsewhere"], "pos": [0, 2, 1]}
    pq.write_table(pa.table(gone), deletes)
    files = [
        SeenFile(f"file://{data}", True, UNPARTITIONED, 3),
        SeenFile(f"file://{deletes}", False, UNPARTITIONED, 3),
    ]

    assert rows.read(files, SCHEMA, ["id"]) == [(2,)]
    assert rows.count_and_sum(files, SCHEMA)[0] == 1
    assert rows.count_and_sum(files, SCHEMA) != rows.count_and_sum(files[:1], SCHEMA)


def test_equal_rows_have_equal_sums_in_any_order_and_other_rows_have_not() -> None:
    kinds = ["bigint", "numeric(10,2)", "jsonb", "timestamptz", "text[]"]
    at = datetime(2026, 11, 21, 5, 0, 0, 250, tzinfo=UTC)
    one = (1, Decimal("2.50"), {"b": 1, "a": None}, at, ["x", None])
    same = (1, Decimal("2.5"), '{"a": null, "b": 1}', at, ("x", None))
    other = (2, None, None, None, None)

    assert sum_of([one, other], kinds) == sum_of([other, same], kinds)
    assert sum_of([one], kinds) != sum_of([one, one], kinds)
    assert sum_of([one], kinds) != sum_of([(1, Decimal("2.51"), *one[2:])], kinds)
    assert sum_of([(None,)], ["text"]) != sum_of([("",)], ["text"])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Decimal("0.00"), "0"),
        (Decimal(100), "100"),
        (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), 1_000_000),
        (None, None),
    ],
)
def test_values_are_written_in_one_way(value: Any, expected: Any) -> None:
    assert expected == canonical(value, "")


def test_one_broken_table_breaks_the_promise_for_all(catalog: Catalog, witness: Witness, rows: Rows) -> None:
    catalog.load_table("shop.orders").append(orders(1))
    witness.look(catalog, rows)
    good = judge(history(witness.tables["shop.orders"]))
    bad = judge(history(witness.tables["shop.orders"], source=SourceCompared(2, 1, equal=False)))

    holds, evidence = promises({"a": good, "b": bad}, [])

    assert [name for name, fine in holds.items() if not fine] == ["same_rows"]
    assert evidence == {"same_rows": ("b: 2 rows in the source, 1 in the table",)}


def test_a_blind_witness_clears_nobody(catalog: Catalog, witness: Witness, rows: Rows) -> None:
    catalog.load_table("shop.orders").append(orders(1))
    witness.look(catalog, rows)
    good = judge(history(witness.tables["shop.orders"]))

    assert all(promises({"a": good}, [])[0].values())
    assert not any(promises({"a": good}, ["the witness went blind"])[0].values())
    assert not any(promises({}, [])[0].values())


def test_the_live_line_blames_us_only_for_what_the_writers_log_names(
    tmp_path: Path, catalog: Catalog, witness: Witness, rows: Rows
) -> None:
    """A commit of ours in the time of an attempt is not what it ran into, where the log names another head."""
    table = catalog.load_table("shop.orders")
    table.append(orders(1, 2))
    table.delete("id = 2", snapshot_properties={JOB_ID: "job-1"})
    table.append(orders(3, hour=6))
    witness.look(catalog, rows)
    seen = witness.tables["shop.orders"]
    first, ours, last = seen.commits.values()
    at_ms = ours.committed_at_ms
    attempts = (intent(at_ms - 5_000), intent(last.committed_at_ms + 1, attempt=2))
    witness.intents[seen.uuid] = list(attempts)
    (tmp_path / "shop.yaml").write_text("tables: shop.*")
    referee = Referee("", catalog, witness, tmp_path)

    def judged(base: Commit, head: Commit) -> Judgement:
        log = tmp_path / f"{base.snapshot_id}.log"
        line = {"event": "merge_recomputed", "table": seen.name, "intent_id": "i1"}
        line |= {"base_snapshot_id": base.snapshot_id, "head_snapshot_id": head.snapshot_id}
        log.write_text(json.dumps(line) + "\n")
        book = Logbook(Tail(log), Tail(tmp_path / "daemon.log"))
        return next(one for one in referee.so_far(seen, book) if one.promise is Promise.WRITER_WINS)

    others, by_us = judged(ours, last), judged(first, ours)

    assert (others.verdict, others.counts["merges_recomputed"]) == (Judged.PROVED, 1)
    assert (by_us.verdict, by_us.counts["because_of_us"]) == (Judged.BROKEN, 1)


def test_what_the_witness_heard_of_a_window_excuses_a_job_in_it(
    tmp_path: Path, catalog: Catalog, witness: Witness, rows: Rows
) -> None:
    table = catalog.load_table("shop.orders")
    (tmp_path / "shop.yaml").write_text("tables: shop.*")
    (tmp_path / "orders.yaml").write_text("tables: shop.orders\ncompact: {ask_writer: 30s}")
    referee = Referee("", catalog, witness, tmp_path)
    table.append(orders(1, 2))
    witness.look(catalog, rows)
    seen = witness.tables["shop.orders"]
    [policy] = referee.rules(seen)
    table.delete("id = 2", snapshot_properties={JOB_ID: "j", POLICY_HASH: policy, WINDOW_ID: "w"})
    witness.look(catalog, rows)
    first, ours = seen.commits.values()

    def judged() -> Judgement:
        book = Logbook(Tail(tmp_path / "ingest.log"), Tail(tmp_path / "daemon.log"))
        return next(one for one in referee.so_far(seen, book) if one.promise is Promise.COLD_ONLY)

    assert judged().verdict is Judged.BROKEN

    named = {"table_uuid": seen.uuid, "table": seen.name, "window_id": "w", "at_ms": 0, "length_ms": 30_000}
    said = (
        WindowRequested(**named, asked_by="isotherm"),
        WindowGranted(**named, writer="shop", snapshot_id=first.snapshot_id),
    )
    for event in said:
        witness.hear(ours.committed_at_ms, encode(event)[1])
    found = judged()

    assert (found.verdict, found.counts["hot_partitions_touched"]) == (Judged.PROVED, 0)


def test_quantiles_are_values_that_were_there() -> None:
    found = quantiles([5.0, 1.0, 2.0, 4.0, 3.0])

    assert (found.p50, found.p99, found.count) == (3.0, 5.0, 5)
    assert quantiles([]).p50 is None
