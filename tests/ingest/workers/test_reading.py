"""Workers read exactly their ranges from a real broker, and say what is gone instead of reading on."""

import base64
import ctypes
import json

import confluent_kafka
import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from isotherm_ingest.kafka import Broker
from isotherm_ingest.workers.reading import ROWS, ReadError, damage_in, read, read_stage, reader_properties

pytestmark = pytest.mark.stack


@pytest.fixture
def properties(kafka):
    return reader_properties({"bootstrap.servers": kafka.bootstrap_servers}, "readers")


def send(kafka, topic, *records, **more):
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0, **more})
    for number, value in records:
        producer.produce(topic, partition=number, value=value)
    producer.flush()
    return producer


def found(batches):
    rows = [row for batch in batches for row in batch.to_pylist()]
    return {(row["topic"], row["partition"], row["offset"]): row["value"] for row in rows}


def test_exactly_the_ranges_are_read_whatever_else_is_there(kafka, properties):
    kafka.create_topic("reading.a", 3)
    kafka.create_topic("reading.b", 1)
    values = {(topic, number, offset): f"{topic}{number}{offset}".encode()
              for topic, numbers in (("reading.a", (0, 1, 2)), ("reading.b", (0,))) for number in numbers for offset in range(50)}  # fmt: skip
    for topic in ("reading.a", "reading.b"):
        send(kafka, topic, *((number, value) for (name, number, _), value in values.items() if name == topic))
    ranges = {("reading.a", 0): (10, 20), ("reading.a", 1): (0, 50), ("reading.b", 0): (49, 50), ("reading.a", 2): (7, 7)}  # fmt: skip

    expected = {(*one, offset) for one, (first, end) in ranges.items() for offset in range(first, end)}
    assert found(read(properties, ranges)) == {one: values[one] for one in expected}

    parts = [{("reading.a", 0): (0, 30)}, {("reading.a", 0): (30, 50), ("reading.b", 0): (0, 50)}]
    stage = read_stage(properties, parts, iter)
    numbers = pa.RecordBatch.from_pydict({"id": [0, 1]})
    assert len(found(stage([numbers]))) == 100
    assert len(found(stage([numbers.slice(1)]))) == 70


def test_a_message_comes_with_all_that_it_has(kafka, properties):
    kafka.create_topic("reading.whole", 1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    producer.produce("reading.whole", key=b"\xff\0", value=None, timestamp=1_704_067_200_123)
    headers = [("trace", b"\0\xff"), ("empty", b""), ("none", None)]
    producer.produce("reading.whole", key=None, value=b"", headers=headers)
    producer.flush()

    tombstone, other = (
        row for batch in read(properties, {("reading.whole", 0): (0, 2)}) for row in batch.to_pylist()
    )
    assert (tombstone["key"], tombstone["value"], tombstone["headers"]) == (b"\xff\0", None, None)
    assert tombstone["timestamp"] == 1_704_067_200_123
    assert (other["key"], other["value"]) == (None, b"")
    assert json.loads(other["headers"]) == [
        {"key": "trace", "value": base64.b64encode(b"\0\xff").decode()}, {"key": "empty", "value": ""}, {"key": "none"},
    ]  # fmt: skip


def test_a_message_with_a_header_whose_name_is_no_text_comes_without_its_headers(kafka, properties):
    kafka.create_topic("reading.names", 1)
    many = 100  # Python calls a method otherwise that is called often
    send_with_header(kafka, b"reading.names", b"\xff\xfe", many)
    send_with_header(kafka, b"reading.names", b"name", 1)

    *bad, good = (
        row["headers"]
        for batch in read(properties, {("reading.names", 0): (0, many + 1)})
        for row in batch.to_pylist()
    )
    assert bad == [None] * many
    assert json.loads(good) == [{"key": "name", "value": "AA=="}]


def send_with_header(kafka, topic, name, count):
    """By librdkafka itself, which takes any bytes as a name."""
    library = ctypes.CDLL(confluent_kafka.cimpl.__file__)
    library.rd_kafka_conf_new.restype = library.rd_kafka_new.restype = ctypes.c_void_p
    library.rd_kafka_producev.restype = ctypes.c_int
    conf = ctypes.c_void_p(library.rd_kafka_conf_new())
    assert (
        library.rd_kafka_conf_set(conf, b"bootstrap.servers", kafka.bootstrap_servers.encode(), None, 0) == 0
    )
    producer = ctypes.c_void_p(library.rd_kafka_new(0, conf, None, 0))
    topic, name, value = (ctypes.c_char_p(one) for one in (topic, name, b"\0"))
    for _ in range(count):
        # rd_kafka_vtype_t: a topic, a header, and the end.
        assert library.rd_kafka_producev(producer, 1, topic, 9, name, value, ctypes.c_ssize_t(1), 0) == 0
    assert library.rd_kafka_flush(producer, 30_000) == 0
    library.rd_kafka_destroy(producer)


def test_what_was_aborted_is_left_out_and_a_range_may_end_with_the_marker_of_a_transaction(kafka, properties):
    kafka.create_topic("reading.atomic", 1)
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0, "transactional.id": "reading"}
    )
    producer.init_transactions()
    for number in range(4):
        producer.begin_transaction()
        producer.produce("reading.atomic", value=str(number).encode(), partition=0)
        producer.flush()
        producer.abort_transaction() if number == 2 else producer.commit_transaction()

    whole = {("reading.atomic", 0): (0, 8)}
    assert sorted(found(read(properties, whole)).values()) == [b"0", b"1", b"3"]
    only_aborted = {("reading.atomic", 0): (4, 6)}
    assert found(read(properties, only_aborted)) == {}


def test_many_messages_come_in_batches_of_some_size(kafka, properties):
    kafka.create_topic("reading.many", 1)
    send(kafka, "reading.many", *((0, b"x" * 100) for _ in range(ROWS + 1)))
    large = {"message.max.bytes": 20_000_000}
    kafka.create_topic("reading.large", 1, {"max.message.bytes": "20000000"})
    send(kafka, "reading.large", *((0, bytes(12_000_000)) for _ in range(4)), **large)

    sizes = [batch.num_rows for batch in read(properties, {("reading.many", 0): (0, ROWS + 1)})]
    assert sizes == [ROWS, 1]
    assert [batch.num_rows for batch in read(properties, {("reading.large", 0): (0, 4)})] == [2, 2]


def test_what_kafka_does_not_hold_is_an_error_that_names_it(kafka, properties):
    kafka.create_topic("reading.gone", 1)
    send(kafka, "reading.gone", *((0, b"x") for _ in range(10)))
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    (future,) = admin.delete_records([TopicPartition("reading.gone", 0, 5)]).values()
    future.result(30)

    with pytest.raises(ReadError, match=r"reading.gone/0: .*out of range"):
        list(read(properties, {("reading.gone", 0): (4, 10)}))
    with pytest.raises(ReadError, match=r"reading.gone/0 ends at 10, before 11: nothing came for 0.5 s"):
        list(read(properties, {("reading.gone", 0): (5, 11)}, 0.5))
    with pytest.raises(ReadError, match=r"reading.nowhere/0 was not read: .*[Uu]nknown topic"):
        list(read(properties, {("reading.nowhere", 0): (0, 1)}))
    assert len(found(read(properties, {("reading.gone", 0): (5, 10)}))) == 5


def test_a_broker_that_does_not_answer_is_said():
    nobody = reader_properties({"bootstrap.servers": "127.0.0.1:1"}, "readers")

    with pytest.raises(ReadError, match=r"x/0 was not read: .*[Cc]onnect"):
        list(read(nobody, {("x", 0): (0, 1)}, 1))


@pytest.mark.parametrize("records", [1, 5])
def test_messages_that_nobody_can_unpack_are_named_and_what_is_beside_them_is_read(
    kafka, properties, records
):
    """Four kilobytes that unpack to 120 MB, between good messages."""
    topic = f"reading.packed{records}"
    kafka.create_topic(topic, 1)
    sizes = {
        "message.max.bytes": 1_000_000_000,
        "batch.size": 900_000_000,
        "queue.buffering.max.kbytes": 2_000_000,
        "compression.type": "zstd",
        "linger.ms": 1000,
    }
    for part in ([b"first"], [bytes(120 * 2**20 // records)] * records, [b"last", b"end"]):
        send(kafka, topic, *((0, value) for value in part), **sizes)
    position, end = (topic, 0), records + 3

    with pytest.raises(ReadError, match=r"no client can unpack") as raised:
        list(read(properties, {position: (0, end)}))
    broker = Broker({"bootstrap.servers": kafka.bootstrap_servers})
    assert damage_in(raised.value) == (position, 1)
    assert broker.first_readable(position, 1, end) == records + 1
    assert broker.first_readable(position, 0, end) == 0
    assert broker.first_readable(position, 1, records + 1) == records + 1
    assert list(found(read(properties, {position: (0, 1)})).values()) == [b"first"]
    assert list(found(read(properties, {position: (records + 1, end)})).values()) == [b"last", b"end"]
