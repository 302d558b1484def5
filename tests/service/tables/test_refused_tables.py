"""A table that is refused is said to fail until it is shown, is gone, or is another daemon's."""

import pytest

from isotherm.core.observations import TableFailed
from isotherm.service.ports import NoWord, Refused, Unreadable
from isotherm.service.tables.missing_tables import REFUSED_FOR_S
from isotherm.telemetry.metrics import Metrics
from support.deleting import followed
from support.lab import EXPIRING, Lab, settle, uuid_of
from support.refused_tables import front, refusing


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path, policy=EXPIRING)


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
