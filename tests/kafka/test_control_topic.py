"""The control topic on a real broker: the contract, the partitioner, rebalances, replay, offsets out of range."""

import uuid

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from isotherm.contract.events import PartitionChange, decode
from isotherm.kafka.broker import ensure_topic, partition_of
from isotherm.kafka.control_topic import BATCH_BYTES, CHUNK, DRAIN_BYTES, KafkaEvents
from isotherm.kafka.topic_look import TopicLook
from isotherm.service.ports import Unavailable
from support.contracts.events import EventSourceContract, event

pytestmark = pytest.mark.stack


@pytest.fixture
def properties(kafka):
    return {"bootstrap.servers": kafka.bootstrap_servers, "session.timeout.ms": 6000}


@pytest.fixture
def topic(properties):
    name = f"control-{uuid.uuid4()}"
    ensure_topic(properties, name, partitions=1)
    return name


@pytest.fixture
def member(properties, topic):
    opened = []

    def open_member(replay_ms=0, group="daemons"):
        source = KafkaEvents(properties, topic, f"{group}-{topic}", replay_ms)
        opened.append(source)
        return source

    yield open_member
    for source in opened:
        source.close()


class TestKafkaEvents(EventSourceContract):
    @pytest.fixture
    def open_source(self, member):
        return member


def poll_until(sources, condition):
    """Poll each source until the condition holds; bounded."""
    for _ in range(150):
        for source in sources:
            source.poll(0.1)
        if condition():
            return
    raise AssertionError("it never came")


def test_a_table_lands_where_the_partitioner_of_the_jvm_puts_it(properties):
    name = f"wide-{uuid.uuid4()}"
    ensure_topic(properties, name, partitions=7)
    source = KafkaEvents(properties, name, f"g-{name}", 0)
    uuids = [str(uuid.uuid4()) for _ in range(20)]
    for number, table in enumerate(uuids):
        source.publish(event(number, table))
    found = {}
    consumer = Consumer({**properties, "group.id": f"look-{name}", "auto.offset.reset": "earliest"})
    consumer.subscribe([name])
    for _ in range(100):
        for message in consumer.consume(100, 0.2):
            found[message.key().decode()] = message.partition()
        if len(found) == 20:
            break
    consumer.close()

    assert found == {table: partition_of(table, 7) for table in uuids}
    source.close()


def test_two_daemons_divide_the_tables_and_none_is_owned_twice(properties):
    name = f"shared-{uuid.uuid4()}"
    ensure_topic(properties, name, partitions=4)
    tables = [str(uuid.uuid4()) for _ in range(40)]
    one = KafkaEvents(properties, name, f"g-{name}", 0)
    poll_until([one], one.is_assigned)
    generation = one.generation
    tenures = {t: one.tenure(t) for t in tables}
    other = KafkaEvents(properties, name, f"g-{name}", 0)
    poll_until([one, other], lambda: other.is_assigned() and any(other.owns(t) for t in tables))
    poll_until([one, other], lambda: not any(one.owns(t) and other.owns(t) for t in tables))

    assert {one.owns(t) + other.owns(t) for t in tables} == {1}
    assert one.generation > generation
    kept = next(t for t in tables if one.owns(t))
    assert one.tenure(kept) == tenures[kept], "what stays is not touched by the rebalance"
    assert one.check_in() is other.check_in() is None
    moved = next(t for t in tables if other.owns(t))
    other.close()
    poll_until([one], lambda: all(one.owns(t) for t in tables))

    assert one.tenure(moved) != tenures[moved], "what went and came back is another tenure"
    one.close()


def test_who_does_not_poll_any_more_is_no_member_for_the_broker_whatever_it_remembers(properties):
    name = f"shared-{uuid.uuid4()}"
    ensure_topic(properties, name, partitions=1)
    table = str(uuid.uuid4())
    one = KafkaEvents({**properties, "max.poll.interval.ms": 6000}, name, f"g-{name}", 0)
    poll_until([one], lambda: one.owns(table))
    other = KafkaEvents(properties, name, f"g-{name}", 0)
    poll_until([other], lambda: other.owns(table))

    assert one.owns(table), "it has not heard yet"
    assert "does not confirm our place" in one.check_in()
    poll_until([one], lambda: not one.owns(table))
    for source in (one, other):
        source.close()


def test_a_restart_reads_the_topic_again_from_before_the_intent_time_out(member):
    source = member(replay_ms=3_600_000)
    for number in (1, 2):
        source.publish(event(number))
    contract = EventSourceContract()
    contract.read(source, 2)
    source.commit()
    source.close()
    again = member(replay_ms=3_600_000)

    assert contract.numbers(contract.read(again, 2)) == [1, 2]


def test_a_topic_whose_messages_are_all_gone_can_be_drained(member, properties, topic):
    """As after a week without commits: where it ends is where it begins."""
    source = member()
    for number in range(3):
        source.publish(event(number))
    admin = AdminClient(properties)
    (deleted,) = admin.delete_records([TopicPartition(topic, 0, 3)]).values()
    deleted.result(10)
    source.close()
    again = member(group="others")
    poll_until([again], again.is_assigned)

    assert again.drain(10) == []


def test_an_end_that_is_far_away_is_reached_by_polling_and_not_before_a_commit(member, properties, topic):
    source = member()
    poll_until([source], source.is_assigned)
    producer, size = Producer(properties), 500_000
    count = DRAIN_BYTES // size + 20
    for _ in range(count):
        producer.produce(topic, b"x" * size)
    producer.flush(30)

    assert source.drain(30) is None
    contract = EventSourceContract()
    assert len(contract.read(source, count)) == count, "nothing of it is lost"
    assert source.drain(30) == []


def test_offsets_that_are_gone_begin_at_the_earliest(member, properties, topic):
    source = member()
    contract = EventSourceContract()
    for number in range(5):
        if number == 2:
            contract.read(source, 2)
            source.commit()
        source.publish(event(number))
    source.close()
    admin = AdminClient(properties)
    for future in admin.delete_records([TopicPartition(topic, 0, 5)]).values():
        future.result(10)
    producer = Producer(properties)
    producer.produce(topic, b"not an event")
    producer.flush(10)
    again = member()
    (message,) = contract.read(again, 1)

    assert (message.offset, message.value) == (5, b"not an event")
    (why,) = again.losses()
    assert "partition 0, offset 2" in why
    assert list(again.losses()) == []


def test_an_open_transaction_hides_nothing_of_what_was_written_behind_it(member, kafka, topic):
    source = member()
    source.publish(event(1))
    contract = EventSourceContract()
    contract.read(source, 1)
    hanging = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": str(uuid.uuid4())})
    hanging.init_transactions(20)
    hanging.begin_transaction()
    hanging.produce(topic, b"half a thought")
    hanging.flush(20)
    source.publish(event(2))
    drained = source.drain(10)
    hanging.abort_transaction(20)

    assert [message.value for message in drained[:1]] == [b"half a thought"]
    assert contract.numbers(drained[1:]) == [2]
    assert list(source.drain(10)) == [], "the mark of an aborted transaction is no message, and no obstacle"


@pytest.mark.parametrize("topic_takes", [None, 20_000])
def test_an_announcement_larger_than_the_topic_takes_arrives_cut(kafka, properties, topic_takes):
    name = f"control-{uuid.uuid4()}"
    ensure_topic(properties, name, config={"max.message.bytes": str(topic_takes)} if topic_takes else None)
    source = KafkaEvents(properties, name, f"g-{name}", 0)
    change = PartitionChange(
        partition='{"1000":"x"}', added_files=1, removed_files=0, added_rows=1, removed_rows=0
    )
    wide = tuple(
        change.model_copy(update={"partition": f'{{"1000":"{number:04}{"x" * 4000}"}}'})
        for number in range(500)
    )
    source.publish(event(1).model_copy(update={"partitions": wide, "partitions_complete": True}))
    (message,) = EventSourceContract().read(source, 1)
    source.close()
    told = decode(message.value)

    assert (told.snapshot_id, told.partitions_complete) == (1, False)
    assert 0 < len(told.partitions) < 500


def test_a_flood_of_large_messages_is_read_in_small_turns(member, properties, topic):
    source = member()
    poll_until([source], source.is_assigned)
    producer = Producer(properties)
    for _ in range(40):
        producer.produce(topic, bytes(900_000))
    assert producer.flush(60) == 0
    turns = []
    for _ in range(600):
        turns.append(source.poll(0.1))
        if sum(map(len, turns)) == 40:
            break

    assert sum(map(len, turns)) == 40
    assert max(sum(len(one.value) for one in turn) for turn in turns) < BATCH_BYTES + CHUNK * 1_000_000


def test_the_ends_of_many_partitions_are_one_question(properties):
    name = f"wide-{uuid.uuid4()}"
    ensure_topic(properties, name, partitions=32)
    producer = Producer(properties)
    for number in range(1, 33, 2):
        producer.produce(name, b"x", partition=number)
    producer.flush(20)

    assert TopicLook(properties, name).bounds(range(32), 10) == {
        number: (0, number % 2) for number in range(32)
    }
    assert TopicLook(properties, name).bounds([], 10) == {}


def test_the_ends_of_a_topic_on_a_broker_that_is_away_are_not_known():
    look = TopicLook({"bootstrap.servers": "127.0.0.1:1"}, "control")
    with pytest.raises((KafkaException, TimeoutError)):
        look.bounds([0], 0.5)


def test_a_broker_that_is_away_is_unavailable_and_named():
    with pytest.raises(Unavailable, match=r"topic control: .*127\.0\.0\.1:1.*Connection refused"):
        ensure_topic({"bootstrap.servers": "127.0.0.1:1", "socket.timeout.ms": 1000}, "control")


@pytest.mark.parametrize("records", [1, 5])
def test_what_no_client_can_unpack_is_passed_by_and_told(member, properties, topic, records):
    """Four kilobytes that unpack to 120 MB: nothing behind them was read, and nothing committed, for a week."""
    source = member()
    poll_until([source], source.is_assigned)
    sizes = {
        "message.max.bytes": 1_000_000_000,
        "batch.size": 900_000_000,
        "queue.buffering.max.kbytes": 2_000_000,
    }
    packing = Producer({**properties, **sizes, "compression.type": "zstd", "linger.ms": 1000})
    for part in ([b"first"], [bytes(120 * 2**20 // records)] * records, [b"last"]):
        for value in part:
            packing.produce(topic, value=value)
        assert packing.flush(60) == 0
    read = []
    poll_until([], lambda: read.extend(source.poll(0.1)) or (read and read[-1].value == b"last"))

    assert [message.value for message in read] == [b"first", b"last"]
    assert any("offsets 1 to" in why for why in source.losses())
    assert source.drain(10) == []
