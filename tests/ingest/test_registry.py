"""The registry is asked once for each id; one that is away is waited for, and one that lies is told from one that is away."""

import json
import socket
import threading
import time
from contextlib import suppress

import pytest
from structlog.testing import capture_logs

from isotherm_ingest import registry as module
from isotherm_ingest.decode.kinds import SchemaError
from isotherm_ingest.registry import (
    FORGOTTEN_AFTER_S,
    UNKNOWN_FOR_S,
    NotKnownYetError,
    Registry,
    RegistryAwayError,
    StillUnknownError,
    TooSlowError,
)
from isotherm_ingest.stream_formats import RegistryConfig
from support.avro import ENVELOPE
from support.fake_registry import FakeRegistry


class Client:
    """A client of a registry, and its time."""

    def __init__(self, server, **config):
        self.now_s = 1_000.0
        self.registry = Registry(RegistryConfig(url=server.url, **config), lambda: self.now_s)

    def schema(self, number):
        return self.registry.schema(number)


@pytest.fixture
def server():
    made = FakeRegistry()
    yield made
    made.close()


def test_a_schema_is_asked_for_once(server):
    number = server.add(ENVELOPE)
    client = Client(server)

    assert [json.loads(client.schema(number)) for _ in range(3)] == [ENVELOPE] * 3
    assert server.asked == ["/apis/ccompat/v7/schemas/ids/1"]
    assert server.logins == [""]


def test_it_is_asked_with_a_login_that_nothing_shows(server):
    number = server.add(ENVELOPE)
    client = Client(server, username="me", password="s3cret")  # noqa: S106 (of a test)
    server.trouble = 500, b"me:s3cret"
    with capture_logs() as told, pytest.raises(RegistryAwayError) as away:
        client.schema(number)

    assert server.logins == ["me:s3cret"]
    shown = repr(RegistryConfig(url=server.url, password="s3cret"))  # noqa: S106 (as above)
    assert "s3cret" not in str(away.value) + str(told) + shown


def test_without_a_login_none_is_sent(server, tmp_path, monkeypatch):
    netrc = tmp_path / ".netrc"
    netrc.write_text("machine 127.0.0.1 login other password s3cret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    Client(server).schema(server.add(ENVELOPE))

    assert server.logins == [""]


@pytest.mark.parametrize(
    "trouble",
    [
        (500, b'{"error_code":50001}'), (503, b""), (401, b"{}"), (403, b"no"), (429, b""), (302, b""), (404, b"<html>"),
        (404, b'{"error_code":404}'), (404, b'{"error_code":40401,"message":"Subject not found"}'), (200, b"<html>"), (200, b"[]"),
        (200, b'{"schema":7}'), (200, b"{}"), (200, b"[" * 100_000),
    ],
    ids=str,
)  # fmt: skip
def test_who_does_not_answer_as_a_registry_is_away_and_asked_again(server, trouble):
    number = server.add(ENVELOPE)
    client = Client(server)
    server.trouble = trouble
    for _ in range(3):
        with pytest.raises(RegistryAwayError):
            client.schema(number)
        client.now_s += UNKNOWN_FOR_S
    server.trouble = None

    assert json.loads(client.schema(number)) == ENVELOPE


def test_who_is_silent_or_not_there_is_away(server, monkeypatch):
    monkeypatch.setattr(module, "TIMEOUT_S", 0.1)
    server.trouble = "silence"
    with pytest.raises(RegistryAwayError, match="no answer from the registry"):
        Client(server).schema(1)
    nobody = Registry(RegistryConfig(url="http://127.0.0.1:1"))
    with pytest.raises(RegistryAwayError, match="no answer from the registry"):
        nobody.schema(1)


def test_a_registry_that_is_silent_takes_the_time_of_one_request_for_all_that_ask(server, monkeypatch):
    """The driver asks for each of twenty topics, with one thread."""
    monkeypatch.setattr(module, "TIMEOUT_S", 0.1)
    number = server.add(ENVELOPE)
    client = Client(server)
    server.trouble = "silence"
    for _ in range(20):
        with pytest.raises(RegistryAwayError):
            client.schema(number)
    assert len(server.asked) == 1

    server.trouble = None
    with pytest.raises(RegistryAwayError, match="asked again in 15 s"):
        client.schema(number)
    client.now_s += module.SILENT_FOR_S
    assert json.loads(client.schema(number)) == ENVELOPE


def test_one_that_answers_with_an_error_is_asked_for_what_others_want(server):
    """It costs no time, and the error may be of one schema."""
    client = Client(server)
    server.trouble = 500, b""
    for _ in range(3):
        with pytest.raises(RegistryAwayError):
            client.schema(1)

    assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n", b" "),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"x"),
    ],
    ids=["body", "chunks", "header"],
)
def test_an_answer_that_trickles_in_is_given_up(head, piece, monkeypatch):
    """A time-out of requests begins again with each byte."""
    monkeypatch.setattr(module, "TIMEOUT_S", 0.2)
    given_up = threading.Event()

    def trickle():
        connection, _ = server.accept()
        with connection, suppress(OSError):
            connection.recv(4096)
            connection.sendall(head)
            while not given_up.wait(0.05):
                connection.sendall(piece)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=trickle, daemon=True).start()
        config = RegistryConfig(url=f"http://127.0.0.1:{server.getsockname()[1]}")
        begun_s = time.monotonic()
        with pytest.raises(RegistryAwayError, match=r"NotWholeError|ConnectionError"):
            Registry(config).schema(1)
        assert time.monotonic() - begun_s < 5
        given_up.set()


def test_an_answer_without_end_is_given_up(server, monkeypatch):
    monkeypatch.setattr(module, "MAX_BYTES", 1000)
    with pytest.raises(RegistryAwayError, match="is too long"):
        Client(server).schema(server.add('"' + "x" * 200_000 + '"'))


def test_an_id_that_is_unknown_is_waited_for_a_while(server):
    """It may be known elsewhere already."""
    client = Client(server)
    for _ in range(2):
        with pytest.raises(RegistryAwayError, match="does not know schema 1; its messages wait"):
            client.schema(1)
        client.now_s += UNKNOWN_FOR_S / 2 - 1
    with pytest.raises(RegistryAwayError, match="wait 2 s more for it"):
        client.schema(1)
    client.now_s += 2
    with pytest.raises(SchemaError, match="the registry has not known schema 1 for 300 s"):
        client.schema(1)

    server.add(ENVELOPE)
    assert json.loads(client.schema(1)) == ENVELOPE


def test_an_id_that_was_wanted_long_ago_has_its_time_again(server):
    """A stray message had it days before the registry gave it, whose replica is a second behind now."""
    client = Client(server)
    for _ in range(2):
        with suppress(RegistryAwayError, StillUnknownError):
            client.schema(1)
        client.now_s += UNKNOWN_FOR_S
    with pytest.raises(StillUnknownError):  # wanted all the time
        client.schema(1)
    client.now_s += FORGOTTEN_AFTER_S - 1
    with pytest.raises(StillUnknownError):
        client.schema(1)
    client.now_s += FORGOTTEN_AFTER_S
    with pytest.raises(NotKnownYetError, match="wait 300 s more for it"):
        client.schema(1)


def test_very_many_unknown_ids_forget_none_that_is_wanted_now(server, monkeypatch):
    monkeypatch.setattr(module, "MAX_UNKNOWN", 3)
    client = Client(server)
    for number in (1, 2, 3, 1, 4):  # 2 is the one that nobody wanted for the longest time
        with pytest.raises(NotKnownYetError):
            client.schema(number)
    client.now_s += UNKNOWN_FOR_S
    for number in (4, 3, 1):
        with pytest.raises(StillUnknownError):
            client.schema(number)
    with pytest.raises(NotKnownYetError):
        client.schema(2)


class SlowRegistry(FakeRegistry):
    """One that answers after some seconds of a client's time."""

    seconds, client = 4.9, None

    def answer(self, request):
        self.client.now_s += self.seconds
        super().answer(request)


@pytest.fixture
def slow():
    made = SlowRegistry()
    made.client = Client(made)
    yield made
    made.close()


def test_a_registry_that_answers_slowly_takes_a_share_of_the_time_and_not_all_of_it(slow):
    """The driver's one thread waits for it, and all topics with it."""
    client = slow.client
    spent_s = 0.0
    for turn in range(60):
        begun_s = client.now_s
        raised = set()
        for number in range(100):
            try:
                client.schema(number)
            except (RegistryAwayError, SchemaError) as err:
                raised.add(type(err))
        spent_s += client.now_s - begun_s

        assert TooSlowError in raised
        assert client.now_s - begun_s <= (10 if turn else 30)
        client.now_s += 15
    assert spent_s < 0.35 * (client.now_s - 1_000)

    slow.seconds = 0.1
    client.now_s += 120
    asked = len(slow.asked)
    for number in range(100):
        with pytest.raises((NotKnownYetError, StillUnknownError)):
            client.schema(number)
    assert len(slow.asked) == asked + 100


NOT_AN_ID = 404, b'{"error_code":404,"message":"HTTP 404 Not Found"}'
"""Confluent's answer to an id that is no Java int."""


def test_an_id_beyond_those_that_a_registry_gives_is_unknown_without_asking(server):
    server.trouble = NOT_AN_ID
    with pytest.raises(SchemaError, match="no registry gives a schema the id 4294967295"):
        Client(server).schema(2**32 - 1)

    assert server.asked == []


def test_elsewhere_a_large_id_waits_as_any_that_is_unknown(server):
    """Apicurio's own ids have 64 bits. Of a small one such an answer is a wrong address."""
    client = Client(server, framing="eight-bytes")
    server.trouble = NOT_AN_ID
    for _ in range(2):
        with pytest.raises(RegistryAwayError):
            client.schema(1)
        client.now_s += UNKNOWN_FOR_S
    with pytest.raises(RegistryAwayError, match="wait 300 s more for it"):
        client.schema(2**31)
    client.now_s += UNKNOWN_FOR_S
    with pytest.raises(SchemaError, match="has not known schema 2147483648"):
        client.schema(2**31)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"schemaType": "PROTOBUF"}, "no Avro, but PROTOBUF"),
        ({"references": [{"name": "a"}]}, "refers to others"),
    ],
)
def test_what_is_no_avro_by_itself_is_refused(server, more, why):
    with pytest.raises(SchemaError, match=why):
        Client(server).schema(server.add(ENVELOPE, **more))


# Global ids of Apicurio


def test_a_global_id_is_asked_for_by_apicurios_own_api(server):
    """Another schema may have the same number as its content's."""
    other = server.add({"type": "record", "name": "Other", "fields": []})
    server.contents[other] = json.dumps(ENVELOPE).encode()
    client = Client(server, framing="headers")

    assert json.loads(client.schema(-other)) == ENVELOPE
    assert server.asked == [f"/apis/registry/v2/ids/globalIds/{other}"]


def test_where_the_address_does_not_tell_where_that_is_confluents_api_is_asked(server):
    number = server.add(ENVELOPE)
    config = RegistryConfig(url=server.url, framing="headers")
    elsewhere = config.model_copy(update={"url": server.url.replace("/apis/ccompat/v7", "")})
    with pytest.raises(RegistryAwayError):
        Registry(elsewhere).schema(-number)  # the fake has no such path

    assert server.asked == ["/schemas/ids/1"]


@pytest.mark.parametrize("number", [-9, -(2**63)])
def test_a_global_id_that_is_unknown_is_waited_for_a_while(server, number):
    client = Client(server, framing="headers")
    with pytest.raises(NotKnownYetError, match=f"the global id {-number}; its messages wait 300 s"):
        client.schema(number)
    client.now_s += UNKNOWN_FOR_S

    with pytest.raises(SchemaError, match=f"the global id {-number} for 300 s"):
        client.schema(number)


def test_a_global_id_that_is_garbage_is_unknown_whatever_the_404_says(server):
    server.trouble = 404, b""
    with pytest.raises(NotKnownYetError):
        Client(server, framing="headers").schema(-(2**64))


@pytest.mark.parametrize(
    ("trouble", "error"),
    [
        ((200, b"<html>"), RegistryAwayError),
        ((200, b'syntax = "proto3";'), SchemaError),
        ((200, b"5"), SchemaError),
        ((404, b'{"error_code":404}'), RegistryAwayError),
        ((503, b'"string"'), RegistryAwayError),
    ],
    ids=str,
)
def test_what_is_no_schema_is_told_from_no_answer(server, trouble, error):
    server.trouble = trouble
    with pytest.raises(error):
        Client(server, framing="headers").schema(-1)
