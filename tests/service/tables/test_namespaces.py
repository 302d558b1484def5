"""Namespaces that the catalog does not list, or not soon: they hide no table of another, and prove nothing."""

import pytest
from requests.exceptions import ReadTimeout

from isotherm.core import observations as seen
from isotherm.iceberg.list_tables import SILENT_IN_A_ROW
from isotherm.runtime.config import LoopConfig
from isotherm.service.ports import StoreAway, TableMissing, Unavailable
from isotherm.service.tables.catalog_lists import PATIENCE_S
from isotherm.service.tables.missing_tables import GONE_AFTER_S
from support.faults import FaultyCatalog
from support.lab import EAGER, Lab, of, uuid_of

TIME_OUT_MS = 30_000


class Silent(FaultyCatalog):
    """A catalog that has no answer for some namespaces, each of which costs a time-out."""

    def __init__(self, lab, namespaces):
        super().__init__(lab.catalog)
        self.lab, self.silent, self.asked = lab, set(namespaces), []
        self.is_away = False

    def list_namespaces(self, *namespace):
        if self.is_away:
            raise ReadTimeout("read timed out")
        return self.catalog.list_namespaces(*namespace)

    def list_tables(self, namespace):
        self.asked.append(namespace[0])
        if namespace[0] in self.silent:
            self.lab.ahead_ms += TIME_OUT_MS
            raise ReadTimeout("read timed out")
        return self.catalog.list_tables(namespace)


@pytest.fixture
def lab(tmp_path):
    made = Lab(tmp_path, policy=EAGER)
    made.config = made.config.model_copy(update={"loop": LoopConfig()})
    return made


def silent(lab, *namespaces):
    for namespace in namespaces:
        lab.catalog.create_namespace(namespace)
    lab.catalog = Silent(lab, namespaces)
    service = lab.service()
    service.start()
    return service


def turn_for(lab, service, seconds):
    end_s = lab.monotonic_s() + seconds
    while lab.monotonic_s() < end_s:
        service.step(0)
        lab.ahead_ms += 1000


def turn_for_hours(lab, service, hours):
    """A few turns in each half hour: a gap of many hours between two lists would be an outage."""
    for _ in range(int(2 * hours)):
        lab.ahead_ms += 1800_000
        for _ in range(3):
            service.step(0)


def test_a_namespace_without_an_answer_hides_no_table_of_others(lab):
    tables = [lab.create(f"shop.t{place}") for place in range(3)]
    service = silent(lab, "federated")

    turn_for(lab, service, 3600)

    assert set(service.fold.names()) == {uuid_of(table) for table in tables}
    asked = lab.catalog.asked.count("federated")
    assert 2 <= asked <= 12, "its pauses grow"
    assert [one.what for one in of(lab, seen.TrySoon)] == ["the tables of namespace federated"]
    lab.catalog.silent.clear()
    other = lab.create("federated.orders")
    turn_for(lab, service, 3700)
    assert uuid_of(other) in service.fold.names()
    service.stop()


def test_until_a_silent_namespace_was_silent_for_a_day_not_everything_was_found(lab):
    lab.create("shop.orders")
    service = silent(lab, "federated")

    turn_for(lab, service, 600)
    before = service.rounds.has_found_all
    turn_for_hours(lab, service, PATIENCE_S / 3600 - 1)
    early = service.rounds.has_found_all
    lab.ahead_ms += 3600_000
    unasked = service.lists.has_heard_all
    turn_for(lab, service, 600)

    assert (before, early, unasked, service.rounds.has_found_all) == (False, False, False, True)
    service.stop()


def test_an_outage_of_the_whole_catalog_is_no_silence_of_a_namespace(lab):
    """Silent just before and just after a weekend without the catalog: that is minutes, and not a day."""
    lab.create("shop.orders")
    service = silent(lab, "federated")
    turn_for(lab, service, 600)
    lab.catalog.is_away = True
    turn_for_hours(lab, service, 48)
    lab.catalog.is_away = False
    turn_for(lab, service, 600)
    after = service.lists.has_heard_all
    turn_for_hours(lab, service, 25)

    assert (after, service.lists.has_heard_all) == (False, True)
    service.stop()


@pytest.mark.parametrize("dead", [1, 4], ids=["one", "more than a round has time for"])
def test_an_entry_whose_store_was_silent_for_a_day_counts_as_looked_at(lab, dead):
    """A stale entry of a decommissioned host never answers: the daemon would never know that its ledger is right."""
    lab.append(lab.create("shop.orders"), 1)
    for place in range(dead):
        lab.create(f"old.stale{place}")
    service = lab.service()
    load = service.catalog.load

    def slow(name):
        if name.startswith("old."):
            lab.ahead_ms += 8000
            raise StoreAway(f"table {name}: no connection")
        return load(name)

    service.catalog.load = slow
    service.start()
    turn_for(lab, service, 900)
    before = service.rounds.has_found_all, service.ledger.is_new
    lab.ahead_ms += int(PATIENCE_S * 1000)
    turn_for(lab, service, 900)

    assert before == (False, True)
    assert (service.rounds.has_found_all, service.ledger.is_new) == (True, False)
    service.stop()


@pytest.mark.parametrize(("break_s", "is_counted"), [(60, True), (3 * 3600, False)])
def test_a_restart_does_not_begin_the_waiting_for_a_silent_namespace_again(lab, break_s, is_counted):
    lab.create("shop.orders")
    service = silent(lab, "federated")
    turn_for(lab, service, 600)
    turn_for_hours(lab, service, 23)
    service.stop()
    lab.ahead_ms += break_s * 1000
    service = lab.service()
    service.start()
    turn_for(lab, service, 60)
    early = service.lists.has_heard_all
    turn_for_hours(lab, service, 2)

    assert (early, service.lists.has_heard_all) == (False, is_counted)
    service.stop()


def test_a_table_in_a_silent_namespace_is_not_gone(lab):
    lab.create("shop.orders")
    lab.create("federated.orders")
    service = silent(lab)
    turn_for(lab, service, 60)
    lab.catalog.silent.add("federated")
    lab.catalog.catalog.drop_table("federated.orders")

    with pytest.raises(TableMissing):
        service.follower.confirm("federated.orders")
    lab.ahead_ms += int(GONE_AFTER_S * 1000)
    with pytest.raises(TableMissing):
        service.follower.confirm("federated.orders")

    assert sorted(service.fold.names().values()) == ["federated.orders", "shop.orders"]
    service.stop()


def test_a_second_entry_in_a_silent_namespace_is_no_new_name_of_the_table(lab):
    table = lab.create("shop.orders")
    service = silent(lab, "federated")
    turn_for(lab, service, 60)
    lab.catalog.catalog.register_table("federated.orders", table.metadata_location)

    with pytest.raises(Unavailable, match="two entries"):
        service.follower.confirm("federated.orders")

    assert service.fold.names() == {uuid_of(table): "shop.orders"}
    service.stop()


def test_many_silent_namespaces_hide_no_table_of_others(lab):
    """Each costs a time-out, so the pauses of the first are over before the last was asked."""
    table = lab.create("shop.orders")
    service = silent(lab, *(f"federated{place:02}" for place in range(10 * SILENT_IN_A_ROW)))

    turn_for(lab, service, 3600)

    assert set(service.fold.names()) == {uuid_of(table)}
    service.stop()


def test_several_silent_namespaces_in_a_row_are_a_silent_catalog_where_nothing_else_answers(lab):
    lab.create("shop.orders")
    service = silent(lab, *(f"federated{place}" for place in range(2 * SILENT_IN_A_ROW)))
    turn_for(lab, service, 3600)
    lab.catalog.silent.add("shop")
    lab.ahead_ms += 2 * 3600_000  # every pause is over
    lab.catalog.asked.clear()

    with pytest.raises(Unavailable, match="timed out"):
        service.catalog.names()

    assert len(lab.catalog.asked) == len(set(lab.catalog.asked)) + 1 == SILENT_IN_A_ROW + 1
    assert (lab.catalog.asked[0], lab.catalog.asked[-1]) == ("shop", "shop")
    service.stop()


def test_a_list_that_fails_is_not_asked_for_again_at_once(lab):
    lab.create("shop.orders")
    service = silent(lab, *(f"federated{place}" for place in range(SILENT_IN_A_ROW)))
    turn_for(lab, service, 3600)
    lab.catalog.silent.add("shop")
    lab.ahead_ms += 2 * 3600_000  # every pause is over
    lab.catalog.asked.clear()

    service.step(0)
    asked = len(lab.catalog.asked)
    assert service.poller.tables() is None

    assert len(lab.catalog.asked) == asked > 0
    service.stop()
