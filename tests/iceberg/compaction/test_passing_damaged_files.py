"""Damage is found in files that would be copied as they are, and no copy is made of it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField
from thrift.Thrift import TType

from isotherm.contract.identity import UNPARTITIONED
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.compaction.proof import mismatch
from isotherm.iceberg.compaction.rewrite import attempt
from isotherm.parquet.compact_thrift import Field
from isotherm.parquet.table_description import described
from support.footers import chunk
from support.footers import rewritten as change_footer
from support.parquet_files import LAYOUTS, local, rows
from support.passed_files import NAME, content, four_files, sources
from support.rewriting import bound, rewritten

pytestmark = pytest.mark.usefixtures("small_groups_are_worth_it")


@pytest.fixture
def table(empty_catalog: Any) -> Table:
    return four_files(empty_catalog)


def test_an_index_that_lies_before_the_file_has_it_decoded(table: Table, tmp_path: Path) -> None:
    job, path = bound(table, UNPARTITIONED), tmp_path / "a.parquet"
    pq.write_table(pq.read_table(sources(job)[0]), path, **LAYOUTS["indexes"], store_schema=False)
    change_footer(path, lambda fields: chunk(fields).update({6: Field(TType.I64, -1000)}))
    file = replace(job.data_files[0], path=str(path), size_bytes=path.stat().st_size)
    job = replace(job, data_files=(file, file))

    result = rewritten(table, job)

    assert mismatch(job, result) is None
    assert content(sources(job)) == content([local(file) for file in result.files])


def test_a_damaged_page_is_told_and_not_copied(table: Table, tmp_path: Path) -> None:
    job = bound(table, UNPARTITIONED)
    path = tmp_path / "damaged.parquet"
    pq.write_table(
        pq.read_table(sources(job)[1]),
        path,
        compression="zstd",
        write_page_checksum=True,
        use_dictionary=False,
    )
    damaged = bytearray(path.read_bytes())
    chunk = pq.read_metadata(path).row_group(0).column(0)
    damaged[chunk.data_page_offset + chunk.total_compressed_size - 3] ^= 1
    path.write_bytes(damaged)
    job = replace(job, data_files=(replace(job.data_files[1], path=str(path)),) * 2)

    result = attempt(job, described(table.metadata), table.catalog.properties)

    assert isinstance(result, Refusal)
    assert Reason.CORRUPT_FILE is result.reason
    assert f"{path}: the page at byte" in result.why
    assert "checksum" in result.why


def test_a_file_with_other_rows_than_its_manifest_says_is_told(empty_catalog: Any) -> None:
    schema = Schema(NestedField(1, "id", LongType(), required=False))
    table = empty_catalog.create_table(NAME, schema, properties={"format-version": "2"})
    for seed in range(2):
        table.append(rows(seed).select(["id"]))
    job = bound(table, UNPARTITIONED)
    job = replace(job, data_files=tuple(replace(file, rows=299) for file in job.data_files))

    result = attempt(job, described(table.metadata), table.catalog.properties)

    assert isinstance(result, Refusal)
    assert Reason.CORRUPT_FILE is result.reason
