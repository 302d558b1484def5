"""Spark's own standalone cluster on this machine: a master, and workers with a core and a small heap each."""

from pathlib import Path

import pyspark

from isotherm.demo.stack import Process
from isotherm.demo.stack.ports import HOST, free_ports, start_on_free_ports

SPARK_HOME = Path(pyspark.__file__).parent
STARTS_WITHIN_S = 120
HERE = {
    "SPARK_LOCAL_IP": HOST,
    "SPARK_HOME": str(SPARK_HOME),
    # Of every JVM, executors too: none lives long enough for the second compiler.
    "JDK_JAVA_OPTIONS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}
"""The environment of the cluster's processes, and of what is submitted to it."""


class Cluster:
    """A master and its workers. A worker's executors are in its process group: a signal for that reaches them too."""

    def __init__(self, folder: Path, workers: int) -> None:
        self._folder = folder
        self._count = workers
        self._running: list[Process] = []
        self.url = ""
        self.workers: list[Process] = []

    def start(self) -> None:
        """Start all of them; returns when the master knows the workers."""
        self._running.append(
            start_on_free_ports(free_ports(2), self._start_master, self._is_up, STARTS_WITHIN_S)
        )
        for number in range(self._count):
            options = ["--cores", "1", "--memory", "1g", "--work-dir", str(self._folder / f"work-{number}")]
            worker = self._process(
                f"worker-{number}", "worker.Worker", *options, "--webui-port", "0", self.url
            )
            worker.start()
            self._running.append(worker)
            self.workers.append(worker)
        for worker in self.workers:
            worker.wait_until(lambda: worker.has_logged(b"Successfully registered"), STARTS_WITHIN_S)  # noqa: B023

    def stop(self) -> None:
        """End all of them, the master last."""
        for process in reversed(self._running):
            process.stop()

    def _start_master(self, ports: list[int]) -> Process:
        port, page = map(str, ports)
        self.url = f"spark://{HOST}:{port}"
        self._master = self._process("master", "master.Master", "--port", port, "--webui-port", page)
        self._master.start()
        return self._master

    def _is_up(self) -> bool:
        return self._master.has_logged(b"New state: ALIVE")

    def _process(self, name: str, main_class: str, *options: str) -> Process:
        command = [
            SPARK_HOME / "bin" / "spark-class",
            f"org.apache.spark.deploy.{main_class}",
            "--host",
            HOST,
        ]
        return Process(name, [*command, *options], self._folder / f"{name}.log", environment=HERE)
