"""Which partitions a MERGE is told to look at, and how it says so."""

import pytest

from isotherm.contract.identity import PartitionKey
from isotherm_ingest.sql.mirror import MAX_RANGES, Touched, contiguous, merge_sql, pruning_sql
from isotherm_ingest.sql.survey import survey_of
from isotherm_ingest.tables.lake import SpecField

HOURS = (SpecField(1000, "at", "hours"), "TIMESTAMP")
REGION = (SpecField(1001, "region", "identity"), "STRING")
BUCKET = (SpecField(1002, "id", "bucket", 4), "BIGINT")


def touched(fields, *values):
    return Touched(fields, frozenset(values))


def test_keys_are_the_daemon_s():
    found = touched((HOURS, REGION), (494350, "eu"), (494351, "it's"))

    assert (
        PartitionKey('{"1000":494350,"1001":"eu"}'),
        PartitionKey('{"1000":494351,"1001":"it\'s"}'),
    ) == found.keys


@pytest.mark.parametrize(
    ("field", "values", "expected"),
    [
        (HOURS, (0, 1, 5), ("((t.`at` >= TIMESTAMP'1970-01-01 00:00:00Z' AND t.`at` < TIMESTAMP'1970-01-01 02:00:00Z')"
                           " OR (t.`at` >= TIMESTAMP'1970-01-01 05:00:00Z' AND t.`at` < TIMESTAMP'1970-01-01 06:00:00Z'))")),
        ((SpecField(1, "at", "days"), "DATE"), (-1,), "((t.`at` >= DATE'1969-12-31' AND t.`at` < DATE'1970-01-01'))"),
        ((SpecField(1, "at", "months"), "TIMESTAMP_NTZ"), (-1,), "((t.`at` >= TIMESTAMP_NTZ'1969-12-01 00:00:00' AND t.`at` < TIMESTAMP_NTZ'1970-01-01 00:00:00'))"),
        ((SpecField(1, "at", "years"), "DATE"), (54,), "((t.`at` >= DATE'2024-01-01' AND t.`at` < DATE'2025-01-01'))"),
        ((SpecField(1, "at", "days"), "DATE"), (-719162,), "((t.`at` >= DATE'0001-01-01' AND t.`at` < DATE'0001-01-02'))"),
        (HOURS, (-719162 * 24,), "((t.`at` >= TIMESTAMP'0001-01-01 00:00:00Z' AND t.`at` < TIMESTAMP'0001-01-01 01:00:00Z'))"),
        (REGION, ("it's", "eu"), "t.`region` IN ('eu', 'it\\'s')"),
        (BUCKET, (1, 2), None),
        (HOURS, (10**9,), None),  # a year that no literal holds
    ],
)  # fmt: skip
def test_literals_prune_the_target(field, values, expected):
    assert expected == pruning_sql(touched((field,), *((value,) for value in values)))


def test_many_ranges_become_one():
    scattered = touched((HOURS,), *((2 * number,) for number in range(MAX_RANGES + 1)))

    assert 1 == pruning_sql(scattered).count(">=")


def test_runs():
    assert [(1, 3), (7, 7), (9, 10)] == contiguous([1, 2, 3, 7, 9, 10])
    assert [] == contiguous([])


def row(**changes):
    return {
        "topic": "orders", "partition": 0, "rows": 2, "problems": 0, "unavailable": 0, "untold": [], "newest_ms": 5, "reached_ms": 9,
        "unknown": 0, "moved": 0, "touched": [(1,)], "touched_before": [(3,)], **changes,
    }  # fmt: skip


def test_a_survey_names_the_partitions_of_new_and_old_rows():
    survey = survey_of(
        [row(), row(partition=1, touched=[(2,)], touched_before=None, reached_ms=None)], (HOURS,)
    )

    assert {(1,), (2,), (3,)} == survey.touched.values
    assert (4, {("orders", 0): 9}) == (survey.rows, survey.reached_ms)


@pytest.mark.parametrize("change", [{"unknown": 1}, {"moved": 1}])
def test_one_row_that_does_not_tell_its_partition_makes_it_any(change):
    assert survey_of([row(), row(**change)], (HOURS,)).touched is None


def test_a_merge_always_updates_and_keeps_the_key():
    """An insert-only MERGE is not validated by Iceberg; a key-only table must not become one."""
    assert "WHEN MATCHED THEN UPDATE SET t.`id` = s.row.`id`" in merge_sql(
        "x", "SELECT 1", ["id"], ["id"], (), None
    )
    assert "SET t.`a` = IF(coalesce(array_contains(s.kept, 'a'), false), t.`a`, s.row.`a`)" in merge_sql(
        "x", "SELECT 1", ["id", "a"], ["id"], ("a",), None
    )
