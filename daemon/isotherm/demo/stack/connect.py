"""Kafka Connect (standalone) with the Debezium connector for PostgreSQL, and others that the caller brings.

What it has read stays in the folder; the connectors do not: whoever starts it starts them again, by name, and
they go on where they were.
"""

import json
import shutil
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from isotherm.demo.stack.errors import StackError
from isotherm.demo.stack.jars import Say, jar_paths, say_on_stderr
from isotherm.demo.stack.kafka import java_command
from isotherm.demo.stack.ports import HOST, accepts_connections, free_ports, start_on_free_ports
from isotherm.demo.stack.postgres import Postgres
from isotherm.demo.stack.process import Process, Server
from isotherm.demo.stack.properties import write_properties

READY_WITHIN_S = 120
CONNECTOR_WITHIN_S = 60
REQUEST_TIMEOUT_S = 30
PROBE_TIMEOUT_S = 2
"""Somebody else may listen on our port, and never answer."""
OF_THE_PLUGIN = ("debezium-", "postgresql-")
"""Jars of the connector. On the worker's own class path as well, each service would be found twice and fail."""
JSON_WITH_SCHEMAS = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": True,
    "value.converter.schemas.enable": True,
}


class Connect(Server):
    """A Connect worker."""

    name = "Kafka Connect"

    def __init__(
        self,
        folder: Path,
        bootstrap_servers: str,
        *,
        worker: Mapping[str, object] | None = None,
        plugins: Mapping[str, Sequence[Path]] | None = None,
        heap_mb: int = 384,
        say: Say = say_on_stderr,
    ) -> None:
        """`worker` adds to the worker's properties and overrides them, for instance the converters.

        `plugins` are further connectors: the jars of each, by a name of your choice.
        """
        self.folder = folder
        self._bootstrap_servers = bootstrap_servers
        self._worker = dict(worker or {})
        self._plugins = dict(plugins or {})
        self._heap_mb = heap_mb
        self._say = say
        self._port = 0
        # No proxy of the environment stands between us and 127.0.0.1.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    @property
    def url(self) -> str:
        """Of its REST interface."""
        return f"http://{HOST}:{self._port}"

    def start(self, ports: list[int] | None = None) -> None:
        """Start it and wait until its REST interface answers; `ports` are tried before others."""
        jars = jar_paths("connect", self.folder, self._say)
        own, of_the_plugin = _parted(jars)
        shutil.rmtree(self.folder / "plugins", ignore_errors=True)
        for name, of_it in {"debezium-connector-postgres": of_the_plugin, **self._plugins}.items():
            plugin = self.folder / "plugins" / name
            plugin.mkdir(parents=True)
            for jar in of_it:
                (plugin / jar.name).symlink_to(jar)
        log = self.folder / "connect.log"

        def start(ports: list[int]) -> Process:
            self._port = ports[0]
            properties = write_properties(self.folder / "worker.properties", self._properties())
            main_class = "org.apache.kafka.connect.cli.ConnectStandalone"
            command = java_command(own, main_class, properties, heap_mb=self._heap_mb)
            self._process = Process(self.name, command, log, folder=self.folder)
            self._process.start()
            return self._process

        start_on_free_ports(ports or free_ports(1), start, self._answers, READY_WITHIN_S)

    def start_connector(self, name: str, config: Mapping[str, object]) -> None:
        """Start a connector, or give it another configuration, and wait until it and its task are RUNNING.

        Raises:
            StackError: Connect refuses it (and says why), or it fails.
        """
        settings = {key: _text(value) for key, value in config.items()}
        try:
            self._request("PUT", f"/connectors/{name}/config", settings)
        except StackError as err:
            raise StackError("; ".join(self._complaints(settings)) or str(err)) from err
        what = f"runs the connector {name}"
        self.process.wait_until(lambda: self.connector_is_running(name), CONNECTOR_WITHIN_S, what)

    def stop_connector(self, name: str) -> None:
        """Remove a connector; it may be started again and goes on where it was."""
        self._request("DELETE", f"/connectors/{name}")

    def connector_is_running(self, name: str) -> bool:
        """Whether the connector and its task run.

        Raises:
            StackError: one of them has failed; the text holds its stack trace's head.
        """
        status = self._request("GET", f"/connectors/{name}/status", or_none_for=404)
        parts = [status["connector"], *status["tasks"]] if status else []
        for part in parts:
            if part["state"] == "FAILED":
                raise StackError(f"the connector {name} failed: {part.get('trace', '')[:2000]}")
        # The connector itself and at least one task.
        return len(parts) > 1 and all(part["state"] == "RUNNING" for part in parts)

    def _complaints(self, settings: Mapping[str, str]) -> list[str]:
        """What is wrong with a configuration. A refusal does not say: Connect 4.3 stumbles over its own answer."""
        plugin = settings.get("connector.class", "none").rpartition(".")[2]
        answer = self._request(
            "PUT", f"/connector-plugins/{plugin}/config/validate", settings, or_none_for=404
        )
        values = [setting["value"] for setting in answer["configs"] if setting["value"]] if answer else []
        return [f"{value['name']}: {error}" for value in values for error in value["errors"]]

    def _answers(self) -> bool:
        if not accepts_connections(self._port):
            return False
        try:
            return isinstance(self._request("GET", "/connectors", timeout_s=PROBE_TIMEOUT_S), list)
        except StackError:
            return False

    def _properties(self) -> dict[str, object]:
        return {
            "bootstrap.servers": self._bootstrap_servers,
            **JSON_WITH_SCHEMAS,
            "listeners": self.url,
            "rest.advertised.host.name": HOST,
            # Both relative to the process's folder: the plugin path is a list, and splits at commas.
            "plugin.path": "plugins",
            "offset.storage.file.filename": "offsets",
            "offset.flush.interval.ms": 1000,
            # A scan of every class costs two seconds and 350 MB, and finds the same.
            "plugin.discovery": "service_load",
            **self._worker,
        }

    def _request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        or_none_for: int | None = None,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> Any:
        request = urllib.request.Request(  # noqa: S310 (always http, always our own worker)
            self.url + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
            method=method,
        )
        try:
            with self._opener.open(request, timeout=timeout_s) as response:
                answer = response.read()
        except urllib.error.HTTPError as err:
            if err.code == or_none_for:
                return None
            raise StackError(f"Kafka Connect refuses {method} {path}: {err.read().decode()}") from err
        except OSError as err:
            raise StackError(f"Kafka Connect does not answer {method} {path}: {err}") from err
        return json.loads(answer) if answer else None


def debezium_config(postgres: Postgres, topic_prefix: str, **more: object) -> dict[str, object]:
    """The configuration of a Debezium connector that reads our PostgreSQL; `more` adds to it (dots as `__`)."""
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",
        "database.hostname": HOST,
        "database.port": postgres.port,
        "database.user": postgres.user,
        "database.password": postgres.password,
        "database.dbname": postgres.database,
        "topic.prefix": topic_prefix,
        **{key.replace("__", "."): value for key, value in more.items()},
    }


def _parted(jars: list[Path]) -> tuple[list[Path], list[Path]]:
    """The worker's jars, and the connector's."""
    plugin = [jar for jar in jars if jar.name.startswith(OF_THE_PLUGIN)]
    return [jar for jar in jars if jar not in plugin], plugin


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
