"""What runs in a Python worker of Spark: one rewrite, by the program that rewrites on the daemon's own machine.

So whatever a rewrite can do and refuses, its proof, its memory and its end are the same in both places. It runs in a process
of its own beside the worker, which the kernel ends with it: a task that is cancelled writes nothing more.

A task is pickled by the places of its fields, so it is read only where the worker runs the daemon's very code: each of the
two says what it had when it was imported, and neither what lies on the disk by now.
"""

import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version

import pyarrow as pa

from isotherm.core.model.jobs import CompactionJob, Rewrite
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.compaction.process_executor import LocalExecutor
from isotherm.iceberg.compaction.spark_answer import answer_of
from isotherm.runtime.code_on_disk import OUR_CODE

OUR_VERSION = version("isotherm")
"""For people, as it was when this was imported. Two builds may have the same."""
TASKS = pa.schema([("version", pa.string()), ("code", pa.string()), ("task", pa.binary())])
ANSWERS = pa.schema([("answer", pa.binary())])
ANSWERS_OF_SPARK = "answer binary"
"""The same schema as Spark writes it."""
LOOKS_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Task:
    """A rewrite, and what it may take."""

    job: CompactionJob
    description: str
    io_properties: Mapping[str, str]
    deadline_s: float
    memory_bytes: int | None


def asked(task: Task) -> pa.Table:
    """A task as Spark takes it: one row, so one task of Spark. What a rewrite does not ask for stays here."""
    task = replace(task, job=replace(task.job, bystanders=frozenset()))
    row = {"version": [OUR_VERSION], "code": [OUR_CODE], "task": [pickle.dumps(task)]}
    return pa.table(row, schema=TASKS)


def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rewrites of some rows, for Spark's `mapInArrow`."""
    for batch in batches:
        for row in batch.to_pylist():
            answer = answer_of(_lost() or _done(row["version"], row["code"], row["task"]))
            yield pa.RecordBatch.from_pydict({"answer": [answer]}, schema=ANSWERS)


def _lost() -> Refusal | None:
    """That this is Spark's second attempt, if it is: the first has written files of the same names, or writes them still."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None or not context.attemptNumber():
        return None
    return Refusal(Reason.UNAVAILABLE, "Spark has lost the task, and began it once more")


def _done(version_there: str, code_there: str, task: bytes) -> Rewrite | Refusal:
    if code_there != OUR_CODE:
        same = ", of other code" if version_there == OUR_VERSION else ""
        why = (
            f"the daemon is isotherm {version_there}, Spark's workers have {OUR_VERSION}{same}: "
            "give them the daemon's environment, or restart the daemon if its own was upgraded"
        )
        return Refusal(Reason.UPGRADED, why)
    one: Task = pickle.loads(task)  # noqa: S301 (from the daemon, as all that Spark runs here)
    executor = LocalExecutor(1, one.deadline_s, one.memory_bytes)
    try:
        executor.start(one.job, one.description, one.io_properties)
        while not (ended := executor.poll()):
            executor.wait(LOOKS_EVERY_S)
    finally:
        executor.stop()
    return ended[0][1]
