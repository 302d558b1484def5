"""Who else rewrites a table's files is told by the summary, by name."""

import pytest

from isotherm.iceberg.other_rewriters import rewriter_of

COUNTS = {"added-data-files": "1", "deleted-data-files": "2", "added-records": "3", "deleted-records": "3"}
FLINK = {
    "engine-name": "flink",
    "engine-version": "2.1.1",
    "iceberg-version": "Apache Iceberg 1.11.0 (commit 6976e020b894f6a6777704df2b8c4458cb291ae9)",
}
"""As Flink's table maintenance wrote it: tests/daemon/test_flink.py."""


@pytest.mark.parametrize(
    ("said", "name"),
    [
        (FLINK, "Flink"),
        ({"engine-name": "spark", "spark.app.id": "local-1"}, "Spark"),
        ({"snapshot.producer": "OPTIMIZE"}, "Amoro"),
        ({"snapshot.producer": "OPTIMIZE"} | FLINK, "Amoro"),
        ({"snapshot.producer": "INGESTION"}, ""),
        ({"trino_query_id": "20260101_000000_00001_abcde"}, "Trino"),
        ({"engine-name": "some-engine 2"}, "some-engine 2"),
        ({"engine-name": "x" * 41}, ""),
        ({"engine-name": "two\nlines"}, ""),
        ({}, ""),
    ],
)
def test_a_rewriter_is_known_by_what_it_writes_into_the_summary(said, name):
    assert rewriter_of(COUNTS | said) == name
