"""What a manifest says of a file that was copied: as much as of one that was decoded, and nothing that is not so."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import DoubleType, NestedField
from thrift.Thrift import TType

from isotherm.contract.identity import UNPARTITIONED
from isotherm.parquet import as_asked
from isotherm.parquet.compact_thrift import Field
from support.footers import meta
from support.footers import rewritten as change_footer
from support.parquet_files import local
from support.passed_files import NAME, changed, four_files, sources, was_copied
from support.rewriting import bound, rewritten

pytestmark = pytest.mark.usefixtures("small_groups_are_worth_it")


@pytest.fixture
def table(empty_catalog: Any) -> Table:
    return four_files(empty_catalog)


@pytest.mark.parametrize("metrics", ["truncate(16)", "full", "counts", "none", "truncate(3)"])
def test_a_manifest_says_of_a_copy_what_it_would_say_of_decoded_rows(
    table: Table, monkeypatch: pytest.MonkeyPatch, metrics: str
) -> None:
    table = changed(table, **{"metadata.metrics.default": metrics})
    (copy,) = rewritten(table, bound(table, UNPARTITIONED)).files
    monkeypatch.setattr(as_asked, "WORTH_BYTES", 2**40)
    (decoded,) = rewritten(table, bound(table, UNPARTITIONED)).files

    assert not was_copied(local(decoded))
    own = {"path": "", "size_bytes": 0, "column_sizes": {}, "split_offsets": ()}
    assert replace(decoded, **own) == replace(copy, **own)
    assert copy.column_sizes.keys() == decoded.column_sizes.keys()
    footer = pq.read_metadata(local(copy))
    begins = [footer.row_group(group).column(0) for group in range(footer.num_row_groups)]
    assert list(copy.split_offsets) == [
        chunk.dictionary_page_offset or chunk.data_page_offset for chunk in begins
    ]
    assert local(copy).stat().st_size == copy.size_bytes
    if metrics == "full":
        values = pq.read_table(local(copy))["half"]
        assert 0 < pc.sum(pc.is_nan(values)).as_py() == copy.nan_value_counts[5]


def test_bounds_hold_both_zeros(empty_catalog: Any) -> None:
    schema = Schema(NestedField(1, "half", DoubleType(), required=False))
    table = empty_catalog.create_table(NAME, schema, properties={"format-version": "2"})
    for _ in range(2):
        table.append(pa.table({"half": [0.0, 5.0] + [float(one) for one in range(300)]}))

    (file,) = rewritten(table, bound(table, UNPARTITIONED)).files

    assert was_copied(local(file))
    assert bytes(7) + b"\x80" == file.lower_bounds[1]


@pytest.mark.parametrize("nulls", [-1, 2**62])
def test_no_manifest_says_of_nulls_what_cannot_be(table: Table, nulls: int) -> None:
    """A filtered read skips a file in which all values are null, or none: by sums in which a wrong one has part."""
    job = bound(table, UNPARTITIONED)
    for path in sources(job):
        change_footer(path, lambda fields: meta(fields, 1)[12].value.update({3: Field(TType.I64, nulls)}))
    files = [
        replace(file, size_bytes=path.stat().st_size)
        for file, path in zip(job.data_files, sources(job), strict=True)
    ]

    (file,) = rewritten(table, replace(job, data_files=tuple(files))).files

    assert not was_copied(local(file))
    assert pq.read_table(local(file))["text"].null_count == file.null_value_counts[2]
