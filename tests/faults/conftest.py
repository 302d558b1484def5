"""The servers of these tests: started at the same time, shared by all of them."""

import pytest

from support.http_front import http_front
from support.lab import EAGER
from support.object_store import object_store
from support.rest_catalog import Guarded, RestLab, RestServer


@pytest.fixture(scope="session")
def rest_server(tmp_path_factory):
    server = RestServer(tmp_path_factory.mktemp("rest"))
    yield server
    server.process.stop()


@pytest.fixture(scope="session")
def servers(rest_server, kafka):
    """A REST catalog's JVM and a broker; the one starts while the other does."""
    return kafka


@pytest.fixture(scope="session")
def running_store():
    with object_store() as store:
        yield store


@pytest.fixture
def store(running_store):
    yield running_store
    running_store.faults.clear()
    running_store.refused_keys.clear()


@pytest.fixture
def rest_lab(tmp_path, rest_server, store):
    """Makes labs, each on a new catalog."""
    opened = []

    def make(policy=EAGER, borrows=False):
        guard = Guarded(store)
        if borrows:
            guard.borrowers.add("isotherm")
        front = http_front(rest_server.catalog(store), guard)
        lab = RestLab(tmp_path, rest_server, front.__enter__(), guard, policy)
        opened.append((front, lab))
        return lab

    yield make
    for front, lab in opened:
        lab.executor.stop()
        front.__exit__(None, None, None)
