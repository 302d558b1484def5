"""Which files are copied as they are, and which are decoded: by their row groups, and by what the table asks for."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import DecimalType, LongType, NestedField
from thrift.Thrift import TType

from isotherm.contract.identity import UNPARTITIONED
from isotherm.core.model.files import FileKind, LiveFile
from isotherm.core.model.jobs import Rewrite
from isotherm.iceberg.compaction.proof import mismatch
from isotherm.iceberg.compaction.rewrite import attempt
from isotherm.parquet import as_asked
from isotherm.parquet import footer as footers
from isotherm.parquet.compact_thrift import Field
from isotherm.parquet.footer import read_footer
from isotherm.parquet.table_description import described
from support.footers import rewritten as change_footer
from support.parquet_files import local, rows
from support.passed_files import NAME, SCHEMA, changed, content, four_files, sizes, sources, was_copied
from support.rewriting import bound, rewritten

pytestmark = pytest.mark.usefixtures("small_groups_are_worth_it")


@pytest.fixture
def table(empty_catalog: Any) -> Table:
    return four_files(empty_catalog)


ASKED: dict[str, Callable[[Table], Table]] = {
    "another codec": lambda table: changed(table, **{"parquet.compression-codec": "gzip"}),
    "smaller row groups": lambda table: changed(table, **{"parquet.row-group-size-bytes": "900"}),
    "fewer rows in each": lambda table: changed(table, **{"parquet.row-group-limit": "299"}),
    "a Bloom filter": lambda table: changed(table, **{"parquet.bloom-filter-enabled.column.id": "true"}),
}


@pytest.mark.parametrize("what", ASKED)
def test_files_are_decoded_where_the_table_asks_for_something_else(table: Table, what: str) -> None:
    table = ASKED[what](table)
    job = bound(table, UNPARTITIONED)

    result = rewritten(table, job)

    assert (0, 1) == sizes(result)
    assert mismatch(job, result) is None


EVOLVED: dict[str, Callable[[Any], Any]] = {
    "a column came": lambda update: update.add_column("new", LongType()),
    "a column left": lambda update: update.delete_column("flag"),
    "a column has another name": lambda update: update.rename_column("text", "words"),
    "a column is wider": lambda update: update.update_column("price", DecimalType(12, 2)),
    "columns have another order": lambda update: update.move_first("at"),
    "a part of a column is wider": lambda update: update.update_column(("inner", "x"), LongType()),
}


@pytest.mark.parametrize("what", EVOLVED)
def test_files_of_another_schema_are_decoded(table: Table, what: str) -> None:
    with table.update_schema() as update:
        EVOLVED[what](update)
    table = table.refresh()
    job = bound(table, UNPARTITIONED)

    result = rewritten(table, job)

    assert (0, 1) == sizes(result)
    assert mismatch(job, result) is None


def test_a_job_that_sorts_decodes_all(table: Table) -> None:
    assert (0, 1) == sizes(rewritten(table, bound(table, UNPARTITIONED, sort="id DESC")))


def test_rows_that_have_ids_keep_them_and_no_file_is_copied(table: Table, tmp_path: Path) -> None:
    """Also where files say the ids themselves, so that they are such files as we write."""
    version_3 = json.dumps(json.loads(described(table.metadata)) | {"format-version": 3, "next-row-id": 9999})
    job = bound(table, UNPARTITIONED)
    files = tuple(replace(file, first_row_id=300 * place) for place, file in enumerate(job.data_files))
    result = attempt(replace(job, data_files=files), version_3, table.catalog.properties)
    assert isinstance(result, Rewrite), result
    (with_ids,) = result.files
    again = LiveFile(with_ids.path, FileKind.DATA, with_ids.size_bytes, with_ids.rows, 1, first_row_id=0)

    result = attempt(
        replace(job, job_id="again", data_files=(again, again)), version_3, table.catalog.properties
    )

    assert isinstance(result, Rewrite), result
    ids = [row["_row_id"] for row in pq.read_table(local(result.files[0])).to_pylist()]
    assert [*range(1200)] * 2 == ids
    assert pq.read_metadata(local(result.files[0])).num_row_groups == 1


@pytest.mark.parametrize("rows_each", [100, 300])
def test_small_row_groups_are_decoded(
    empty_catalog: Any, monkeypatch: pytest.MonkeyPatch, rows_each: int
) -> None:
    properties = {"format-version": "2", "write.parquet.row-group-limit": str(rows_each)}
    table = empty_catalog.create_table(NAME, SCHEMA, properties=properties)
    for seed in range(2):
        table.append(rows(seed))
    job = bound(table, UNPARTITIONED)
    groups = pq.read_metadata(sources(job)[0])
    largest = max(groups.row_group(number).total_byte_size for number in range(groups.num_row_groups))
    monkeypatch.setattr(as_asked, "WORTH_BYTES", largest + 1)

    result = rewritten(table, job)

    assert (0, 1) == sizes(result)
    assert mismatch(job, result) is None


NULLS: dict[str, tuple[bool, bool, tuple[int, int]]] = {
    "required in the table": (True, False, (0, 1)),
    "required in the files": (False, True, (1, 0)),
    "required in both": (True, True, (1, 0)),
}


@pytest.mark.parametrize("what", NULLS)
def test_a_column_may_be_required_in_a_file_alone_and_not_in_the_table_alone(
    empty_catalog: Any, tmp_path: Path, what: str
) -> None:
    """Spark calls a column required that has no null in a file."""
    in_table, in_files, expected = NULLS[what]
    schema = Schema(NestedField(1, "id", LongType(), required=in_table))
    table = empty_catalog.create_table(NAME, schema, properties={"format-version": "2"})
    field = pa.field("id", pa.int64(), nullable=not in_files, metadata={"PARQUET:field_id": "1"})
    for seed in range(2):
        table.append(pa.table([rows(seed)["id"]], schema=table.schema().as_arrow()))
    job = bound(table, UNPARTITIONED)
    files = []
    for seed, file in enumerate(job.data_files):
        path = tmp_path / f"{seed}.parquet"
        pq.write_table(
            pa.table([rows(seed)["id"]], schema=pa.schema([field])),
            path,
            compression="zstd",
            store_schema=False,
        )
        files.append(replace(file, path=str(path), size_bytes=path.stat().st_size))
    job = replace(job, data_files=tuple(files))

    result = rewritten(table, job)

    assert expected == sizes(result)
    assert mismatch(job, result) is None
    assert content(sources(job)) == content([local(file) for file in result.files])


def test_the_last_row_group_of_a_file_may_be_small(
    empty_catalog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(as_asked, "WORTH_BYTES", 2000)
    table = empty_catalog.create_table(
        NAME, SCHEMA, properties={"format-version": "2", "write.parquet.row-group-limit": "280"}
    )
    for seed in range(2):
        table.append(rows(seed))
    job = bound(table, UNPARTITIONED)

    (file,) = rewritten(table, job).files

    assert was_copied(local(file))
    footer = pq.read_metadata(local(file))
    assert [280, 20, 280, 20] == [footer.row_group(number).num_rows for number in range(4)]


def test_files_of_another_kind_than_most_are_decoded(table: Table, tmp_path: Path) -> None:
    job = bound(table, UNPARTITIONED)
    path = tmp_path / "other.parquet"
    path.write_bytes(sources(job)[1].read_bytes())
    change_footer(path, lambda fields: fields.update({6: Field(TType.STRING, b"somebody else" * 20)}))
    other = replace(job.data_files[1], path=str(path), size_bytes=path.stat().st_size)
    target = job.data_files[0].size_bytes * 3
    job = replace(job, data_files=(job.data_files[0], other, *job.data_files[2:]), target_size_bytes=target)

    result = rewritten(table, job)

    assert (0, 1) == sizes(result)
    assert mismatch(job, result) is None
    job = replace(
        job,
        job_id="other",
        data_files=(*job.data_files, *job.data_files[2:]),
        target_size_bytes=target // 3 * 2,
    )
    result = rewritten(table, job)
    assert (2, 1) == sizes(result)
    assert mismatch(job, result) is None
    # The largest file is of the other kind, and the oldest one goes with another one all the same.
    (decoded,) = (local(file) for file in result.files if not was_copied(local(file)))
    oldest = pq.read_table(sources(job)[0])["id"]
    assert 0 == pc.sum(pc.is_in(pq.read_table(decoded)["id"], oldest)).as_py()


def test_files_of_many_columns_in_few_bytes_are_decoded(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To parse their footers takes longer than to decode them."""
    job = bound(table, UNPARTITIONED)
    footer_bytes = [int.from_bytes(path.read_bytes()[-8:-4], "little") for path in sources(job)]
    part = max(length / file.size_bytes for length, file in zip(footer_bytes, job.data_files, strict=True))

    monkeypatch.setattr(as_asked, "FOOTER_BYTES", math.ceil(part * as_asked.WORTH_BYTES) + 1)
    assert (1, 0) == sizes(rewritten(table, job))
    monkeypatch.setattr(as_asked, "FOOTER_BYTES", int(part / 2 * as_asked.WORTH_BYTES))
    assert (0, 1) == sizes(rewritten(table, replace(job, job_id="many")))


def test_files_go_together_only_as_far_as_the_footer_of_the_new_one_can_be_read(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = bound(table, UNPARTITIONED)
    with sources(job)[0].open("rb") as stream:
        share = read_footer(stream).share
    job = replace(job, data_files=job.data_files * 2)

    monkeypatch.setattr(footers, "MOST_FOOTER_BYTES", int(footers.MOST_FOOTER_BYTES * share * 5))
    result = rewritten(table, job)
    assert (0, 1) == sizes(result)
    assert mismatch(job, result) is None
    halves = replace(job, job_id="halves", target_size_bytes=job.data_files[0].size_bytes * 4)
    result = rewritten(table, halves)
    assert (2, 0) == sizes(result)
    assert mismatch(halves, result) is None
