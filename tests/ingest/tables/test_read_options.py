"""A table's owner says how much of it is read at once, within limits; Spark reads a table of hostile words."""

import pytest

from isotherm_ingest.tables.read_options import read_options
from support.upserts import Mirror, Put

HOSTILE = {
    "read.parquet.vectorization.batch-size": "1000000000",
    "read.split.target-size": "1",
    "read.split.planning-lookback": "2147483647",
    "read.split.open-file-cost": "9223372036854775807",
}


def test_what_an_owner_says_is_done_up_to_a_limit():
    assert read_options(HOSTILE) == {
        "batch-size": "20000",
        "split-size": str(16 << 20),
        "lookback": "1000",
        "file-open-cost": str(64 << 20),
    }
    assert read_options({"read.parquet.vectorization.batch-size": "-5"}) == {"batch-size": "1"}


@pytest.mark.parametrize(
    "ordinary",
    [
        {},
        {"read.parquet.vectorization.batch-size": "5000", "read.split.open-file-cost": "4194304"},
        {"read.split.target-size": "134217728", "read.split.planning-lookback": "10"},
        {"read.parquet.vectorization.batch-size": "many"},
    ],
)
def test_nothing_is_said_of_ordinary_tables(ordinary):
    assert read_options(ordinary) == {}


@pytest.mark.spark
def test_rows_are_found_in_a_table_whose_batches_would_fill_the_memory(spark, lake_folder):
    mirror = Mirror(spark, lake_folder, **HOSTILE)
    mirror.apply(Put(1, {"name": "a"}), Put(2, {"name": "b"}))

    mirror.apply(Put(1, {"name": "c"}))

    # Spark judges, who would read it as its owner says.
    said = ", ".join(f"'{name}'" for name in HOSTILE)
    spark.sql(f"ALTER TABLE {mirror.spark_name} UNSET TBLPROPERTIES ({said})")
    assert mirror.expected() == mirror.found()
