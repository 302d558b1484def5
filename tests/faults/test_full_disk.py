"""A disk on which nothing more can be written, under the state folder and the tables: nothing is torn, nothing lost.

A limit on the size of files (RLIMIT_FSIZE) is set from outside on the running daemon: its writes then fail as on a full
disk, on every machine and without any right. A small file system of its own would need root.
"""

import resource

import psutil
import pytest

from isotherm.store import Ledger
from support.daemon_process import Daemon, eventually
from support.lab import EAGER, Lab

pytestmark = pytest.mark.stack

IDLE = EAGER.replace("min_files: 3", "enabled: false")


def rows(table):
    return sorted(map(repr, table.refresh().scan().to_arrow().to_pylist()))


def test_a_daemon_whose_disk_is_full_ends_in_words_and_the_next_one_goes_on(tmp_path, kafka):
    lab = Lab(tmp_path)
    table = lab.create()
    for hour in (1, 1, 1, 2, 3):
        lab.append(table, hour, announce=False)
    before = rows(table)
    daemon = Daemon(lab, kafka.bootstrap_servers, "full-disk", policy=IDLE)
    try:
        daemon.until("table_scanned")
        psutil.Process(daemon.process.pid).rlimit(psutil.RLIMIT_FSIZE, (1024, resource.RLIM_INFINITY))
        daemon.set_policy(EAGER)
        code = daemon.process.wait(60)
        last = daemon.until("bad_state", "crashed", "stopped")
    finally:
        daemon.end()

    assert (code, last["event"], last["state"]) == (1, "bad_state", str(daemon.folder / "state"))
    assert "disk" in last["why"]
    assert before == rows(table)
    ledger = Ledger(daemon.folder / "state" / "ledger.db", read_only=True)
    ledger.close()

    again = Daemon(lab, kafka.bootstrap_servers, "full-disk", policy=EAGER)
    try:
        again.until("job_ended", outcome="done")
        eventually(lambda: again.get("/readyz")[0] == 200)
        assert again.stop() == 0
    finally:
        again.end()
    assert before == rows(table)
