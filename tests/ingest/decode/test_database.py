"""Statements are planned once, and the ones that nobody needs any more are forgotten."""

import pyarrow as pa

from isotherm_ingest.decode.database import MAX_KEPT_COST, MAX_STATEMENTS, ask, plan, run
from support.wire import raw

NOTHING = pa.table({"n": pa.array([], pa.int32())})


def test_a_statement_reads_what_it_is_given_each_time_and_comes_back_after_it_was_forgotten():
    for _ in range(2):
        for number in range(MAX_STATEMENTS + 3):
            found = run(f"SELECT {number} AS n, octet_length(text) AS size FROM messages", raw(b"x" * number))

            assert (found["n"].to_pylist(), found["size"].to_pylist()) == ([number], [number])


def test_wide_statements_are_kept_up_to_what_they_cost_together():
    """Five hundred of the widest schema take twenty gigabytes."""
    for number in range(4):
        plan(f"SELECT {number} AS wide FROM messages", raw(), MAX_KEPT_COST // 2)
    found = ask(
        "SELECT statement FROM duckdb_prepared_statements() WHERE statement LIKE '%AS wide FROM%'", NOTHING
    )
    kept = sorted(text[text.index("SELECT") :] for text in found["statement"].to_pylist())

    assert [text[:16] for text in kept] == ["SELECT 2 AS wide", "SELECT 3 AS wide"]
    plan("SELECT 4 AS wide FROM messages", raw(), MAX_KEPT_COST + 1)
    assert run("SELECT 4 AS wide FROM messages", raw(b""))["wide"].to_pylist() == [4]
