"""Start jobs on an executor, and wait for their ends."""

from typing import Any

from isotherm.core.model.jobs import CompactionJob, Rewrite
from isotherm.core.model.refusals import Refusal
from isotherm.parquet.table_description import described
from isotherm.runtime.clock import monotonic_s
from support.one_partition import NAME


def start(executor: Any, catalog: Any, *jobs: CompactionJob) -> None:
    for job in jobs:
        executor.start(job, described(catalog.load_table(NAME).metadata), catalog.properties)


def ended(executor: Any, count: int = 1, within_s: float = 180) -> dict[str, Rewrite | Refusal]:
    found: dict[str, Rewrite | Refusal] = {}
    until_s = monotonic_s() + within_s
    while len(found) < count and monotonic_s() < until_s:
        executor.wait(1)
        found.update(executor.poll())
    assert len(found) == count
    return found
