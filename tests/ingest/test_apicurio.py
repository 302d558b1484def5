"""A real Apicurio registry: schemas are registered by its Confluent API, and ingest reads messages of each framing."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from isotherm_ingest import registry as module
from support.apicurio import Apicurio
from support.avro import KEY, change, envelope_of, written
from support.changes import latest
from support.ingest_lab import Lab

pytestmark = [pytest.mark.spark, pytest.mark.stack]

STREAMS = r"""
  - {topics: "NS\\.public\\.orders", table: "NS.{table}", format: avro}
registry: {url: "URL", framing: FRAMING}
"""
COLUMNS = [
    {"name": "id", "type": "long"},
    {"name": "name", "type": ["null", "string"], "default": None},
]
ENVELOPE = envelope_of(COLUMNS)
LATER = envelope_of([*COLUMNS, {"name": "note", "type": ["null", "string"], "default": None}])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Apicurio]:
    made = Apicurio(
        tmp_path_factory.mktemp("a registry"), pytestconfig.rootpath / ".pytest_cache" / "apicurio"
    )
    made.start()
    yield made
    made.stop()


class Ids(NamedTuple):
    key: int
    value: int
    later: int


class Framing(NamedTuple):
    """How a message says its schemas: where, and by which ids."""

    name: str
    size: int = 0
    header: str = ""

    @property
    def is_global(self) -> bool:
        return self.header == "globalId"

    def put(self, number: int, body: bytes) -> bytes:
        return b"\0" + number.to_bytes(self.size) + body if self.size else body

    def headers(self, key: int, value: int) -> list[tuple[str, bytes]]:
        said = {"key": key, "value": value} if self.header else {}
        return [(f"apicurio.{what}.{self.header}", number.to_bytes(8)) for what, number in said.items()]


FRAMINGS = [
    Framing("confluent", size=4),
    Framing("eight-bytes", size=8),
    Framing("headers", header="contentId"),
    Framing("headers", header="globalId"),
]


class Producer:
    """Sends changes to a lab's topic, and knows the rows that are left."""

    def __init__(self, lab: Lab, framing: Framing, ids: Ids) -> None:
        self.lab, self.framing, self.ids = lab, framing, ids
        self.rows: dict[int, dict[str, Any]] = {}

    def send(self, op: str, number: int, *, schema: Any = ENVELOPE, **row: Any) -> None:
        value = self.ids.value if schema is ENVELOPE else self.ids.later
        before, after = self.rows.pop(number, None), None
        if op != "d":
            after = self.rows[number] = {"id": number, **row}
        key = self.framing.put(self.ids.key, written(KEY, {"id": number}))
        body = self.framing.put(value, written(schema, change(op, before, after)))
        self.lab.send("orders", (key, body), headers=self.framing.headers(self.ids.key, value))


@pytest.fixture
def ids(server: Apicurio, request: pytest.FixtureRequest) -> tuple[Ids, Ids]:
    """Of the contents, and of the versions. Each content is there twice, so that the two are other numbers."""
    subjects = {"key": KEY, "value": ENVELOPE, "later": LATER}
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    of_contents, of_versions = [], []
    for what, schema in subjects.items():
        server.register(f"{name}-{what}", schema)
        of_contents.append(server.register(f"{name}-again-{what}", schema))
        of_versions.append(server.global_id(f"{name}-again-{what}"))
    assert not set(of_contents) & set(of_versions)
    return Ids(*of_contents), Ids(*of_versions)


def lab_of(kafka: Any, spark: Any, lake_folder: Any, server: Apicurio, framing: Framing) -> Lab:
    lab = Lab(kafka, spark, lake_folder, STREAMS.replace("URL", server.url).replace("FRAMING", framing.name))
    lab.make_topics("orders")
    return lab


@pytest.mark.parametrize("framing", FRAMINGS, ids=["4 bytes", "8 bytes", "content ids", "global ids"])
def test_messages_of_each_framing_become_the_rows_of_their_source(
    kafka: Any, spark: Any, lake_folder: Any, server: Apicurio, ids: tuple[Ids, Ids], framing: Framing
) -> None:
    lab = lab_of(kafka, spark, lake_folder, server, framing)
    try:
        source = Producer(lab, framing, ids[framing.is_global])
        for number in range(20):
            source.send("c", number, name=f"n{number}")
        for number in range(0, 20, 3):
            source.send("u", number, name=None)
        for number in range(0, 20, 4):
            source.send("d", number)
        lab.ingest()
        assert latest(lab.rows("orders")) == latest(source.rows.values())

        source.send("c", 50, schema=LATER, name="later", note="new")
        lab.ingest()
        rows = [{"note": None, **row} for row in source.rows.values()]
        assert latest(lab.rows("orders")) == latest(rows)
        assert lab.dead() == []
    finally:
        lab.close()


def test_an_id_that_the_registry_does_not_know_waits_and_is_then_a_dead_letter(
    kafka: Any,
    spark: Any,
    lake_folder: Any,
    server: Apicurio,
    ids: tuple[Ids, Ids],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    framing = FRAMINGS[0]
    lab = lab_of(kafka, spark, lake_folder, server, framing)
    try:
        source = Producer(lab, framing, ids[0])
        source.send("c", 1, name="one")
        lab.ingest()
        unknown = framing.put(987_654, b"\0")
        lab.send("orders", (None, unknown))
        source.send("c", 2, name="two")
        lab.ingest()
        assert latest(lab.rows("orders")) == latest([source.rows[1]])
        assert lab.dead() == []

        monkeypatch.setattr(module, "UNKNOWN_FOR_S", 0.0)
        lab.again()
        lab.ingest()
        assert latest(lab.rows("orders")) == latest(source.rows.values())
        assert [(one.value, one.headers["isotherm.reason"]) for one in lab.dead()] == [
            (unknown, b"no_schema")
        ]
    finally:
        lab.close()


def test_a_registry_that_is_gone_for_a_while_costs_no_message(
    kafka: Any, spark: Any, lake_folder: Any, server: Apicurio, ids: tuple[Ids, Ids]
) -> None:
    """Schemas that are known are used meanwhile; what has another one waits, and nothing is a dead letter."""
    framing = FRAMINGS[0]
    lab = lab_of(kafka, spark, lake_folder, server, framing)
    try:
        source = Producer(lab, framing, ids[0])
        source.send("c", 1, name="one")
        lab.ingest()
        server.stop()
        source.send("c", 2, name="two")
        lab.ingest()
        assert latest(lab.rows("orders")) == latest(source.rows.values())

        source.send("c", 3, schema=LATER, name="three", note="waits")
        lab.ingest()
        assert latest(lab.rows("orders")) == latest([source.rows[1], source.rows[2]])

        address = server.url
        server.start()
        assert server.url == address  # it is what streams.yaml says
        lab.again()
        lab.ingest()
        rows = [{"note": None, **row} for row in source.rows.values()]
        assert latest(lab.rows("orders")) == latest(rows)
        assert lab.dead() == []
    finally:
        lab.close()
