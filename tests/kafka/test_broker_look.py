"""What brokers say of topics and groups, and of what a principal may do there: on a real one, with and without rights."""

import uuid

import pytest
from confluent_kafka import Producer

from isotherm.kafka.broker_look import BrokerLook
from isotherm.service.ports import Refused, Unavailable
from support.daemon_process import eventually
from support.guarded_kafka import GuardedKafka
from support.servers import silent_server

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    kafka = GuardedKafka(tmp_path_factory.mktemp("guarded"))
    kafka.start()
    yield kafka
    kafka.stop()


@pytest.fixture
def look(kafka):
    return BrokerLook({"bootstrap.servers": kafka.bootstrap_servers})


@pytest.fixture
def topic(kafka):
    return kafka.create_topic(f"t-{uuid.uuid4()}", 3, {"retention.ms": "3600000"})


def test_where_nobody_guards_everything_may_be_done(look, topic, kafka):
    brokers, found = look.brokers(), look.topic(topic)

    assert brokers.brokers == (kafka.bootstrap_servers,)
    assert "create" in brokers.may
    assert (found.partitions, found.without_leader, found.copies) == (3, 0, 1)
    assert {"read", "write"} <= found.may
    assert (found.config["retention.ms"], found.config["cleanup.policy"]) == ("3600000", "delete")
    assert look.topic("nobody.made.it") is None
    members, may = look.group("nobody is in it")
    assert members == 0
    assert may is None or "read" in may


def test_a_principal_is_told_what_it_may_do_and_no_more(guarded):
    topic = guarded.create_topic("granted", 2)
    guarded.create_topic("hidden")
    guarded.grant("TOPIC", topic, "READ")
    guarded.grant("GROUP", "ours", "READ")
    few, admin = (BrokerLook(guarded.properties_of(name)) for name in ("few", "admin"))

    found = few.topic(topic)
    assert "read" in found.may
    assert "write" not in found.may
    assert found.config == {}
    assert few.brokers().may is None
    guarded.grant("BROKER", "kafka-cluster", "DESCRIBE")
    assert eventually(lambda: few.brokers().may == {"describe"})
    assert {"read", "write"} <= admin.topic(topic).may
    assert "create" in admin.brokers().may
    with pytest.raises(Refused, match="topic hidden"):
        few.topic("hidden")
    with pytest.raises(Refused, match="group another"):
        few.group("another")
    assert few.group("ours")[0] == 0


def test_messages_behind_an_open_transaction_are_counted_until_it_ends(kafka, look, topic):
    hanging = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": str(uuid.uuid4())})
    hanging.init_transactions(30)
    hanging.begin_transaction()
    hanging.produce(topic, b"never", partition=1)
    hanging.flush(30)
    plain = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    plain.produce(topic, b"behind", partition=1, timestamp=1_700_000_000_000)
    plain.flush(30)

    assert look.held_back(topic, 3) == {1: 2}
    hanging.commit_transaction(30)
    # Its markers are written a moment later.
    assert eventually(lambda: look.held_back(topic, 3) == {})


def test_the_newest_message_is_found_in_whichever_partition(kafka, look, topic):
    assert look.newest_ms(topic, 3) is None
    plain = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    plain.produce(topic, b"old", partition=0, timestamp=1_700_000_000_000)
    plain.produce(topic, b"new", partition=2, timestamp=1_750_000_000_000)
    plain.flush(30)

    assert look.newest_ms(topic, 3) == 1_750_000_000_000


@pytest.mark.parametrize("is_silent", [True, False])
def test_brokers_that_do_not_answer_are_named(is_silent):
    with silent_server() as server:
        address = f"127.0.0.1:{server.port if is_silent else 1}"
        with pytest.raises(Unavailable, match=address):
            BrokerLook({"bootstrap.servers": address}).brokers()
