"""The daemon's process is killed (SIGKILL) while one of its requests hangs, heard or not heard; the next one goes on."""

from collections import Counter

import pytest

from isotherm.core.model.jobs import Action
from isotherm.store import Ledger
from support.daemon_process import Daemon, eventually
from support.lab import EXPIRING
from support.object_store import Fault

pytestmark = pytest.mark.stack

POLICY = EXPIRING.replace("quiet_commits: 2", "quiet_commits: 0").replace("keep_last: 2", "keep_last: 1")
POINTS = [
    ("catalog", "POST", "/tables/orders", "held", b"remove-snapshots"),
    ("store", "PUT", "/data/at_hour", "silence", b""),
    ("store", "DELETE", "/data/", "held", b""),
]


def hang(lab, where, method, path, kind, holds):
    if where == "catalog":
        return lab.front.add(method, path, kind, holds=holds)
    fault = Fault(method, path, 1, kind)
    lab.guard.store.faults.append(fault)
    return fault


def test_killed_while_a_request_hangs_it_loses_nothing_and_does_nothing_twice(rest_lab, servers):
    lab = rest_lab(POLICY)
    table = lab.create()
    lab.append(table, 99, announce=False)

    def start():
        client = {"group.instance.id": "one"}
        return Daemon(lab, servers.bootstrap_servers, "kills", client=client, catalog={"timeout_s": 30})

    def make_due(hour):
        for _ in range(3):
            lab.append(table, hour, announce=False)

    for hour, point in enumerate(POINTS):
        make_due(hour)
        fault = hang(lab, *point)
        daemon = start()
        try:
            fault.wait()
        finally:
            daemon.end()  # by SIGKILL
        lab.front.heal()
        lab.guard.store.faults.clear()
    make_due(len(POINTS))
    daemon = start()
    try:
        daemon.until("job_ended", label=f"at_hour=2026-01-01-{len(POINTS):02}", outcome="done")
        # An expiry that may have been sent stays open for a day: its request may be on its way.
        eventually(lambda: Action.COMPACT not in {one.action for one in unfinished(daemon)})
        assert daemon.stop() == 0
    finally:
        daemon.end()

    assert len(lab.read()) == lab.rows
    assert set(Counter(lab.ours()).values()) <= {1}
    assert all(lab.read(snapshot_id=s.snapshot_id) for s in table.refresh().snapshots())


def unfinished(daemon):
    ledger = Ledger(daemon.folder / "state" / "ledger.db", read_only=True)
    try:
        return [operation for operation, _ in ledger.unfinished()]
    finally:
        ledger.close()
