"""What runs on a cluster: a task is a row, and its answer holds values alone."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import isotherm
from isotherm.core.model.jobs import CompactionJob, OutcomeKind, Rewrite
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.compaction.spark_answer import answered
from isotherm.iceberg.compaction.spark_task import OUR_VERSION, TASKS, Task, asked, run
from isotherm.parquet.table_description import described
from isotherm.runtime.code_on_disk import OUR_CODE
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


@pytest.mark.parametrize(
    ("version", "told"),
    [("0.0", "isotherm 0.0"), (OUR_VERSION, f"workers have {OUR_VERSION}, of other code:")],
)
def test_other_code_is_told_before_anything_is_read_of_the_task(
    job: CompactionJob, version: str, told: str
) -> None:
    row = {"version": [version], "code": ["another"], "task": [b"not a pickle"]}
    (answer,) = run([pa.RecordBatch.from_pydict(row, schema=TASKS)])

    refused = answered(answer["answer"][0].as_py(), job, "")
    assert isinstance(refused, Refusal)
    assert refused.reason is Reason.UPGRADED
    assert told in refused.why


def test_a_daemon_below_which_another_version_is_installed_says_what_it_is_itself(
    catalog: Any, job: CompactionJob, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It said what lay on the disk, which was what the workers had, and they took its task apart by other places."""
    monkeypatch.setattr(isotherm, "__path__", [str(tmp_path)])
    monkeypatch.setattr("isotherm.iceberg.compaction.spark_task.version", lambda _: "99.0")
    row = task(catalog, job).to_pylist()[0]

    assert (row["version"], row["code"]) == (OUR_VERSION, OUR_CODE)
    assert OUR_CODE
