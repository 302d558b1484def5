"""Statements are planned once, and the ones that nobody needs any more are forgotten."""

from isotherm_ingest.decode.database import MAX_STATEMENTS, run
from support.wire import raw


def test_a_statement_reads_what_it_is_given_each_time_and_comes_back_after_it_was_forgotten():
    for _ in range(2):
        for number in range(MAX_STATEMENTS + 3):
            found = run(f"SELECT {number} AS n, octet_length(text) AS size FROM messages", raw(b"x" * number))

            assert (found["n"].to_pylist(), found["size"].to_pylist()) == ([number], [number])
