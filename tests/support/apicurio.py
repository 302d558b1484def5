"""A real Apicurio registry, with its Confluent API and its own; what it knows is in a file, and is there after a restart."""

import json
from pathlib import Path
from typing import Any

import requests

from isotherm.demo.stack import find_java, jar_paths
from isotherm.demo.stack.kafka import JVM_OPTIONS
from isotherm.demo.stack.ports import HOST, free_ports, start_on_free_ports
from isotherm.demo.stack.process import Process, Server
from support.unpacked import unpacked

READY_WITHIN_S = 120
HEAP_MB = 192
JSON = {"Content-Type": "application/vnd.schemaregistry.v1+json"}


class Apicurio(Server):
    """The server."""

    name = "Apicurio Registry"

    def __init__(self, folder: Path, cache: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        (archive,) = jar_paths("registry", folder)
        self._program = unpacked(archive, cache)
        self._ports = free_ports(2)

    @property
    def _root(self) -> str:
        return f"http://{HOST}:{self._ports[0]}/apis"

    @property
    def url(self) -> str:
        """What `registry.url` is to say."""
        return f"{self._root}/ccompat/v7"

    def start(self) -> None:
        """Start it, or start it again; it keeps its address, unless somebody else has taken it meanwhile."""
        (jar,) = self._program.glob("*-runner.jar")
        options = [option.format(heap_mb=HEAP_MB) for option in JVM_OPTIONS if "simpleLogger" not in option]

        def start(ports: list[int]) -> Process:
            self._ports = ports
            settings = {
                "quarkus.http.host": HOST,
                "quarkus.http.port": ports[0],
                "quarkus.management.host": HOST,
                "quarkus.management.port": ports[1],
                "apicurio.datasource.url": f"jdbc:h2:file:{self.folder / 'registry'}",
            }
            said = [f"-D{name}={value}" for name, value in settings.items()]
            command = [find_java(), *options, *said, "-jar", jar]
            self._process = Process(self.name, command, self.folder / "registry.log", folder=self._program)
            self._process.start()
            return self._process

        start_on_free_ports(self._ports, start, self._answers, READY_WITHIN_S)

    def register(self, subject: str, schema: dict[str, Any]) -> int:
        """Register a schema by Confluent's API; gives the id of its content."""
        body = json.dumps({"schema": json.dumps(schema)})
        answer = requests.post(f"{self.url}/subjects/{subject}/versions", body, headers=JSON, timeout=30)
        answer.raise_for_status()
        number: int = answer.json()["id"]
        return number

    def global_id(self, subject: str) -> int:
        """Apicurio's own id of the newest version of a subject."""
        path = f"{self._root}/registry/v3/groups/default/artifacts/{subject}/versions"
        answer = requests.get(path, timeout=30)
        answer.raise_for_status()
        number: int = answer.json()["versions"][-1]["globalId"]
        return number

    def _answers(self) -> bool:
        try:
            return requests.get(f"{self.url}/subjects", timeout=2).status_code == requests.codes.ok
        except requests.RequestException:
            return False
