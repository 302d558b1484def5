"""A table of two partitions, a job for one of them, and what must be so once the job is done or has failed.

The fixture `two_partitions` of tests/iceberg/compaction is its catalog.
"""

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table
from pyiceberg.types import StringType

from isotherm.contract.identity import PartitionKey, TableId
from isotherm.contract.summary import JOB_ID
from isotherm.core.model.jobs import CompactionJob, Outcome, OutcomeKind, Rewrite
from isotherm.iceberg.catalog import IcebergCatalog
from isotherm.iceberg.compaction import commit_outcome
from support.rewriting import bound, rewritten, swept

OURS, OTHER = PartitionKey('{"1000":1}'), PartitionKey('{"1000":2}')
NAME = "db.t"
_ids = itertools.count(1000)


def catalog_in(folder: Path) -> Any:
    return load_catalog("lake", type="sql", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}/w")


def some(part: int, start: int, count: int = 10) -> pa.Table:
    ids = list(range(start, start + count))
    return pa.table(
        {"id": ids, "part": pa.array([part] * count, pa.int32()), "text": [f"{part}/{one}" for one in ids]}
    )


def append(table: Table, part: int, start: int | None = None) -> None:
    table.append(some(part, next(_ids) * 100 if start is None else start))


def contents(catalog: Any) -> list[Any]:
    found = catalog.load_table(NAME).scan().to_arrow().to_pylist()
    return sorted(found, key=lambda row: (row["part"], row["id"]))


def ready(catalog: Any) -> tuple[CompactionJob, Rewrite]:
    table = catalog.load_table(NAME)
    job = bound(table, OURS)
    assert len(job.data_files) == 4
    return job, rewritten(table, job)


def metadata_files(catalog: Any, job: CompactionJob | Outcome) -> list[str]:
    folder = Path(catalog.load_table(NAME).metadata.location.removeprefix("file://")) / "metadata"
    return sorted(path.name for path in folder.iterdir() if job.job_id in path.name)


def settled(catalog: Any, job: CompactionJob, asserted_head_id: int | None = None) -> Outcome | None:
    return commit_outcome.settled(IcebergCatalog(catalog).load, [NAME], job, asserted_head_id, may_land=True)


def assert_done(catalog: Any, outcome: Outcome, before: list[Any]) -> None:
    """It is in the table, once, whole; and what lost attempts wrote is gone."""
    assert OutcomeKind.DONE is outcome.kind, outcome
    table = catalog.load_table(NAME)
    ours = [one for one in table.metadata.snapshots if one.summary.get(JOB_ID) == outcome.job_id]
    assert [outcome.snapshot_id] == [one.snapshot_id for one in ours]
    assert before == contents(catalog)
    job_of = CompactionJob(
        outcome.job_id,
        TableId(str(table.metadata.table_uuid), NAME),
        OURS,
        "",
        0,
        0,
        0,
        (),
        (),
        frozenset(),
        0,
        "",
        "",
    )
    gone = swept(table, job_of, outcome)
    assert (not gone.kept, not gone.postponed) == (True, True), gone
    assert before == contents(catalog)
    used = {ours[0].manifest_list} | {
        one.manifest_path
        for one in ours[0].manifests(table.io)
        if one.added_snapshot_id == outcome.snapshot_id
    }
    here = metadata_files(catalog, outcome)
    assert sorted(path.rsplit("/", 1)[1] for path in used) == here


def assert_failed(catalog: Any, outcome: Outcome, reason: str, job: CompactionJob, head: int | None) -> None:
    """Nothing of it is in the table or on disk, and the head is somebody else's."""
    assert (OutcomeKind.FAILED, reason) == (outcome.kind, outcome.reason), outcome.why
    table = catalog.load_table(NAME)
    gone = swept(table, job, outcome)
    assert (not gone.kept, not gone.postponed) == (True, True), gone
    assert head == table.metadata.current_snapshot_id
    assert [one for one in table.metadata.snapshots if one.summary.get(JOB_ID) == job.job_id] == []
    assert metadata_files(catalog, job) == []
    data = Path(table.metadata.location.removeprefix("file://")) / "data"
    assert list(data.rglob(f"*{job.job_id}-*")) == []
    contents(catalog)


def schema_change(table: Table) -> None:
    with table.update_schema() as update:
        update.add_column("more", StringType())


def old(table: Table) -> list[int]:
    return [one.snapshot_id for one in table.refresh().metadata.snapshots[:-1]]


def branch(table: Table) -> None:
    table.manage_snapshots().create_branch(table.metadata.current_snapshot_id, "b").commit()
    table.refresh().append(some(1, 900), branch="b")
