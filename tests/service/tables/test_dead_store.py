"""Tables whose store, or whose catalog, is dead keep no table waiting that is well."""

import pytest

from isotherm.core import observations as seen
from isotherm.service.ports import StoreAway, Unavailable
from isotherm.service.tables.lost_time import MOST_LOST_S
from support.lab import of, started, wait_for_children

DEAD = 15
TIME_OUT_S = 10.0


@pytest.fixture(params=["one namespace", "a namespace each"])
def service(lab, request):
    """A daemon that knows a table that is well, and others of which nobody speaks, so that each is looked at."""
    loop = {"plan_every_s": 10.0, "poll_tables_every_s": 60.0}
    lab.config = lab.config.model_copy(update={"loop": lab.config.loop.model_copy(update=loop)})
    is_one = request.param == "one namespace"
    for number in range(DEAD):
        lab.append(lab.create(f"dead.t{number:02}" if is_one else f"dead{number:02}.t"), 1, announce=False)
    lab.append(lab.create("shop.orders"), 1, announce=False)
    made = started(lab)
    for _ in range(40):
        made.step(0)
        lab.ahead_ms += 10_000
    assert len(made.fold.names()) == DEAD + 1
    yield made
    made.stop()


def dies(lab, service, error, time_out_s=TIME_OUT_S):
    """From now on all tables but one give no answer. Returns the names that are asked for."""
    real, asked = service.catalog.load, []

    def load(name):
        asked.append(name)
        if name.startswith("dead"):
            lab.ahead_ms += int(time_out_s * 1000)
            raise error
        return real(name)

    service.catalog.load = load
    return asked


def minutes_to_a_job(lab, service):
    """How long a compaction that falls due now waits for its beginning; what this machine takes for it is not counted."""
    table, began_ms = lab.catalog.load_table("shop.orders"), lab.ahead_ms
    for hour in (1, 1, 1, 1, 9, 9, 9, 9):
        lab.append(table, hour)
    while not of(lab, seen.JobStarted) and lab.ahead_ms - began_ms < 7_200_000:
        service.step(0)
        if len(service.compactions):
            wait_for_children(service)
        lab.ahead_ms += 10_000
    return (lab.ahead_ms - began_ms) / 60_000


@pytest.mark.parametrize(
    ("error", "time_out_s"),
    [(StoreAway("a dead bucket"), TIME_OUT_S), (Unavailable("500"), 0.0)],
    ids=["store", "catalog"],
)
def test_a_table_that_is_well_is_compacted_soon_whatever_else_is_dead(lab, service, error, time_out_s):
    asked = dies(lab, service, error, time_out_s)
    for _ in range(20):
        service.step(0)
        lab.ahead_ms += 10_000

    assert minutes_to_a_job(lab, service) <= 2
    assert "shop.orders" in asked


def test_dead_stores_take_a_bounded_part_of_a_round_and_none_is_forgotten(lab, service):
    asked = dies(lab, service, StoreAway("a dead bucket"))
    for _ in range(2 * DEAD):
        lab.ahead_ms += 60_000
        before = len(asked)
        service.round()
        times = sum(name.startswith("dead") for name in asked[before:])
        assert times <= MOST_LOST_S / TIME_OUT_S + 1
    dead = [name for name in asked if name.startswith("dead")]

    assert len(set(dead)) == DEAD
    assert service.health.catalog_answers
