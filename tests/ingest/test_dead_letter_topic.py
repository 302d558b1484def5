"""What a topic of dead letters does not take for its size is told without its body; all else goes there whole."""

import hashlib
import json
import random

import pyarrow as pa
import pytest

from isotherm_ingest.dead_letter_topic import MAX_PROBLEM, DeadLetters, problem_of
from isotherm_ingest.job import prepare_topics
from isotherm_ingest.kafka import Broker
from isotherm_ingest.metrics import Metrics
from isotherm_ingest.streams import Stream, StreamsConfig
from support.ingest_lab import read_topic
from support.messages import Broker as MemoryBroker
from support.messages import Session

THEN = 1_704_067_200_000


def row(offset, value, key=b"k", **more):
    return {
        "key": key, "value": value, "headers": '[{"key":"trace","value":"AA=="},{"key":"empty"}]', "timestamp": THEN, "topic": "shop",
        "partition": 3, "offset": offset, "problem": "undecodable_value:at", **more,
    }  # fmt: skip


@pytest.fixture
def broker(kafka):
    return Broker({"bootstrap.servers": kafka.bootstrap_servers})


@pytest.mark.stack
def test_a_message_that_is_too_large_is_told_without_its_body(kafka, broker):
    kafka.create_topic("small-letters", 1, {"max.message.bytes": "2000"})
    large = random.Random(7).randbytes(10_000)  # what compresses well is not large
    rows = [row(0, b"a"), row(1, large), row(2, None), row(3, large, key=large), row(4, b"b")]
    metrics = Metrics()

    assert DeadLetters(broker, "small-letters", "p", metrics).send([pa.Table.from_pylist(rows)]) == 5
    letters = {int(one.headers["isotherm.offset"]): one for one in read_topic(kafka, "small-letters")}
    assert {0: b"a", 1: None, 2: None, 3: None, 4: b"b"} == {at: one.value for at, one in letters.items()}
    assert (letters[0].headers["trace"], letters[0].headers["empty"]) == (b"\x00", None)
    for place in (1, 3):
        headers = letters[place].headers
        assert headers["isotherm.value_bytes"] == str(len(large)).encode()
        assert headers["isotherm.value_sha256"] == hashlib.sha256(large).hexdigest().encode()
        assert headers["isotherm.error"] == b"undecodable_value:at"
        assert (headers["isotherm.topic"], headers["isotherm.partition"]) == (b"shop", b"3")
    assert metrics.registry.get_sample_value(
        "isotherm_ingest_dead_letters_total", {"reason": "undecodable_value"}
    ) == len(rows)


@pytest.mark.stack
def test_what_is_larger_than_the_client_sends_is_told_too(kafka, broker):
    kafka.create_topic("letters", 1)

    assert (
        DeadLetters(broker, "letters", "p", Metrics()).send(
            [pa.Table.from_pylist([row(7, bytes(51_000_000))])]
        )
        == 1
    )
    (letter,) = read_topic(kafka, "letters")
    assert (letter.value, letter.headers["isotherm.value_bytes"]) == (None, b"51000000")


@pytest.mark.stack
def test_the_topic_that_is_made_takes_what_debezium_sends(kafka, broker):
    """Debezium's users raise a source topic to some megabytes."""
    config = StreamsConfig(
        pipeline="p",
        catalog={},
        kafka={"properties": {"bootstrap.servers": kafka.bootstrap_servers}, "dead_letter_topic": "made-letters",
               "control_topic": "made-control"},
        streams=(Stream(topics="x", table="a.b"),),
    )  # fmt: skip
    prepare_topics(broker, config)
    large = bytes(5_000_000)

    assert (
        DeadLetters(broker, "made-letters", "p", Metrics()).send([pa.Table.from_pylist([row(0, large)])]) == 1
    )
    (letter,) = read_topic(kafka, "made-letters")
    assert letter.value == large


@pytest.mark.parametrize(
    "large",
    [
        {"value": b"x" * 2000},
        {"value": b"x" * 2000, "problem": f"unsupported_op:{'x' * 2000}"},
        {"headers": json.dumps([{"key": "isotherm.note", "value": "AAAA" * 500}])},
        # They have our names, and are no text.
        {
            "value": b"x" * 2000,
            "headers": '[{"key":"isotherm.topic","value":"/w=="},{"key":"isotherm.error"}]',
        },
    ],
    ids=["body", "problem", "header", "our names"],
)
def test_whatever_of_a_message_is_too_large_it_is_told(large):
    """It would be tried again for ever, and its table would stand."""
    broker = MemoryBroker(Session())
    broker.max_bytes = 1500
    rows = [row(0, b"a"), row(1, **{"value": b"b", **large}), row(2, b"c")]

    assert DeadLetters(broker, "letters", "p", Metrics()).send([pa.Table.from_pylist(rows)]) == 3
    told = {int(dict(one.headers)["isotherm.offset"]): one for one in broker.sent}
    assert [told[place].value for place in range(3)] == [b"a", None, b"c"]
    headers = dict(told[1].headers)
    assert (headers["isotherm.topic"], headers["isotherm.partition"]) == (b"shop", b"3")
    assert headers["isotherm.error"] == rows[1]["problem"][:MAX_PROBLEM].encode()
    assert {name.partition(".")[0] for name in headers} == {"isotherm"}
    assert "isotherm.note" not in headers


def test_a_problem_is_text_that_a_person_reads():
    assert problem_of("no_schema", "why") == "no_schema:why"
    assert problem_of("no_schema", "half of a pair: \ud800") == "no_schema:half of a pair: ?"
    assert len(problem_of("no_schema", "x" * 2000)) == MAX_PROBLEM
