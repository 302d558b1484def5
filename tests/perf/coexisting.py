"""Maintenance beside a stream, both ways: the demo with Isotherm, then with Iceberg's procedures on a timer.

One seed, so both get the same changes in the same order. One after the other, because two cores hold one stack: what the
machine does beside it may differ, and counts say more than times.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from measure import row

SEED = 1
WAYS = ("isotherm", "timer")
MAINTENANCE = ("daemon", "jobs", "timer_python", "timer_jvm")
"""Whose memory is maintenance's, by their names in the report."""
TAIL = 3_000


def benchmarks(say, for_="5m"):
    ours, theirs = (play(way, for_, say) for way in WAYS)
    return compared(ours, theirs)


def play(way, for_, say):
    """The report of a run, whatever it says; a run without one is an error."""
    say(f"the demo for {for_}, maintained by {way}, seed {SEED}")
    command = [sys.executable, "-m", "isotherm.cli", "demo", "--for", for_, "--seed", str(SEED)]
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(
            [*command, "--maintained-by", way, "--report", "report.json"],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        report = Path(folder) / "report.json"
        if not report.exists():
            raise RuntimeError(f"the demo ended with {run.returncode}:\n{run.stdout[-TAIL:]}")
        found = json.loads(report.read_text(encoding="utf-8"))
    broken = [promise for promise, holds in found["promises"].items() if not holds]
    say(f"{found['rows_written']:,} rows; what does not hold: {', '.join(broken) or 'nothing'}")
    for job, count in found["jobs"].items():
        say(f"  {count} times {job}")
    return found


def compared(ours, theirs):
    """Both columns. Less is better in all of them, but for the last."""
    rows = [
        line(name, unit, value(ours), value(theirs))
        for name, unit, value in (
            ("ingest batches that failed", "", lambda one: one["batches_failed"]),
            ("upserts computed again", "", lambda one: one["merges_recomputed"]),
            ("… because of maintenance", "", lambda one: one["merges_recomputed_by_maintenance"]),
            ("appends repeated", "", lambda one: one["appends_repeated"]),
            ("maintenance that failed", "jobs", lambda one: ended(one, "failed")),
            ("rewrites of hot partitions", "", lambda one: one["hot_partitions_touched"]),
            ("ingested", "MB", lambda one: one["bytes_ingested"] / 1e6),
            ("rewritten", "MB", lambda one: one["bytes_rewritten"] / 1e6),
            ("rewritten ÷ ingested", "", lambda one: one["bytes_rewritten"] / one["bytes_ingested"]),
            *(
                (f"{name}, p{part}", "s", lambda one, key=key, part=part: one["latency_s"][key][f"p{part}"])
                for name, key in (("change → readable", "change_to_readable"), ("commit of ingest", "commit"))
                for part in (50, 99)
            ),
            ("full read of all tables", "s", lambda one: one["read_s"]),
            ("data files at the end", "", lambda one: of_tables(one, "data_files")),
            ("delete files at the end", "", lambda one: of_tables(one, "delete_files")),
            ("peak memory of maintenance", "MB", memory_mb),
        )
    ]
    jobs = (ended(one, "done") for one in (ours, theirs))
    equal = (of_tables(one, "checksums_equal") for one in (ours, theirs))
    return [
        *rows,
        row("coexisting: maintenance done", *with_unit("jobs", *jobs)),
        row("coexisting: tables with PostgreSQL's rows", *with_unit(f"of {len(ours['tables'])}", *equal)),
    ]


def line(name, unit, ours, theirs):
    ratio = theirs / ours if ours else None
    return row(f"coexisting: {name}", *with_unit(unit, ours, theirs), ratio)


def with_unit(unit, ours, theirs):
    return float(ours), unit, float(theirs)


def ended(report, how):
    """Jobs of the daemon, or calls of the timer, that came to this end."""
    return sum(count for job, count in report["jobs"].items() if job.split()[1] == how)


def of_tables(report, field):
    return sum(table[field] for table in report["tables"])


def memory_mb(report):
    return sum(report["peak_memory_mb"].get(name, 0) for name in MAINTENANCE)
