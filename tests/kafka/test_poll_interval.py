"""For how long a member of a group may not ask for messages; librdkafka takes no interval below the session's time-out."""

import pytest

from isotherm.kafka.control_topic import MAX_POLL_INTERVAL_MS, KafkaEvents
from isotherm.kafka.source_topics import KafkaSources
from isotherm.runtime.kafka_client import PropertyError

NOBODY = {"bootstrap.servers": "127.0.0.1:1"}


def events(**properties):
    return KafkaEvents({**NOBODY, **properties}, "topic", "group", 0)


def sources(**properties):
    return KafkaSources({**NOBODY, **properties}, ["topic"], "group")


@pytest.mark.parametrize("join", [events, sources])
def test_a_loop_that_waits_for_several_slow_tables_stays_in_its_groups(join):
    """The interval is fifteen minutes, where the configuration does not say another one."""
    join(**{"session.timeout.ms": MAX_POLL_INTERVAL_MS}).close()

    with pytest.raises(PropertyError, match=r"max\.poll\.interval\.ms"):
        join(**{"session.timeout.ms": MAX_POLL_INTERVAL_MS + 1})
    with pytest.raises(PropertyError, match=r"max\.poll\.interval\.ms"):
        join(**{"max.poll.interval.ms": 6000})
