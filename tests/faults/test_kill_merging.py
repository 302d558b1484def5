"""The daemon is killed (SIGKILL) while it merges position deletes, on S3 and a REST catalog; no row comes back or goes."""

import shutil

import pytest
from pyiceberg.table.snapshots import Operation

from isotherm.core.model.files import FileKind
from isotherm.iceberg.manifests.live import live_files
from support.daemon_process import Daemon, eventually
from support.deleted_rows import delete_row
from support.lab import EAGER
from support.object_store import Fault

pytestmark = pytest.mark.stack

POLICY = EAGER.replace("quiet_commits: 2", "quiet_commits: 0").replace(
    "min_files: 3", "min_files: 3, max_position_deletes: 3, max_delete_ratio: 9"
)
POINTS = [
    ("store", "PUT", "/data/at_hour=2026-01-01-01/isotherm-", "held", b""),
    ("store", "PUT", "/metadata/isotherm-", "silence", b""),
    ("catalog", "POST", "/tables/orders", "silence", b"add-snapshot"),
    ("catalog", "POST", "/tables/orders", "held", b"add-snapshot"),
]
LABEL = "at_hour=2026-01-01-01"


def hang(lab, where, method, path, kind, holds):
    if where == "catalog":
        return lab.front.add(method, path, kind, holds=holds)
    fault = Fault(method, path, 1, kind)
    lab.guard.store.faults.append(fault)
    return fault


class Deleting:
    """A writer that deletes rows of one file, one in each commit, and knows what each snapshot must give."""

    def __init__(self, lab, table):
        self.lab, self.table, self.position, self.rows = lab, table, 0, {}

    def note(self):
        """Keep the rows of each new snapshot; what replaces has those of its parent."""
        for snapshot in self.table.refresh().snapshots():
            if snapshot.snapshot_id not in self.rows:
                is_ours = snapshot.summary.operation is Operation.REPLACE
                self.rows[snapshot.snapshot_id] = (
                    self.rows[snapshot.parent_snapshot_id]
                    if is_ours
                    else self.lab.read(snapshot_id=snapshot.snapshot_id)
                )

    def live(self):
        self.table.refresh()
        return live_files(self.table.metadata, self.table.io, self.table.metadata.current_snapshot())

    def compacted(self):
        self.note()
        (file,) = (one for one in self.live() if one.rows == 60)
        return file

    def delete(self, data, times=3):
        for _ in range(times):
            delete_row(self.lab, self.table, data.path, self.position, data.partition, announce=False)
            self.position += 2
            self.note()

    def deletes(self):
        return [one for one in self.live() if one.kind is FileKind.POSITION_DELETES]


def test_killed_while_it_merges_deletes_no_row_comes_back_or_goes(rest_lab, servers):
    """Where a request was sent, the next daemon has the ledger from before the merge: it knows nothing of it."""
    lab = rest_lab(POLICY)
    table = lab.create()
    lab.append(table, 99, announce=False)
    for _ in range(3):
        lab.append(table, 1, rows=20, announce=False)
    writer = Deleting(lab, table)
    state, older = lab.root / "one" / "state", lab.root / "older"

    def start():
        client = {"group.instance.id": "one"}
        return Daemon(lab, servers.bootstrap_servers, "merges", client=client, catalog={"timeout_s": 30})

    daemon = start()
    daemon.until("job_ended", label=LABEL, outcome="done")
    assert daemon.stop() == 0
    data = writer.compacted()
    for point in POINTS:
        writer.delete(data)
        shutil.rmtree(older, ignore_errors=True)
        shutil.copytree(state, older)
        fault = hang(lab, *point)
        daemon = start()
        try:
            fault.wait()
        finally:
            daemon.end()  # by SIGKILL
        lab.front.heal()
        lab.guard.store.faults.clear()
        if point[0] == "catalog":
            for path in state.glob("ledger.db*"):
                path.unlink()
            for path in older.glob("ledger.db*"):
                shutil.copy(path, state)
    writer.delete(data)
    daemon = start()
    try:
        eventually(lambda: len(writer.deletes()) == 1)
        assert daemon.stop() == 0
    finally:
        daemon.end()

    writer.note()
    assert writer.deletes()[0].rows == 3 * (len(POINTS) + 1)
    assert len(lab.read()) == lab.rows - 3 * (len(POINTS) + 1)
    assert len(set(lab.ours())) == len(lab.ours()) >= 3
    for snapshot in table.refresh().snapshots():
        assert lab.read(snapshot_id=snapshot.snapshot_id) == writer.rows[snapshot.snapshot_id]
