"""What every SourceTopics must do: the same tests for the one in memory and the one on Kafka."""


class SourceTopicsContract:
    """Subclasses give `open_source()`: a member of the group, after a restart; and `put(value)` on its topic."""

    def read(self, source, count):
        messages = []
        for _ in range(100):
            messages.extend(source.poll(0.2))
            if len(messages) >= count:
                return messages
        raise AssertionError(f"{len(messages)} of {count} messages came")

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
        source.commit()
        put(b"two")
        self.read(source, 1)
        source.close()
        again = open_source()

        assert [message.value for message in self.read(again, 1)] == [b"two"]
        again.close()
