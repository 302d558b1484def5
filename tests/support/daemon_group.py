"""Two or more daemons, real processes, in one group; what their tables and ledgers tell of them."""

import contextlib
import threading
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import psutil
from confluent_kafka.admin import AdminClient, NewTopic

from isotherm.contract.summary import JOB_ID
from isotherm.kafka.broker import partition_of
from isotherm.store import Ledger
from support.announcing import ControlTopic
from support.daemon_process import PATIENCE_S, Daemon
from support.lab import EAGER

IDLE = EAGER.replace("min_files: 3", "enabled: false")
"""Follows, and does nothing: what a table then has of ours is the other daemon's."""
TICK_S = 0.005


class Group:
    """Daemons of one group on a control topic."""

    def __init__(self, lab, kafka):
        self.lab = lab
        self.servers = kafka.bootstrap_servers
        self.topic = f"control-{uuid.uuid4()}"
        self.daemons = []
        self.stopped = []
        self.admin = AdminClient({"bootstrap.servers": self.servers})
        self._control_topic = ControlTopic(self.servers, self.topic)

    def make_topic(self, partitions):
        self.admin.create_topics([NewTopic(self.topic, partitions, 1)])[self.topic].result(30)

    def start(self, name, policy=None, **client):
        """A daemon that turns its loop; the group may have something for it, or not."""
        client = {"max.poll.interval.ms": 6000, **client}
        daemon = Daemon(self.lab, self.servers, self.topic, name, policy=policy, client=client)
        self.daemons.append(daemon)
        daemon.until("started")
        return daemon

    def table_on(self, partition, of, number=0):
        """A table whose events stand in this Kafka partition."""
        for attempt in range(200):
            name = f"shop.t{partition}_{number}_{attempt}"
            table = self.lab.create(name)
            if partition_of(str(table.metadata.table_uuid), of) == partition:
                return name, table
            self.lab.catalog.drop_table(name)
        raise AssertionError("no uuid fell into the partition")

    def write(self, table, name, *hours):
        events = [self.lab.append(table, hour, announce=False) for hour in hours]
        self._control_topic.announce(*[event.model_copy(update={"table": name}) for event in events])

    @contextlib.contextmanager
    def freezing(self, daemon, count):
        """Stop the next rewrites of a daemon in the middle, each as soon as it is there; it ends with so many.

        A small one is over within a tenth of a second: who asks for it when it is reported mostly comes too late.
        """
        with ThreadPoolExecutor(1) as beside:
            frozen = beside.submit(self._freeze, daemon, count)
            yield
            frozen.result()

    def _freeze(self, daemon, count):
        frozen, tick = set(), threading.Event()
        for _ in range(int(PATIENCE_S / TICK_S)):
            for one in daemon.rewrites():
                if one.pid not in frozen:
                    one.suspend()
                    frozen.add(one.pid)
                    self.stopped.append(one)
            if len(frozen) >= count:
                return
            tick.wait(TICK_S)
        raise AssertionError(f"{len(frozen)} of {count} rewrites came")

    def thaw(self):
        """Let the rewrites go on that are still there."""
        for one in self.stopped:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.resume()
        self.stopped = []

    def end(self):
        self.thaw()
        for daemon in self.daemons:
            with contextlib.suppress(ProcessLookupError):
                daemon.go_on()
            daemon.end()


def ready(daemon):
    return daemon.get("/readyz")[0] == 200


def jobs_in(table):
    """The job ids in a table's history."""
    summaries = [s.summary.additional_properties for s in table.refresh().snapshots()]
    return [summary[JOB_ID] for summary in summaries if JOB_ID in summary]


def operations(daemon):
    ledger = Ledger(daemon.folder / "state" / "ledger.db", read_only=True)
    try:
        return {one.job_id: one for one in ledger.operations()}
    finally:
        ledger.close()


def rows(table):
    return sorted(map(repr, table.refresh().scan().to_arrow().to_pylist()))


def files_of(lab, job_id):
    return list((lab.root / "warehouse").rglob(f"isotherm-{job_id}*"))


def judge(lab, tables, *daemons):
    """No job twice, each known as done by exactly one ledger, and nothing of any other job is left."""
    known = [operations(daemon) for daemon in daemons]
    for table in tables:
        for job_id, count in Counter(jobs_in(table)).items():
            assert count == 1
            assert [one[job_id].state for one in known if job_id in one] == ["done"]
    landed = {job_id for table in tables for job_id in jobs_in(table)}
    for one in known:
        for job_id, operation in one.items():
            if job_id not in landed and operation.state == "failed":
                assert not files_of(lab, job_id), operation
