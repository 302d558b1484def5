import pytest

from fakes import MemorySources, Topic
from source_contract import SourceTopicsContract


class TestMemorySources(SourceTopicsContract):
    @pytest.fixture
    def topic(self):
        return Topic()

    @pytest.fixture
    def put(self, topic):
        return topic.messages.append

    @pytest.fixture
    def open_source(self, topic):
        committed = {}
        return lambda: MemorySources({"source": topic}, committed)
