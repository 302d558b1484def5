import pytest

from support.contracts.keyed_topic import KeyedTopicContract
from support.memory_topics import MemoryKeyedTopic


class TestMemoryKeyedTopic(KeyedTopicContract):
    @pytest.fixture
    def open_topic(self):
        records = []
        return lambda: MemoryKeyedTopic(records)
