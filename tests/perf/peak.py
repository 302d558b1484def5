"""The memory that one piece of work adds, as a process of its own: `peak.py ROOT PROPERTIES TABLE WORK`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))

from isotherm.core.orphan_findings import Found
from isotherm.iceberg.catalog import IcebergCatalog
from isotherm.iceberg.orphan_search import find
from support.lab import Lab
from support.search_alone import DAY_MS, search_of

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


def orphans_by_us(lab, name):
    """The files of its folder that a table does not name."""
    table = lab.catalog.load_table(name)
    found = find(table, search_of(table, ahead_ms=-3 * DAY_MS))
    assert isinstance(found, Found), found
    return {one.path.removeprefix("file://") for one in found.orphans}


def orphans_by_script(lab, name):
    """The same, as somebody would write it down with PyIceberg: all that is there, less all that the table names."""
    table = lab.catalog.load_table(name)
    manifests = {
        one.manifest_path: one for snapshot in table.snapshots() for one in snapshot.manifests(table.io)
    }
    named = {
        entry.data_file.file_path.removeprefix("file://")
        for one in manifests.values()
        for entry in one.fetch_manifest_entry(table.io)
    }
    folder = f"{table.location().removeprefix('file://')}/data"
    return {
        path
        for place, _, names in os.walk(folder)
        for one in names
        if (path := os.path.join(place, one)) not in named  # noqa: PTH118 (quicker)
    }


WORK = {
    "ours": ours,
    "theirs": theirs,
    "orphans-ours": orphans_by_us,
    "orphans-script": orphans_by_script,
}


def peak_mib(lab, name, work):
    """The memory that this work adds in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, str(lab.root), json.dumps(lab.properties), name, work],
        check=True,
        capture_output=True,
        text=True,
    )
    return float(done.stdout)


def main():
    root, properties, name, work = sys.argv[1:]
    lab = Lab(Path(root), properties=json.loads(properties))
    lab.catalog.load_table(name)
    before = psutil.Process().memory_info().rss
    WORK[work](lab, name)
    # What the kernel has seen at most, which no sampling misses.
    lines = Path("/proc/self/status").read_text().splitlines()
    highest = next(line for line in lines if line.startswith("VmHWM"))
    sys.stdout.write(f"{(int(highest.split()[1]) * 1024 - before) / MIB}\n")
    lab.executor.stop()


if __name__ == "__main__":
    main()
