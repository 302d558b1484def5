"""The memory that one full scan adds, as a process of its own: `peak.py ROOT PROPERTIES TABLE ours|theirs`."""

import json
import sys
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))

from isotherm.iceberg.catalog import IcebergCatalog
from support.lab import Lab

MIB = 1024**2


def ours(lab, name):
    """Files counted by a full scan."""
    catalog = IcebergCatalog(lab.catalog)
    return catalog.scan(catalog.load(name)).files


def theirs(lab, name):
    """Entries read by PyIceberg, a manifest after another, and let go of."""
    table = lab.catalog.load_table(name)
    manifests = table.current_snapshot().manifests(table.io)
    return sum(len(manifest.fetch_manifest_entry(table.io)) for manifest in manifests)


def main():
    root, properties, name, who = sys.argv[1:]
    lab = Lab(Path(root), properties=json.loads(properties))
    lab.catalog.load_table(name)
    before = psutil.Process().memory_info().rss
    {"ours": ours, "theirs": theirs}[who](lab, name)
    # What the kernel has seen at most, which no sampling misses.
    lines = Path("/proc/self/status").read_text().splitlines()
    highest = next(line for line in lines if line.startswith("VmHWM"))
    sys.stdout.write(f"{(int(highest.split()[1]) * 1024 - before) / MIB}\n")
    lab.executor.stop()


if __name__ == "__main__":
    main()
