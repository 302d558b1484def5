import pytest

from support.contracts.events import EventSourceContract
from support.memory_topics import MemoryEvents, Topic


class TestMemoryEvents(EventSourceContract):
    @pytest.fixture
    def open_source(self):
        topic = Topic()
        return lambda: MemoryEvents(topic)
