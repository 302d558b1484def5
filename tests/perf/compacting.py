"""What a compaction takes: against DuckDB's COPY of the same rows, and against Spark's own rewrite; small jobs.

Two partitions of 120 files each. Ours are two jobs at once, from binding to commit, with the proof.
Spark's session is started before; what that takes is left out.
"""

import resource
import shutil
import tempfile
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from measure import in_turns, row, tree, wall_and_cpu
from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, IntegerType, LongType, NestedField, StringType, TimestamptzType
from rewriting import (
    PARTS,
    TARGET,
    and_back,
    compacted,
    copy,
    job_for,
    numbers,
    peak_of_copy_mib,
    peak_of_ours_mib,
    rewritten_by,
    size_of,
)

from isotherm.contract.paths import normalised
from isotherm.contract.summary import JOB_ID
from isotherm.core import observations as seen
from isotherm.core.model.jobs import OutcomeKind, Take
from isotherm.daemon import BUSY_PAUSE_S
from isotherm.demo.stack import find_java, jar_paths
from isotherm.iceberg.compaction.process_executor import LocalExecutor
from isotherm.iceberg.compaction.proof import mismatch
from isotherm.iceberg.compaction.rewrite import attempt
from isotherm.parquet import as_asked
from isotherm.parquet.table_description import described
from isotherm.runtime.config import ExecutorsConfig, LocalExecutorConfig
from support.equality import delete_by, keys
from support.lab import Lab, of
from support.object_store import object_store
from support.spark import Lake, start_session

FILES, ROWS = 120, 20_000
"""Of each partition, and of each file."""
UPSERTS, KEYS = 6, 2_000
"""Files of equality deletes for each partition, and keys in each."""
ROUNDS = 3
LARGE_FILES, LARGE_ROWS = 12, 600_000
"""Of each partition, and of each file: one row group of some 21 MB."""
SMALL = 5
"""Jobs of ten files of a hundred rows."""
DELAY_S, FAR_FILES, FAR_ROWS = 0.03, 24, (20_000, 100_000)
"""Of each answer of a store; files in it, and rows of each."""
DUE, GOAL_S, SLOTS = 300, 0.06, 2
"""Partitions of ten files of five rows; what each may take, from the first job to the last; processes at once."""
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "part", IntegerType(), required=False),
    NestedField(3, "at", TimestamptzType(), required=False),
    NestedField(4, "amount", DoubleType(), required=False),
    NestedField(5, "name", StringType(), required=False),
    NestedField(6, "note", StringType(), required=False),
)
AS_A_PERSON_WOULD = {
    "spark__sql__adaptive__enabled": "true",
    "spark__sql__codegen__wholeStage": "true",
    "spark__sql__codegen__factoryMode": "FALLBACK",
    "spark__driver__memory": "2g",
    # With the optimizing compiler, and the collector that a JVM has by itself.
    "spark__driver__extraJavaOptions": "",
}
"""The tests' session is made for small queries."""


def benchmarks(say):
    with lake() as (catalog, spark, folder):
        table, rows = large(catalog, spark, folder, say)
        say(f"the same with {UPSERTS} files of {KEYS:,} equality deletes in each partition")
        upserted(spark, table, folder)
        took = in_turns(
            {
                "ours": lambda: compact(table),
                "spark": lambda: rewrite_by(spark, table),
            },
            ROUNDS,
            clock=time.perf_counter,
        )
        rows.append(seconds("compaction with equality deletes against Spark", took["ours"], took["spark"]))
        # On a table of its own: beside somebody else who rewrites files no equality deletes are made positions.
        alone = filled(catalog, "bench.alone", FILES, ROWS)
        upserted(spark, alone, folder)
        took = in_turns(
            {
                "ours": lambda: compact(alone),
                "converted": lambda: compact(alone, Take(merges_deletes=True, converts_equality=True)),
            },
            ROUNDS,
            clock=time.perf_counter,
        )
        rows.append(
            seconds("equality deletes made positions, against applied", took["converted"], took["ours"])
        )
        say(f"a store that takes {1000 * DELAY_S:.0f} ms for each answer, and one that takes none")
        rows += [far(folder / str(rows_each), rows_each) for rows_each in FAR_ROWS]
        say(f"{LARGE_FILES} files of large row groups, passed through, decoded, and copied as files are")
        rows += passed_through(catalog, folder)
        say(f"{SMALL} small jobs, each in a process of its own")
        rows.append(small(catalog))
        say(f"a daemon and {DUE} due partitions of ten small files")
        return [*rows, *backlog(folder / "backlog")]


def large(catalog, spark, folder, say):
    """A table of many files, and what compacting it takes: time, CPU, memory, and the bytes that are written."""
    say(f"a table of {2 * FILES} files, {2 * FILES * ROWS:,} rows")
    table = filled(catalog, "bench.large", FILES, ROWS)
    copied = folder / "copied"
    copied.mkdir()
    say("DuckDB copies, Spark and we compact it, in turns")
    took, used = wall_and_cpu(
        {
            "copy": lambda: copy(table, copied),
            "ours": lambda: compact(table),
            "spark": lambda: rewrite_by(spark, table),
        },
        ROUNDS,
    )
    return table, [
        *beside("compaction", took, "s"),
        *beside("compaction, CPU", used, "s"),
        *memory_and_bytes(spark, table, folder, copied),
    ]


@contextmanager
def lake():
    """A catalog, and a Spark session that sees it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        find_java()
        place = Lake(folder)
        catalog = load_catalog("lake", **place.pyiceberg_properties)
        catalog.create_namespace("bench")
        spark = start_session(place, jar_paths("spark", folder), folder, **AS_A_PERSON_WOULD)
        spark.sparkContext.setLogLevel("ERROR")
        try:
            yield catalog, spark, folder
        finally:
            spark.stop()


def filled(catalog, name, files, rows):
    """A table with so many files in each partition."""
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))
    table = catalog.create_table(name, SCHEMA, partition_spec=spec, properties={"format-version": "2"})
    for number in range(files):
        count = rows * len(PARTS)
        ids = pa.array(range(number * count, (number + 1) * count), pa.int64())
        chance = pc.random(count, initializer=number)
        table.append(
            pa.table(
                {
                    "id": ids,
                    "part": pc.cast(pc.bit_wise_and(ids, 1), pa.int32()),
                    "at": pc.cast(pc.multiply(ids, 1_000_000), pa.timestamp("us", "UTC")),
                    "amount": chance,
                    "name": pc.cast(
                        pc.cast(pc.multiply(chance, 50_000), pa.int64(), safe=False), pa.string()
                    ),
                    "note": pc.binary_join_element_wise(
                        pc.cast(pc.multiply(chance, 7.0), pa.string()), pc.cast(ids, pa.string()), " of "
                    ),
                }
            )
        )
    return table


def compact(table, take=None):
    """By us, and back again for the next round."""
    with and_back(table):
        compacted(table, take)


def rewrite_by(spark, table):
    """By Spark, and back again."""
    with and_back(table):
        rewritten_by(spark, table)


def beside(name, got, unit):
    """A row against each of both."""
    return [
        row(f"{name} against {who}", got["ours"], unit, got[other], got[other] / got["ours"])
        for other, who in (("copy", "DuckDB COPY"), ("spark", "Spark"))
    ]


def memory_and_bytes(spark, table, folder, copied):
    """The most memory of each, and the bytes that it has written."""
    (jvm,) = (one for one in tree() if one.name() == "java")
    highest = next(
        line for line in Path(f"/proc/{jvm.pid}/status").read_text().splitlines() if "VmHWM" in line
    )
    with and_back(table):
        ours_mib = peak_of_ours_mib(folder, table)
    memory = {
        "ours": ours_mib,
        "copy": peak_of_copy_mib(table, copied),
        "spark": int(highest.split()[1]) / 1024,
    }
    written = {"copy": sum(one.stat().st_size for one in copied.iterdir())}
    with and_back(table):
        written["ours"] = size_of(table, compacted(table))
    with and_back(table):
        written["spark"] = size_of(table, rewritten_by(spark, table))
    return [
        *beside("compaction, peak memory", memory, "MiB"),
        *beside("compaction, output", {who: size / 1e6 for who, size in written.items()}, "MB"),
    ]


def upserted(spark, table, folder):
    """Equality deletes of some keys of each partition, younger than all data."""
    name, most = ".".join(table.name()), FILES * ROWS
    for number in range(UPSERTS):
        for part in PARTS:
            chosen = [(2 * ((number * KEYS + place) * 7919 % most) + part,) for place in range(KEYS)]
            delete_by(spark, name, folder, keys(("id", pa.int64(), 1), rows=chosen), [1], f"part={part}")
    table.refresh()


def small(catalog):
    """The CPU time of a small job, one of some in a row; against the work alone."""
    table = filled(catalog, "bench.small", 10, 50)
    job, executor = job_for(table, 0, Take(TARGET)), LocalExecutor()
    arguments = described(table.metadata), table.catalog.properties
    before = of_children_s()
    for number in range(SMALL):
        executor.start(replace(job, job_id=f"small{number}"), *arguments)
        while not executor.poll():
            executor.wait(60)
    executor.stop()
    alone = in_turns({"alone": lambda: attempt(replace(job, job_id=f"alone{next(numbers)}"), *arguments)}, 3)
    return seconds(
        "a small job, against its work alone (CPU)", (of_children_s() - before) / SMALL, alone["alone"]
    )


def backlog(folder):
    """A daemon beside a table of which many small partitions are due at once."""
    lab = Lab(folder)
    loop = lab.config.loop.model_copy(update={"plan_every_s": 10.0, "poll_tables_every_s": 60.0})
    executors = ExecutorsConfig(local=LocalExecutorConfig(jobs_at_once=SLOTS))
    lab.config = lab.config.model_copy(update={"loop": loop, "executors": executors})
    table = lab.create()
    for _ in range(10):
        lab.append(table, *range(DUE), rows=5)
    for hour in range(DUE + 5, DUE + 8):
        lab.append(table, hour)
    service = lab.service(executor=LocalExecutor(SLOTS))
    service.start()
    began_s = None
    while len(of(lab, seen.JobEnded)) < DUE:
        service.step(BUSY_PAUSE_S)
        time.sleep(BUSY_PAUSE_S)  # the topic is in memory, and nobody waits for it
        if began_s is None and of(lab, seen.JobStarted):
            began_s = time.perf_counter()
    took_s = time.perf_counter() - began_s
    service.stop()
    if any(one.outcome is not OutcomeKind.DONE for one in of(lab, seen.JobEnded)):
        raise AssertionError("not all of them are done")
    snapshots = sum(JOB_ID in one.summary.additional_properties for one in table.refresh().snapshots())
    return [
        seconds("a due partition of many, against the goal", took_s / DUE, GOAL_S),
        row("due partitions for each snapshot of ours", DUE / snapshots, "", None, None),
    ]


def far(folder, rows_each):
    """A rewrite of files of a store whose answers take long, against the same where they come at once; it is bound before."""
    folder.mkdir()
    with object_store() as store:
        catalog = load_catalog("far", **store.lake(folder))
        catalog.create_namespace("bench")
        table = filled(catalog, "bench.far", FAR_FILES, rows_each)
        job = job_for(table, 0, Take(TARGET))

        def rewritten(delay_s):
            store.delay_s = delay_s
            again = replace(job, job_id=f"far{next(numbers)}")
            done = attempt(again, described(table.metadata), catalog.properties)
            if (refused := getattr(done, "why", None)) is not None:
                raise AssertionError(refused)

        took = in_turns(
            {"near": lambda: rewritten(0), "far": lambda: rewritten(DELAY_S)},
            ROUNDS,
            clock=time.perf_counter,
        )
    size_mb = job.data_files[0].size_bytes / 1e6
    name = (
        f"{FAR_FILES} files of {size_mb:.1f} MB rewritten at {1000 * DELAY_S:.0f} ms a request, against 0 ms"
    )
    return seconds(name, took["far"], took["near"])


def passed_through(catalog, folder):
    """A rewrite of files whose row groups are copied as they are, against decoding them, and against their bytes alone."""
    table = filled(catalog, "bench.passed", LARGE_FILES, LARGE_ROWS)
    job, copies = job_for(table, 0, Take(TARGET)), folder / "copies"
    copies.mkdir()
    worth_bytes = as_asked.WORTH_BYTES

    def rewritten(least_bytes):
        as_asked.WORTH_BYTES = least_bytes
        done = attempt(
            replace(job, job_id=f"passed{next(numbers)}"), described(table.metadata), catalog.properties
        )
        if (
            refused := getattr(done, "why", None) or mismatch(job, replace(done, job_id=job.job_id))
        ) is not None:
            raise AssertionError(refused)
        for file in done.files:
            Path(normalised(file.path)).unlink()

    def bytes_copied():
        for number, file in enumerate(job.data_files):
            shutil.copyfile(normalised(file.path), copies / str(number))

    took = in_turns(
        {
            "passed": lambda: rewritten(worth_bytes),
            "decoded": lambda: rewritten(2**60),
            "bytes": bytes_copied,
        },
        ROUNDS,
        clock=time.perf_counter,
    )
    as_asked.WORTH_BYTES = worth_bytes
    name = f"{LARGE_FILES} files of {job.data_files[0].size_bytes / 1e6:.0f} MB in a row group each, passed through, against"
    return [
        seconds(f"{name} decoded", took["passed"], took["decoded"]),
        seconds(f"{name} their bytes copied", took["passed"], took["bytes"]),
    ]


def of_children_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def seconds(name, ours_s, baseline_s):
    return row(name, ours_s, "s", baseline_s, baseline_s / ours_s)
