"""Rows that Spark has computed, on their way into files."""

import pyarrow as pa
import pytest

from isotherm_ingest.workers.rows import first_twice


@pytest.mark.parametrize(
    ("rows", "twice"),
    [
        ([(1, "a"), (1, "b"), (2, "a")], None),
        ([(1, "a"), (2, "a"), (1, "a")], {"n": 1, "t": "a"}),
        ([(1, None), (2, "a"), (1, None)], {"n": 1, "t": None}),
        ([], None),
    ],
)
def test_a_key_that_several_rows_have_is_named(rows, twice):
    table = pa.table(
        {
            "n": pa.array([one for one, _ in rows], pa.int64()),
            "t": pa.array([one for _, one in rows], pa.string()),
        }
    )

    assert first_twice(table, ["n", "t"]) == twice
