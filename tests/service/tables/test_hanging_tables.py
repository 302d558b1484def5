"""Tables about which the catalog never answers keep no other table waiting: it answers everything else at once."""

import itertools

import pytest
from requests.exceptions import ReadTimeout

from isotherm.core import observations as seen
from isotherm.core.model.outside import Outside
from isotherm.service.ports import TableSilent
from support.lab import EXPIRING, Lab, of, started

TABLES = 20
POLL_S = 600.0


@pytest.fixture
def lab(tmp_path):
    lab = Lab(tmp_path, policy=EXPIRING)
    loop = lab.config.loop.model_copy(update={"plan_every_s": 1.0, "poll_tables_every_s": POLL_S})
    lab.config = lab.config.model_copy(update={"loop": loop})
    for number in range(TABLES):
        lab.append(lab.create(f"shop.t{number:02}"), 1, announce=False)
    return lab


def knowing_all(lab, tables=TABLES):
    """A daemon that has looked at all tables once."""
    service = started(lab)
    while len(of(lab, seen.TableScanned)) < tables:
        service.step(0)
        lab.ahead_ms += 200
    return service


def loads_of(service):
    """The names of the tables that are loaded from now on."""
    load, asked = service.catalog.load, []

    def noted(name):
        asked.append(name)
        return load(name)

    service.catalog.load = noted
    return asked


def hang(lab, hanging, time_out_s):
    """From now on each question about some tables costs a time-out."""
    load = lab.catalog.load_table

    def load_table(identifier):
        if ".".join([identifier] if isinstance(identifier, str) else identifier) in hanging:
            lab.ahead_ms += 1000 * time_out_s
            raise ReadTimeout("Read timed out.")
        return load(identifier)

    lab.catalog.load_table = load_table


@pytest.mark.parametrize(("count", "time_out_s"), [(2, 30), (6, 3)], ids=["long", "many"])
def test_tables_that_hang_keep_no_other_from_being_looked_at_after_a_start(lab, count, time_out_s):
    """A round asks for few of them, and the next one begins with the others, which the list is not taken again for."""
    hang(lab, {f"shop.t{number:02}" for number in range(count)}, time_out_s)
    service = started(lab)
    began_s = lab.monotonic_s()
    while len(of(lab, seen.TableScanned)) < TABLES - count and lab.monotonic_s() - began_s < POLL_S:
        service.step(0)
        lab.ahead_ms += 200

    assert len(of(lab, seen.TableScanned)) == TABLES - count
    assert service.health.catalog_answers
    service.stop()


def test_a_namespace_that_begins_to_hang_keeps_no_other_waiting_for_all_its_tables(lab):
    """Each of its tables cost one round, and whatever stands behind them by name was not asked for meanwhile."""
    others = {f"zoo.t{number}" for number in range(2)}
    for name in others:
        lab.append(lab.create(name), 1, announce=False)
    service = knowing_all(lab, TABLES + len(others))
    hang(lab, {f"shop.t{number:02}" for number in range(TABLES)}, 30)
    asked = loads_of(service)
    lab.ahead_ms += int(POLL_S * 1000)
    while not others <= set(asked) and len(asked) < TABLES:
        service.step(0)
        lab.ahead_ms += 200

    assert len([name for name in asked if name not in others]) <= 2
    service.stop()


def test_tables_that_are_announced_are_planned_beside_others_of_their_namespace_that_hang(lab):
    """They wanted confirmation, and it was put off in each round: one table that hung had cost what may be lost."""
    service = knowing_all(lab)
    well, hanging = [f"shop.t{number:02}" for number in range(15, TABLES)], 15
    hang(lab, {f"shop.t{number:02}" for number in range(hanging)}, 30)
    tables = [service.catalog.catalog.load_table(name) for name in well]
    lab.ahead_ms += int(POLL_S * 1000)
    planned, decide = [], service.verdicts.decide

    def noted(row, *more, **named):
        planned.append((lab.monotonic_s(), row.state.table.name))
        return decide(row, *more, **named)

    service.verdicts.decide = noted
    began_s, told_s, longest_s = lab.monotonic_s(), float("-inf"), 0.0
    while lab.monotonic_s() - began_s < 1800:
        if lab.monotonic_s() - told_s >= 60:
            told_s = lab.monotonic_s()
            for table in tables:
                lab.append(table, 1)
        service.step(0)
        lab.ahead_ms += 1000
    for name in well:
        times = [began_s, *(at_s for at_s, one in planned if one == name), lab.monotonic_s()]
        longest_s = max(longest_s, *(later - earlier for earlier, later in itertools.pairwise(times)))

    assert longest_s < 400
    service.stop()


def test_nobody_is_asked_for_an_announced_table_because_another_of_its_namespace_hangs(lab):
    service = knowing_all(lab)
    with service.barrier.around("shop.dead", "looking at it"):
        raise TableSilent("timed out")
    asked = loads_of(service)
    lab.append(lab.catalog.load_table("shop.t00"), 1)
    service.step(0)
    lab.ahead_ms += 2_000
    rounds = len(of(lab, seen.RoundPlanned))
    while len(of(lab, seen.RoundPlanned)) == rounds:
        service.step(0)

    assert of(lab, seen.RoundPlanned)[-1].tables > 0
    assert asked == []
    service.stop()


def test_new_tables_that_come_slowly_do_not_make_one_round(lab):
    service = started(lab)
    load = service.catalog.load

    def slow(name):
        lab.ahead_ms += 20_000
        return load(name)

    service.catalog.load = slow
    while len(of(lab, seen.TableScanned)) < TABLES:
        service.step(0)
        lab.ahead_ms += 200
    rounds = [one.seconds for one in of(lab, seen.RoundPlanned)]

    assert max(rounds) < 100
    assert service.health.catalog_answers
    service.stop()


def test_a_catalog_that_gives_no_table_any_more_is_away_whatever_else_it_answers(lab):
    """Its own store is dead, and its database is well: namespaces and lists come, and no table does."""
    service = knowing_all(lab)
    hang(lab, {f"shop.t{number:02}" for number in range(TABLES)}, 10)
    began_s = lab.monotonic_s()
    while lab.monotonic_s() - began_s < 3 * POLL_S and service.health.catalog_answers:
        service.step(0)
        lab.ahead_ms += 1000

    assert not service.health.catalog_answers
    assert of(lab, seen.RoundPlanned)[-1].away == (Outside.CATALOG,)
    service.stop()


def test_a_catalog_that_hangs_about_some_tables_is_not_away_where_no_other_is_asked_for(lab):
    """The writers of all others announce their commits, so nothing of them is asked for while the hanging ones are."""
    service = knowing_all(lab)
    well = [lab.catalog.load_table(f"shop.t{number:02}") for number in range(6, TABLES)]
    hang(lab, {f"shop.t{number:02}" for number in range(6)}, 4)
    began_s, announced_s = lab.monotonic_s(), lab.monotonic_s()
    while lab.monotonic_s() - began_s < 2 * POLL_S:
        if lab.monotonic_s() - announced_s > POLL_S / 2:
            announced_s = lab.monotonic_s()
            for table in well:
                lab.append(table, 1)
        service.step(0)
        lab.ahead_ms += 1000

        assert service.health.catalog_answers
    service.stop()
