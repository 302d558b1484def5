"""Kafka, one KRaft node that is broker and controller in one."""

import base64
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tenacity import Retrying, retry_if_not_result, stop_after_delay, wait_fixed

from isotherm.demo.stack.errors import StackError
from isotherm.demo.stack.jars import Say, jar_paths, say_on_stderr
from isotherm.demo.stack.java import find_java
from isotherm.demo.stack.ports import HOST, accepts_connections, free_ports, start_on_free_ports
from isotherm.demo.stack.process import Process, Server
from isotherm.demo.stack.properties import write_properties

READY_WITHIN_S = 90
PREPARE_WITHIN_S = 120
ADMIN_TIMEOUT_S = 30
JVM_OPTIONS = [
    "-Xmx{heap_mb}m",
    "-XX:+UseSerialGC",
    # A local server lives for minutes: the second compiler would cost more than it gives.
    "-XX:TieredStopAtLevel=1",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS",
]


def java_command(jars: list[Path], main_class: str, *arguments: str | Path, heap_mb: int) -> list[str | Path]:
    """The command that runs a class of these jars."""
    options = [option.format(heap_mb=heap_mb) for option in JVM_OPTIONS]
    return [find_java(), *options, "-cp", ":".join(str(jar) for jar in jars), main_class, *arguments]


class Kafka(Server):
    """A broker; its topics stay in the folder and are used again."""

    name = "Kafka"

    def __init__(
        self, folder: Path, *, auto_create_topics: bool = True, heap_mb: int = 320, say: Say = say_on_stderr
    ) -> None:
        self.folder = folder
        self._auto_create_topics = auto_create_topics
        self._heap_mb = heap_mb
        self._say = say
        self._port = 0

    @property
    def bootstrap_servers(self) -> str:
        """What clients call `bootstrap.servers`."""
        return f"{HOST}:{self._port}"

    def start(self, ports: list[int] | None = None) -> None:
        """Start it and wait until it tells a client about itself; `ports` are tried before others."""
        jars = jar_paths("kafka", self.folder, self._say)
        log = self.folder / "kafka.log"

        def start(ports: list[int]) -> Process:
            self._port = ports[0]
            properties = write_properties(self.folder / "server.properties", self._properties(*ports))
            self._format(jars, properties)
            command = java_command(jars, "kafka.Kafka", properties, heap_mb=self._heap_mb)
            self._process = Process(self.name, command, log, folder=self.folder)
            self._process.start()
            return self._process

        start_on_free_ports(ports or free_ports(2), start, self._answers, READY_WITHIN_S)

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """Create a topic and wait until it is there; returns its name. One that exists is an error."""
        from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        # The client must be held: with it goes the answer.
        admin = self._admin()
        admin.create_topics([topic])[name].result(timeout=ADMIN_TIMEOUT_S)
        # The controller has answered; the broker hears of it a moment later, and has no such topic until then.
        there = Retrying(
            retry=retry_if_not_result(bool),
            wait=wait_fixed(0.02),
            stop=stop_after_delay(ADMIN_TIMEOUT_S),
        )
        there(lambda: name in admin.list_topics(timeout=ADMIN_TIMEOUT_S).topics)
        return name

    def _admin(self) -> Any:
        from confluent_kafka.admin import AdminClient

        # log_level 0: a broker that is not up yet is what we expect here, and no news.
        return AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})

    def _answers(self) -> bool:
        from confluent_kafka import KafkaException

        if not accepts_connections(self._port):
            return False
        try:
            # Another broker may have taken our port just before us, and answer in our place.
            return str(self._admin().list_topics(timeout=2).cluster_id) == self._cluster_id()
        except KafkaException:
            return False

    def _properties(self, port: int, controller_port: int) -> dict[str, object]:
        return {
            "process.roles": "broker,controller",
            "node.id": 1,
            # A static quorum: the ports are others at every start, and the log must not remember them.
            "controller.quorum.voters": f"1@{HOST}:{controller_port}",
            "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            # Relative to the process's folder: a comma in our path would make two folders of one.
            "log.dirs": "data",
            "auto.create.topics.enable": self._auto_create_topics,
            "num.partitions": 1,
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 4,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 4,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            # After a kill the broker waits until its former life counts as gone: 9 seconds by default.
            "broker.session.timeout.ms": 3000,
            "broker.heartbeat.interval.ms": 500,
            "group.initial.rebalance.delay.ms": 0,
            "log.cleaner.dedupe.buffer.size": 16 * 1024 * 1024,
        }

    def _cluster_id(self) -> str:
        lines = (self.folder / "data" / "meta.properties").read_text(encoding="utf-8").splitlines()
        return next(line.removeprefix("cluster.id=") for line in lines if line.startswith("cluster.id="))

    def _format(self, jars: list[Path], properties: Path) -> None:
        """Give the data folder its identity, once."""
        if (self.folder / "data" / "meta.properties").exists():
            return
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "_")
        arguments: list[str | Path] = ["format", "-t", cluster_id, "-c", properties, "--ignore-formatted"]
        command = java_command(jars, "kafka.tools.StorageTool", *arguments, heap_mb=128)
        process = Process("Kafka's StorageTool", command, self.folder / "format.log", folder=self.folder)
        process.start()
        code = process.wait(PREPARE_WITHIN_S)
        if code != 0:
            process.stop()
            raise StackError(
                f"{process.name} ended with {code}; the end of {process.log}:\n{process.log_tail()}"
            )
