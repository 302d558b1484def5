"""Which rows a rewrite leaves out: position deletes apply by path, position and sequence number."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from isotherm.core.model.files import FileKind, LiveFile
from isotherm.core.model.jobs import CompactionJob
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.compaction.deleted_rows import deleted_rows
from isotherm.iceberg.compaction.rewrite import attempt
from isotherm.iceberg.compaction.row_sums import RowSums
from isotherm.parquet.table_description import described
from support.one_partition import NAME
from support.rewriting import rewritten


def delete_file(folder: Path, sequence_number: int, positions: dict[str, list[int]]) -> LiveFile:
    path = folder / f"deletes-{sequence_number}-{len(list(folder.iterdir()))}.parquet"
    paths = [name for name, found in positions.items() for _ in found]
    numbers = [one for found in positions.values() for one in found]
    pq.write_table(pa.table({"file_path": paths, "pos": pa.array(numbers, pa.int64())}), path)
    return LiveFile(str(path), FileKind.POSITION_DELETES, path.stat().st_size, len(paths), sequence_number)


def test_deletes_apply_by_path_position_and_sequence_number(
    catalog: Any, job: CompactionJob, tmp_path: Path
) -> None:
    folder = tmp_path / "deletes"
    folder.mkdir()
    first, second, third = (file.path for file in job.data_files)
    assert [file.sequence_number for file in job.data_files] == [1, 2, 3]
    deletes = (
        # Twice the same position, one behind the end, one of a file that is not ours.
        delete_file(folder, 4, {first: [0, 0, 3, 99], "file:///elsewhere.parquet": [1]}),
        # The same position again, in another file.
        delete_file(folder, 5, {first: [3, 19]}),
        # As old as the data: applies. Older than the data: does not.
        delete_file(folder, 2, {second: [5], third: [5]}),
    )
    job = replace(job, delete_files=deletes)

    result = rewritten(catalog.load_table(NAME), job)

    assert (result.rows_read, result.rows_deleted, result.rows_written) == (60, 4, 56)
    assert result.hash_read == result.hash_written
    found = pq.read_table(result.files[0].path.removeprefix("file://"), partitioning=None)
    gone = {0, 3, 19, 25}
    assert [one for one in range(60) if one not in gone] == found.column("id").to_pylist()


def test_deletes_that_spell_a_path_in_another_way_are_neither_applied_nor_dropped(
    catalog: Any, job: CompactionJob, tmp_path: Path
) -> None:
    """Every reader compares paths letter by letter, and shows these rows."""
    folder = tmp_path / "deletes"
    folder.mkdir()
    name = job.data_files[0].path.replace("file:///", "file:/")
    table = catalog.load_table(NAME)
    job = replace(job, delete_files=(delete_file(folder, 5, {name: [3]}),))

    result = attempt(job, described(table.metadata), catalog.properties)

    assert isinstance(result, Refusal)
    assert result.reason is Reason.TWO_SPELLINGS
    assert name in result.why


def test_a_deleted_position_takes_a_few_bytes_however_long_the_names_of_its_file_are(
    catalog: Any, job: CompactionJob, tmp_path: Path
) -> None:
    """Of 400,000 positions, in four files with names of two hundred characters, by two delete files that overlap."""
    files = tuple(
        replace(file, path=f"file:///{'x' * 200}/{number}", rows=400_000)
        for number, file in enumerate(job.data_files)
    )
    deletes = []
    for number in range(2):
        path = tmp_path / f"deletes-{number}.parquet"
        names = pa.array([files[one % 2].path for one in range(200_000)])
        positions = pc.multiply(pa.arange(0, 200_000), 1 + number)
        pq.write_table(pa.table({"file_path": names, "pos": positions}), path)
        deletes.append(LiveFile(str(path), FileKind.POSITION_DELETES, path.stat().st_size, 200_000, 9))
    job = replace(job, data_files=files, delete_files=tuple(deletes))
    sums = RowSums(catalog.load_table(NAME).schema(), None, files, [delete.path for delete in deletes])
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(pool)
    try:
        table = catalog.load_table(NAME)
        deleted = deleted_rows(table.io, job, table.metadata, {}, sums)
    finally:
        pa.set_memory_pool(before)

    wanted = [
        set(range(start, 200_000, 2)) | {2 * one for one in range(start, 200_000, 2)} for start in (0, 1)
    ]
    assert [sorted(one) for one in wanted] == [list(found) for found in deleted.by_path.values()]
    held = sum(sys.getsizeof(found) for found in deleted.by_path.values())
    assert held <= 10 * 400_000
    # While they are read, and put in order.
    assert pool.max_memory() <= 50 * 400_000
