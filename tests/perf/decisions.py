"""What the decisions make of two dozen tables: how often bytes are written, and what readers meet.

Each of tests/workloads is replayed under the default policy and under the examples that are made for its like. Held
against what a review measured before (commit f3fb432, the default), where it had a table of the same description.
"""

from statistics import mean

from measure import row

from isotherm.core.units import HOUR_MS
from workloads.catalogue import CASES, WORKLOADS, outcome
from workloads.expiring import STREAMS, expiries_a_day
from workloads.fleets import one_large_job, one_large_partition, one_old_table

GIB = 1024**3
MINUTE_MS = 60_000
BEFORE = {"one_old_table": (842, 2312)}
"""Minutes, on the average and at the longest; there a day and a half were played, here it is half a day."""


def benchmarks(say):
    rows = []
    for name, example in CASES:
        under = f"{name} under {example}" if example else name
        say(under)
        before = None if example else WORKLOADS[name].before
        rows += figures(f"decisions: {under}", outcome(name, example, is_short=False), before)
    for play in (one_old_table, one_large_job, one_large_partition):
        say(play.__name__)
        rows += waits(f"decisions: {play.__name__}", [one.waited_ms / MINUTE_MS for one in play()])
    for name, stream in STREAMS.items():
        say(name)
        rows.append(row(f"decisions: {name}: expiries", expiries_a_day(**stream), "a day"))
    return rows


def figures(name, got, before):
    """The rows of one replay; what did not happen has none."""
    rows = [
        against(
            name,
            "write amplification",
            got.write_amplification,
            "times",
            before and before.write_amplification,
        ),
        against(name, "files a partition, on average", got.files_mean, "files", before and before.files_mean),
        against(name, "files a partition, p95", got.files_p95, "files", before and before.files_p95),
        row(f"{name}: jobs", got.jobs, "jobs"),
    ]
    if got.settled_mean:
        rows.append(row(f"{name}: spare files once settled", got.settled_mean, "files"))
    if got.jobs:
        rows.append(row(f"{name}: repeated within a day", 100 * got.repeats, "% of jobs"))
    if got.delay_mean_ms is not None:
        rows.append(row(f"{name}: from left to compacted", got.delay_mean_ms / HOUR_MS, "h"))
    if got.longest_wait_ms is not None:
        rows.append(row(f"{name}: from due to done, at the longest", got.longest_wait_ms / MINUTE_MS, "min"))
    if got.thrown_away:
        wasted = before.wasted_gib if before else None
        rows += [
            against(name, "read in vain", got.wasted_bytes / GIB, "GiB", wasted),
            row(f"{name}: thrown away in a row", got.in_a_row, "jobs"),
        ]
    return rows


def against(name, what, ours, unit, before):
    """A row with what was measured before, if anything was."""
    ratio = before / ours if before and ours else None
    return row(f"{name}: {what}", ours, unit, before or None, ratio)


def waits(name, minutes):
    """How long what was due waited for its turn."""
    before = BEFORE.get(name.removeprefix("decisions: "), (None, None))
    return [
        against(name, "wait, on average", mean(minutes), "min", before[0]),
        against(name, "wait, at the longest", max(minutes), "min", before[1]),
    ]
