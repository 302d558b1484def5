"""Benchmarks: ratios, measured side by side in one run; a noisy machine is noisy for both sides.

`make bench` prints a table and writes bench.json: rows of `name`, `value`, `unit`, `baseline`, `ratio`. The value is
ours, the baseline what it is held against, the ratio baseline ÷ value (above 1: ours is the faster).
"""

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lab import Lab, settle
from perf.replaying import replay_cost

HOURS = 10
"""Partitions that each commit writes to, one file each."""
REPEAT = 7


def median_s(action):
    """The median of some runs, in seconds; the first, which warms up, does not count."""
    times = []
    for _ in range(REPEAT + 1):
        started = time.perf_counter()
        action()
        times.append(time.perf_counter() - started)
    return statistics.median(times[1:])


def event_cost(console):
    """What one commit event of ten added files costs the daemon, on a small and on a larger table."""
    rows = []
    observe_only = "tables: nothing.*"
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(Path(folder), policy=observe_only)
        table = lab.create()
        service = lab.service()
        service.start()
        base = 0
        for commits in (12, 120):
            console.print(f"  a table of {commits * HOURS} files …", style="dim")
            while base < commits:
                lab.append(table, *range(base, base + HOURS), rows=1)
                base += 1
            settle(service)
            costs = []
            for _ in range(REPEAT + 1):
                lab.append(table, *range(base, base + HOURS), rows=1)
                base += 1
                messages = service.events.poll(0)
                started = time.perf_counter()
                service._consume(messages)
                costs.append(time.perf_counter() - started)
            ours = statistics.median(costs[1:])
            table.refresh()
            full = median_s(table.inspect.partitions)
            rows.append(row(f"one event, {commits * HOURS} files, against inspect.partitions()", ours, full))
        service.stop()
    return rows


def row(name, ours_s, baseline_s):
    return {
        "name": name,
        "value": round(ours_s * 1000, 3),
        "unit": "ms",
        "baseline": round(baseline_s * 1000, 3),
        "ratio": round(baseline_s / ours_s, 2),
    }


def main():
    console = Console(stderr=True)
    console.print("benchmarks, medians of", REPEAT)
    rows = event_cost(console)
    rows += [row(*one) for one in replay_cost(console)]
    grid = Table(box=None, pad_edge=False)
    for heading in ("name", "value", "unit", "baseline", "ratio"):
        grid.add_column(heading, justify="left" if heading == "name" else "right")
    for one in rows:
        grid.add_row(*(Text(str(one[heading])) for heading in ("name", "value", "unit", "baseline", "ratio")))
    Console().print(grid)
    Path("bench.json").write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
