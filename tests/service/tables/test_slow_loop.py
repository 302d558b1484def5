"""Tables that come slowly hold the loop: each wait is one that it may take, and the loop lives between any two of them."""

import pytest

from isotherm.core import observations as seen
from isotherm.core.model.jobs import Action
from isotherm.iceberg.catalog import LOAD_WITHIN_S, IcebergCatalog
from isotherm.kafka.control_topic import MAX_POLL_INTERVAL_MS
from isotherm.service.ports import TooLong, Unavailable
from support.in_process import AtOnce
from support.lab import EXPIRING, Lab, of, started, with_a_job

HOURS = 6


def standing(lab, service):
    """Note for how long the loop had not turned, each time that a load of a table is over."""
    noted, load = [], service.catalog.load

    def watched(name):
        try:
            return load(name)
        finally:
            noted.append(service.health.is_alive(service.monotonic_s()))

    service.catalog.load = watched
    return noted


def gaps_between_polls(service):
    """For how long the control topic was not asked for events, each time."""
    gaps, last_s, poll = [], [service.monotonic_s()], service.events.poll

    def watched(timeout_s):
        gaps.append(service.monotonic_s() - last_s[0])
        last_s[0] = service.monotonic_s()
        return poll(timeout_s)

    service.events.poll = watched
    return gaps


@pytest.fixture
def lab(tmp_path):
    lab = Lab(tmp_path, policy=EXPIRING)
    loop = lab.config.loop.model_copy(update={"plan_every_s": 10.0, "poll_tables_every_s": 60.0})
    lab.config = lab.config.model_copy(update={"loop": loop})
    return lab


def play(lab, service, hours, commit):
    """Turn the loop for some hours, with commits now and then."""
    until_s, steps = lab.monotonic_s() + hours * 3600, 0
    while lab.monotonic_s() < until_s:
        service.step(0)
        lab.ahead_ms += 200
        steps += 1
        if steps % 40 == 0:
            commit(steps // 40)


def test_a_loop_that_waits_for_slow_tables_is_alive_whatever_it_begins(lab):
    """An expiry is begun at a head that was confirmed a moment before: that is twice what one table may take."""
    tables = [lab.create(f"shop.t{number}") for number in range(3)]
    for table in tables:
        for hour in (1, 1, 1, 1, 9, 9):
            lab.append(table, hour)
    service = started(lab)
    load = service.catalog.load

    def slow(name):
        lab.ahead_ms += int(1000 * LOAD_WITHIN_S)
        return load(name)

    def commit(number):
        service.catalog.load = load
        for table in tables:
            lab.append(table, 9 + number)
        service.catalog.load = slow

    service.catalog.load = slow
    alive, gaps = standing(lab, service), gaps_between_polls(service)
    play(lab, service, HOURS, commit)
    done = {one.action for one in of(lab, seen.JobEnded)}
    service.stop()

    assert all(alive)
    assert max(gaps) * 1000 < MAX_POLL_INTERVAL_MS, "what one turn waits for is less than its group takes"
    assert {Action.COMPACT, Action.EXPIRE, Action.REMOVE_ORPHANS} <= done


@pytest.mark.parametrize("is_renamed", [False, True])
def test_a_table_that_comes_too_slowly_is_waited_for_once_though_an_operation_of_it_is_open(
    tmp_path, is_renamed
):
    lab = Lab(tmp_path)
    _, service = with_a_job(lab)
    if is_renamed:
        lab.catalog.rename_table("shop.orders", "shop.renamed")
        service.follower.suspects.add("shop.renamed")
        for _ in range(3):
            lab.ahead_ms += 400_000
            service.rounds.follower.confirm("shop.renamed")
    service.fold.close()
    service.ledger.close()
    service = started(lab)
    asked = []

    def too_slow(name):
        asked.append(name)
        lab.ahead_ms += int(1000 * LOAD_WITHIN_S)
        raise TooLong(f"table {name}: it did not come within {LOAD_WITHIN_S:.0f} s")

    service.catalog.load = too_slow
    alive = standing(lab, service)
    service.round()

    assert alive == [True]
    assert len(service.ledger.open_jobs()) == 1
    (failed,) = of(lab, seen.TableFailed)
    assert failed.error.endswith("it did not come within 150 s")
    for _ in range(400):
        service.step(0)
        lab.ahead_ms += 1000
    assert all(alive)
    service.stop()


def test_a_slow_table_with_a_second_entry_is_halted_and_the_loop_lives(lab):
    """It is loaded under both names, and asked for once more, before anybody halts it."""
    table = lab.create("shop.orders")
    lab.append(table, 1)
    service = started(lab)
    service.round()
    lab.catalog.register_table("shop.again", table.refresh().metadata_location)
    load, lies, alive = service.catalog.load, service.catalog.lies_in_time, []

    def slow(question):
        def asked(name):
            lab.ahead_ms += int(1000 * LOAD_WITHIN_S)
            alive.append(service.health.is_alive(service.monotonic_s()))
            return question(name)

        return asked

    service.catalog.load, service.catalog.lies_in_time = slow(load), slow(lies)
    for _ in range(20):
        service.step(0)
        lab.ahead_ms += 10_000

    assert of(lab, seen.TableHalted)
    assert len(alive) > 3
    assert all(alive)
    service.stop()


def test_where_a_table_lies_is_given_up_before_the_loop_counts_as_stuck(tmp_path):
    lab = Lab(tmp_path)
    lab.create("shop.orders")
    limits = []

    class OutOfPatience(AtOnce):
        def within(self, limit_s, store, work):
            limits.append(limit_s)
            raise TimeoutError(f"{store} {work}: not done after {limit_s:.0f}s")

    catalog = IcebergCatalog(lab.catalog, threads=OutOfPatience())

    with pytest.raises(Unavailable, match=r"shop\.orders.*not done after 150s"):
        catalog.lies_in_time("shop.orders")
    assert limits == [LOAD_WITHIN_S]


def test_events_are_taken_in_between_the_parts_of_a_round_that_took_long(tmp_path):
    """The fate of an operation, the look at a table, and what begins: each may wait for a table."""
    lab = Lab(tmp_path)
    _, service = with_a_job(lab)
    service.fold.close()
    service.ledger.close()
    service = started(lab)
    load, asked, rounds = service.catalog.load, [], len(of(lab, seen.RoundPlanned))

    def slow(name):
        asked.append(name)
        lab.ahead_ms += int(1000 * LOAD_WITHIN_S)
        return load(name)

    service.catalog.load = slow
    service.follower.suspects.add("shop.orders")
    loads = []
    for _ in range(3):
        service.step(0)
        loads.append(len(asked))
        ended = len(of(lab, seen.RoundPlanned)) - rounds

        assert ended == (len(loads) == 3)
    assert 0 < loads[0] < loads[1], "the open operation, then its table"
    service.stop()
