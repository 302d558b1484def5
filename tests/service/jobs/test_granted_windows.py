"""Windows between a daemon and a writer, on real tables: what is compacted in one, and what ends it."""

import pytest

from isotherm.contract.events import CommitEvent, WindowClosed, WindowRequested
from isotherm.contract.identity import PartitionKey
from isotherm.contract.summary import JOB_ID, WINDOW_ID
from isotherm.core import observations as seen
from isotherm.core.model.decisions import Verdict
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.service.rounds.asking_windows import COUNTED_TRIES, MOST_TRIES, REST
from support.granting import ASKING, Shop
from support.in_process import AtOnce, InProcess
from support.lab import of, started, uuid_of

LENGTH_S = 60


class Held(InProcess):
    """A rewrite that goes on until a test lets it end."""

    is_held = False

    def poll(self):
        return [] if self.is_held else super().poll()


@pytest.fixture
def shop(tmp_path):
    made = Shop(tmp_path, threads=AtOnce())
    made.lab.executor = Held()
    for _ in range(5):
        made.append()
    return made


@pytest.fixture
def daemon(shop):
    """A daemon that knows the table, and has not heard of its writer yet."""
    service = started(shop.lab)
    turns(service, 2)
    yield service
    service.stop()


def turns(service, count=6):
    for _ in range(count):
        service.step(0)


def asked(shop, service):
    """The request that the daemon has just made."""
    shop.append()
    turns(service, 3)
    (request,) = shop.requests()
    return request


def ours(shop):
    return [one for one in shop.table.refresh().snapshots() if JOB_ID in one.summary.additional_properties]


def rows(shop):
    return sorted(shop.table.refresh().scan().to_arrow()["id"].to_pylist())


def ends(shop):
    return [one.end for one in of(shop.lab, seen.WindowEnded)]


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


def test_a_request_names_what_is_due_and_for_how_long(shop, daemon):
    request = asked(shop, daemon)

    (partition,) = [one.key for one in daemon.fold.partitions(uuid_of(shop.table))]
    assert (request.table_uuid, request.table) == (uuid_of(shop.table), "shop.orders")
    assert request.partitions == (partition,)
    assert (request.length_ms, request.asked_by) == (60_000, "isotherm")


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


@pytest.fixture
def in_a_window(shop, daemon):
    """A daemon whose job has been rewritten in an open window; the next turn commits it."""
    held = shop.lab.executor
    held.is_held = True
    shop.grant(asked(shop, daemon))
    turns(daemon)
    assert (len(daemon.compactions), len(ends(shop))) == (1, 0)
    held.is_held = False
    return daemon


def a_commit(shop):
    """Of a driver that has crashed, and knows nothing of what it has granted."""
    shop.append(announce=True)


def a_commit_elsewhere(shop):
    shop.append(7)


def a_commit_that_nobody_announces(shop):
    shop.append(announce=False)


def a_rollback_and_a_commit(shop):
    """One commit less and one more."""
    before = list(shop.table.refresh().snapshots())[-2].snapshot_id
    shop.table.manage_snapshots().rollback_to_snapshot(before).commit()
    shop.lab.append(shop.table, 1, announce=False)


def an_intent(shop):
    shop.intend()


def an_intent_elsewhere(shop):
    shop.intend((PartitionKey('{"1000":7}'),))


def its_end(shop):
    shop.lab.ahead_ms += 1000 * (LENGTH_S - 5)


def the_writer(shop):
    shop.take_back(shop.said(WindowRequested)[-1])


DISTURBING = [
    (a_commit, "disturbed"),
    (a_commit_elsewhere, "disturbed"),
    (a_commit_that_nobody_announces, "disturbed"),
    (a_rollback_and_a_commit, "disturbed"),
    (an_intent, "disturbed"),
    (an_intent_elsewhere, "disturbed"),
    (its_end, "over"),
    (the_writer, "taken_back"),
]


@pytest.mark.parametrize(("happens", "end"), DISTURBING)
@pytest.mark.parametrize("at_once", [True, False])
def test_what_ends_a_window_ends_its_job(shop, in_a_window, happens, end, at_once):
    """Whether the loop hears of it before, or the last look finds it."""
    before = rows(shop)
    happens(shop)
    if at_once:
        in_a_window.consume(in_a_window.events.poll(0))
    in_a_window.compactions.finish()
    turns(in_a_window)

    assert ours(shop) == []
    assert shop.closed()[0 if happens is not the_writer else 1] == end
    assert ends(shop) == [end]
    assert {one.state for one in in_a_window.ledger.operations()} == {"failed"}
    assert happens is a_rollback_and_a_commit or set(before) <= set(rows(shop))


def test_without_any_of_that_the_job_is_committed(shop, in_a_window):
    in_a_window.compactions.finish()

    assert len(ours(shop)) == 1


def test_a_job_that_is_too_slow_is_cancelled_when_its_window_is_over(shop, in_a_window):
    shop.lab.executor.is_held = True
    its_end(shop)
    turns(in_a_window, 1)

    assert len(in_a_window.compactions) == 0
    assert [one.reason for one in in_a_window.ledger.operations()] == ["window"]
    assert shop.closed() == ["over"]


def test_a_daemon_that_stops_lets_the_writer_go_on(shop, in_a_window):
    in_a_window.stop()

    assert shop.closed() == ["over"]
    assert ours(shop) == []


def test_after_a_crash_nothing_hot_is_touched(shop, in_a_window):
    """The window is forgotten, and the writer goes on when its time is up."""
    later = started(shop.lab)
    turns(later)

    assert ours(shop) == []
    assert {one.reason for one in later.ledger.operations()} <= {"crashed", "stale", "failed", "unknown"}
    later.stop()


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


def test_a_daemon_that_lost_the_table_closes_its_window(shop, in_a_window):
    in_a_window.events.elsewhere.add(uuid_of(shop.table))
    turns(in_a_window, 2)

    assert ours(shop) == []
    assert ends(shop) == ["not_ours"]


def test_a_paused_table_is_not_asked_for_and_nothing_begins_in_its_window(shop, daemon):
    request = asked(shop, daemon)
    daemon.holds.halt(daemon.fold.table(uuid_of(shop.table)).state.table, Refusal(Reason.MISMATCH, "a test"))
    shop.grant(request)
    turns(daemon)

    assert ours(shop) == []
    assert shop.closed() == ["done"]
