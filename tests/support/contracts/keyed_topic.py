"""What every KeyedTopic must do: the same tests for the one in memory and the one on Kafka."""

import pytest

from isotherm.service.ports import Refused


class KeyedTopicContract:
    """Subclasses give `open_topic()`: another reader and writer of the same topic."""

    def test_an_empty_topic_is_read_as_a_whole(self, open_topic):
        reading = open_topic().read(20)

        assert (dict(reading.records), reading.is_whole) == ({}, True)

    def test_who_comes_later_reads_all_of_it_and_the_newest_of_each_key(self, open_topic):
        one = open_topic()
        one.write("a/halt", b"first")
        one.write("b/pause", b"paused")
        one.write("a/halt", b"second")
        reading = open_topic().read(20)

        assert dict(reading.records) == {"a/halt": b"second", "b/pause": b"paused"}
        assert reading.is_whole

    def test_who_was_there_reads_what_is_new_also_its_own(self, open_topic):
        one, two = open_topic(), open_topic()
        one.read(20)
        two.read(20)
        one.write("a/halt", b"1")
        two.write("b/halt", b"2")
        readings = [topic.read(20) for topic in (one, two)]

        assert [dict(reading.records) for reading in readings] == [{"a/halt": b"1", "b/halt": b"2"}] * 2
        assert not any(reading.is_whole for reading in readings)
        assert dict(one.read(20).records) == {}

    def test_a_record_that_is_too_large_is_refused_for_itself(self, open_topic):
        topic = open_topic()
        with pytest.raises(Refused):
            topic.write("a/halt", b"x" * 3_000_000)
        topic.write("b/halt", b"2")

        assert dict(topic.read(20).records) == {"b/halt": b"2"}

    def test_what_was_lifted_is_read_as_none(self, open_topic):
        one, two = open_topic(), open_topic()
        one.write("a/halt", b"1")
        two.read(20)
        one.write("a/halt", None)

        assert dict(two.read(20).records) == {"a/halt": None}
