"""A full scan of a table's manifests: into partitions by us, into entries by PyIceberg's own reader.

PyIceberg's side only reads: what it read would still have to be counted. Peaks of memory are measured in processes of
their own (peak.py).
"""

import tempfile
import time
from functools import partial
from pathlib import Path

from made import make
from measure import in_turns, row
from peak import ours, peak_mib, theirs

from isotherm.runtime.clock import now_ms
from support.lab import Lab

RUNS = 3
SHAPES = {
    "5 columns": {"columns": 5},
    "20 columns": {"columns": 20},
    "60 columns": {"columns": 60},
    "20 columns, an entry a block": {"columns": 20, "in_block": 1},
    "20 columns, manifests of 10": {"columns": 20, "files": 5000, "manifests": 500, "in_block": 10},
}
FILES = 50_000
"""In eight manifests of a megabyte and more."""
SIZES = (100_000, 1_000_000)


def benchmarks(say):
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(Path(folder))
        for number, (shape, more) in enumerate(SHAPES.items()):
            size = {"files": FILES, "manifests": 8, "partitions": 1000, "in_block": 50, **more}
            say(f"{size['files']:,} files, {shape}")
            made = make(lab, f"shop.t{number}", now_ms=now_ms(), **size)
            assert ours(lab, made.name) == theirs(lab, made.name) == made.files
            took = in_turns(
                {"ours": partial(ours, lab, made.name), "theirs": partial(theirs, lab, made.name)},
                RUNS,
                warm_up=0,
                clock=time.perf_counter,
            )
            per_s = {who: made.files / seconds for who, seconds in took.items()}
            rows.append(
                row(
                    f"full scan, {shape}, against PyIceberg's own reader",
                    per_s["ours"],
                    "entries/s",
                    per_s["theirs"],
                    per_s["ours"] / per_s["theirs"],
                )
            )
        for files in SIZES:
            size = {"files": files, "manifests": files // 50_000, "partitions": 1000, "in_block": 50}
            made = make(lab, f"shop.p{files}", now_ms=now_ms(), **size)
            peaks = {}
            for who in ("ours", "theirs"):
                say(f"{files:,} files, peak of memory, {who}")
                peaks[who] = peak_mib(lab, made.name, who)
            what = f"memory that a full scan adds, {files:,} files, against PyIceberg's"
            rows.append(row(what, peaks["ours"], "MiB", peaks["theirs"], peaks["theirs"] / peaks["ours"]))
        lab.executor.stop()
    return rows
