"""How often a day's bytes are written again, under three policies.

Each stream writes for a day, and is then silent until nothing is due any more: so nothing looks cheap only because
its work is still to come. What is counted are the bytes that jobs wrote for each byte that the stream wrote: 1 is a
rewrite of everything, once. Beside it are the files that a reader meets once everything has settled.
"""

from dataclasses import replace

from measure import row

from isotherm.core.policy.policy import Cold, Compact, Policy
from isotherm.core.replay.replay import replay
from support.builders import DAY, MIB
from workloads import appends, updates
from workloads.measuring import ASSUMED

SILENT_DAYS = 3
"""After the stream: a partition that nobody wrote to for a day is cold, and one that was compacted rests for a day."""
GOAL = 1.05
POLICIES = {
    "default": Policy(),
    # Soon, and again for a few files: for tables that are read all the time.
    "eager": Policy(
        cold=Cold(after=0, quiet_for="5m", quiet_commits=2),
        compact=Compact(min_files=3, fill_files=2, rest="1h"),
    ),
    # Late, and for many files: for tables that are hardly read.
    "lazy": Policy(
        cold=Cold(after=12, quiet_for="6h"), compact=Compact(min_files=50, fill_files=10, rest="2d")
    ),
}
MINOR = Policy(compact=Compact(minor_after="6h"))
APPENDED = {
    "hourly": appends.hourly,
    "hourly, two writers": appends.two_writers,
    "hourly, with late rows": appends.hourly_late,
    "daily": appends.daily,
}
"""By time, and only appended to: the goal is theirs."""
OTHERS = {
    "a mirror": updates.mirror_zipf,
    "buckets": updates.buckets,
}


def benchmarks(say):
    rows = []
    for streams, goal in ((APPENDED, GOAL), (OTHERS, None)):
        for stream, make in streams.items():
            say(stream)
            for name, policy in POLICIES.items():
                rows += figures(f"a day of {stream}, {name}", make(1), policy, goal)
    say("a log")
    # One partition, which is never cold while the stream writes.
    return rows + figures(
        "a day of a log without partitions, minor after 6h", appends.log(1, MIB), MINOR, None
    )


def figures(name, day, policy, goal):
    """What a day cost under a policy, and what its readers meet in the end."""
    totals = replay(replace(day, ends_at_ms=day.ends_at_ms + SILENT_DAYS * DAY), policy, ASSUMED).totals
    if totals.still_due:
        raise AssertionError(f"{name}: {totals.still_due} partitions are still due")
    rewritten = totals.rewritten_bytes / totals.ingested_bytes
    return [
        row(
            f"{name}: bytes rewritten for each one ingested",
            rewritten,
            "times",
            goal,
            goal / rewritten if goal and rewritten else None,
        ),
        row(f"{name}: data files in the end", totals.files, "files"),
    ]
