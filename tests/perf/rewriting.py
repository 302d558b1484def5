"""One compaction of a table, by us, by DuckDB's COPY or by Spark; and what each takes beside time.

Ours are two jobs at once, from binding to commit, with the proof. `rewriting.py FOLDER TABLE` is ours, alone in a process.
"""

import itertools
import json
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))

from copying import copied
from measure import tree
from pyiceberg.catalog import load_catalog

from isotherm.contract.identity import PartitionKey, TableId
from isotherm.contract.paths import normalised
from isotherm.core.model.files import FileKind
from isotherm.core.model.jobs import OutcomeKind, Swap, Take
from isotherm.iceberg.compaction.binding import bind
from isotherm.iceberg.compaction.committer import commit_compactions
from isotherm.iceberg.compaction.process_executor import LocalExecutor
from isotherm.iceberg.manifests.live import live_files
from isotherm.parquet.table_description import described
from isotherm.runtime.clock import now_ms
from support.spark import Lake

PARTS = (0, 1)
TARGET = 128 * 1024**2
MIB = 1024**2
SAMPLED_EVERY_S = 0.02


def files_of(table, part, snapshot_id=None):
    """The data files of a partition."""
    metadata = table.metadata
    snapshot = metadata.snapshot_by_id(snapshot_id or metadata.current_snapshot_id)
    found = live_files(metadata, table.io, snapshot, PartitionKey(f'{{"1000":{part}}}'))
    return [normalised(one.path) for one in found if one.kind is FileKind.DATA]


def copies_of(table, folder):
    """Which files COPY makes one, by that one."""
    return {f"{folder}/{part}.parquet": files_of(table, part) for part in PARTS}


def copy(table, folder):
    """The rows of each partition in one file."""
    for into, paths in copies_of(table, folder).items():
        copied(paths, into)


numbers = itertools.count()


def job_for(table, part, take):
    """A job for a partition."""
    bound = bind(
        table.metadata,
        table.io,
        table.current_snapshot(),
        PartitionKey(f'{{"1000":{part}}}'),
        job_id=f"bench{now_ms()}-{next(numbers)}",
        table=TableId(str(table.metadata.table_uuid), ".".join(table.name())),
        partition_label=f"part={part}",
        take=take,
        target_size_bytes=TARGET,
        policy_hash="",
        why="a benchmark",
    )
    return bound.job


def compacted(table, take=None):
    """Both partitions at once. Returns the snapshot's id."""
    executor = warm_executor()
    jobs = [job_for(table.refresh(), part, take or Take(TARGET, with_deletes=True)) for part in PARTS]
    for job in jobs:
        executor.start(job, described(table.metadata), table.catalog.properties)
    ended = {}
    while len(ended) < len(jobs):
        executor.wait(60)
        ended.update(executor.poll())
    swaps = [Swap(job, ended[job.job_id]) for job in jobs]
    for outcome in commit_compactions(table.catalog, swaps, lambda *_: {}, now_ms()):
        if outcome.kind is not OutcomeKind.DONE:
            raise AssertionError(outcome)
    return table.refresh().metadata.current_snapshot_id


@cache
def warm_executor():
    """One for all rounds, as the daemon has one: the program that jobs are forked from is there before."""
    return LocalExecutor(jobs_at_once=len(PARTS))


def rewritten_by(spark, table):
    """Spark's own procedure, on all files. Returns the snapshot's id."""
    files = int(table.current_snapshot().summary["total-data-files"])
    options = {
        "rewrite-all": "true",
        "target-file-size-bytes": TARGET,
        "max-concurrent-file-group-rewrites": 2,
    }
    said = ", ".join(f"'{key}', '{value}'" for key, value in options.items())
    (done,) = spark.sql(
        f"CALL lake.system.rewrite_data_files(table => '{'.'.join(table.name())}', options => map({said}))"
    ).collect()
    if done["rewritten_data_files_count"] != files:
        raise AssertionError(done)
    return table.refresh().metadata.current_snapshot_id


@contextmanager
def and_back(table):
    """The table is as before in the end, for the next round."""
    base = table.refresh().metadata.current_snapshot_id
    yield
    table.refresh().manage_snapshots().rollback_to_snapshot(base).commit()


def size_of(table, snapshot_id):
    """The bytes of a snapshot's data files."""
    return sum(Path(path).stat().st_size for part in PARTS for path in files_of(table, part, snapshot_id))


def peak_of_ours_mib(folder, table):
    """The most memory that ours holds, with every process that it starts, in a process of its own."""
    return peak_mib([sys.executable, __file__, str(folder), ".".join(table.name())])


def peak_of_copy_mib(table, folder):
    """The same of DuckDB's COPY."""
    script = str(Path(__file__).with_name("copying.py"))
    return peak_mib([sys.executable, script], json.dumps(copies_of(table, folder)))


def peak_mib(program, said=""):
    """The most that a program and those below it hold together, sampled; what they share counts once."""
    with subprocess.Popen(program, stdin=subprocess.PIPE, text=True) as process:
        process.stdin.write(said)
        process.stdin.close()
        most = 0
        while process.poll() is None:
            most = max(most, held(process.pid))
            time.sleep(SAMPLED_EVERY_S)
    if process.returncode:
        raise AssertionError(process.returncode)
    return most / MIB


def held(pid):
    """Memory of a process and those below it now."""
    total = 0
    for one in tree(pid):
        try:
            total += one.memory_full_info().pss
        except psutil.Error:
            continue  # it has ended meanwhile
    return total


def main():
    folder, name = sys.argv[1:]
    compacted(load_catalog("lake", **Lake(Path(folder)).pyiceberg_properties).load_table(name))
    warm_executor().stop()


if __name__ == "__main__":
    main()
