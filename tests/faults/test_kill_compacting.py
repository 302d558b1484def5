"""The daemon is killed (SIGKILL) at each point of a compaction, here and on Spark; the next one brings all to its end.

Judged from outside: by what the writer knows of its rows, by a plain reader of each snapshot, by what lies in the store, and
by the processes of this machine.
"""

import shutil
from collections import Counter

import psutil
import pytest
from pyiceberg.table.snapshots import Operation

from isotherm.core.deletion import LEFTOVER_GRACE_MS
from support import http_front
from support.announcing import ControlTopic
from support.daemon_process import Daemon
from support.lab import EAGER, settle, uuid_of
from support.object_store import Fault
from support.rewrites import rewriting_below

pytestmark = pytest.mark.stack

POLICY = EAGER.replace("quiet_commits: 2", "quiet_commits: 0")
HANGS_FOR_S = 120
"""What hangs must hang until it is ended, and not until it is tried again."""
TURNS = 60
WAITING = {"marked", "waiting"}
ENDS_WITHIN_S = 30
"""Spark waits some seconds for a task that is to end."""


class Story:
    """A table on S3 and a REST catalog, its writer, and daemons that die one after another."""

    def __init__(self, lab, bootstrap_servers, executors, name):
        self.lab, self.table = lab, lab.create()
        lab.properties |= {"s3.request-timeout": str(HANGS_FOR_S)}
        self._start = lambda: Daemon(
            lab,
            bootstrap_servers,
            name,
            client={"group.instance.id": "one"},
            catalog={"timeout_s": 30},
            executors=executors,
        )
        self.topic = ControlTopic(bootstrap_servers, name)
        self.rows, self.hour = {}, 0
        lab.append(self.table, 99, announce=False)
        self.note()
        self.daemon = self._start()

    def append(self, times):
        """Some commits to the partition of this point, and the rows that each must show for ever."""
        for _ in range(times):
            event = self.lab.append(self.table, self.hour, announce=False)
            self.note()
            self.topic.announce(event)

    def note(self):
        """Keep the rows of each new snapshot; what replaces has those of its parent."""
        for one in self.table.refresh().snapshots():
            if one.snapshot_id not in self.rows:
                is_ours = one.summary.operation is Operation.REPLACE
                self.rows[one.snapshot_id] = self.rows[one.parent_snapshot_id] if is_ours else self.read(one)

    def read(self, snapshot):
        return self.lab.read(snapshot_id=snapshot.snapshot_id)

    @property
    def label(self):
        return f"at_hour=2026-01-01-{self.hour:02}"

    def hang(self, method, path, kind):
        """Have the next such request of the daemon, or of its jobs, to the store hang."""
        fault = Fault(method, path.format(label=self.label), 1, kind, key="isotherm")
        self.lab.guard.store.faults.append(fault)
        return fault

    def hang_commit(self, kind, then=None):
        """Have the next commit hang, or what comes after it."""
        return self.lab.front.add("POST", "/tables/orders", kind, holds=b"add-snapshot", then=then)

    def kill(self, fault, cluster):
        """Kill the daemon when this has happened. Returns the processes of its jobs."""
        try:
            fault.wait()
            pids = [self.daemon.process.pid, *cluster]
            return [one for pid in pids for one in rewriting_below(pid)]
        finally:
            self.daemon.end()

    def go_on(self, left):
        """Have a new daemon end what is left of the last one, and compact its partition."""
        self.daemon = self._start()
        _, alive = psutil.wait_procs(left, ENDS_WITHIN_S)
        assert alive == []
        self.lab.front.heal()
        self.lab.guard.store.faults.clear()
        self.daemon.until("job_ended", label=self.label, outcome="done")
        self.hour += 1

    # What must be true at the end

    def reached(self):
        """The data files that some snapshot reaches, by their names."""
        return {
            entry.data_file.file_path.rpartition("/")[2]
            for snapshot in self.table.refresh().snapshots()
            for manifest in snapshot.manifests(self.table.io)
            for entry in manifest.fetch_manifest_entry(self.table.io)
        }

    def written_by_jobs(self):
        """The data files of jobs in the table's folder, by their names, with their hours. Other tests have the store too."""
        data = self.table.location().partition("://")[2].partition("/")[2] + "/data/"
        parts = [key.split("/") for key in self.lab.guard.store.objects() if key.startswith(data)]
        return {name: hour for *_, hour, name in parts if name.startswith("isotherm-")}

    def a_day_later(self):
        """What the next daemon does when the grace is over, on the same stores."""
        shutil.copytree(self.daemon.folder / "state", self.lab.root / "state")
        service = self.lab.service()
        service.start()
        settle(service)
        self.lab.ahead_ms += LEFTOVER_GRACE_MS
        for _ in range(TURNS):  # every table of the catalog is looked at before
            self.lab.ahead_ms += 60_000
            service.step(0)
            settle(service)
            if not WAITING & set(service.ledger.deletions(uuid_of(self.table))):
                break
        service.stop()


def begins(story):
    return story.hang("GET", "/data/{label}/", "silence")


def writes(story):
    """A part of the file is there, and no file."""
    return story.hang("PUT", "/data/{label}/isotherm-", "held")


def has_written(story):
    """The file is there, and its job does not know it."""
    return story.hang("POST", "?uploadId=", "held")


def cleans_up(story):
    """After a commit to the partition has ended the job."""
    written = has_written(story)
    story.append(3)
    written.wait()
    return story.hang("DELETE", "/data/{label}/isotherm-", "silence")


def has_prepared(story):
    return story.hang("PUT", "/metadata/isotherm-", "silence")


def sends_and_is_heard(story):
    return story.hang_commit("held")


def has_committed(story):
    """And not written down that it has."""
    fault = http_front.Fault("GET", "/tables/orders", 1, "silence")
    story.hang_commit("passed", then=fault)
    return fault


POINTS = [begins, writes, has_written, cleans_up, has_prepared, sends_and_is_heard, has_committed]


@pytest.fixture(params=["here", "on spark"])
def executors(request):
    """The daemon's executors, and the process below which else its jobs may run."""
    if request.param == "here":
        return {}, ()
    server = request.getfixturevalue("connect_server")
    return {"spark": {"remote": server.remote, "from_bytes": 0}}, (server.process.pid,)


def test_killed_at_any_point_of_a_compaction_nothing_is_lost_done_twice_or_left(rest_lab, servers, executors):
    config, cluster = executors
    story = Story(rest_lab(POLICY), servers.bootstrap_servers, config, f"killed-{len(cluster)}")
    try:
        for point in POINTS:
            fault = point(story)
            story.append(3)
            story.go_on(story.kill(fault, cluster))
        assert story.daemon.stop() == 0
    finally:
        story.daemon.end()

    story.note()
    for snapshot in story.table.refresh().snapshots():
        assert story.rows[snapshot.snapshot_id] == story.read(snapshot)
    assert set(Counter(story.lab.ours()).values()) == {1}
    reached, written = story.reached(), story.written_by_jobs()
    assert Counter(written[name] for name in reached & set(written)) == {
        f"at_hour=2026-01-01-{hour:02}": 1 for hour in range(len(POINTS))
    }
    assert len(written) > len(POINTS)  # some of them have left a file
    story.a_day_later()
    assert set(story.written_by_jobs()) <= reached
    for snapshot in story.table.refresh().snapshots():
        assert story.rows[snapshot.snapshot_id] == story.read(snapshot)
