"""Names that gave the same table are remembered until a list has said which it has, and not for ever."""

from isotherm.service.two_names import MOST, TwoNames


def test_a_pair_is_as_old_as_its_first_look_until_it_is_known():
    names = TwoNames()

    assert [names.since_s("Shop.Orders", "shop.orders", now_s) for now_s in (5.0, 9.0)] == [5.0, 5.0]
    names.over("Shop.Orders", "shop.orders")
    assert names.since_s("Shop.Orders", "shop.orders", 12.0) == 12.0


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
