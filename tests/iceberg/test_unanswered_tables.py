"""When tables that do not come mean that the catalog is away."""

import pytest
from pyiceberg.exceptions import ForbiddenError, NoSuchTableError, ServerError
from requests.exceptions import ReadTimeout

from isotherm.iceberg.catalog import IcebergCatalog
from isotherm.iceberg.unanswered_tables import LONG_S, MANY, REMEMBERED, SilentTables
from isotherm.runtime.breaker import Breaker
from isotherm.service.ports import NotAsked, Refused, TableMissing, TableSilent, Unavailable

SILENT = [f"dead.t{number}" for number in range(MANY)]


class Clock:
    now_s = 1000.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def tables(clock):
    return SilentTables(Breaker(clock))


def none_comes(name):
    raise AssertionError(f"{name} is asked for")


def all_silent(tables, clock):
    """Many tables did not come, the first of them long ago."""
    for name in SILENT:
        assert tables.are_few(name, none_comes)
    clock.now_s += LONG_S


def test_some_tables_or_a_short_time_are_no_reason_to_ask_for_another(tables, clock):
    tables.came("shop.orders")
    all_silent(tables, clock)
    clock.now_s -= 1
    assert tables.are_few(SILENT[0], none_comes)
    tables.came("shop.orders")
    clock.now_s += 10 * LONG_S

    assert tables.are_few(SILENT[0], none_comes)
    clock.now_s += LONG_S
    assert tables.are_few(SILENT[1], none_comes), "two of them"


@pytest.mark.parametrize("comes", [True, False])
def test_many_for_long_are_few_where_one_that_came_before_comes_again(tables, clock, comes):
    asked = []

    def ask(name):
        asked.append(name)
        return comes

    tables.came("shop.orders")
    tables.came("dead.t9")
    all_silent(tables, clock)

    assert tables.are_few(SILENT[0], ask) == comes
    assert asked == ["shop.orders"], "of another namespace, whose store may be another"
    if comes:
        assert tables.are_few(SILENT[0], none_comes), "they are counted from the start again"
    else:
        assert not tables.are_few(SILENT[0], ask)
        assert asked == ["shop.orders", "dead.t9"], "one that did not come is not asked for twice"
        assert not tables.are_few(SILENT[0], none_comes), "and then there is nobody left to ask for"


def test_a_table_that_hangs_is_not_asked_for_in_the_place_of_others(tables, clock):
    for name in SILENT:
        tables.came(name)
    all_silent(tables, clock)

    assert not tables.are_few(SILENT[0], none_comes)


def test_of_very_many_tables_the_newest_that_came_are_remembered(tables, clock):
    for number in range(REMEMBERED + 1):
        tables.came(f"shop{number}.t")
    asked = []
    all_silent(tables, clock)
    for _ in range(REMEMBERED + 1):
        tables.are_few(SILENT[0], lambda name: bool(asked.append(name)))

    assert len(asked) == REMEMBERED
    assert "shop0.t" not in asked


class Catalog:
    """One that hangs about some tables, and says something else about others."""

    def __init__(self, says):
        self.properties = {}
        self.says = says

    def list_namespaces(self):
        return [("shop",)]

    def load_table(self, name):
        raise self.says.get(name, ReadTimeout("Read timed out."))


def asks(catalog, name):
    """What is raised for a table."""
    with pytest.raises((Unavailable, TableMissing)) as caught:
        catalog.load(name)
    return type(caught.value)


@pytest.mark.parametrize(
    ("says", "kind", "is_answer"),
    [
        (NoSuchTableError("404"), TableMissing, True),
        (ForbiddenError("403"), Refused, True),
        (FileNotFoundError("its metadata"), None, True),
        (ServerError("500"), None, False),
    ],
)
def test_whatever_a_catalog_says_about_a_table_is_an_answer_and_a_gateways_trouble_is_none(
    clock, says, kind, is_answer
):
    catalog = IcebergCatalog(Catalog({"shop.other": says}), breaker=Breaker(clock))
    for name in SILENT:
        assert asks(catalog, name) is TableSilent
    clock.now_s += LONG_S
    assert kind in {asks(catalog, "shop.other"), None}
    last = asks(catalog, SILENT[0])

    assert (last is TableSilent) == is_answer
    assert (asks(catalog, SILENT[1]) is NotAsked) != is_answer


def test_a_look_beside_the_loop_shows_that_tables_come(clock):
    catalog = IcebergCatalog(Catalog({"shop.other": ForbiddenError("403")}), breaker=Breaker(clock))
    for name in SILENT:
        assert asks(catalog, name) is TableSilent
    clock.now_s += LONG_S
    with pytest.raises(Refused):
        catalog.lies("shop.other")

    assert asks(catalog, SILENT[0]) is TableSilent
