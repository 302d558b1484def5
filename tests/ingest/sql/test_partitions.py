"""Moments of partitions as literals."""

import pytest

from isotherm_ingest.sql.partitions import MAX_RANGES, contiguous, moments
from isotherm_ingest.tables.lake import SpecField

HOURS = SpecField(1000, "at", "hours")


@pytest.mark.parametrize(
    ("transform", "kind", "ordinals", "expected"),
    [
        ("hours", "TIMESTAMP", (0, 1, 5), ("(`at` >= TIMESTAMP'1970-01-01 00:00:00Z' AND `at` < TIMESTAMP'1970-01-01 02:00:00Z')"
                                     " OR (`at` >= TIMESTAMP'1970-01-01 05:00:00Z' AND `at` < TIMESTAMP'1970-01-01 06:00:00Z')")),
        ("days", "DATE", (-1,), "(`at` >= DATE'1969-12-31' AND `at` < DATE'1970-01-01')"),
        ("days", "TIMESTAMP", (-719_162,), "(`at` >= TIMESTAMP'0001-01-01 00:00:00Z' AND `at` < TIMESTAMP'0001-01-02 00:00:00Z')"),
        ("months", "TIMESTAMP_NTZ", (-1,), "(`at` >= TIMESTAMP_NTZ'1969-12-01 00:00:00' AND `at` < TIMESTAMP_NTZ'1970-01-01 00:00:00')"),
        ("years", "DATE", (54,), "(`at` >= DATE'2024-01-01' AND `at` < DATE'2025-01-01')"),
        ("hours", "TIMESTAMP", (10**9,), None),  # a year that no literal holds
        ("hours", "TIMESTAMP", (), None),
    ],
)  # fmt: skip
def test_moments_of_partitions_are_literals(transform, kind, ordinals, expected):
    assert expected == moments(SpecField(1000, "at", transform), kind, ordinals)


def test_many_ranges_become_one():
    scattered = [2 * number for number in range(MAX_RANGES + 1)]

    assert 1 == (moments(HOURS, "TIMESTAMP", scattered) or "").count(">=")


def test_runs():
    assert [(1, 3), (7, 7), (9, 10)] == contiguous([1, 2, 3, 7, 9, 10])
    assert [] == contiguous([])
