"""A table that is refused or not found is gone only once lists have shown it for long enough."""

from contextlib import suppress

import pytest
from pyiceberg.exceptions import ServerError, UnauthorizedError

from isotherm.core.observations import TableGone, TableRefused
from isotherm.iceberg.errors import translated
from isotherm.service.ports import NotYetKnown, NoWord, Refused, TableMissing, Unreadable
from isotherm.service.tables.missing_tables import GONE_AFTER_S, NO_WORD_FOR_S, REFUSED_FOR_S
from support.deleting import followed
from support.lab import EXPIRING, Lab, started, uuid_of
from support.refused_tables import front


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path, policy=EXPIRING)


def test_a_table_that_is_not_found_is_gone_only_minutes_later(lab):
    table, service = followed(lab)
    lab.catalog.drop_table("shop.orders")
    for _ in range(2):
        with pytest.raises(TableMissing):
            service.follower.confirm("shop.orders")
        service.step(0)  # makes a list
    assert service.fold.table(uuid_of(table)) is not None

    lab.ahead_ms += int(GONE_AFTER_S * 1000)

    assert service.follower.confirm("shop.orders") is None
    assert service.fold.table(uuid_of(table)) is None
    service.stop()


@pytest.mark.parametrize("what", ["dropped", "listed", "hidden", "alone", "unlisted for a moment"])
def test_a_table_that_is_refused_and_not_listed_for_an_hour_is_gone(lab, what):
    """Some catalogs answer 403 for a table that they do not have. One that is listed lacks a right, and stays."""
    table, service = followed(lab)
    if what != "alone":  # a list without any name is no list
        lab.append(lab.create("shop.other"), 1)
        for _ in range(3):
            service.step(0)
    front(service, what)
    if what != "listed":
        lab.catalog.drop_table("shop.orders")
    for waits_s in (0, GONE_AFTER_S, REFUSED_FOR_S - GONE_AFTER_S - 60):
        lab.ahead_ms += int(waits_s * 1000)
        with pytest.raises(Refused):
            service.follower.confirm("shop.orders")
        service.step(0)  # makes a list
    if what == "unlisted for a moment":
        lab.catalog.register_table("shop.orders", table.metadata_location)
        service.step(0)

    lab.ahead_ms += 120_000
    with suppress(Unreadable):
        service.follower.confirm("shop.orders")

    gone = [one.why for one in lab.seen if isinstance(one, TableGone)]
    assert (service.fold.table(uuid_of(table)) is None) is (what in ("dropped", "alone"))
    assert len(gone) == (what in ("dropped", "alone"))
    assert all("403" in why and "nor does the catalog list it" in why for why in gone)
    service.stop()


@pytest.mark.parametrize("is_listed", [True, False])
@pytest.mark.parametrize("trouble", [ServerError("500: a null pointer"), UnauthorizedError("401: expired")])
def test_a_mistake_in_the_server_or_a_token_that_is_over_is_no_missing_right_and_is_told_after_an_hour(
    lab, trouble, is_listed
):
    """Lists alone say that such a table is gone, and not before a day has passed."""
    table, service = followed(lab)
    lab.append(lab.create("shop.other"), 1)
    for _ in range(3):
        service.step(0)
    load = service.catalog.load

    def troubled(name):
        if name != "shop.orders":
            return load(name)
        with translated("table shop.orders"):
            raise trouble

    service.catalog.load = troubled
    if not is_listed:
        lab.catalog.drop_table("shop.orders")
    for waits_s in (0, GONE_AFTER_S, REFUSED_FOR_S - GONE_AFTER_S - 60):
        lab.ahead_ms += int(waits_s * 1000)
        with pytest.raises(NoWord):
            service.follower.confirm("shop.orders")
        service.step(0)  # makes a list
    assert not [one for one in lab.seen if isinstance(one, TableGone | TableRefused)]
    for waits_s in (120, NO_WORD_FOR_S - REFUSED_FOR_S - 120):
        lab.ahead_ms += int(waits_s * 1000)
        with pytest.raises(Unreadable, match="for long: the catalog has to be mended"):
            service.follower.confirm("shop.orders")
        service.step(0)
    assert "shop.orders" in [one.table.name for one in lab.seen if isinstance(one, TableRefused)]
    assert service.fold.table(uuid_of(table)) is not None

    lab.ahead_ms += 120_000
    with suppress(Unreadable):
        service.follower.confirm("shop.orders")
    assert (service.fold.table(uuid_of(table)) is not None) is is_listed
    service.stop()


def test_a_table_that_was_refused_is_not_gone_when_it_is_said_once_to_be_missing(lab):
    """A catalog that is restarted may refuse everybody, and then know nothing for a moment."""
    table, service = followed(lab)
    lab.append(lab.create("shop.other"), 1)
    for _ in range(3):
        service.step(0)
    load = service.catalog.load
    front(service, "refused")
    lab.catalog.drop_table("shop.orders")
    with pytest.raises(Refused):
        service.follower.confirm("shop.orders")
    lab.ahead_ms += int(GONE_AFTER_S * 1000)
    service.step(0)  # makes a list
    service.catalog.load = load

    with pytest.raises(TableMissing):
        service.follower.confirm("shop.orders")

    assert service.fold.table(uuid_of(table)) is not None
    lab.ahead_ms += int(GONE_AFTER_S * 1000)
    with suppress(TableMissing):
        service.step(0)
        service.follower.confirm("shop.orders")
    assert service.fold.table(uuid_of(table)) is None
    service.stop()


def without_lists(service):
    """From now on a list is there when the test says so, by what is given."""
    real, service.catalog.list_beside = service.catalog.list_beside, lambda _: None

    def make():
        service.catalog.list_beside = real
        assert service.lists.take() is not None
        service.catalog.list_beside = lambda _: None

    return make


def test_one_list_made_beside_the_loop_answers_for_all_tables_of_a_schema_that_was_dropped(lab):
    names = [f"shop.t{number}" for number in range(5)]
    for name in ("shop.stays", *names):
        lab.append(lab.create(name), 1)
    service = started(lab)
    for _ in range(3):
        service.step(0)
    make_a_list = without_lists(service)
    for name in names:
        lab.catalog.drop_table(name)
        with pytest.raises(TableMissing):
            service.follower.confirm(name)
    lab.ahead_ms += int(GONE_AFTER_S * 1000) + 1000
    # The newest list is older than the first time that they were not found.
    for name in names:
        with pytest.raises(TableMissing):
            service.follower.confirm(name)
    make_a_list()

    assert [service.follower.confirm(name) for name in names] == [None] * 5
    assert list(service.fold.names().values()) == ["shop.stays"]
    service.stop()


def test_a_second_entry_is_told_by_the_next_list_and_nobody_waits_for_it(lab):
    tables = [lab.create(f"shop.t{number}") for number in range(4)]
    for table in tables:
        lab.append(table, 1)
    service = started(lab)
    for _ in range(3):
        service.step(0)
    make_a_list = without_lists(service)
    for number, table in enumerate(tables):
        lab.catalog.register_table(f"shop.again{number}", table.refresh().metadata_location)
        service.follower.suspects.add(f"shop.again{number}")
    service.round()

    assert service.health.catalog_answers
    assert service.ledger.holds() == []
    with pytest.raises(NotYetKnown, match="next list"):
        service.follower.confirm("shop.again0")
    make_a_list()
    with pytest.raises(NotYetKnown, match="next list"):
        service.follower.confirm("shop.again0")  # that list was asked for before the second entry was seen
    make_a_list()
    lab.ahead_ms += 600_000
    service.round()

    assert [service.ledger.halted(uuid_of(table)) is not None for table in tables] == [True] * 4
    service.stop()
