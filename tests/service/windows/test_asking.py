"""Of whom windows are asked, when, and how often, on real tables."""

import pytest

from isotherm.contract.events import WindowRequested
from isotherm.core import observations as seen
from isotherm.runtime.config import LoopConfig
from isotherm.service.rounds.asking_windows import COUNTED_TRIES, MOST_TRIES, REST
from support.granting import Shop, asked, ends, ours, turns
from support.in_process import AtOnce
from support.lab import of, settle, started, uuid_of

LENGTH_S = 60


def test_a_request_names_what_is_due_and_for_how_long(shop, daemon):
    request = asked(shop, daemon)

    (partition,) = [one.key for one in daemon.fold.partitions(uuid_of(shop.table))]
    assert (request.table_uuid, request.table) == (uuid_of(shop.table), "shop.orders")
    assert request.partitions == (partition,)
    assert (request.length_ms, request.asked_by) == (60_000, "isotherm")


def test_no_more_tables_are_asked_for_than_there_are_slots_and_each_has_its_turn(tmp_path):
    """Whoever has granted would wait for nothing."""
    shop = Shop(tmp_path, threads=AtOnce())
    shops = [shop] + [
        Shop(tmp_path, lab=shop.lab, table=shop.lab.create(f"shop.t{number}")) for number in range(6)
    ]
    for one in shops:
        for _ in range(5):
            one.append()
    service = started(shop.lab)
    turns(service, 2)
    for one in shops:
        one.append()
    turns(service, 6)

    found = shop.said(WindowRequested)
    assert len(found) == shop.lab.config.executors.local.jobs_at_once
    assert len({one.table for one in found}) == len(found)
    # Who did not answer comes after those that nobody has asked.
    for _ in range(len(shops) * (COUNTED_TRIES + 1)):
        shop.lab.ahead_ms += 31_000
        turns(service, 2)
    assert {one.table for one in shop.said(WindowRequested)} == {".".join(one.table.name()) for one in shops}
    service.stop()


def test_the_writers_are_not_asked_again_before_ten_times_as_long(shop, in_a_window):
    in_a_window.compactions.finish()
    turns(in_a_window)
    for _ in range(4):
        shop.append()
    shop.requests()
    took_s = of(shop.lab, seen.WindowEnded)[0].seconds
    turns(in_a_window)
    assert shop.requests() == []

    shop.lab.ahead_ms += int(REST * took_s * 1000) + 1000
    turns(in_a_window)

    assert len(shop.requests()) == 1


def test_writers_that_do_not_answer_are_asked_anew_and_at_last_left_alone(shop, daemon):
    asked(shop, daemon)
    for _ in range(MOST_TRIES + 5):
        shop.lab.ahead_ms += 31_000
        turns(daemon, 1)

    assert len(shop.requests()) == MOST_TRIES - 1
    assert ends(shop) == ["unanswered"]
    assert shop.closed() == []


def test_writers_that_never_answer_are_asked_ever_more_rarely(shop, daemon):
    asked(shop, daemon)
    counts = []
    for _ in range(3):
        before = len(shop.said(WindowRequested))
        for _ in range(120):
            shop.lab.ahead_ms += 31_000
            turns(daemon, 1)
        counts.append(len(shop.said(WindowRequested)) - before)

    assert counts[0] > 2 * counts[2]


def test_a_daemon_that_is_too_busy_to_ask_again_does_not_hold_it_against_the_writers(shop, daemon):
    asked(shop, daemon)
    for _ in range(4):
        daemon.windows.jobs_at_once = 0
        shop.lab.ahead_ms += 31_000
        turns(daemon, 1)
        daemon.windows.jobs_at_once = 1
        shop.requests()
        shop.lab.ahead_ms += (REST * LENGTH_S + 1) * 1000
        turns(daemon, 2)
        assert len(shop.requests()) == 1

    assert ends(shop) == ["unanswered"] * 4


def in_vain(shop, daemon):
    """A window that nobody grants as long as a slot is left for it; then other work has all slots."""
    for _ in range(COUNTED_TRIES):
        shop.lab.ahead_ms += 31_000
        turns(daemon, 1)
    daemon.windows.jobs_at_once = 0
    shop.lab.ahead_ms += 31_000
    turns(daemon, 1)
    daemon.windows.jobs_at_once = 1


def waited(shop, daemon):
    """After how many times as long as a window its writers are asked again."""
    shop.requests()
    for times in range(1, 200):
        shop.lab.ahead_ms += LENGTH_S * 1000
        turns(daemon, 2)
        if shop.requests():
            return times
    raise AssertionError("they are not asked any more")


def test_writers_for_whom_slots_were_left_in_vain_are_asked_ever_more_rarely(shop, daemon):
    """Beside work that takes each slot they were never asked often enough to count as gone: slots were left for them for ever."""
    asked(shop, daemon)
    waits = []
    for _ in range(3):
        in_vain(shop, daemon)
        waits.append(waited(shop, daemon))

    assert waits == [REST, 2 * REST, 4 * REST]


def test_who_answers_late_is_not_held_for_gone(shop, daemon):
    """A writer with long batches: its grants are closed at once, and it is asked anew."""
    asked(shop, daemon)
    for _ in range(2):
        in_vain(shop, daemon)
        waited(shop, daemon)
    late = shop.said(WindowRequested)[-1]
    in_vain(shop, daemon)
    shop.grant(late)
    turns(daemon)

    assert waited(shop, daemon) == REST
    in_vain(shop, daemon)
    assert waited(shop, daemon) == REST


def test_who_has_answered_since_is_not_held_for_gone(shop, daemon):
    asked(shop, daemon)
    for _ in range(2):
        in_vain(shop, daemon)
        waited(shop, daemon)
    shop.grant(shop.said(WindowRequested)[-1])
    turns(daemon)
    settle(daemon)
    for _ in range(4):
        shop.append()
    waited(shop, daemon)
    in_vain(shop, daemon)

    assert waited(shop, daemon) == REST


@pytest.mark.parametrize("writer", ["foreign", "old ingest"])
def test_beside_a_writer_that_grants_none_nobody_is_asked(tmp_path, writer):
    shop = Shop(tmp_path, threads=AtOnce())
    for _ in range(5):
        shop.append()
    service = started(shop.lab)
    turns(service, 2)
    Shop(tmp_path, writer=writer, lab=shop.lab, table=shop.table).append(grants=False)
    shop.append()
    turns(service)

    assert shop.requests() == []
    service.stop()


def test_a_commit_of_a_foreign_writer_that_no_event_brought_counts_too(shop, daemon):
    request = asked(shop, daemon)
    shop.lab.append(shop.table, 1, announce=False)
    shop.grant(request)
    turns(daemon)
    shop.lab.ahead_ms += 20 * 60_000
    turns(daemon)

    assert shop.requests() == []
    assert ours(shop) == []


def test_a_table_that_was_passed_over_has_its_turn_though_nobody_writes_to_it(tmp_path):
    """At the pace of a real daemon a round looks only at tables that were just written to."""
    shop = Shop(tmp_path, threads=AtOnce())
    lab = shop.lab
    lab.config = lab.config.model_copy(
        update={"loop": LoopConfig(plan_every_s=1e-9, poll_tables_every_s=3600)}
    )
    shops = [shop, Shop(tmp_path, lab=lab, table=lab.create("shop.other"))]
    for one in shops * 5:
        one.append()
    service = started(lab)
    turns(service, 2)
    for one in shops:
        one.append()
    turns(service, 3)
    (request,) = shop.requests()
    (asked_first,) = [one for one in shops if uuid_of(one.table) == request.table_uuid]
    asked_first.grant(request)
    turns(service)

    (request,) = shop.requests()

    assert len(ours(asked_first)) == 1
    assert request.table_uuid in {uuid_of(one.table) for one in shops if one is not asked_first}
    service.stop()


def test_nobody_is_asked_for_what_the_rest_of_a_budget_does_not_let_begin(shop, daemon):
    """The writer would wait for nothing, and in place of those whose jobs may begin."""
    daemon.rounds.due.admission.bytes_per_hour = 1
    shop.append()
    turns(daemon, 3)
    assert shop.requests() == []
    daemon.rounds.due.admission.bytes_per_hour = None
    asked(shop, daemon)
