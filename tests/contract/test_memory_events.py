import pytest

from event_contract import EventSourceContract
from fakes import MemoryEvents, Topic


class TestMemoryEvents(EventSourceContract):
    @pytest.fixture
    def open_source(self):
        topic = Topic()
        return lambda: MemoryEvents(topic)
