"""Names that gave the same table are remembered until a list has said which it has, and not for ever."""

from dataclasses import replace

import pytest

from isotherm.core import observations as seen
from isotherm.service.tables.two_names import MOST, TwoNames
from support.lab import NEVER_DUE, Lab, of, settle, started


def test_a_pair_is_as_old_as_its_first_look_until_it_is_known():
    names = TwoNames()

    assert [names.since_s("Shop.Orders", "shop.orders", now_s) for now_s in (5.0, 9.0)] == [5.0, 5.0]
    names.over("Shop.Orders", "shop.orders")
    assert names.since_s("Shop.Orders", "shop.orders", 12.0) == 12.0


def test_a_name_that_gives_a_table_of_its_own_is_in_no_pair_any_more():
    names = TwoNames()
    names.since_s("orders", "items", 1.0)
    names.since_s("users", "orders", 1.0)
    names.own("orders")

    assert names.since_s("orders", "items", 5.0) == 5.0
    assert names.since_s("users", "orders", 5.0) == 1.0


@pytest.fixture
def mixed_up(tmp_path):
    """A daemon that knows two tables, and a number of times that a question about orders gets the answer about items."""
    lab = Lab(tmp_path, policy=NEVER_DUE)
    for name in ("shop.orders", "shop.items"):
        lab.append(lab.create(name), 1)
    service = started(lab)
    settle(service)
    load, lies, wrong = service.catalog.load, service.catalog.lies, []

    def load_mixed_up(name):
        if name == "shop.orders" and wrong:
            wrong.pop()
            found = load("shop.items")
            return replace(found, table=replace(found.table, name=name))
        return load(name)

    def lies_mixed_up(name):
        if name == "shop.orders" and wrong:
            wrong.pop()
            return lies("shop.items")
        return lies(name)

    service.catalog.load, service.catalog.lies = load_mixed_up, lies_mixed_up
    yield lab, service, wrong
    service.stop()


def turn(lab, service, hours=0):
    lab.ahead_ms += hours * 3_600_000
    service.follower.suspects.add("shop.orders")
    for _ in range(20):
        lab.ahead_ms += 60_000
        service.step(0)


@pytest.mark.parametrize("later", [1, 2])
def test_answers_about_another_table_that_come_hours_apart_halt_nobody(mixed_up, later):
    lab, service, wrong = mixed_up
    names = service.fold.names()
    wrong += [1]
    turn(lab, service)
    wrong += [1] * later
    turn(lab, service, hours=7)

    assert wrong == []
    assert of(lab, seen.TableHalted) == of(lab, seen.TableGone) == []
    assert service.fold.names() == names


def test_a_table_is_asked_for_once_more_before_it_is_halted_as_a_second_entry(mixed_up):
    lab, service, wrong = mixed_up
    names = service.fold.names()
    wrong += [1, 1]
    turn(lab, service)

    assert wrong == []
    assert of(lab, seen.TableHalted) == of(lab, seen.TableGone) == []
    assert service.fold.names() == names


def test_pairs_of_tables_that_are_gone_or_that_nobody_asks_for_again_are_forgotten():
    names = TwoNames()
    for known in ("a", "b", "c"):
        names.since_s(f"other {known}", known, 1.0)
    names.gone("a")
    names.gone("other b")

    assert len(names) == 1
    for number in range(MOST):
        names.since_s(f"name {number}", "d", 2.0)
    assert len(names) == MOST
    assert names.since_s("other c", "c", 3.0) == 3.0
