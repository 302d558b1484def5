"""A catalog or a store that does not answer, or is slow, costs the loop a bounded time and no table its turn."""

import pytest
import requests

from isotherm.contract.identity import TableId
from isotherm.core import observations as seen
from isotherm.core.model.jobs import Action
from isotherm.service.ports import StoreAway, TableMissing, Unavailable
from isotherm.service.tables.failing_tables import AWAY_IN_A_ROW
from isotherm.store.ledger import Operation
from support.lab import of, settle, started, three_tables, wait_for_children


def test_where_nothing_answers_a_round_ends_early_and_the_next_begins_behind(lab):
    for number in range(8):
        lab.append(lab.create(f"shop.t{number}"), 1)
    service = started(lab)
    settle(service)
    asked = []
    real = service.catalog.load

    def away(name):
        asked.append(name)
        raise Unavailable("time-out")

    service.catalog.load = away
    service.round()
    first = list(asked)
    assert len(first) == AWAY_IN_A_ROW
    assert service.health.missing(service.monotonic_s()) == ["the catalog does not answer"]
    service.round()
    assert set(asked[len(first) : 2 * len(first)]).isdisjoint(first)

    service.catalog.load = real
    lab.ahead_ms += 1000
    service.round()
    service.round()
    assert service.health.missing(service.monotonic_s()) == []
    service.stop()


def test_tables_that_nobody_can_read_keep_no_other_from_being_found(lab):
    for number in range(12):
        lab.append(lab.create(f"shop.a{number:02}"), 1)
    last = lab.create("shop.zzz")
    lab.append(last, 1, announce=False)
    service = started(lab)
    real = service.catalog.load

    def locked(name):
        if name != "shop.zzz":
            raise Unavailable("time-out")
        return real(name)

    service.catalog.load = locked
    rounds = 0
    while "shop.zzz" not in service.fold.names().values():
        service.round()
        lab.ahead_ms += 10_000
        rounds += 1
        assert rounds < 12

    service.stop()


@pytest.mark.parametrize("count", [1, 12])
def test_names_that_cut_the_connection_leave_others_their_turn(lab, count):
    """After each of them the catalog is not asked for a while, which is no failure of the names behind them."""
    other = lab.create("shop.other")
    dead = [lab.create(f"shop.dead{number}").name() for number in range(count)]
    names = {".".join(name) for name in dead}
    real = lab.catalog.load_table

    def cut(name):
        if name in names:
            raise requests.exceptions.ConnectionError("Remote end closed connection without response")
        return real(name)

    lab.catalog.load_table = cut
    service = started(lab)
    for _ in range(400):
        service.step(0)
        lab.ahead_ms += 1000
        if "shop.other" in service.fold.names().values():
            break
    assert "shop.other" in service.fold.names().values()
    for _ in range(60):
        lab.append(other, 1)
        service.step(0)
        lab.ahead_ms += 30_000
        wait_for_children(service)
    planned = [one for one in of(lab, seen.TablePlanned) if one.table.name == "shop.other"]
    assert len(planned) > 20
    service.stop()


def test_a_turn_of_the_loop_does_not_wait_for_a_long_round(lab):
    for number in range(6):
        lab.append(lab.create(f"shop.t{number}"), 1)
    service = started(lab)
    real = service.catalog.load

    def slow(name):
        lab.ahead_ms += 1500
        return real(name)

    service.catalog.load = slow
    service.step(0)

    assert service.rounds.is_open
    assert 0 < len(service.fold.names()) < 6
    for _ in range(5):
        service.step(0)
    assert len(service.fold.names()) == 6
    service.stop()


def test_what_was_left_open_in_dead_buckets_costs_a_turn_of_the_loop_one_time_out(lab):
    service = started(lab)
    for number in range(10):
        table = TableId(f"u{number}", f"shop.dead{number}")
        service.ledger.save(Operation(f"open{number}", table, Action.EXPIRE, None, "", "", "", 0, number))

    def dead(_):
        lab.ahead_ms += 30_000
        raise StoreAway("no answer")

    service.catalog.load = dead
    before_ms = lab.ahead_ms
    service.step(0)

    assert lab.ahead_ms - before_ms <= 60_000
    service.stop()


def test_a_catalog_that_has_lost_everything_for_a_moment_makes_nothing_gone(lab):
    three_tables(lab)
    service = started(lab)
    settle(service)
    load, names = service.catalog.load, service.catalog.names

    def lost(name):
        raise TableMissing(name)

    service.catalog.load = lost
    for name in ("shop.aaa", "shop.bbb", "shop.ccc"):
        service.follower.suspects.add(name)
    for _ in range(3):
        service.round()
        lab.ahead_ms += 400_000
    assert of(lab, seen.TableGone) == []

    # Nor where the list is empty as well: that is no list.
    service.catalog.names = lambda *_: type(names())([], {})
    for _ in range(3):
        service.round()
        lab.ahead_ms += 4_000_000
    assert of(lab, seen.TableGone) == []
    service.catalog.load, service.catalog.names = load, names
    lab.ahead_ms += 4_000_000
    settle(service)
    assert len(service.fold.names()) == 3
    service.stop()
