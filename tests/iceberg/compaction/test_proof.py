"""The sums that prove a rewrite: what does not agree is not committed, and reading it opens no other file."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from isotherm.core.model.jobs import CompactionJob, OutcomeKind, Rewrite
from isotherm.iceberg.compaction.local_copy import nearby
from isotherm.iceberg.compaction.row_sums import RowSums
from support.one_partition import NAME
from support.rewriting import commit, rewritten


def flipped(path: Path) -> None:
    table = pq.read_table(path, partitioning=None)
    ids = table.column("id").to_pylist()
    ids[17] ^= 1
    changed = table.set_column(0, table.schema.field("id"), pa.array(ids, table.schema.field("id").type))
    pq.write_table(changed, path)


def test_one_wrong_value_is_a_mismatch_and_commits_nothing(catalog: Any, job: CompactionJob) -> None:
    """The sums are of what storage gives back: here storage gives back another value."""
    from isotherm.iceberg.compaction.row_sums import RowSums

    table = catalog.load_table(NAME)
    honest = rewritten(table, job)
    path = Path(honest.files[0].path.removeprefix("file://"))
    flipped(path)
    tally = RowSums(table.schema(), None, locations=[honest.files[0].path]).verified(
        table.io, honest.files[0]
    )
    assert (tally.rows, honest.hash_written == tally.hash) == (60, False)

    outcome = commit(catalog, job, replace(honest, hash_written=tally.hash))

    assert (outcome.kind, outcome.reason) == (OutcomeKind.FAILED, "mismatch")
    assert job.base_snapshot_id == catalog.load_table(NAME).metadata.current_snapshot_id


LIES: dict[str, Callable[[Rewrite], Rewrite]] = {
    "rows read": lambda one: replace(one, rows_read=one.rows_read - 1),
    "rows deleted": lambda one: replace(one, rows_deleted=1),
    "rows written": lambda one: replace(one, rows_written=one.rows_written + 1),
    "files": lambda one: replace(one, files=()),
    "hash": lambda one: replace(one, hash_written=one.hash_written ^ 1),
    "a row left out": lambda one: replace(
        one,
        rows_read=one.rows_read - 1,
        rows_written=one.rows_written - 1,
        files=(replace(one.files[0], rows=one.files[0].rows - 1), *one.files[1:]),
    ),
    "job": lambda one: replace(one, job_id="another"),
    "deletes read": lambda one: replace(one, merged=replace(one.merged, positions_read=1)),
    "deletes written": lambda one: replace(one, merged=replace(one.merged, positions_written=1)),
    "hash of deletes": lambda one: replace(one, merged=replace(one.merged, hash_written=1)),
    "delete files": lambda one: replace(one, merged=replace(one.merged, files=one.files)),
}


@pytest.mark.parametrize("what", LIES)
def test_sums_that_do_not_agree_commit_nothing(catalog: Any, job: CompactionJob, what: str) -> None:
    rewrite = LIES[what](rewritten(catalog.load_table(NAME), job))

    outcome = commit(catalog, job, rewrite)

    assert (outcome.kind, outcome.reason) == (OutcomeKind.FAILED, "mismatch")
    assert job.base_snapshot_id == catalog.load_table(NAME).metadata.current_snapshot_id


def test_the_proof_may_open_nothing_but_the_files_of_the_job(tmp_path: Path) -> None:
    ours, other = tmp_path / "ours.parquet", tmp_path / "other.parquet"
    for path in (ours, other):
        pq.write_table(pa.table({"id": [1]}), path)
    sums = RowSums(Schema(NestedField(1, "id", LongType())), None, locations=[str(ours)])

    with nearby(PyArrowFileIO(), str(ours), 0) as near:
        assert sums.sum({0: near}, {})[0].rows == 1
    with nearby(PyArrowFileIO(), str(other), 0) as near, pytest.raises(duckdb.PermissionException):
        sums.sum({0: near}, {})
