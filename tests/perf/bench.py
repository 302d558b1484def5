"""Benchmarks: ratios, measured side by side in one run; a noisy machine is noisy for both sides.

`make bench` prints a table and writes bench.json: rows of `name`, `value`, `unit`, `baseline`, `ratio`. The value is
ours, the baseline what it is held against, the ratio how many times better ours is. `--only scan,events` takes some.
"""

import argparse
import json
import platform
import sys
import time
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console
from rich.table import Table
from rich.text import Text

SUBJECTS = {
    "events": "one event and one confirmation, on small and large tables",
    "scan": "a full scan, against PyIceberg's own reader",
    "planning": "verdicts on 100,000 partitions",
    "fleet": "1,000 tables of 1,000 partitions",
    "capacity": "what is promised of one core and 1 GiB: four fleets",
    "replaying": "a month of one-minute commits, simulated",
    "compacting": "what a compaction takes, against DuckDB's COPY and against Spark",
    "ingest": "what a change costs on its way, against a bare stream and MERGE",
    "ingest-tables": "batches of many small tables, minutes without work, a table with a long past",
    "ingest-peers": "how long a change takes, and Iceberg's sink for Kafka Connect on the same topic",
    "querying": "windows of events, against Spark's stateful aggregate",
    "decoding": "what a message costs, format by format, and beside fastavro",
    "coexisting": "a stream with maintenance beside it: ours, and Iceberg's procedures on a timer",
    "scanning": "how long the result of a compaction takes to scan, against tables written in one go",
    "expiring": "10,000 snapshots, against PyIceberg's API and Spark's procedure",
    "orphans": "100,000 files of a folder, against Spark's procedure and a script",
    "amplifying": "a simulated day under three policies: how often its bytes are written again",
    "decisions": "two dozen tables, and what the policies make of them",
}
COLUMNS = ("name", "value", "unit", "baseline", "ratio")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default=",".join(SUBJECTS), help=f"some of: {', '.join(SUBJECTS)}")
    parser.add_argument(
        "--for", dest="span", default="5m", help="how long `coexisting` plays each of both ways (5m)"
    )
    arguments = parser.parse_args()
    wanted, spans = arguments.only.split(","), {"coexisting": {"for_": arguments.span}}
    if unknown := set(wanted) - set(SUBJECTS):
        parser.error(f"no such subject: {', '.join(sorted(unknown))}; there are {', '.join(SUBJECTS)}")
    progress = Console(stderr=True)
    started = time.monotonic()
    rows = []
    for name, what in SUBJECTS.items():
        if name not in wanted:
            continue
        progress.print(f"{name}: {what}")
        rows += import_module(name.replace("-", "_")).benchmarks(
            lambda text: progress.print(f"  {time.monotonic() - started:4.0f} s  {text}", style="dim"),
            **spans.get(name, {}),
        )
    print_table(rows)
    Path("bench.json").write_text(json.dumps(rows, indent=2) + "\n")


def print_table(rows):
    grid = Table(box=None, pad_edge=False)
    for heading in COLUMNS:
        grid.add_column(heading, justify="left" if heading == "name" else "right")
    for one in rows:
        grid.add_row(*(Text("" if one[heading] is None else shown(one[heading])) for heading in COLUMNS))
    console = Console()
    console.print(f"{platform.machine()}, Python {platform.python_version()}", style="dim")
    console.print(grid)


def shown(value):
    return value if isinstance(value, str) else f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"


if __name__ == "__main__":
    main()
