"""A table of one partition, which the fixtures `catalog` and `job` of tests/iceberg/compaction make, and what a job
of it leaves.
"""

from pathlib import Path
from typing import Any

from isotherm.contract.identity import PartitionKey
from isotherm.core.model.jobs import CompactionJob, Rewrite
from isotherm.core.model.refusals import Refusal
from isotherm.iceberg.compaction.process_executor import LocalExecutor

NAME = "db.t"
OURS = PartitionKey('{"1000":"a b/c"}')


def finished(executor: LocalExecutor, job: CompactionJob) -> Rewrite | Refusal:
    """Wait for the child's answer, or its end."""
    executor.wait(60)
    ((job_id, result),) = executor.poll()
    assert job.job_id == job_id
    assert frozenset() == executor.running()
    return result


def on_disk(catalog: Any, job: CompactionJob) -> list[Path]:
    folder = Path(catalog.load_table(NAME).metadata.location.removeprefix("file://")) / "data"
    return sorted(folder.rglob(f"*isotherm-{job.job_id}-*"))
