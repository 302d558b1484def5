"""Marks on a real broker: committed, fenced, and read again."""

import threading
import uuid

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from structlog.testing import capture_logs

from isotherm_ingest.kafka import BrokerError
from isotherm_ingest.known_in_marks import known_of, named
from isotherm_ingest.mark_text import Mark, encoded
from isotherm_ingest.marks import Marks, TakenOver

pytestmark = pytest.mark.stack


@pytest.fixture
def made(kafka):
    """Makes the marks of drivers of one pipeline."""
    return lambda name: Marks({"bootstrap.servers": kafka.bootstrap_servers}, name)


def written(marks, told):
    for _ in marks.write(told):
        pass


def test_marks_are_read_again_and_a_driver_that_began_before_is_fenced(kafka, made):
    kafka.create_topic("marks.a", 6)
    first, second = made("marks"), made("marks")
    first.take_over()
    first.take_over()  # as a begin that failed afterwards and is tried again
    told = {("marks.a", 0): Mark(7, "id", {"shop.orders": ("uuid", None, 7), "shop.lines": ("other", 5, 6)})}
    written(first, told)
    second.take_over()

    assert second.read([("marks.a", 0), ("marks.a", 1)]) == told
    with pytest.raises(TakenOver):
        written(first, {("marks.a", 0): Mark(8)})
    written(second, {("marks.a", 0): Mark(9)})
    first.close()
    second.close()


class New(Consumer):
    """A consumer whose group has no coordinator at first."""

    errors = ()

    def committed(self, *args):
        if New.errors:
            raise KafkaException(KafkaError(New.errors.pop()))
        return super().committed(*args)


def test_a_first_look_waits_until_a_new_group_has_a_coordinator(kafka):
    """A new Kafka makes its topic of offsets when it is first asked for them."""
    kafka.create_topic("marks.new")
    marks = Marks({"bootstrap.servers": kafka.bootstrap_servers}, "new", make_consumer=New)
    told = {("marks.new", 0): Mark(7)}
    written(marks, told)

    New.errors = [KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR]
    assert marks.read([("marks.new", 0)]) == told
    New.errors = [KafkaError.GROUP_AUTHORIZATION_FAILED]
    with pytest.raises(BrokerError, match="uthoriz"):
        marks.read([("marks.new", 0)])
    marks.close()


class Ended(Producer):
    """A producer whose first commit arrives, and whose answer is lost with its broker."""

    is_first = True

    def commit_transaction(self, *args):
        super().commit_transaction(*args)
        if Ended.is_first:
            Ended.is_first = False
            raise KafkaException(KafkaError(KafkaError.INVALID_TXN_STATE, "in an invalid state", fatal=True))


def test_a_producer_that_ends_while_nobody_has_taken_over_is_followed_by_another(kafka):
    """A broker that restarts ends it so. Exit code 3 would keep the supervisor from starting ingest again."""
    kafka.create_topic("marks.ended")
    marks = Marks({"bootstrap.servers": kafka.bootstrap_servers}, "ended", Ended)
    marks.take_over()
    with pytest.raises(BrokerError):
        written(marks, {("marks.ended", 0): Mark(7)})

    written(marks, {("marks.ended", 0): Mark(8)})
    assert marks.read([("marks.ended", 0)]) == {("marks.ended", 0): Mark(8)}
    marks.close()


class Hanging(Producer):
    """A producer whose first commit waits for the group's coordinator, and does not come back."""

    is_first = True
    over = threading.Event()

    def send_offsets_to_transaction(self, *args):
        if Hanging.is_first:
            Hanging.is_first = False
            Hanging.over.wait(60)
        super().send_offsets_to_transaction(*args)


@pytest.fixture
def hanging(kafka):
    """Makes the marks of a driver whose first commit hangs."""
    Hanging.is_first = True
    Hanging.over.clear()
    yield lambda name: Marks({"bootstrap.servers": kafka.bootstrap_servers}, name, Hanging, hangs_after_s=0.3)
    Hanging.over.set()


def test_a_producer_that_does_not_come_back_is_followed_by_another(kafka, hanging):
    """After a restart of the broker, librdkafka has waited for ten minutes, whatever it was told."""
    kafka.create_topic("marks.hanging")
    marks = hanging("hanging")
    marks.take_over()
    with pytest.raises(BrokerError, match=r"no answer in 0\.3 s"):
        written(marks, {("marks.hanging", 0): Mark(7)})

    written(marks, {("marks.hanging", 0): Mark(8)})
    assert marks.read([("marks.hanging", 0)]) == {("marks.hanging", 0): Mark(8)}
    marks.close()


def test_a_driver_whose_producer_has_ended_does_not_fence_one_that_has_begun_meanwhile(kafka, hanging, made):
    position = ("marks.meanwhile", 0)
    kafka.create_topic(position[0])
    first, second = hanging("meanwhile"), made("meanwhile")
    first.take_over()
    Hanging.is_first = False
    written(first, {position: Mark(7)})
    Hanging.is_first = True
    with pytest.raises(BrokerError):
        written(first, {position: Mark(8)})
    second.take_over()
    written(second, second.read([position]))

    with pytest.raises(TakenOver):
        written(first, {position: Mark(9)})
    written(second, {position: Mark(10)})
    assert second.read([position]) == {position: Mark(10)}
    first.close()
    second.close()


def test_more_marks_than_one_commit_takes_are_committed_in_pieces(kafka, made):
    topics = [f"marks.many{number}" for number in range(60)]
    for topic in topics:
        kafka.create_topic(topic, 6)
    marks = made("many")
    marks.take_over()
    tables = {f"namespace.table_{number:02}": ("0" * 36, number, number) for number in range(45)}
    told = {(topic, partition): Mark(9, "id", tables) for topic in topics for partition in range(6)}
    assert sum(len(encoded(mark)) for mark in told.values()) > 1_000_000

    written(marks, told)
    assert marks.read(sorted(told)) == told
    marks.close()


def test_a_topic_with_more_quiet_tables_than_find_room_is_told_once_and_its_marks_are_committed(kafka, made):
    kafka.create_topic("marks.quiet")
    marks = made("quiet")
    marks.take_over()
    tables = {f"shop.{uuid.uuid4()}": (str(uuid.uuid4()), 5, 9) for _ in range(300)}
    with capture_logs() as logs:
        written(marks, {("marks.quiet", 0): Mark(9, "id", tables)})
        written(marks, {("marks.quiet", 0): Mark(10, "id", tables)})

    kept = marks.read([("marks.quiet", 0)])["marks.quiet", 0].tables
    assert 50 < len(kept) < 300
    assert [(one["event"], one["topic"], one["of"]) for one in logs] == [
        ("tables_not_marked", "marks.quiet", 300 - len(kept))
    ]
    marks.close()


def test_what_is_known_of_a_table_comes_from_all_its_partitions():
    marks = {
        ("a", 0): Mark(7, "id of a", {"t": ("u", 5, 7)}),
        ("b", 1): Mark(3, "id of b", {"t": ("u", None, 3), "s": ("v", 1, 1)}),
    }
    known = known_of(marks, "t")

    assert (known.uuid, known.vector, known.through) == ("u", {("a", 0): 5}, {("a", 0): 7, ("b", 1): 3})
    assert known.topic_ids == {"a": "id of a", "b": "id of b"}
    assert known_of(marks, "x") is None
    assert named(marks) == {"s", "t"}
