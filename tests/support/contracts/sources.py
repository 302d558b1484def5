"""What every SourceTopics must do: the same tests for the one in memory and the one on Kafka."""


class SourceTopicsContract:
    """Subclasses give `open_source()`: a member of the group, after a restart; and `put(*values)` on its topic."""

    def read(self, source, count):
        messages = []
        for _ in range(100):
            messages.extend(source.poll(0.2))
            if len(messages) >= count:
                self.topic = messages[0].topic
                return messages
        raise AssertionError(f"{len(messages)} of {count} messages came")

    def commit(self, source, offset):
        """Of the one Kafka partition that there is."""
        source.commit({(self.topic, 0): offset})

    def test_what_was_put_is_read_as_it_is_and_in_order(self, open_source, put):
        for value in (b"one", b"\xff\x00", None, b"x" * 900_000):
            put(value)
        source = open_source()
        messages = self.read(source, 4)

        assert [message.value for message in messages] == [b"one", b"\xff\x00", None, b"x" * 900_000]
        assert [message.offset for message in messages] == [0, 1, 2, 3]
        assert {message.key for message in messages} == {b"a key"}
        source.close()

    def test_what_was_committed_does_not_come_again_and_what_was_not_does(self, open_source, put):
        source = open_source()
        put(b"one")
        self.read(source, 1)
        self.commit(source, 1)
        put(b"two")
        self.read(source, 1)
        source.close()
        again = open_source()

        assert [message.value for message in self.read(again, 1)] == [b"two"]
        again.close()

    def test_messages_come_again_from_the_oldest_that_was_not_committed(self, open_source, put):
        for value in (b"one", b"two", b"three"):
            put(value)
        source = open_source()
        self.read(source, 3)
        self.commit(source, 1)
        source.close()
        again = open_source()

        assert [message.value for message in self.read(again, 2)] == [b"two", b"three"]
        again.close()

    def test_a_group_does_not_go_back(self, open_source, put):
        """What waits from before a Kafka partition was somebody else's says nothing of what they did."""
        for value in (b"one", b"two"):
            put(value)
        source = open_source()
        self.read(source, 2)
        self.commit(source, 2)
        self.commit(source, 1)
        put(b"three")
        source.close()
        again = open_source()

        assert [message.value for message in self.read(again, 1)] == [b"three"]
        again.close()

    def test_where_none_are_wanted_none_come_and_none_are_lost(self, open_source, put):
        put(b"zero")
        source = open_source()
        self.read(source, 1)
        for value in (b"one", b"two"):
            source.poll(0, wanted=False)
            put(value)
            assert list(source.poll(0.5, wanted=False)) == []
            assert [message.value for message in self.read(source, 1)] == [value]
        values = [b"%d" % number for number in range(700)]
        put(*values)
        found = self.read(source, 1)
        assert list(source.poll(0.5, wanted=False)) == []
        if len(found) < len(values):
            found += self.read(source, len(values) - len(found))

        assert [message.value for message in found] == values
        source.close()
