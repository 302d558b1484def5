import pytest

from support.contracts.holds import HoldTopicContract
from support.memory_topics import MemoryHolds


class TestMemoryHolds(HoldTopicContract):
    @pytest.fixture
    def open_topic(self):
        records = []
        return lambda: MemoryHolds(records)
