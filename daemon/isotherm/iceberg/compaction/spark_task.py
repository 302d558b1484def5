"""What runs in a Python worker of Spark: one rewrite, by the program that rewrites on the daemon's own machine.

So whatever a rewrite can do and refuses, its proof, its memory and its end are the same in both places. It runs in a process
of its own beside the worker, which the kernel ends with it: a task that is cancelled writes nothing more.
"""

import json
import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version

import pyarrow as pa
from pydantic import TypeAdapter

from isotherm.core.model.jobs import CompactionJob, Rewrite
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.compaction.executor import LocalExecutor

PACKAGE = "isotherm"
TASKS = pa.schema([("version", pa.string()), ("task", pa.binary())])
ANSWERS = pa.schema([("answer", pa.binary())])
ANSWERS_OF_SPARK = "answer binary"
"""The same schema as Spark writes it."""
LOOKS_EVERY_S = 1.0
MOST_ANSWER_BYTES = 64 * 1024**2
"""Of a thousand files with the statistics of a thousand columns."""
_BOUNDS = ("lower_bounds", "upper_bounds")
"""What of a file is bytes."""


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


def answer_of(result: Rewrite | Refusal) -> bytes:
    """What came of a task, as text: whoever answers may be anybody, and a pickle could run anything here."""
    kind = "rewrite" if isinstance(result, Rewrite) else "refusal"
    return json.dumps({kind: asdict(result)}, default=bytes.hex).encode()


def answered(answer: bytes) -> Rewrite | Refusal:
    """What came of a task.

    Raises:
        ValueError: the answer is something else.
    """
    if len(answer) > MOST_ANSWER_BYTES:
        raise ValueError(f"a task answered with {len(answer)} bytes; the limit is {MOST_ANSWER_BYTES}")
    try:
        data = json.loads(answer)
        if "refusal" in data:
            said = data["refusal"]
            return Refusal(Reason(said["reason"]), str(said["why"]))
        for file in (*data["rewrite"]["files"], *data["rewrite"]["merged"]["files"]):
            for name in _BOUNDS:
                file[name] = {field: bytes.fromhex(value) for field, value in file[name].items()}
        found: Rewrite = TypeAdapter(Rewrite).validate_python(data["rewrite"])
    except (TypeError, KeyError, AttributeError, RecursionError, ValueError) as err:
        raise ValueError(f"a task answered with something else: {type(err).__name__}") from err
    return found


def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rewrites of some rows, for Spark's `mapInArrow`."""
    for batch in batches:
        for row in batch.to_pylist():
            answer = answer_of(_done(row["version"], row["task"]))
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
