"""Where in a table the rows of some keys may be."""

import pytest

from isotherm_ingest.sql.mirror import can_be_told, keys_sql, reach_of
from isotherm_ingest.sql.survey import survey_of
from isotherm_ingest.tables.lake import SpecField

DAYS = (SpecField(1000, "at", "days"), "TIMESTAMP")
COUNTS = {"keys": 3, "rows": 2, "keeping": 0}


def test_few_keys_are_named_one_by_one():
    found = {**COUNTS, "every0": ["7", "3"], "every1": ["it's", "eu"]}
    reach = reach_of(found, {"id": "BIGINT", "region": "STRING"}, (), is_few=True)

    assert (
        reach.condition
        == "(`id` IN (CAST('3' AS BIGINT), CAST('7' AS BIGINT))) AND (`region` IN ('eu', 'it\\'s'))"
    )


def test_many_keys_are_told_by_their_range_and_by_the_partitions_that_they_prove():
    found = {
        **COUNTS,
        "least0": "2024-01-01 00:00:00",
        "most0": "2024-01-09 12:00:00",
        "times0": [19_723, 19_731],
    }
    reach = reach_of(found, {"at": "TIMESTAMP"}, [DAYS], is_few=False)

    assert reach.condition.startswith(
        "(`at` >= CAST('2024-01-01 00:00:00' AS TIMESTAMP) AND `at` <= CAST('2024-01-09 12:00:00' AS TIMESTAMP)) AND "
    )
    assert "TIMESTAMP'2024-01-02 00:00:00Z') OR (`at` >= TIMESTAMP'2024-01-09 00:00:00Z'" in reach.condition


def test_without_keys_nothing_is_known():
    found = {"keys": 0, "rows": 0, "keeping": 0, "least0": None, "most0": None}

    assert reach_of(found, {"id": "BIGINT"}, (), is_few=False).condition == ""


@pytest.mark.parametrize(
    ("kind", "expected"), [("DECIMAL(10,2)", True), ("STRING", True), ("DOUBLE", False), ("BINARY", False)]
)
def test_keys_whose_text_is_not_the_value_prune_nothing(kind, expected):
    assert can_be_told(kind) is expected


def test_a_key_without_columns_that_can_be_told_is_counted():
    assert keys_sql("v", [], (), "lake", is_few=False).startswith("SELECT count(*) AS keys, ")


def test_a_survey_sums_the_kafka_partitions():
    row = {"topic": "orders", "rows": 2, "problems": 1, "untold": [], "newest_ms": 5}
    survey = survey_of(
        [
            {**row, "partition": 0, "kept": ["note"], "reached_ms": 9},
            {**row, "partition": 1, "kept": None, "reached_ms": None},
        ]
    )

    assert (survey.rows, survey.problems, survey.kept) == (4, 2, frozenset(["note"]))
    assert survey.reached_ms == {("orders", 0): 9}
