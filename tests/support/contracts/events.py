"""What every EventSource must do: the same tests for the one in memory and the one on Kafka."""

from isotherm.contract.events import CommitEvent, decode


def event(number, uuid="7d3b0f2a-0000-4000-8000-000000000001"):
    return CommitEvent(
        table_uuid=uuid,
        table="shop.orders",
        snapshot_id=number,
        sequence_number=number,
        timestamp_ms=1_700_000_000_000,
        operation="append",
        origin="ingest",
    )


class EventSourceContract:
    """Subclasses give `open_source()`: another member of the same group on the same topic, after a restart."""

    def numbers(self, messages):
        return [decode(message.value).snapshot_id for message in messages]

    def read(self, source, count):
        """Poll until so many messages came; the poll itself waits, and the number of tries is bounded."""
        messages = []
        for _ in range(100):
            messages.extend(source.poll(0.2))
            if len(messages) >= count:
                return messages
        raise AssertionError(f"{len(messages)} of {count} messages came")

    def test_what_is_published_is_read_in_order(self, open_source):
        source = open_source()
        for number in (1, 2, 3):
            source.publish(event(number))

        assert self.numbers(self.read(source, 3)) == [1, 2, 3]

    def test_what_was_committed_does_not_come_again_and_what_was_not_does(self, open_source):
        source = open_source()
        source.publish(event(1))
        self.read(source, 1)
        source.commit()
        source.publish(event(2))
        self.read(source, 1)
        source.close()
        again = open_source()

        assert self.numbers(self.read(again, 1))[-1] == 2

    def test_a_drain_reads_to_the_end(self, open_source):
        source = open_source()
        source.publish(event(0))
        self.read(source, 1)
        for number in range(1, 50):
            source.publish(event(number))
        drained = source.drain(10)

        assert self.numbers(drained) == list(range(1, 50))
        assert list(source.drain(10)) == []

    def test_the_only_member_owns_every_table_until_it_leaves(self, open_source):
        source = open_source()
        source.publish(event(1))
        self.read(source, 1)

        assert source.is_assigned()
        assert source.owns(event(1).table_uuid)
        source.close()

    def test_a_tenure_lasts_as_long_as_the_member_and_another_one_is_another(self, open_source):
        source = open_source()
        source.publish(event(1))
        self.read(source, 1)
        tenure = source.tenure(event(1).table_uuid)
        source.commit()
        source.publish(event(2))
        self.read(source, 1)

        assert tenure is not None
        assert source.tenure(event(1).table_uuid) == tenure

    def test_a_member_that_has_read_is_one_for_the_broker_and_has_lost_nothing(self, open_source):
        source = open_source()
        source.publish(event(1))
        self.read(source, 1)

        assert source.check_in() is None
        assert list(source.losses()) == []
