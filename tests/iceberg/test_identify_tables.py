"""A look at each listed name: which table it is now, which is gone, and which does not answer."""

import threading
from queue import SimpleQueue
from threading import Event

import pytest

from isotherm.iceberg.catalog import LOOK_LIMIT_S, IcebergCatalog, connect
from isotherm.iceberg.identify_tables import AGAIN_S, MOST_HANGING, SILENT_AT_ONCE
from isotherm.iceberg.threads import Beside
from isotherm.runtime.breaker import Breaker
from isotherm.runtime.config import CatalogConfig
from support import dotted
from support.in_process import AtOnce
from support.lab import uuid_of


@pytest.fixture
def listed(lab):
    """A catalog with a table in the namespace `eu.prod`, which is one level, and what it lists."""
    lab.create(dotted.HELD)
    others = {key: value for key, value in lab.properties.items() if key != "type"}
    real = connect(CatalogConfig(properties={**others, "py-catalog-impl": "support.dotted.Dotted"}))
    catalog = IcebergCatalog(real, threads=AtOnce())
    return catalog, catalog.names().names


def test_a_table_in_a_namespace_with_a_dot_is_looked_at(lab, listed):
    catalog, names = listed
    catalog.start_looking(names)
    looked = catalog.looked()

    assert dotted.NAME in names
    assert looked.found[dotted.NAME].uuid == uuid_of(lab.catalog.load_table(dotted.HELD))
    assert catalog.load(dotted.NAME).table.uuid == looked.found[dotted.NAME].uuid
    assert looked.gone == []


def test_one_list_says_of_all_tables_of_a_namespace_that_are_not_found_whether_they_are_listed(listed):
    catalog, names = listed
    catalog.catalog.has_table = False
    catalog.catalog.lists = 0
    catalog.start_looking([*names, "eu.prod.t", "eu.gone.a", "eu.gone.b"])
    looked = catalog.looked()

    # By two parts of its name, a namespace is another one.
    assert set(looked.missing) == set(names)
    assert set(looked.gone) == {"eu.prod.t", "eu.gone.a", "eu.gone.b"}
    assert catalog.catalog.lists <= 1 + 2


class Hanging:
    """Looks in real threads, by a clock that is set: some names hang until the test is over."""

    def __init__(self, lab, names):
        self.now_s, self.asked, self.over, self.names = 0.0, SimpleQueue(), Event(), names
        self.hung, self.ended = [], SimpleQueue()
        self.catalog = IcebergCatalog(lab.catalog, breaker=Breaker(lambda: self.now_s), threads=self)
        self.real, self.catalog.lies = self.catalog.lies, self.lies

    def beside(self, limit_s):
        return Beside(limit_s, lambda: self.now_s)

    def lies(self, name):
        if name in self.names:
            self.asked.put(name)
            self.over.wait(60)
            self.ended.put(name)
        return self.real(name)

    def let_go(self):
        """Have what hangs end."""
        self.over.set()
        for name in self.hung:
            assert self.ended.get(timeout=30) in self.names, name
        while self.catalog.hanging() and any(
            one.name == "isotherm-beside-looking" for one in threading.enumerate()
        ):
            pass

    def looked_again(self, listed):
        """What a look comes to in which no name hangs that was not given up before."""
        self.catalog.start_looking(listed)
        self.catalog.wait(30)
        return self.catalog.looked()

    def looked(self, listed):
        """What a look comes to, when each name that hangs has had its time."""
        self.catalog.start_looking(listed)
        for _ in self.names:
            self.hung.append(self.asked.get(timeout=30))
            self.now_s += LOOK_LIMIT_S + 1
            if (looked := self.catalog.looked()) is not None:
                return looked
        self.catalog.wait(30)
        return self.catalog.looked()


@pytest.fixture
def hanging(lab):
    for number in range(9):
        lab.create(f"shop.t{number}")
    made = []

    def make(*names):
        made.append(Hanging(lab, names))
        return made[-1]

    yield make
    for one in made:
        one.over.set()


def test_a_name_that_hangs_is_silent_alone(hanging):
    names = [f"shop.t{number}" for number in range(9)]
    looked = hanging("shop.t0", "shop.t4").looked([*names, "shop.dropped"])

    assert set(looked.silent) == {"shop.t0", "shop.t4"}
    assert set(looked.found) == {*names} - {"shop.t0", "shop.t4"}
    assert (looked.gone, looked.unasked) == (["shop.dropped"], [])


def test_where_name_after_name_hangs_the_others_are_not_asked_for(hanging):
    names = [f"shop.t{number}" for number in range(9)]
    looked = hanging(*names[:SILENT_AT_ONCE]).looked(names)

    assert set(looked.silent) == set(names[:SILENT_AT_ONCE])
    assert set(looked.unasked) == set(names[SILENT_AT_ONCE:])


def test_a_name_that_hangs_for_ever_costs_one_thread_however_often_it_is_looked_at(hanging):
    names = [f"shop.t{number}" for number in range(3)]
    lab = hanging("shop.t0")
    before = lab.catalog.hanging()
    first = lab.looked(names)
    again = [lab.looked_again(names) for _ in range(5)]

    assert [set(looked.silent) for looked in (first, *again)] == [{"shop.t0"}] * 6
    assert [set(looked.found) for looked in (first, *again)] == [{"shop.t1", "shop.t2"}] * 6
    assert lab.asked.empty()
    assert lab.catalog.hanging() - before == 1
    lab.let_go()
    assert lab.catalog.hanging() == before
    assert set(lab.looked_again(names).found) == set(names)


def test_where_many_names_hang_for_ever_no_other_is_asked_for(hanging):
    names = [f"shop.t{number}" for number in range(9)]
    lab = hanging(*names[:4])
    lab.looked(names)
    lab.names = names[4:MOST_HANGING]
    lab.looked(names)
    looked = lab.looked_again(names)

    assert set(looked.silent) == set(names[:MOST_HANGING])
    assert list(looked.unasked) == names[MOST_HANGING:]
    assert lab.asked.empty()


def test_names_that_hung_when_the_catalog_was_away_are_asked_for_again_though_their_questions_never_end(
    hanging,
):
    names = [f"shop.t{number}" for number in range(9)]
    lab = hanging(*names[:4])
    lab.looked(names)
    lab.names = names[4:MOST_HANGING]
    lab.looked(names)
    lab.names = []
    assert not lab.looked_again(names).found

    lab.now_s += AGAIN_S
    assert set(lab.looked_again(names).found) == set(names)
    assert lab.catalog.hanging() >= MOST_HANGING
    lab.names = names
