"""Which columns of a file have a dictionary: as if all values were counted, though mostly a tenth of them is."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.types import BinaryType, FixedType, LongType, NestedField, StringType, UUIDType

from isotherm.parquet.output import Output

ROWS = 200_000
CHANCE = np.random.default_rng(1)

NUMBERS = {
    "each once": (CHANCE.permutation(ROWS), False),
    "each once, sorted": (np.arange(ROWS), False),
    "of three": (CHANCE.integers(0, 3, ROWS), True),
    "of five thousand": (CHANCE.integers(0, 5_000, ROWS), True),
    "each five times": (CHANCE.permutation(np.arange(ROWS) // 5), True),
    "each five times, sorted": (np.arange(ROWS) // 5, True),
    "the same in each file": (np.arange(ROWS) % 20_000, True),
    "one half alike, the other each once": (np.where(np.arange(ROWS) < ROWS // 2, 0, np.arange(ROWS)), False),
    "hardly any twice": (np.where(CHANCE.random(ROWS) < 0.1, 0, np.arange(ROWS)), False),
}


def has_dictionary(tmp_path, values, kind, batches=1):
    """Whether a column has a dictionary in a file that is written in so many batches."""
    schema = Schema(NestedField(1, "value", kind))
    metadata = new_table_metadata(
        schema, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, f"file://{tmp_path}"
    )
    path = str(tmp_path / "rows.parquet")
    output = Output(PyArrowFileIO(), metadata, lambda _: path, 1 << 30, len(values), 8.0)
    rows = pa.table([values], schema=output.arrow)
    for batch in rows.to_batches(max_chunksize=max(-(-len(values) // batches), 1)):
        output.write(batch)
    output.finish()
    assert pq.read_table(path).column(0).to_pylist() == values.to_pylist()
    column = pq.read_metadata(path).row_group(0).column(0)
    return column.has_dictionary_page


@pytest.mark.parametrize("as_text", [False, True], ids=["numbers", "texts"])
@pytest.mark.parametrize(("values", "pays"), NUMBERS.values(), ids=NUMBERS)
def test_a_column_has_a_dictionary_where_its_values_come_twice_or_oftener(tmp_path, values, pays, as_text):
    found = pa.array(values.astype(np.int64))
    if as_text:
        found = pc.binary_join_element_wise("order", found.cast(pa.string()), "-")
    kind = StringType() if as_text else LongType()

    assert has_dictionary(tmp_path, found, kind, batches=30) is pays


def test_a_dictionary_that_would_be_too_large_is_none(tmp_path):
    """Its pages would be written before the writer gives it up."""
    many = pa.array([f"{number:0400}" for number in range(10_000)] * 5)
    assert not has_dictionary(tmp_path, many, StringType())


@pytest.mark.parametrize("kind", [UUIDType(), FixedType(16), BinaryType()])
@pytest.mark.parametrize("distinct", [3, 5_000])
def test_bytes_have_one_too(tmp_path, kind, distinct):
    values = [number.to_bytes(16) for number in range(distinct)] * (10_000 // distinct)
    stored = pa.array(values, pa.binary() if isinstance(kind, BinaryType) else pa.binary(16))
    if isinstance(kind, UUIDType):
        stored = pa.ExtensionArray.from_storage(pa.uuid(), stored)
    assert has_dictionary(tmp_path, stored, kind)


@given(st.lists(st.one_of(st.none(), st.text(max_size=3)), min_size=1, max_size=300))
def test_whatever_comes_is_written_and_read_again(tmp_path_factory, values):
    has_dictionary(tmp_path_factory.mktemp("rows"), pa.array(values, pa.string()), StringType())


@pytest.mark.parametrize("first", ["small", "large"])
@pytest.mark.parametrize("at_once", [1, 50])
def test_a_row_group_has_the_bytes_that_the_table_asks_for_however_many_rows_come_at_once(
    tmp_path, first, at_once
):
    """What was sorted comes in batches of 64 MiB, and the rows at one end of the order may be the small ones."""
    schema = Schema(NestedField(1, "value", BinaryType()))
    asked = {"write.parquet.row-group-size-bytes": "262144"}
    metadata = new_table_metadata(
        schema, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, f"file://{tmp_path}", asked
    )
    values = [None] * 5_000 + [CHANCE.bytes(1_000) for _ in range(5_000)]
    rows = pa.array(values if first == "small" else values[::-1], pa.large_binary())
    output = Output(
        PyArrowFileIO(), metadata, lambda number: str(tmp_path / f"{number}.parquet"), 1 << 21, 10_000, 500.0
    )
    for batch in pa.table([rows], schema=output.arrow).to_batches(max_chunksize=10_000 // at_once):
        output.write(batch)
    found = [pq.read_metadata(file.path) for file in output.finish()]

    assert sum(one.num_rows for one in found) == 10_000
    groups = [one.row_group(number).total_byte_size for one in found for number in range(one.num_row_groups)]
    assert max(groups) < 1.2 * 262_144
    assert sum(groups) / len(groups) > 0.7 * 262_144
    assert max(
        sum(one.row_group(n).total_byte_size for n in range(one.num_row_groups)) for one in found
    ) < 1.5 * (1 << 21)
