"""How long the proof before a deletion takes for a table with a long history, on a store that takes its time."""

import time
from pathlib import Path

from made import with_history

from isotherm.clients.storage import RetryingFileIO
from isotherm.contract.paths import normalised
from isotherm.core.deletion import Cause, Mark, Neighbours
from isotherm.iceberg.catalog import connect
from isotherm.iceberg.remover import deleted, gathered
from isotherm.iceberg.stopping import never
from isotherm.runtime.clock import now_ms
from isotherm.runtime.config import CatalogConfig
from isotherm.service.jobs.deletions import FILES_AT_ONCE
from isotherm.service.ports import Sweep

SWEPT = FILES_AT_ONCE
LISTED = 100
"""Manifests in a list: writers merge them from there on."""
REQUEST_S = 0.03
"""An object store's, for one file."""


class SlowFileIO(RetryingFileIO):
    """Local files, each request as slow as an object store's."""

    def new_input(self, location):
        time.sleep(REQUEST_S)
        return super().new_input(location)

    def delete(self, location):
        time.sleep(REQUEST_S)
        super().delete(location)


def proved(lab, snapshots, say):
    """Seconds that the proof for one table takes, its CPU time, and seconds that the deletions behind it take."""
    say(f"a table of {snapshots:,} manifest lists and manifests is made")
    name = with_history(lab, "shop.week", snapshots=snapshots, listed=LISTED, now_ms=now_ms())
    properties = {**lab.properties, "py-io-impl": f"{SlowFileIO.__module__}.{SlowFileIO.__name__}"}
    table = connect(CatalogConfig(properties=properties)).load_table(name)
    folder = Path(normalised(table.location())) / "data"
    folder.mkdir()
    files = [folder / f"{number:08d}.parquet" for number in range(SWEPT)]
    for file in files:
        file.touch()
    marks = [Mark(str(file), "job", Cause.EXPIRED, None) for file in files]
    say(f"its proof, and {SWEPT:,} deletions")
    proof_s, proof_cpu_s = took(
        lambda: gathered(table, Sweep(str(table.metadata.table_uuid), tuple(marks), {}, Neighbours()), never)
    )
    deletion_s, _ = took(lambda: deleted(table.io, [mark.path for mark in marks]))
    if any(file.exists() for file in files):
        raise AssertionError("files that are told as deleted are there")
    return proof_s, proof_cpu_s, deletion_s


def took(action):
    """Seconds on the wall, and of CPU time."""
    begun = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - begun[0], time.process_time() - begun[1]
