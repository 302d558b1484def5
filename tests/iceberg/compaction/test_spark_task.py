"""What runs on a cluster: a task is a row, and its answer holds values alone."""

from dataclasses import replace
from typing import Any

import pyarrow as pa

from isotherm.core.model.jobs import CompactionJob, OutcomeKind, Rewrite
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.compaction.spark_answer import answered
from isotherm.iceberg.compaction.spark_task import TASKS, Task, asked, run
from isotherm.parquet.table_description import described
from support.one_partition import NAME
from support.rewriting import commit


def task(catalog: Any, job: CompactionJob) -> Any:
    table = catalog.load_table(NAME)
    return asked(Task(job, described(table.metadata), dict(catalog.properties), 60, None))


def test_a_row_is_a_rewrite_and_its_answer_holds_values_alone(catalog: Any, job: CompactionJob) -> None:
    (answer,) = run(task(catalog, job).to_batches())

    found = answered(answer["answer"][0].as_py(), job, described(catalog.load_table(NAME).metadata))

    assert isinstance(found, Rewrite)
    assert found.rows_written == 60
    assert commit(catalog, job, found).kind is OutcomeKind.DONE


def test_what_a_rewrite_does_not_ask_for_stays_here(catalog: Any, job: CompactionJob) -> None:
    """A partition may have a million other files."""
    others = frozenset((f"file:///other-{number}.parquet", None) for number in range(10_000))

    beside = task(catalog, replace(job, bystanders=others))

    assert beside.nbytes == task(catalog, replace(job, bystanders=frozenset())).nbytes


def test_another_version_is_told_before_anything_is_read_of_the_task(job: CompactionJob) -> None:
    (answer,) = run(
        [pa.RecordBatch.from_pydict({"version": ["0.0"], "task": [b"not a pickle"]}, schema=TASKS)]
    )

    refused = answered(answer["answer"][0].as_py(), job, "")
    assert isinstance(refused, Refusal)
    assert refused.reason is Reason.UNSUPPORTED
    assert "isotherm 0.0" in refused.why
