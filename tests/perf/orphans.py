"""A search for orphans in a folder of 100,000 files, against Spark's procedure and a script with PyIceberg's API.

A tenth of the files is in no manifest. All are empty, and on a local disk: what a store takes to list them is not in
it. Nothing is deleted, by nobody. Memory is that of processes of their own (peak.py).
"""

import os
import time
from datetime import UTC, datetime, timedelta

from compacting import lake
from made import of_files
from measure import in_turns, row
from peak import MIB, orphans_by_script, orphans_by_us, peak_mib
from psutil import Process

from isotherm.runtime.clock import now_ms
from support.lab import Lab

FILES, MANIFESTS = 100_000, 20
HOURS = 240
"""Folders in which they lie."""
OLD_S = 10 * 24 * 3600
ROUNDS = 2
NAME = "shop.folder"


def benchmarks(say):
    with lake() as (_, spark, folder):
        lab = Lab(folder)
        say(f"{FILES:,} files are made")
        orphans = made(lab)
        say("we, a script, and Spark search, in turns")
        found = {}

        def noted(name, search):
            found[name] = search()

        searches = {
            "ours": lambda: orphans_by_us(lab, NAME),
            "script": lambda: orphans_by_script(lab, NAME),
            "spark": lambda: by_spark(spark),
        }
        took = in_turns(
            {name: lambda name=name, search=search: noted(name, search) for name, search in searches.items()},
            ROUNDS,
            clock=time.perf_counter,
        )
        if found != dict.fromkeys(searches, orphans):
            raise AssertionError({name: len(one) for name, one in found.items()})
        say("memory, in processes of their own")
        ours, script = (peak_mib(lab, NAME, who) for who in ("orphans-ours", "orphans-script"))
        lab.executor.stop()
        jvm = max(one.memory_info().rss for one in Process().children(recursive=True)) / MIB
    name = f"orphans among {FILES:,} files"
    return [
        row(
            f"{name}, against Spark's dry run", took["ours"], "s", took["spark"], took["spark"] / took["ours"]
        ),
        row(f"{name}, against a script", took["ours"], "s", took["script"], took["script"] / took["ours"]),
        row(f"{name}: memory added, against Spark's whole process", ours, "MiB", jvm, jvm / ours),
        row(f"{name}: memory added, against a script", ours, "MiB", script, script / ours),
    ]


def made(lab):
    """A table, and the paths of the files in its folder that it does not name."""
    folder = lab.root / "made" / NAME / "data"
    paths = [
        folder
        / f"at_hour={number % HOURS:03d}"
        / f"{number:06d}-{number}-8d5a3f0e-9c1b-4e07-a3d2-00001.parquet"
        for number in range(FILES)
    ]
    named = [f"file://{path}" for number, path in enumerate(paths) if number % 10]
    of_files(lab, NAME, named, manifests=MANIFESTS, now_ms=now_ms())
    for path in paths[:HOURS]:
        path.parent.mkdir(parents=True)
    old_s = now_ms() / 1000 - OLD_S
    for path in paths:
        path.touch()
        os.utime(path, (old_s, old_s))
    return {str(path) for path in paths[::10]}


def by_spark(spark):
    """The paths that Spark would delete."""
    before = datetime.fromtimestamp(now_ms() / 1000, UTC) - timedelta(days=3)
    found = spark.sql(
        f"CALL lake.system.remove_orphan_files(table => '{NAME}', dry_run => true, "
        f"older_than => TIMESTAMP '{before:%Y-%m-%d %H:%M:%S}')"
    ).collect()
    return {one[0].removeprefix("file:") for one in found}
