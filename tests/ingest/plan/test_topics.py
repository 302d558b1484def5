"""The front of a topic: what was seen through, and what becomes of it when the topic changes."""

from isotherm_ingest.plan.shares import Window
from isotherm_ingest.plan.topic_metadata import Kafka
from isotherm_ingest.plan.topics import Topic


def kafka(ends, start=0, topic_id="a"):
    positions = {("t", number): end for number, end in enumerate(ends)}
    return Kafka(dict.fromkeys(positions, start), positions, {"t": topic_id})


def topic(*through, topic_id="a"):
    return Topic("t", Window(60, 100), topic_id, {("t", number): one for number, one in enumerate(through)})


def read(one, ends):
    """All that waits."""
    broker = kafka(ends)
    one.was_read(one.waiting(broker).unread, broker, 1.0)


def test_a_topic_begins_at_its_mark_or_where_kafka_does():
    one, new = topic(), topic()
    one.meet(kafka([9, 9], start=3), {("t", 0): 4, ("t", 1): 5})
    new.meet(kafka([9, 9], start=3), {})

    assert one.through == {("t", 0): 4, ("t", 1): 5}
    assert new.through == {("t", 0): 3, ("t", 1): 3}


def test_another_topic_under_the_name_begins_again():
    one = topic(7)
    one.meet(kafka([9], topic_id="b"), {})

    assert one.through == {("t", 0): 0}


def test_the_front_stays_within_what_kafka_holds():
    one = topic(3, 50)
    one.meet(kafka([9, 9], start=5), {})

    assert one.through == {("t", 0): 5, ("t", 1): 9}


def test_what_kafka_lost_before_it_was_read_comes_to_light():
    assert topic(3, 7).meet(kafka([9, 9], start=5), {}) == {("t", 0): (3, 5)}
    assert topic(6, 6).meet(kafka([9, 9], start=5), {}) == {}


def test_what_is_unread_is_counted_for_who_needs_most():
    one, behind = topic(9), {("t", 0): 4}

    assert (one.unread(kafka([10]), {}), one.unread(kafka([10]), behind)) == (1, 6)


def test_the_share_that_is_unread_is_of_what_retention_has_left():
    """A topic of which nothing was ever deleted may be new, or kept for ever."""
    one, behind = topic(9), {("t", 0): 4}

    assert one.unread_share(kafka([10]), behind) == 0
    assert one.unread_share(kafka([10], start=2), {}) == 1 / 8
    assert one.unread_share(kafka([10], start=2), behind) == 6 / 8
    assert one.unread_share(kafka([10], start=5), behind) == 1.0


def test_new_partitions_wait_until_the_old_ones_were_read_to_where_they_ended():
    """A key that moved has older changes in an old partition. Which end that is counts from after the new one was seen."""
    one = topic(4)
    one.meet(kafka([9, 3]), {})
    assert one.wants_later_ends
    one.meet(kafka([10, 3]), {})
    assert not one.wants_later_ends
    assert set(one.waiting(kafka([10, 3])).unread) == {("t", 0)}

    one.was_read({("t", 0): (4, 8)}, kafka([10, 3]), 1.0)
    one.meet(kafka([12, 3]), {})
    assert set(one.waiting(kafka([12, 3])).unread) == {("t", 0)}

    one.was_read({("t", 0): (8, 10)}, kafka([12, 3]), 2.0)
    one.meet(kafka([12, 3]), {})
    assert one.waiting(kafka([12, 3])).unread == {("t", 0): (10, 12), ("t", 1): (0, 3)}


def test_a_topic_that_cannot_be_read_is_tried_again_later_and_later():
    one = topic(0)
    waits = []
    for _ in range(8):
        one.fail(1, 100.0)
        waits.append(one.retry_at_s - 100)

    assert waits == [2, 4, 8, 16, 32, 64, 120, 120]
    read(one, [5])
    assert (one.failures, one.through, one.has_more) == (0, {("t", 0): 5}, False)


def test_a_new_partition_waits_for_what_its_producer_has_still_written_to_the_old_ones():
    """It hears of new ones minutes later: they are empty until then, and the old ones go on."""
    one = topic(4)
    one.meet(kafka([4, 0]), {})
    assert one.through == {("t", 0): 4, ("t", 1): 0}, "the marks know of it"
    for _ in range(2):
        one.meet(kafka([9, 2]), {})
    assert one.waiting(kafka([9, 2])).unread == {("t", 0): (4, 9)}

    read(one, [9, 2])
    one.meet(kafka([9, 2]), {})
    assert one.waiting(kafka([9, 2])).unread == {("t", 1): (0, 2)}


def test_a_driver_that_begins_keeps_an_empty_partition_behind_the_others():
    one = Topic("t", Window(60, 100))
    for _ in range(2):
        one.meet(kafka([9, 2]), {("t", 0): 4, ("t", 1): 0})

    assert one.waiting(kafka([9, 2])).unread == {("t", 0): (4, 9)}


def test_partitions_that_come_one_after_another_wait_each_for_those_before():
    """A key may move from the first to the second, and from there to the third."""
    one = topic(4)
    for _ in range(2):
        one.meet(kafka([9, 2, 0]), {})
    for _ in range(2):
        one.meet(kafka([12, 5, 1]), {})
    one.was_read({("t", 0): (4, 9)}, kafka([12, 5, 1]), 1.0)
    for _ in range(2):
        one.meet(kafka([12, 5, 1]), {})
    assert set(one.waiting(kafka([12, 5, 1])).unread) == {("t", 0), ("t", 1)}

    read(one, [12, 5, 1])
    one.meet(kafka([13, 6, 1]), {})
    assert set(one.waiting(kafka([13, 6, 1])).unread) == {("t", 0), ("t", 1), ("t", 2)}


def test_what_has_no_leader_is_waited_for_too():
    one, without = topic(4, 7), kafka([9, 9, 2])
    one.meet(without, {})
    del without.ends["t", 1]
    for _ in range(2):
        one.meet(without, {})
    assert set(one.waiting(without).unread) == {("t", 0)}
    read(one, [9, 7, 2])
    one.meet(kafka([9, 9, 2]), {})
    assert set(one.waiting(kafka([9, 9, 2])).unread) == {("t", 1)}


def test_a_new_partition_opens_once_however_long_the_others_go_on():
    """It was marked at 0 meanwhile, and what is marked so waits: it was closed again each time."""
    one, marks = topic(4), {}
    one.meet(kafka([4, 0]), marks)
    for end in range(5, 12):
        marks = dict(one.through)
        for _ in range(2):
            one.meet(kafka([end, 2]), marks)
        read(one, [end, 2])

    assert one.through == {("t", 0): 11, ("t", 1): 2}


def test_two_new_partitions_may_have_their_first_messages_at_different_times():
    one = topic(4)
    one.meet(kafka([4, 0, 0]), {})
    for ends in ([5, 1, 0], [6, 1, 0], [6, 2, 1], [7, 2, 1]):
        for _ in range(2):
            one.meet(kafka(ends), {})
        read(one, ends)
    one.meet(kafka([7, 2, 1]), {})
    read(one, [7, 2, 1])

    assert one.through == {("t", 0): 7, ("t", 1): 2, ("t", 2): 1}


def test_what_waits_in_a_closed_partition_is_counted_as_unread():
    one = topic(4)
    one.meet(kafka([9, 3]), {})

    assert one.unread(kafka([9, 3]), {}) == 8
    assert one.has_changed(kafka([4, 3]))


def test_partitions_of_a_new_topic_are_read_together():
    one = topic()
    one.meet(kafka([9, 0, 2]), {})

    assert one.waiting(kafka([9, 4, 2])).unread == {("t", 0): (0, 9), ("t", 1): (0, 4), ("t", 2): (0, 2)}
