"""Where in a table the rows of some keys may be."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from isotherm_ingest.sql.key_conditions import FEW, LONGEST, can_be_told, reach_of
from isotherm_ingest.tables.lake import SpecField

DAYS = SpecField(1000, "at", "days")
KINDS = {"id": "BIGINT", "region": "STRING", "at": "TIMESTAMP", "price": "DOUBLE"}


def test_few_keys_are_named_one_by_one():
    keys = pa.table({"id": [7, 3], "region": ["it's", "eu"]})
    reach = reach_of(keys, KINDS, ())

    assert (
        reach.condition
        == "(`id` IN (CAST('3' AS BIGINT), CAST('7' AS BIGINT))) AND (`region` IN ('eu', 'it\\'s'))"
    )
    assert not reach.is_exact  # 7 in eu is none of them


def test_few_keys_of_one_column_are_all_that_the_condition_finds():
    assert reach_of(pa.table({"id": [7, 3]}), KINDS, ()).is_exact
    assert not reach_of(pa.table({"price": [7.0, 3.0]}), KINDS, ()).is_exact


def test_many_keys_are_told_by_their_range_and_by_the_partitions_that_they_prove():
    first, last = datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 9, 12, tzinfo=UTC)
    keys = pa.table({"at": pa.array([first] * FEW + [last], pa.timestamp("us", "UTC"))})
    reach = reach_of(keys, KINDS, [(DAYS, [19_723, 19_731])])

    assert reach.condition.startswith(
        "(`at` >= CAST('2024-01-01 00:00:00+00:00' AS TIMESTAMP) AND `at` <= CAST('2024-01-09 12:00:00+00:00' AS TIMESTAMP)) AND "
    )
    assert "TIMESTAMP'2024-01-02 00:00:00Z') OR (`at` >= TIMESTAMP'2024-01-09 00:00:00Z'" in reach.condition
    assert not reach.is_exact


@pytest.mark.parametrize(
    ("kind", "expected"), [("DECIMAL(10,2)", True), ("STRING", True), ("DOUBLE", False), ("BINARY", False)]
)
def test_keys_whose_text_is_not_the_value_prune_nothing(kind, expected):
    assert can_be_told(kind) is expected


def test_of_keys_that_cannot_be_told_nothing_is_known():
    assert reach_of(pa.table({"price": [1.5]}), KINDS, ()).condition == ""


LARGE = "x" * 100_000


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        # Too long one by one: their range says something still.
        (["a" * 1_000 + f"{n}" for n in range(150)] + ["b"], "`region` >= 'a"),
        (["a", LARGE], "`region` IN ('a', 'x"),
        # Longer than the room for both ends.
        ([f"{n:03d}{LARGE}" for n in range(2)], ""),
        ([f"{n:03d}{LARGE}" for n in range(FEW)], ""),
        ([f"{n:03d}{LARGE}" for n in range(FEW + 1)], ""),
        # Shorter than what it is as a literal.
        (["'" * 100_000], ""),
        (["\U0001f308" * 60_000], ""),
    ],
)
def test_a_condition_has_a_length_however_long_the_keys_are(keys, says):
    reach = reach_of(pa.table({"region": keys}), KINDS, ())

    assert says in reach.condition
    assert bool(reach.condition) is bool(says)
    assert len(reach.condition.encode()) <= LONGEST + 2
    assert reach.is_exact is (" IN " in says)


def test_a_long_column_of_the_key_leaves_the_others_their_condition():
    first = {"region": [LARGE, f"{LARGE}y"], "id": [7, 3]}
    last = {"id": [7, 3], "region": [LARGE, f"{LARGE}y"]}

    for keys in (first, last):
        assert reach_of(pa.table(keys), KINDS, ()).condition == (
            "(`id` IN (CAST('3' AS BIGINT), CAST('7' AS BIGINT)))"
        )


@pytest.mark.parametrize(("kind", "least"), [("INT", -(2**31)), ("BIGINT", -(2**63))])
def test_no_lower_end_is_told_that_iceberg_would_truncate_to_a_large_number(kind, least):
    """It skipped every file, and all rows of the batch were doubled."""
    arrow = {"INT": pa.int32(), "BIGINT": pa.int64()}[kind]
    low, others = least, list(range(FEW + 1))

    told = [
        reach_of(pa.table({"id": pa.array(keys, arrow)}), {"id": kind}, ()).condition
        for keys in ([low, *others], others)
    ]

    assert told == [
        f"(`id` <= CAST('{FEW}' AS {kind}))",
        f"(`id` >= CAST('0' AS {kind}) AND `id` <= CAST('{FEW}' AS {kind}))",
    ]
