"""Spark's own Connect server on this machine, with two cores: what a person's cluster is to the daemon."""

import os
import sys
from pathlib import Path

from isotherm.demo.stack import Process, find_java
from isotherm.demo.stack.ports import HOST, free_ports, start_on_free_ports
from support.spark_cluster import HERE, SPARK_HOME, STARTS_WITHIN_S

DAEMON = Path(__file__).parents[2] / "daemon"
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


class ConnectServer:
    """A server that can be ended and started again under the same address."""

    def __init__(self, folder: Path, *, python_path: str = str(DAEMON)) -> None:
        find_java()
        self._folder, self._python_path = folder, python_path
        self._port = 0
        self.process: Process | None = None

    @property
    def remote(self) -> str:
        """Its address, as a client takes it."""
        return f"sc://{HOST}:{self._port}"

    def start(self) -> None:
        """Start it; returns when it answers."""
        ports = [self._port] if self._port else free_ports(1)
        self.process = start_on_free_ports(ports, self._start, self._is_up, STARTS_WITHIN_S)

    def stop(self) -> None:
        """End it, with its workers."""
        if self.process is not None:
            self.process.stop()

    def _start(self, ports: list[int]) -> Process:
        (self._port,) = ports
        conf = {
            "spark.connect.grpc.binding.port": str(self._port),
            "spark.connect.grpc.binding.address": HOST,
            "spark.ui.enabled": "false",
            "spark.driver.memory": "512m",
        }
        options = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
        command = [SPARK_HOME / "bin" / "spark-submit", "--master", "local[2]", *options, "--class", SERVER]
        self._process = Process(
            "spark-connect",
            [*command, "spark-internal"],
            self._folder / "spark-connect.log",
            environment=HERE
            | {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": self._python_path, "PATH": os.environ["PATH"]},
        )
        self._process.start()
        return self._process

    def _is_up(self) -> bool:
        return self._process.has_logged(b"Spark Connect server started at")
