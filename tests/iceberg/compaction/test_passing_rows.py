"""Where files are copied as they are, rows are the same as before, whatever files there are."""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.table import Table

from isotherm.contract.identity import UNPARTITIONED
from isotherm.core.model.jobs import OutcomeKind
from isotherm.iceberg.compaction.proof import mismatch
from support.parquet_files import LAYOUTS, local, rows
from support.passed_files import FILES, NAME, content, four_files, sizes, sources
from support.rewriting import bound, commit, rewritten

pytestmark = pytest.mark.usefixtures("small_groups_are_worth_it")


@pytest.fixture
def table(empty_catalog: Any) -> Table:
    return four_files(empty_catalog)


def test_files_are_copied_and_no_row_is_lost(empty_catalog: Any, table: Table) -> None:
    job = bound(table, UNPARTITIONED)
    before = table.scan().to_arrow().sort_by("id")

    result = rewritten(table, job)

    assert sizes(result) == (1, 0)
    assert mismatch(job, result) is None
    assert content(sources(job)) == content([local(file) for file in result.files])
    outcome = commit(empty_catalog, job, result)
    assert OutcomeKind.DONE is outcome.kind, outcome
    after = empty_catalog.load_table(NAME).scan().to_arrow().sort_by("id")
    assert str(before.to_pylist()) == str(after.to_pylist())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_are_the_same_whatever_layout_files_have(table: Table, tmp_path: Path, layout: str) -> None:
    """Some are copied and some are not, as their layout allows; the same files stand for those of the table."""
    job = bound(table, UNPARTITIONED)
    arrow = table.schema().as_arrow()
    files = []
    for seed, file in enumerate(job.data_files):
        path = tmp_path / f"{seed}.parquet"
        pq.write_table(
            rows(seed).cast(arrow), path, **{"store_schema": False, "row_group_size": 100, **LAYOUTS[layout]}
        )
        files.append(replace(file, path=str(path), size_bytes=path.stat().st_size))
    job = replace(job, data_files=tuple(files))

    result = rewritten(table, job)

    assert mismatch(job, result) is None
    assert content(sources(job)) == content([local(file) for file in result.files])
    is_other = layout in {"not packed", "snappy", "gzip", "lz4", "without statistics"}
    (file,) = result.files
    # What is written anew is one row group.
    assert (1 if is_other else 3 * FILES) == pq.read_metadata(local(file)).num_row_groups


def test_a_file_that_the_table_names_twice_is_copied_twice(table: Table) -> None:
    job = bound(table, UNPARTITIONED)
    job = replace(job, data_files=(job.data_files[0], job.data_files[0]))

    result = rewritten(table, job)

    assert (1, 0) == sizes(result)
    assert 600 == result.rows_written
    assert mismatch(job, result) is None


@pytest.mark.parametrize("seed", range(10))
def test_a_job_of_any_files_keeps_each_row_and_says_what_is_in_each_file(
    table: Table, tmp_path: Path, seed: int
) -> None:
    chance, job, files = Random(seed), bound(table, UNPARTITIONED), []
    layouts = [
        "plain",
        "indexes",
        "checksums",
        "pages of version 2",
        "several pages",
        "Bloom filters",
        "snappy",
    ]
    for number in range(chance.randrange(2, 14)):
        path = tmp_path / f"{number}.parquet"
        some = rows(chance.randrange(50)).cast(table.schema().as_arrow()).slice(0, chance.randrange(20, 300))
        layout = LAYOUTS[chance.choice(layouts) if seed % 2 else "plain"]
        pq.write_table(
            some, path, **{"store_schema": False, "row_group_size": chance.choice([50, 100, 300]), **layout}
        )
        file = job.data_files[0]
        files.append(replace(file, path=str(path), size_bytes=path.stat().st_size, rows=some.num_rows))
    target = sum(file.size_bytes for file in files) / chance.uniform(0.5, 6)
    job = replace(job, data_files=tuple(files), target_size_bytes=max(int(target), 1000))

    result = rewritten(table, job)

    assert mismatch(job, result) is None
    assert content(sources(job)) == content([local(file) for file in result.files])
    for file in result.files:
        found = pq.read_table(local(file))["id"].to_pylist()
        bounds = (file.lower_bounds[1], file.upper_bounds[1])
        assert (min(found), max(found)) == tuple(int.from_bytes(one, "little") for one in bounds)
        assert len(found) == file.rows
