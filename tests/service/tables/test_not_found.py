"""A table that is refused or not found is gone only once lists have shown it for long enough."""

from contextlib import suppress
from dataclasses import replace

import pytest
from pyiceberg.exceptions import ServerError, UnauthorizedError

from isotherm.core.observations import TableFailed, TableGone, TableRefused
from isotherm.iceberg.errors import translated
from isotherm.service.ports import NotYetKnown, NoWord, Refused, TableMissing, Unreadable
from isotherm.service.tables.missing_tables import GONE_AFTER_S, NO_WORD_FOR_S, REFUSED_FOR_S
from isotherm.telemetry.metrics import Metrics
from support.deleting import followed
from support.lab import EXPIRING, Lab, settle, started, uuid_of


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


def front(service, what):
    """A catalog that refuses one table, whether it has it or not."""
    load, names = service.catalog.load, service.catalog.names

    def refusing(name):
        if name == "shop.orders":
            raise Refused("ForbiddenError: 403")
        return load(name)

    def hiding(*_):
        return replace(names(), unlisted={"shop": "403"})

    service.catalog.load = refusing
    if what == "hidden":
        service.catalog.names = hiding


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


@pytest.mark.parametrize("said", [NoWord("500: a null pointer"), Refused("403")])
def test_that_a_table_fails_stands_until_it_does_not_however_often_it_is_asked_for(lab, said):
    """Each time it took the gauge away, which was told once an hour: no alert could come of it."""
    metrics = Metrics(lab.now_ms, "test")
    lab.append(lab.create(), 1)
    service = lab.service(listen=metrics)
    service.start()
    settle(service)
    load = service.catalog.load

    def troubled(name):
        if name == "shop.orders":
            raise said
        return load(name)

    service.catalog.load = troubled
    found = []
    for _ in range(60):
        lab.ahead_ms += 300_000
        service.follower.suspects.add("shop.orders")
        service.round()
        found.append(metrics.registry.get_sample_value("isotherm_table_failing", {"table": "shop.orders"}))
    assert 1 in found
    assert set(found[found.index(1) :]) == {1}

    service.catalog.load = load
    lab.ahead_ms += 3_600_000
    service.round()
    assert metrics.registry.get_sample_value("isotherm_table_failing", {"table": "shop.orders"}) is None
    service.stop()


def test_a_table_that_failed_since_the_start_and_is_renamed_fails_no_more(lab):
    """No round had planned it yet, and nobody ever asked for the old name again."""
    _, service = followed(lab)
    lab.append(lab.create("shop.other"), 1)
    settle(service)
    service.stop()
    service = lab.service()
    load = service.catalog.load

    def refused(name):
        if name == "shop.orders":
            raise Refused("403")
        return load(name)

    service.catalog.load = refused
    service.start()
    for _ in range(30):
        lab.ahead_ms += 600_000
        service.step(0)
    assert set(service.barrier.failing) == {"shop.orders"}

    lab.catalog.rename_table("shop.orders", "shop.renamed")
    service.catalog.load = load
    for _ in range(60):
        lab.ahead_ms += 600_000
        service.step(0)
    assert "shop.renamed" in service.fold.names().values()
    assert set(service.barrier.failing) == set()
    service.stop()


def test_a_table_that_is_listed_and_refused_for_an_hour_has_no_gauges_but_that_it_fails(lab):
    """It may be dropped, and its debt would raise an alert for ever; or a right is missing, which somebody must be told."""
    metrics = Metrics(lab.now_ms, "test")
    table = lab.create()
    for hour in (1, 1, 1, 2, 3):
        lab.append(table, hour)
    service = lab.service(listen=metrics)
    service.start()

    def gauges():
        return {
            family.name
            for family in metrics.registry.collect()
            if family.type == "gauge" and not family.name.startswith("isotherm_unneeded")
            for sample in family.samples
            if sample.labels.get("table") == "shop.orders"
        }

    # A job that ends later would add a series.
    settle(service)
    before = gauges()
    assert len(before) > 10
    load = service.catalog.load
    front(service, "listed")
    for waits_s in (0, REFUSED_FOR_S - 60, 3_600):
        assert gauges() == before
        lab.ahead_ms += int(waits_s * 1000)
        service.follower.suspects.add("shop.orders")
        service.round()
    assert gauges() == {"isotherm_table_failing"}

    service.catalog.load = load
    lab.ahead_ms += 4 * 3_600_000
    service.follower.suspects.add("shop.orders")
    service.round()
    # When a job last succeeded is told by the next one.
    assert gauges() == before - {"isotherm_last_success_timestamp_seconds"}
    service.stop()


def refusing(service, said, name="shop.orders"):
    """The catalog says this of one table, as long as the list is not empty."""
    load, said = service.catalog.load, [said]

    def asked(one):
        if said and one == name:
            raise said[0]
        return load(one)

    service.catalog.load = asked
    return said


@pytest.mark.parametrize("said", [NoWord("500: a null pointer"), Refused("403")])
@pytest.mark.parametrize("told", [True, False])
def test_a_table_that_was_never_read_and_is_dropped_is_asked_for_no_more(lab, said, told):
    """Catalogs that show nobody what they do not have say the same of it as of one that lacks a right."""
    lab.append(lab.create("shop.other"), 1)
    lab.create()
    service = lab.service()
    refused = refusing(service, Unreadable("its metadata is damaged") if told else said)
    service.start()
    for _ in range(4):
        lab.ahead_ms += 600_000
        service.step(0)
    assert set(service.barrier.failing) == ({"shop.orders"} if told else set())

    lab.catalog.drop_table("shop.orders")
    refused[0] = said
    for _ in range(12):
        lab.ahead_ms += 3_600_000
        service.step(0)

    assert "shop.orders" not in service.follower.suspects
    assert set(service.barrier.failing) == set()
    assert not service.barrier.is_settled("shop.orders")
    service.stop()


@pytest.mark.parametrize("said", [NoWord("500: a null pointer"), Refused("403")])
def test_a_table_that_is_listed_and_was_never_shown_is_told_after_an_hour(lab, said):
    lab.append(lab.create("shop.other"), 1)
    lab.create()
    service = lab.service()
    refused = refusing(service, said)
    service.start()
    service.step(0)
    assert set(service.barrier.failing) == set()
    for _ in range(12):
        lab.ahead_ms += 600_000
        service.step(0)
    assert set(service.barrier.failing) == {"shop.orders"}

    refused.clear()
    for _ in range(3):
        lab.ahead_ms += 3_600_000
        service.step(0)
    assert set(service.barrier.failing) == set()
    service.stop()


@pytest.mark.parametrize("said", [NoWord("500: a null pointer"), Refused("403")])
def test_a_table_that_another_daemon_has_by_now_is_its_to_ask_for(lab, said):
    table, service = followed(lab)
    refusing(service, said)
    for _ in range(12):
        lab.ahead_ms += 600_000
        service.follower.suspects.add("shop.orders")
        service.step(0)
    assert set(service.barrier.failing) == {"shop.orders"}

    service.events.elsewhere.add(uuid_of(table))
    lab.seen.clear()
    for _ in range(12):
        lab.ahead_ms += 600_000
        service.step(0)

    assert set(service.barrier.failing) == set()
    assert "shop.orders" not in service.follower.suspects
    assert not [one for one in lab.seen if isinstance(one, TableFailed)]
    service.stop()


@pytest.mark.parametrize("is_lagging", [False, True])
def test_a_table_that_was_renamed_out_of_a_namespace_that_nobody_may_list_loses_its_old_name(lab, is_lagging):
    """No list ever says that it is gone: the name itself is asked, twice, and one answer of a replica is none."""
    table, service = followed(lab)
    uuid = uuid_of(table)
    lab.append(lab.create("zoo.other"), 1)
    names = service.catalog.names

    def hidden(*_):
        listing = names()
        shown = [one for one in listing.names if not one.startswith("shop.")]
        return replace(listing, names=shown, unlisted={"shop": "403"})

    service.catalog.names = hidden
    lab.catalog.rename_table("shop.orders", "zoo.orders")
    lab.append(lab.catalog.load_table("zoo.orders"), 2)
    service.follower.suspects |= {"shop.orders", "zoo.orders"}
    for _ in range(4):
        lab.ahead_ms += 10_000
        service.step(0)
    assert service.fold.names()[uuid] == "zoo.orders"
    assert set(service.seen_names.of(uuid)) == {"shop.orders", "zoo.orders"}
    if is_lagging:
        lab.catalog.rename_table("zoo.orders", "shop.orders")
        lab.catalog.register_table("zoo.orders", lab.catalog.load_table("shop.orders").metadata_location)
    for _ in range(3):
        lab.ahead_ms += int(GONE_AFTER_S * 1000) + 1000
        service.follower.suspects.add("zoo.orders")
        service.step(0)

    assert set(service.seen_names.of(uuid)) == {"zoo.orders"} | ({"shop.orders"} if is_lagging else set())
    service.stop()


def test_a_table_that_comes_under_a_name_that_was_refused_is_not_told_as_refused_for_long(lab):
    lab.append(lab.create("shop.other"), 1)
    service = lab.service()
    refusing(service, Refused("403"))
    service.start()
    for turn in range(8):
        if turn % 4 == 0:
            lab.create()
        if turn % 4 == 2:
            lab.catalog.drop_table("shop.orders")
        lab.ahead_ms += 1_800_000
        service.step(0)
    lab.create()
    for _ in range(3):
        lab.ahead_ms += 60_000
        service.step(0)

    assert not service.barrier.failing
    service.stop()


@pytest.mark.parametrize("past", ["new", "swapped", "made again", "dropped and renamed"])
def test_the_name_by_which_a_table_is_known_is_kept_whatever_it_was_before(lab, past):
    """No look need come for it: a listed name is looked at once, and again where files wait."""
    table, service = followed(lab)
    other = lab.create("shop.other")
    lab.append(other, 1)
    for _ in range(3):
        service.step(0)
    if past == "swapped":
        for before, after in (("orders", "t"), ("other", "orders"), ("t", "other")):
            lab.catalog.rename_table(f"shop.{before}", f"shop.{after}")
        table = lab.catalog.load_table("shop.orders")
    elif past == "made again":
        lab.catalog.rename_table("shop.orders", "shop.old")
        table = lab.create()
    elif past == "dropped and renamed":
        lab.catalog.drop_table("shop.orders")
        lab.catalog.rename_table("shop.other", "shop.orders")
        table = lab.catalog.load_table("shop.orders")
    lab.append(table, 3)
    for _ in range(6):
        lab.ahead_ms += int(GONE_AFTER_S * 1000)
        service.follower.suspects.add("shop.orders")
        service.step(0)

    assert service.fold.names()[uuid_of(table)] == "shop.orders"
    assert service.ledger.seen_names()["shop.orders"] == uuid_of(table)
    service.stop()
