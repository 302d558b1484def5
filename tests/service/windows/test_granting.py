"""Windows between a daemon and a writer, on real tables: what is compacted in one, and what is no grant."""

import pytest

from isotherm.contract.events import CommitEvent, WindowClosed
from isotherm.contract.summary import WINDOW_ID
from isotherm.core.model.decisions import Verdict
from isotherm.core.model.refusals import Reason, Refusal
from support.granting import ASKING, Shop, asked, ends, ours, rows, turns
from support.in_process import AtOnce
from support.lab import started, uuid_of


def test_what_never_cools_is_compacted_in_a_window(shop, daemon):
    request = asked(shop, daemon)
    before = rows(shop)
    shop.grant(request)
    turns(daemon)

    (done,) = ours(shop)
    assert done.summary.additional_properties[WINDOW_ID] == request.window_id
    assert before == rows(shop)
    (operation,) = daemon.ledger.operations()
    assert operation.state == "done"
    assert operation.why.startswith(
        f"left alone by the writer shop in window {request.window_id[:8]} and due: 6 of 3 files"
    )
    assert ends(shop) == ["done"]


def test_a_window_is_closed_as_soon_as_its_job_is_over(shop, daemon):
    """After the announcement of what was committed in it: so whoever reads the topic knows."""
    shop.grant(asked(shop, daemon))
    turns(daemon)

    kinds = [type(one) for one in shop.said(CommitEvent | WindowClosed)]
    assert kinds[-2:] == [CommitEvent, WindowClosed]
    assert shop.said(CommitEvent)[-1].origin == "maintenance"
    assert shop.closed() == ["done"]


def test_nothing_is_done_before_it_is_granted(shop, daemon):
    asked(shop, daemon)
    turns(daemon)

    assert ours(shop) == []
    assert daemon.fold.tally(uuid_of(shop.table)).verdicts == {Verdict.HOT: 1}


@pytest.mark.parametrize(
    "changes",
    [{"window_id": "another"}, {"writer": "somebody"}, {"table_uuid": "another table"}],
)
def test_what_was_not_asked_for_is_no_grant(shop, daemon, changes):
    shop.grant(asked(shop, daemon), **changes)
    turns(daemon)

    assert (ours(shop), shop.closed()) == ([], [])


def test_a_grant_that_comes_late_is_closed_at_once(shop, daemon):
    request = asked(shop, daemon)
    shop.lab.ahead_ms += 40_000
    shop.grant(request)
    turns(daemon, 1)

    assert (ours(shop), shop.closed()) == ([], ["late"])


def test_a_grant_of_a_request_that_was_made_anew_is_closed_too(shop, daemon):
    """The writer read the older one, and would wait for nothing."""
    request = asked(shop, daemon)
    shop.lab.ahead_ms += 40_000
    turns(daemon, 1)
    (again,) = shop.requests()
    shop.grant(request)
    turns(daemon)

    assert again.window_id != request.window_id
    assert [(one.window_id, one.why) for one in shop.said(WindowClosed)] == [(request.window_id, "late")]
    assert ours(shop) == []
    shop.grant(again)
    turns(daemon)
    assert len(ours(shop)) == 1


def test_where_the_head_is_another_than_the_writer_knows_the_window_is_closed(shop, daemon):
    request = asked(shop, daemon)
    before = shop.table.refresh().current_snapshot().snapshot_id
    shop.append(announce=False)
    shop.grant(request, snapshot_id=before)
    turns(daemon)

    assert (ours(shop), shop.closed()) == ([], ["other_head"])


@pytest.mark.parametrize("comes", ["before the window is open", "in the window"])
def test_an_event_from_before_the_grant_that_comes_after_it_ends_nothing(shop, daemon, comes):
    """Ingest announces beside its driver. The head is confirmed before the event comes, or after it."""
    request = asked(shop, daemon)
    event = shop.append(announce=False)
    shop.grant(request)
    if comes == "before the window is open":
        shop.lab.announce(event)
    else:
        shop.lab.executor.is_held = True
        turns(daemon)
        shop.lab.announce(event)
        turns(daemon)
        shop.lab.executor.is_held = False
    turns(daemon)

    assert len(ours(shop)) == 1
    assert ends(shop) == ["done"]


def test_a_grant_that_is_much_shorter_than_what_was_asked_for_is_used(tmp_path):
    """Ingest grants a minute, whatever a policy asks for."""
    shop = Shop(tmp_path, ASKING.replace("ask_writer: 60s", "ask_writer: 5m"), threads=AtOnce())
    for _ in range(5):
        shop.append()
    service = started(shop.lab)
    turns(service, 2)

    shop.grant(asked(shop, service), length_ms=60_000)
    turns(service)

    assert (len(ours(shop)), ends(shop)) == (1, ["done"])
    service.stop()


def test_one_that_is_granted_too_late_is_told_once_however_often_it_says_so(shop, daemon):
    request = asked(shop, daemon)
    shop.lab.ahead_ms += 40_000
    turns(daemon, 1)
    for _ in range(20):
        shop.grant(request)
    turns(daemon)
    shop.grant(request)
    turns(daemon)

    assert shop.closed() == ["late"]


def test_what_is_said_again_of_a_window_that_was_closed_is_not_answered(shop, daemon):
    """The topic is read again after a rebalance."""
    request = asked(shop, daemon)
    shop.grant(request)
    turns(daemon)
    shop.grant(request)
    turns(daemon)

    assert shop.closed() == ["done"]


def test_a_window_in_which_nothing_finds_a_slot_is_closed_soon(shop, daemon):
    """Another table's job takes the only one."""
    request = asked(shop, daemon)
    daemon.windows.begin = lambda _: 0
    shop.grant(request)
    turns(daemon, 2)
    assert ends(shop) == []
    shop.lab.ahead_ms += 5_000
    turns(daemon, 1)

    assert (ends(shop), shop.closed()) == (["no_slot"], ["no_slot"])


def test_two_writers_must_both_grant(tmp_path):
    shop = Shop(tmp_path, threads=AtOnce())
    other = Shop(tmp_path, writer="other", lab=shop.lab, table=shop.table)
    for _ in range(5):
        shop.append()
    service = started(shop.lab)
    turns(service, 2)
    other.append()
    request = asked(shop, service)
    shop.grant(request)
    turns(service)
    assert ours(shop) == []

    other.grant(request)
    turns(service)

    assert len(ours(shop)) == 1
    service.stop()


def test_a_paused_table_is_not_asked_for_and_nothing_begins_in_its_window(shop, daemon):
    request = asked(shop, daemon)
    daemon.holds.halt(daemon.fold.table(uuid_of(shop.table)).state.table, Refusal(Reason.MISMATCH, "a test"))
    shop.grant(request)
    turns(daemon)

    assert ours(shop) == []
    assert shop.closed() == ["done"]
