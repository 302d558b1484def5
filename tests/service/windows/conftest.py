"""A table that a writer never leaves, and a daemon beside it."""

import pytest

from support.granting import Held, Shop, asked, ends, turns
from support.in_process import AtOnce
from support.lab import started


@pytest.fixture
def shop(tmp_path):
    made = Shop(tmp_path, threads=AtOnce())
    made.lab.executor = Held()
    for _ in range(5):
        made.append()
    return made


@pytest.fixture
def daemon(shop):
    """A daemon that knows the table, and has not heard of its writer yet."""
    service = started(shop.lab)
    turns(service, 2)
    yield service
    service.stop()


@pytest.fixture
def in_a_window(shop, daemon):
    """A daemon whose job has been rewritten in an open window; the next turn commits it."""
    held = shop.lab.executor
    held.is_held = True
    shop.grant(asked(shop, daemon))
    turns(daemon)
    assert (len(daemon.compactions), len(ends(shop))) == (1, 0)
    held.is_held = False
    return daemon
