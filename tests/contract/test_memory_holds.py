import pytest

from fakes import MemoryHolds
from hold_contract import HoldTopicContract


class TestMemoryHolds(HoldTopicContract):
    @pytest.fixture
    def open_topic(self):
        records = []
        return lambda: MemoryHolds(records)
