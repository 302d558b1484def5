"""What tests of several files here share."""

import pytest

from support.surveys import World


@pytest.fixture
def world(lab):
    for name in ("shop.orders", "other.a", "other.b"):
        lab.create(name)
    made = World(lab)
    yield made
    made.ledger.close()
