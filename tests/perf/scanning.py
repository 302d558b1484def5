"""How long the result of a compaction takes to scan, against tables that were written in one go.

The rows are those of `compacting`. Ours is held against Spark's own rewrite, against what PyIceberg writes of all rows
in one commit, and against DuckDB's COPY. Each is read by the same reader: by PyIceberg, which opens metadata and manifests
too, and by DuckDB, which gets the paths of the files. With a filter each reads one twentieth of the ids.
"""

import time
from functools import partial

import duckdb
from compacting import FILES, ROWS, filled, lake
from measure import in_turns, row
from pyiceberg.expressions import AlwaysTrue, And, GreaterThanOrEqual, LessThan
from rewriting import PARTS, and_back, compacted, copy, files_of, rewritten_by

ROUNDS = 7
ALL = FILES * ROWS * len(PARTS)
LOW, HIGH = int(0.4 * ALL), int(0.45 * ALL)
GOAL = 1.1
NAMES = {"spark": "Spark's", "pyiceberg": "PyIceberg's in one commit", "copy": "DuckDB COPY's"}


def benchmarks(say):
    with lake() as (catalog, spark, folder):
        say(f"a table of {len(PARTS) * FILES} files, {ALL:,} rows")
        table = filled(catalog, "bench.scanned", FILES, ROWS)
        say("compacted by us and by Spark, copied by DuckDB, and written by PyIceberg in one commit")
        with and_back(table):
            by_spark = rewritten_by(spark, table)
        once = catalog.create_table(
            "bench.once", table.schema(), partition_spec=table.spec(), properties=table.properties
        )
        once.append(table.refresh().scan().to_arrow().sort_by("id"))
        (folder / "scanned").mkdir()
        copy(table, folder / "scanned")
        with and_back(table):
            by_us = compacted(table)
        table.refresh()
        tables = {
            "ours": (table, by_us),
            "spark": (table, by_spark),
            "pyiceberg": (once, once.metadata.current_snapshot_id),
        }
        files = {
            who: [path for part in PARTS for path in files_of(one, part, at)]
            for who, (one, at) in tables.items()
        }
        files["copy"] = [f"{folder}/scanned/{part}.parquet" for part in PARTS]
        rows = []
        for is_filtered in (False, True):
            what = "a twentieth of the ids" if is_filtered else "all"
            say(f"{what}, by PyIceberg and by DuckDB")
            by_pyiceberg = {who: partial(scan, one, at, is_filtered) for who, (one, at) in tables.items()}
            by_duckdb = {who: partial(query, paths, is_filtered) for who, paths in files.items()}
            for reader, ways in (("PyIceberg", by_pyiceberg), ("DuckDB", by_duckdb)):
                took = in_turns(ways, ROUNDS, clock=time.perf_counter)
                rows += [
                    row(
                        f"scanned: {what}, by {reader}, against {NAMES[who]}",
                        took["ours"],
                        "s",
                        took[who],
                        took[who] / took["ours"],
                    )
                    for who in took
                    if who != "ours"
                ]
    return rows


def scan(table, snapshot_id, is_filtered):
    """The rows as PyIceberg hands them to Arrow."""
    wanted = And(GreaterThanOrEqual("id", LOW), LessThan("id", HIGH)) if is_filtered else AlwaysTrue()
    check(table.scan(wanted, snapshot_id=snapshot_id).to_arrow().num_rows, is_filtered)


def query(paths, is_filtered):
    """A sum over every column, so that each is decoded."""
    where = f"WHERE id >= {LOW} AND id < {HIGH}" if is_filtered else ""
    with duckdb.connect(config={"threads": 2}) as connection:
        (count, *_) = connection.execute(
            f'SELECT count(*), sum(id), max(part), epoch_us(max("at")), sum(amount), max(name), max(note) FROM read_parquet(?) {where}',
            [paths],
        ).fetchone()
    check(count, is_filtered)


def check(count, is_filtered):
    if count != (HIGH - LOW if is_filtered else ALL):
        raise AssertionError(count)
