"""The catalog's list is made beside the loop where it takes long, and taken at once where it does not."""

import threading

import pytest

from isotherm.iceberg.catalog import IcebergCatalog
from isotherm.service.catalog_poller import Poller
from isotherm.service.ports import Unavailable
from support.faults import FaultyCatalog


class Slow(FaultyCatalog):
    """A catalog that answers when it may."""

    def __init__(self, lab):
        super().__init__(lab.catalog)
        self.may_answer, self.asked = threading.Event(), 0

    def list_tables(self, namespace):
        self.asked += 1
        assert self.may_answer.wait(30)
        return self.catalog.list_tables(namespace)


class Anything:
    """Policies that match every table."""

    def resolve(self, name, properties):
        return name, properties


def poller(catalog, clock, **more):
    return Poller(60.0, catalog, Anything(), None, None, [].append, lambda: 0, lambda: clock[0], **more)


@pytest.fixture
def slow(lab):
    lab.create()
    return Slow(lab)


def test_a_long_list_holds_nobody_up_and_tells_when_it_was_asked_for(slow):
    clock = [1000.0]
    catalog = IcebergCatalog(slow)
    polled = poller(catalog, clock, wait_s=0.0)

    assert polled.tables() is None
    clock[0] += 200.0
    assert polled.tables() is None
    slow.may_answer.set()
    found = catalog.list_beside(30.0)
    assert (found.names, slow.asked) == (["shop.orders"], 1)
    assert catalog.list_beside(30.0).names == ["shop.orders"]


def test_a_list_is_as_old_as_its_question(lab):
    lab.create()
    clock = [1000.0]
    polled = poller(IcebergCatalog(lab.catalog), clock)

    assert list(polled.tables()) == ["shop.orders"]
    assert polled.asked_s == 1000.0
    clock[0] += 59.0
    assert polled.tables() is None
    clock[0] += 1.0
    assert list(polled.tables()) == ["shop.orders"]
    assert polled.asked_s == 1060.0


def test_a_list_that_fails_is_an_error_of_the_one_who_asks(lab):
    catalog = IcebergCatalog(lab.catalog)

    def broken():
        raise RuntimeError("a mistake")

    def late():
        raise TimeoutError("too late")

    catalog.names = broken
    with pytest.raises(RuntimeError, match="a mistake"):
        catalog.list_beside(30.0)
    catalog.names = late
    with pytest.raises(Unavailable, match="too late"):
        catalog.list_beside(30.0)
    del catalog.names
    assert catalog.list_beside(30.0).names == []
