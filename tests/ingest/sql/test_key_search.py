"""Where in a table the rows of some keys may be."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from isotherm_ingest.sql.key_search import FEW, can_be_told, reach_of
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
