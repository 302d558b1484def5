"""What a footer says that cannot be goes into no manifest."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType
from thrift.Thrift import TType

from isotherm.parquet.compact_thrift import Field
from isotherm.parquet.statistics import statistics
from support.footers import meta, rewritten

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False), NestedField(2, "text", StringType(), required=False)
)


@pytest.mark.parametrize(
    ("nulls", "is_told"), [(-1, False), (0, True), (5, True), (6, False), (2**62, False)]
)
def test_a_count_of_nulls_is_told_where_it_can_be(tmp_path: Path, nulls: int, is_told: bool) -> None:
    path = tmp_path / "a"
    pq.write_table(pa.table({"id": range(5), "text": list("abcde")}), path)
    rewritten(path, lambda fields: meta(fields, 1)[12].value.update({3: Field(TType.I64, nulls)}))

    found = statistics(pq.read_metadata(path), SCHEMA, {}, {})

    assert ({1: 0, 2: nulls} if is_told else {1: 0}) == found.null_value_counts
    assert is_told == (2 in found.lower_bounds)
    assert {1: 5, 2: 5} == found.value_counts
