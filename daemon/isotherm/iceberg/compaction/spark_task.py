"""What runs in a Python worker of Spark: one rewrite, by the program that rewrites on the daemon's own machine.

So whatever a rewrite can do and refuses, its proof, its memory and its end are the same in both places. It runs in a process
of its own beside the worker, which the kernel ends with it: a task that is cancelled writes nothing more.
"""

import io
import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import pyarrow as pa

from isotherm.core.model.jobs import CompactionJob, MergedDeletes, Rewrite, WrittenFile
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.compaction.executor import LocalExecutor

PACKAGE = "isotherm"
TASKS = pa.schema([("version", pa.string()), ("task", pa.binary())])
ANSWERS = pa.schema([("answer", pa.binary())])
ANSWERS_OF_SPARK = "answer binary"
"""The same schema as Spark writes it."""
LOOKS_EVERY_S = 1.0
_OURS = {(one.__module__, one.__qualname__) for one in (MergedDeletes, Rewrite, WrittenFile, Reason, Refusal)}


@dataclass(frozen=True, slots=True)
class Task:
    """A rewrite, and what it may take."""

    job: CompactionJob
    description: str
    io_properties: Mapping[str, str]
    deadline_s: float
    memory_bytes: int | None


def asked(task: Task) -> pa.Table:
    """A task as Spark takes it: one row, so one task of Spark."""
    return pa.table({"version": [version(PACKAGE)], "task": [pickle.dumps(task)]}, schema=TASKS)


def answered(answer: bytes) -> Rewrite | Refusal:
    """What came of a task.

    Raises:
        UnpicklingError: the answer holds something else than a task gives.
    """
    result = _Answer(io.BytesIO(answer)).load()
    if not isinstance(result, Rewrite | Refusal):
        raise pickle.UnpicklingError(f"a task answered with a {type(result).__name__}")
    return result


class _Answer(pickle.Unpickler):
    """Of a cluster's answer nothing is run here: it may name these values, and no other code."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _OURS:
            raise pickle.UnpicklingError(f"a task answered with {module}.{name}")
        return super().find_class(module, name)


def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rewrites of some rows, for Spark's `mapInArrow`."""
    for batch in batches:
        for row in batch.to_pylist():
            answer = pickle.dumps(_done(row["version"], row["task"]))
            yield pa.RecordBatch.from_pydict({"answer": [answer]}, schema=ANSWERS)


def _done(theirs: str, task: bytes) -> Rewrite | Refusal:
    if theirs != (ours := version(PACKAGE)):
        why = f"the daemon is isotherm {theirs}, Spark's workers have {ours}: give them the daemon's environment"
        return Refusal(Reason.UNSUPPORTED, why)
    one: Task = pickle.loads(task)  # noqa: S301 (from the daemon, as all that Spark runs here)
    executor = LocalExecutor(1, one.deadline_s, one.memory_bytes)
    try:
        executor.start(one.job, one.description, one.io_properties)
        while not (ended := executor.poll()):
            executor.wait(LOOKS_EVERY_S)
    finally:
        executor.stop()
    return ended[0][1]
