"""The catalog's list is made beside the loop where it takes long, and taken at once where it does not."""

import sys
import threading
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from pyiceberg.exceptions import (
    ForbiddenError,
    ServerError,
    ServiceUnavailableError,
    TooManyRequestsError,
    UnauthorizedError,
)
from requests.exceptions import ReadTimeout

from isotherm.iceberg.catalog import IcebergCatalog
from isotherm.iceberg.errors import WANTED_S
from isotherm.iceberg.list_tables import LIMIT_S, Lister
from isotherm.iceberg.threads import THREADS, Beside, Threads
from isotherm.runtime.breaker import Breaker
from isotherm.service.policies.policy_folder import PolicyFolder
from isotherm.service.ports import Listing, Refused, Unavailable
from isotherm.service.tables.catalog_lists import WANTED_EVERY_S, CatalogLists
from isotherm.service.topics.catalog_poller import Poller
from isotherm.service.topics.heard_early import HeardEarly
from isotherm.store import Ledger
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


def lists(catalog, clock, every_s=60.0, wait_s=1.0):
    return CatalogLists(every_s, catalog, Ledger(None), [].append, lambda: 0, lambda: clock[0], wait_s)


class Listed:
    """A catalog with these names."""

    names = ()

    def list_beside(self, _):
        return Listing(tuple(self.names), {})


def test_a_catalog_without_tables_is_told_once_as_one_of_another_name_would_be():
    clock, told, catalog = [1000.0], [], Listed()
    made = CatalogLists(60.0, catalog, Ledger(None), told.append, lambda: 0, lambda: clock[0])
    for names in ((), (), ("shop.orders",), ("shop.orders",)):
        catalog.names = names
        made.take()
        clock[0] += 60

    assert [(one.what, "catalog.name" in one.error) for one in told] == [("the catalog", True)]


@pytest.fixture
def slow(lab):
    lab.create()
    return Slow(lab)


def test_a_long_list_holds_nobody_up_and_tells_when_it_was_asked_for(slow):
    clock = [1000.0]
    catalog = IcebergCatalog(slow)
    made = lists(catalog, clock, wait_s=0.0)

    assert made.take() is None
    clock[0] += 200.0
    assert made.take() is None
    slow.may_answer.set()
    found = catalog.list_beside(30.0)
    assert (found.names, slow.asked) == (["shop.orders"], 1)
    assert catalog.list_beside(30.0).names == ["shop.orders"]


def test_a_list_is_as_old_as_its_question(lab):
    lab.create()
    clock = [1000.0]
    made = lists(IcebergCatalog(lab.catalog), clock)

    assert made.take().names == ["shop.orders"]
    assert made.asked_s == 1000.0
    clock[0] += 59.0
    assert made.take() is None
    clock[0] += 1.0
    assert made.take().names == ["shop.orders"]
    assert made.asked_s == 1060.0


def test_who_waits_for_a_list_has_it_sooner_and_never_an_older_one(lab):
    lab.create()
    clock = [1000.0]
    made = lists(IcebergCatalog(lab.catalog), clock, every_s=3600.0)
    assert made.asked_since(1000.0) is None
    made.take()
    assert made.asked_since(1000.0).names == ["shop.orders"]

    clock[0] += 30.0
    assert made.asked_since(1030.0) is None
    assert made.take() is None
    clock[0] = 1000.0 + WANTED_EVERY_S
    lab.create("shop.sold")
    assert made.take().names == ["shop.orders", "shop.sold"]
    assert made.asked_since(1030.0) is made.newest
    # Nobody waits any more.
    clock[0] += 3599.0
    assert made.take() is None


class Wide(FaultyCatalog):
    """A catalog of many namespaces; each takes a minute, and the last one waits until it may answer."""

    def __init__(self, lab, clock):
        super().__init__(lab.catalog)
        self.clock, self.is_late, self.may_end = clock, threading.Event(), threading.Event()

    def list_tables(self, namespace):
        self.clock[0] += 60.0
        if namespace == ("z",):
            self.is_late.set()
            assert self.may_end.wait(30)
        return self.catalog.list_tables(namespace)


class Clocked(Threads):
    """Threads by a clock that is moved by hand."""

    def __init__(self, clock):
        self.clock = clock

    def beside(self, limit_s):
        return Beside(limit_s, lambda: self.clock[0])


def test_a_list_of_many_namespaces_that_takes_longer_than_an_hour_comes_to_its_end(lab):
    for name in (*(f"n{number:02}" for number in range(70)), "z"):
        lab.catalog.create_namespace(name)
    clock = [1000.0]
    wide = Wide(lab, clock)
    catalog = IcebergCatalog(wide, threads=Clocked(clock))

    assert catalog.list_beside(0.0) is None
    assert wide.is_late.wait(30)
    assert clock[0] > 1000.0 + LIMIT_S
    assert catalog.list_beside(0.0) is None
    wide.may_end.set()
    assert catalog.list_beside(30.0).silent == []


def test_a_list_that_hangs_in_one_question_for_an_hour_is_given_up(lab):
    lab.catalog.create_namespace("z")
    clock = [1000.0]
    wide = Wide(lab, clock)
    catalog = IcebergCatalog(wide, threads=Clocked(clock))

    assert catalog.list_beside(0.0) is None
    assert wide.is_late.wait(30)
    clock[0] += LIMIT_S + 1
    with pytest.raises(Unavailable, match="not done after"):
        catalog.list_beside(0.0)
    wide.may_end.set()


def test_a_list_that_fails_is_an_error_of_the_one_who_asks(lab):
    catalog = IcebergCatalog(lab.catalog)

    def broken(_):
        raise RuntimeError("a mistake")

    def late(_):
        raise TimeoutError("too late")

    catalog.names = broken
    with pytest.raises(RuntimeError, match="a mistake"):
        catalog.list_beside(30.0)
    catalog.names = late
    with pytest.raises(Unavailable, match="too late"):
        catalog.list_beside(30.0)
    del catalog.names
    assert catalog.list_beside(30.0).names == []


class Limiting(FaultyCatalog):
    """A catalog that wants a pause after each two requests."""

    def __init__(self, lab):
        super().__init__(lab.catalog)
        self.left, self.pauses = 2, []

    def list_tables(self, namespace):
        if not self.left:
            raise TooManyRequestsError("429")
        self.left -= 1
        return self.catalog.list_tables(namespace)

    def pause(self, seconds):
        self.pauses.append(seconds)
        self.left = 2 if len(self.pauses) < 10 else 0


def test_a_catalog_that_limits_requests_is_listed_wholly_with_pauses(lab):
    for number in range(6):
        lab.create(f"n{number}.t")
    limiting = Limiting(lab)
    lister = Lister(lambda: limiting, nullcontext, Breaker(), THREADS, limiting.pause)
    listing = lister.names()

    assert (len(listing.names), listing.unlisted) == (6, {})
    assert limiting.pauses == [WANTED_S] * 2
    limiting.left, limiting.pauses = 0, [0.0] * 10
    with pytest.raises(Unavailable):  # whoever never answers anything else does not answer
        lister.names()


class Behind(FaultyCatalog):
    """A catalog behind something that answers for it where one namespace is asked for."""

    def __init__(self, lab, error):
        super().__init__(lab.catalog)
        self.error = error

    def list_tables(self, namespace):
        if namespace == ("zoo",):
            raise self.error("Bad Gateway")
        return self.catalog.list_tables(namespace)


@pytest.mark.parametrize("error", [ServerError, ServiceUnavailableError, UnauthorizedError, ForbiddenError])
def test_only_a_refusal_says_that_a_namespace_is_not_for_us(lab, error):
    """A gateway's 502, a mistake in the server and a token that is over pass: a table in it may share files."""
    lab.create("shop.orders")
    lab.create("zoo.copy")
    listing = IcebergCatalog(Behind(lab, error)).names()
    assert listing.names == ["shop.orders"]
    assert list(listing.unlisted) == ["zoo"]
    assert listing.silent == ([] if error is ForbiddenError else ["zoo"])


def test_a_namespace_that_refused_is_told_for_each_name_by_an_error_of_its_own(lab):
    """One that is raised again keeps what was at hand each time."""
    front = FaultyCatalog(lab.catalog)
    front.list_tables = _refuse
    is_listed = Lister(lambda: front, nullcontext, Breaker(), THREADS).listed_once()
    told = []
    for name in ("shop.a", "shop.b"):
        with pytest.raises(Refused, match="namespace shop") as raised:
            is_listed(name)
        told.append((raised.value, len(raised.traceback)))
    (first, deep), (second, as_deep) = told

    assert (str(first), type(first.__cause__)) == (str(second), type(second.__cause__))
    assert first is not second
    assert deep == as_deep


@dataclass
class Dead:
    """A catalog most of whose namespaces hang until the question is given up; by a clock of its own."""

    namespaces: list
    dead: int
    now_s: float = 0.0
    asked: list = field(default_factory=list)

    def list_namespaces(self, namespace=()):
        return [] if namespace else [(name,) for name in self.namespaces]

    def list_tables(self, namespace):
        self.asked.append(namespace[0])
        if namespace[0] in self.namespaces[: self.dead]:
            self.now_s += 30
            raise ReadTimeout("Read timed out")
        return [(namespace[0], "t")]


def test_however_many_namespaces_are_dead_a_list_comes_to_its_end_and_each_is_asked_in_turn():
    dead = 300
    catalog = Dead([*(f"a{number:03}" for number in range(dead)), "zoo"], dead)
    lister = Lister(lambda: catalog, nullcontext, Breaker(lambda: catalog.now_s), THREADS)
    found, most_s = [], 0.0
    while catalog.now_s < 86_400:
        began_s = catalog.now_s
        listing = lister.names()
        most_s = max(most_s, catalog.now_s - began_s)
        found.append(listing.names)
        assert {*listing.silent} | {"zoo"} == {*catalog.namespaces}
        catalog.now_s += 60
    before = len(catalog.asked)
    catalog.dead = 0
    catalog.now_s += 7200
    listing = lister.names()

    assert most_s < LIMIT_S
    assert found[0] == []
    assert found[dead // 60 + 1 :] == [["zoo.t"]] * (len(found) - dead // 60 - 1)
    assert {*catalog.asked[:before]} == {*catalog.namespaces}
    assert min(Counter(catalog.asked[:before]).values()) > 3
    assert len(listing.names) == dead + 1
    assert listing.silent == []


def _refuse(_):
    raise ForbiddenError("403")


def test_a_namespace_counts_as_heard_once_it_has_refused_for_two_minutes(lab):
    """A server that restarts refuses too, and one answer would take all its names out at once."""
    lab.create("shop.orders")
    lab.create("zoo.copy")
    clock, heard = [1000.0], []
    made = lists(IcebergCatalog(Behind(lab, ForbiddenError)), clock)
    for _ in range(4):
        made.take()
        heard.append(made.has_heard_all)
        clock[0] += 60.0

    assert heard == [False, False, True, True]


def test_a_namespace_that_refuses_and_is_silent_by_turns_counts_as_heard_after_a_day(lab):
    lab.create("shop.orders")
    lab.create("zoo.copy")
    clock, heard = [1000.0], []
    behind = Behind(lab, ForbiddenError)
    made = lists(IcebergCatalog(behind, breaker=Breaker(lambda: clock[0])), clock, every_s=600.0)
    for number in range(26 * 6):
        behind.error = ServerError if number % 2 else ForbiddenError
        made.take()
        heard.append(made.has_heard_all)
        clock[0] += 600.0

    assert not any(heard[: 24 * 6])
    assert heard[-1]


def calls_for_a_list(folder, tables):
    """What a list of so many tables costs, each of which has a policy: calls of functions, the second time."""
    (folder / "all.yaml").write_text('tables: "*"\n')
    for number in range(20):
        (folder / f"{number}.yaml").write_text(
            f'tables: "n{number}.*"\ncompact: {{min_files: {number + 3}}}\n'
        )
    policies = PolicyFolder(folder)
    policies.reload(at_once=True)
    listed = SimpleNamespace(
        list_beside=lambda _: Listing([f"n{number % 20}.t{number}" for number in range(tables)], {})
    )
    clock = [1000.0]
    poller = Poller(
        60.0, lists(listed, clock), policies, Ledger(None), HeardEarly(), None, print, [].append, lambda: 0
    )
    calls = []
    for _ in range(2):
        clock[0] += 60.0
        calls.clear()
        sys.setprofile(lambda *_: calls.append(1))
        try:
            found = poller.tables()
        finally:
            sys.setprofile(None)
        assert len(found) == tables
    return len(calls)


def test_a_name_of_a_large_catalog_costs_a_list_no_more_than_one_of_a_small_one(tmp_path):
    """More tables than policies are remembered for."""
    few, many = 2000, 12_000

    assert calls_for_a_list(tmp_path, many) / many < 2 * calls_for_a_list(tmp_path, few) / few
