"""What the benchmarks of ingest stand on: a broker, a Spark session as ingest has it, and the CPU time of our side.

CPU seconds of this process and Spark's; the broker's and other servers' are left out. A batch is counted with what
comes after it: the announcing of the tables that it was committed to.
"""

import json
import statistics
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import psutil

from isotherm.demo.stack import Process, Stack, find_java, jar_paths
from isotherm.demo.stack.ports import free_ports
from isotherm.runtime import logs
from isotherm.runtime.yaml_reader import parse_yaml
from isotherm_ingest.spark_session import start_session
from isotherm_ingest.streams import StreamsConfig
from support.changes import Source
from support.ingest_lab import Lab

ROUNDS = 4
READY_WITHIN_S = 900


@contextmanager
def bench() -> Iterator["Bench"]:
    """A broker and a session, until the end of the block."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        find_java()
        logs.configure("ERROR", program="bench")
        with Stack(root / "stack", postgres=False, connect=False) as stack:
            made = Bench(root, stack.kafka)
            try:
                yield made
            finally:
                made.spark.stop()


class Bench:
    """A session as ingest has it, and the CPU time of all but the servers."""

    def __init__(self, root, kafka):
        self.root, self.kafka = root, kafka
        self.properties = {
            "type": "sql",
            "uri": f"sqlite:///{root}/catalog.db",
            "warehouse": f"file://{root}/warehouse",
        }
        self.spark_settings = (
            f"{{driver_memory: 2g, jars: {json.dumps([str(jar) for jar in jar_paths('spark', root)])}}}"
        )
        text = f"""
pipeline: bench
catalog: {{name: lake, properties: {json.dumps(self.properties)}}}
kafka: {{properties: {{bootstrap.servers: "{kafka.bootstrap_servers}"}}}}
spark: {self.spark_settings}
streams: [{{topics: "x", table: "bench.x"}}]
"""
        self._others = psutil.Process().children(recursive=True)
        self.spark = start_session(parse_yaml(text, "bench", StreamsConfig))
        self.spark.sparkContext.setLogLevel("ERROR")
        self.spark.sql("CREATE NAMESPACE lake.bench")

    def lab(self, mode, partition_by='["days(at)"]'):
        return self.lab_of(stream(mode, partition_by=partition_by))

    def lab_of(self, *streams):
        folder = SimpleNamespace(pyiceberg_properties=self.properties)
        return Lab(self.kafka, self.spark, folder, "\n".join(streams))

    def leave_out(self, process):
        """Do not count a process that was started since, and its children."""
        self._others += [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]

    def start_ingest(self, lab, every):
        """Close a lab, and start a process that takes its pipeline over; returns when it has taken a turn."""
        lab.close()
        (port,) = free_ports(1)
        settings = f"every: {every}\nhttp: {{port: {port}}}\nspark: {self.spark_settings}"
        config = self.root / f"{lab.name}.yaml"
        config.write_text(lab.text.replace("every: 1ms", settings))
        command = [sys.executable, "-m", "isotherm_ingest.cli", "run", config]
        process = Process("ingest", command, self.root / f"{lab.name}.log")
        process.start()
        process.wait_until(lambda: is_ready(port), READY_WITHIN_S)
        return process

    def cpu_s(self, work):
        """CPU seconds of a piece of work."""
        before = self._used_s()
        work()
        return self._used_s() - before

    def _used_s(self):
        mine = [psutil.Process(), *psutil.Process().children(recursive=True)]
        return sum(used_s(one) for one in mine if one not in self._others)


def stream(mode, tables=".*", partition_by='["days(at)"]'):
    """A stream of the topics of some tables, as streams.yaml has it."""
    topics = f"NS\\\\.public\\\\.{tables}"
    return f'  - {{topics: "{topics}", table: "NS.{{table}}", mode: {mode}, partition_by: {partition_by}}}'


def used_s(process):
    """CPU seconds of a process so far, and of its children that have ended."""
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return times.user + times.system + times.children_user + times.children_system


def family_used_s(pid):
    """CPU seconds of a process and all that it started."""
    parent = psutil.Process(pid)
    return sum(map(used_s, [parent, *parent.children(recursive=True)]))


def ingest_and_announce(lab):
    """A batch of all that waits, and what the thread of the outbox does after it."""
    lab.ingest()
    lab.announce_due()


def send_rows(lab, sources, count, lap):
    """Insert some new rows into each of some tables."""
    for source in sources:
        for number in range(count):
            key, value = source.insert(lap * count + number, lap)
            lab.producer.produce(lab.topic(source.table), key=key, value=value)
            lab.producer.poll(0)
        source.log.clear()
    lab.producer.flush()


def is_ready(port):
    """Whether the last turn of a process of ingest went well."""
    try:
        return urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10).status == 200
    except OSError:
        return False


def sources_of(names):
    return [Source(name) for name in names]


def median(runs):
    """Without the first, in which code is compiled and workers start."""
    return statistics.median(runs[1:])
