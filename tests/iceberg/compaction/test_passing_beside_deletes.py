"""Files of which rows are deleted are decoded, beside others that are copied as they are."""

import tempfile
from dataclasses import replace
from mmap import mmap
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import Table

from isotherm.contract.identity import UNPARTITIONED
from isotherm.core.model.files import FileKind, LiveFile
from isotherm.core.model.jobs import CompactionJob, Rewrite
from isotherm.core.model.progress import Progress
from isotherm.iceberg.compaction.counters import NUMBERS, Counters, seen
from isotherm.iceberg.compaction.names import leftovers
from isotherm.iceberg.compaction.proof import mismatch
from isotherm.iceberg.compaction.rewrite import attempt
from isotherm.parquet.table_description import described
from support.parquet_files import local
from support.passed_files import FILES, four_files, sizes
from support.rewriting import bound, rewritten

pytestmark = pytest.mark.usefixtures("small_groups_are_worth_it")


@pytest.fixture
def table(empty_catalog: Any) -> Table:
    return four_files(empty_catalog)


def with_deletes(
    table: Table, job: CompactionJob, folder: Path, *positions: tuple[int, int]
) -> CompactionJob:
    """The same job, with deletes of these positions of these of its files."""
    path = folder / "deletes.parquet"
    names = [job.data_files[number].path for number, _ in positions]
    places = pa.array([place for _, place in positions], pa.int64())
    pq.write_table(pa.table({"file_path": names, "pos": places}), path)
    delete = LiveFile(str(path), FileKind.POSITION_DELETES, path.stat().st_size, len(positions), 99)
    return replace(job, delete_files=(delete,))


def test_a_file_of_which_a_row_is_deleted_is_decoded_beside_others_that_are_not(
    table: Table, tmp_path: Path
) -> None:
    job = with_deletes(table, bound(table, UNPARTITIONED), tmp_path, (1, 5), (1, 299))
    # Two files of the others have the target size.
    job = replace(job, target_size_bytes=job.data_files[0].size_bytes + job.data_files[2].size_bytes)

    result = rewritten(table, job)

    assert sizes(result) == (1, 1)
    assert mismatch(job, result) is None
    assert (1200, 2, 1198) == (result.rows_read, result.rows_deleted, result.rows_written)
    ids = sorted(one for file in result.files for one in pq.read_table(local(file))["id"].to_pylist())
    assert [one for one in range(1200) if one not in {305, 599}] == ids
    assert tuple(file.path for file in result.files) == leftovers(table.io, table.metadata, job)


def test_what_is_said_of_how_far_it_is_counts_files_that_are_copied_and_those_that_are_decoded(
    table: Table, tmp_path: Path
) -> None:
    job = with_deletes(table, bound(table, UNPARTITIONED), tmp_path, (1, 5), (1, 299))
    job = replace(job, target_size_bytes=job.data_files[0].size_bytes + job.data_files[2].size_bytes)
    with tempfile.TemporaryFile() as file:
        file.truncate(NUMBERS.size)
        shared, counters = mmap(file.fileno(), NUMBERS.size), Counters(file.fileno())

    result = attempt(job, described(table.metadata), table.catalog.properties, counters)

    assert isinstance(result, Rewrite)
    assert sizes(result) == (1, 1)
    assert seen(shared) == Progress(1200, job.read_bytes, 1198, result.bytes_written)


def test_deletes_of_rows_that_are_not_there_have_a_file_decoded(table: Table, tmp_path: Path) -> None:
    """One engine counts them, the other does not: what is unclear is not copied."""
    job = with_deletes(table, bound(table, UNPARTITIONED), tmp_path, *((file, 300) for file in range(FILES)))

    assert sizes(rewritten(table, job)) == (0, 1)
