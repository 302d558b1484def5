"""Expiry of 10,000 snapshots: what a daemon calls for it, against PyIceberg's API and Spark's procedure.

Each snapshot has a manifest list and a manifest of its own; data files are not there. Ours takes two thousand in one
commit. It first finds out which files nobody will reach any more, and each is proved once more before it is deleted.
The loop, its stores and the grace are left out. PyIceberg's API takes the snapshots from the metadata, and leaves
their files. Spark's procedure deletes.
"""

import time
from datetime import UTC, datetime
from pathlib import Path

from compacting import lake
from made import with_history
from measure import row, tree_cpu_s

from isotherm.core.deletion import Cause, Mark, Neighbours, own_folders
from isotherm.core.model.jobs import OutcomeKind
from isotherm.core.planner.expiry import EXPIRED_AT_ONCE
from isotherm.iceberg.expiry import expire, read
from isotherm.iceberg.remover import sweep
from isotherm.iceberg.stopping import never
from isotherm.runtime.clock import now_ms
from isotherm.service.jobs.deletions import FILES_AT_ONCE
from isotherm.service.ports import Sweep
from support.lab import Lab, uuid_of

GOING, KEPT = 10_000, 20
LISTED = 100
"""Manifests in a list: writers merge them from there on."""


def benchmarks(say):
    with lake() as (_, spark, folder):
        lab = Lab(folder)
        say(f"three tables of {GOING + KEPT:,} snapshots are made")
        for name in ("ours", "pyiceberg", "spark"):
            with_history(lab, f"shop.{name}", snapshots=GOING + KEPT, listed=LISTED, now_ms=now_ms())
        say("we expire them")
        committed, deleted = by_us(lab)
        say("PyIceberg expires them")
        pyiceberg = took(lambda: by_pyiceberg(lab.catalog.load_table("shop.pyiceberg")))
        say("Spark expires them")
        spark_took = took(lambda: by_spark(spark, "shop.spark"))
        lab.executor.stop()
        left = {name: files_of(folder, name) for name in ("ours", "pyiceberg", "spark")}
        for name in left:
            if (count := len(lab.catalog.load_table(f"shop.{name}").metadata.snapshots)) != KEPT:
                raise AssertionError(f"{name} has {count} snapshots")
    name = f"expiry of {GOING:,} snapshots"
    return [
        *costs(
            f"{name}, files found and committed, against PyIceberg, which finds none", committed, pyiceberg
        ),
        *costs(f"{name}, until the files are deleted, against Spark", deleted, spark_took),
        *(
            row(f"{name}: manifests and lists left, against {who}'s", left["ours"], "files", left[other])
            for other, who in (("pyiceberg", "PyIceberg"), ("spark", "Spark"))
        ),
    ]


def by_us(lab):
    """What it took until all were gone from the metadata, and until their files were deleted: what a daemon calls."""
    catalog, name, marks, expired = lab.catalog, "shop.ours", [], {}
    begun = now()
    uuid = uuid_of(catalog.load_table(name))
    for number in range(0, GOING, EXPIRED_AT_ONCE):
        table, job = catalog.load_table(name), f"job{number}"
        going = [one.snapshot_id for one in table.metadata.snapshots[: min(EXPIRED_AT_ONCE, GOING - number)]]
        reading = read(table, going, now_ms())
        done = expire(catalog, name, uuid, reading, job, lambda _: None, now_ms()).outcome
        assert done.kind is OutcomeKind.DONE, done
        marks += [Mark(path, job, Cause.EXPIRED, reading.seen) for path in reading.files]
        expired[job] = tuple(going)
    committed = since(begun)
    table = catalog.load_table(name)
    neighbours = Neighbours(own_folders(table.metadata.location, (), ("shop", "ours")))
    for start in range(0, len(marks), FILES_AT_ONCE):
        some = tuple(marks[start : start + FILES_AT_ONCE])
        answer = sweep(table, Sweep(uuid, some, expired, neighbours), never)
        assert len(answer.gone) == len(some), (answer.kept, answer.postponed)
    return committed, since(begun)


def by_pyiceberg(table):
    old = table.metadata.snapshots[-KEPT].timestamp_ms
    table.maintenance.expire_snapshots().older_than(
        datetime.fromtimestamp(old / 1000, UTC).replace(tzinfo=None)
    ).commit()


def by_spark(spark, name):
    to = f"{datetime.fromtimestamp(now_ms() / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    spark.sql(
        f"CALL lake.system.expire_snapshots(table => '{name}', older_than => TIMESTAMP '{to}', retain_last => {KEPT})"
    ).collect()


def files_of(folder, name):
    """How many manifests and lists are there."""
    return sum(1 for _ in Path(folder / "made" / f"shop.{name}").rglob("*.avro"))


def took(action):
    begun = now()
    action()
    return since(begun)


def now():
    return time.perf_counter(), tree_cpu_s()


def since(begun):
    """Seconds on the wall, and of CPU time."""
    return tuple(after - before for before, after in zip(begun, now(), strict=True))


def costs(name, ours, theirs):
    return [
        row(name, ours[0], "s", theirs[0], theirs[0] / ours[0]),
        row(f"{name}: CPU", ours[1], "s", theirs[1], theirs[1] / ours[1]),
    ]
