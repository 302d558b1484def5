import pytest

from support.contracts.sources import SourceTopicsContract
from support.memory_topics import MemorySources, Topic


class TestMemorySources(SourceTopicsContract):
    @pytest.fixture
    def topic(self):
        return Topic()

    @pytest.fixture
    def put(self, topic):
        return lambda *values: topic.messages.extend(values)

    @pytest.fixture
    def open_source(self, topic):
        committed = {}
        return lambda: MemorySources({"source": topic}, committed)
