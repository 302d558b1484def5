"""A commit, or an expiry, that takes long, whatever is slow in it, keeps the loop from nothing else, and is judged as any other.

Everything that may take long happens beside the loop. What the loop knows by then decides before each request.
"""

from pathlib import Path
from threading import Event

import pytest

from isotherm.contract.events import Intent, encode
from isotherm.contract.summary import JOB_ID
from isotherm.core import observations as seen
from isotherm.core.model.holds import Hold, HoldKind
from isotherm.core.model.jobs import OutcomeKind
from isotherm.iceberg.asking import Asking
from isotherm.iceberg.maintainer import COMMIT_LIMIT_S
from isotherm.iceberg.threads import Threads
from isotherm.store.database import to_json
from support.lab import EXPIRING, Lab, of, until_a_job_runs, uuid_of, wait_for_children


class Slow:
    """A request that is under way until a test lets it go on."""

    def __init__(self):
        self.begun, self.may_go_on, self.over = Event(), Event(), Event()

    def __call__(self, real, *arguments):
        self.begun.set()
        assert self.may_go_on.wait(60)
        try:
            return real(*arguments)
        finally:
            self.over.set()


@pytest.fixture
def lab(tmp_path):
    lab = Lab(tmp_path, commit_wait_s=0)
    yield lab
    lab.executor.stop()


def with_a_rewrite(lab):
    """A table, and a daemon whose rewrite of hour 1 is over; from the second turn on it is committed."""
    table = lab.create()
    for hour in (1, 1, 1, 2, 3, 4):
        lab.append(table, hour)
    service = lab.service()
    service.start()
    until_a_job_runs(service)
    wait_for_children(service)
    return table, service


def ours(table):
    """The snapshots of this daemon."""
    return [one for one in table.refresh().snapshots() if JOB_ID in one.summary.additional_properties]


def ended(lab, service):
    """How the first job ended."""
    for _ in range(200):
        service.step(0)
        if jobs := of(lab, seen.JobEnded):
            return jobs[0]
        wait_for_children(service)
    raise AssertionError("the job does not end")


@pytest.mark.parametrize("hook", ["on_load", "on_commit"])
def test_the_loop_turns_while_a_commit_is_under_way(lab, hook):
    table, service = with_a_rewrite(lab)
    slow = Slow()
    setattr(service.maintainer.requests, hook, slow)
    while not slow.begun.is_set():
        service.step(0)
    event = lab.append(table, 7)
    service.step(0)

    assert service.fold.table(uuid_of(table)).state.head == event.snapshot_id
    assert of(lab, seen.JobEnded) == []
    assert len(service.compactions) == 1
    slow.may_go_on.set()
    assert ended(lab, service).outcome is OutcomeKind.DONE
    assert len(ours(table)) == 1
    service.stop()


def held(kind):
    def put(lab, table, _):
        hold = Hold(kind, uuid_of(table), "shop.orders", "somebody said so", 1)
        lab.held.append((hold.key, to_json(hold).encode()))

    return put


def an_intent(lab, table, _):
    at_ms = lab.now_ms()
    intent = Intent(
        table_uuid=uuid_of(table),
        table="shop.orders",
        intent_id="merge-1",
        writer="etl",
        state="open",
        at_ms=at_ms,
        expires_at_ms=at_ms + 600_000,
        partitions=None,
    )
    lab.topic.messages.append(encode(intent)[1])


def a_late_write(lab, table, _):
    lab.append(table, 1)


def another_daemon(_lab, _table, service):
    service.events.term = 2


@pytest.mark.parametrize(
    ("happens", "reasons"),
    [
        (held(HoldKind.HALT), {"halted"}),
        (held(HoldKind.PAUSE), {"paused"}),
        (an_intent, {"hot"}),
        (a_late_write, {"conflict", "hot"}),
        (another_daemon, {"owner"}),
    ],
    ids=["halted", "paused", "intent", "late", "moved"],
)
def test_what_happens_while_a_commit_is_slow_is_seen_before_its_request(lab, happens, reasons):
    table, service = with_a_rewrite(lab)
    slow, sent = Slow(), []
    service.maintainer.requests.on_load = slow
    service.maintainer.requests.on_commit = lambda real, *arguments: sent.append(real(*arguments))
    while not slow.begun.is_set():
        service.step(0)
    ((operation, _),) = service.ledger.unfinished()
    happens(lab, table, service)
    for _ in range(3):
        service.round()
        service.step(0)
    written = list((lab.root / "warehouse").rglob(f"isotherm-{operation.job_id}*.parquet"))

    assert written, "what was written was cleaned up while its commit was under way"
    slow.may_go_on.set()
    end = ended(lab, service)
    assert (end.outcome, sent) == (OutcomeKind.FAILED, [])
    assert end.reason in reasons
    assert not list((lab.root / "warehouse").rglob(f"isotherm-{operation.job_id}*"))
    service.stop()


class SlowToWrite:
    """Files that take long to write."""

    def __init__(self, io, slow):
        self.io, self.slow = io, slow

    def __getattr__(self, name):
        return getattr(self.io, name)

    def new_output(self, location):
        self.slow(lambda: None)
        return self.io.new_output(location)


def test_a_table_that_moved_on_while_manifests_were_written_is_judged_as_it_is_now(lab):
    table, service = with_a_rewrite(lab)
    slow, sent = Slow(), []

    def load(real, *arguments):
        version = real(*arguments)
        version.io = SlowToWrite(version.io, slow)
        return version

    def commit(real, *arguments):
        sent.append(arguments)
        return real(*arguments)

    service.maintainer.requests.on_load = load
    service.maintainer.requests.on_commit = commit
    while not slow.begun.is_set():
        service.step(0)
    lab.append(table, 7)
    service.step(0)
    lab.ahead_ms += 60_000
    slow.may_go_on.set()

    assert ended(lab, service).outcome is OutcomeKind.DONE
    assert len(sent) == 1
    service.stop()


def test_a_commit_that_is_slow_when_the_daemon_stops_is_not_sent_afterwards(lab):
    table, service = with_a_rewrite(lab)
    slow, sent = Slow(), []
    service.maintainer.requests.on_load = slow
    service.maintainer.requests.on_commit = lambda real, *arguments: sent.append(real(*arguments))
    while not slow.begun.is_set():
        service.step(0)
    service.stop()
    slow.may_go_on.set()
    assert slow.over.wait(60)

    # The next daemon finds in the ledger that it had begun, and that the table does not have it.
    after = lab.service()
    after.start()
    assert ended(lab, after).outcome is OutcomeKind.FAILED
    assert sent == []
    assert ours(table) == []
    after.stop()


def test_a_daemon_that_stops_lets_no_request_go_that_was_about_to(lab):
    table, service = with_a_rewrite(lab)
    slow, sent = Slow(), []
    service.maintainer.requests.on_load = slow
    service.maintainer.requests.on_commit = lambda real, *arguments: sent.append(real(*arguments))
    while not slow.begun.is_set():
        service.step(0)
    slow.may_go_on.set()
    go_on = service.maintainer.committed

    def to_the_end(*arguments, **others):
        assert not others["others_run"]  # it waits as long as for any, whatever else runs
        while (end := go_on(*arguments, **others)) is None:
            pass
        return end

    service.maintainer.committed = to_the_end
    service.stop()

    assert sent == []
    assert ours(table) == []


# --- expiries


ONLY_EXPIRY = EXPIRING.replace("compact: {min_files: 3}", "compact: {enabled: false}")


@pytest.fixture
def expiring(tmp_path):
    lab = Lab(tmp_path, policy=ONLY_EXPIRY, commit_wait_s=0)
    yield lab
    lab.executor.stop()


def with_an_expiry(lab, hook, scan_s=0):
    """A table, and a daemon whose expiry hangs in a request; with what was sent. A scan takes so long."""
    table = lab.create()
    for _ in range(5):
        lab.append(table, 1)
    service = lab.service()
    scan = service.catalog.scan

    def scanned(loaded, go_on):
        lab.ahead_ms += scan_s * 1000
        return scan(loaded, go_on)

    service.catalog.scan = scanned
    service.start()
    slow, sent = Slow(), []
    service.maintainer.requests.on_commit = lambda real, *arguments: sent.append(real(*arguments))
    setattr(service.maintainer.requests, hook, slow)
    while not slow.begun.is_set():
        service.step(0)
    return table, service, slow, sent


@pytest.mark.parametrize("hook", ["on_load", "on_commit"])
def test_the_loop_turns_while_an_expiry_is_under_way(expiring, hook):
    table, service, slow, _ = with_an_expiry(expiring, hook)
    event = expiring.append(table, 7)
    service.step(0)

    assert service.fold.table(uuid_of(table)).state.head == event.snapshot_id
    assert of(expiring, seen.JobEnded) == []
    assert len(service.expiries) == 1
    slow.may_go_on.set()
    assert ended(expiring, service).outcome is OutcomeKind.DONE
    assert len(table.refresh().snapshots()) < 6
    service.stop()


def a_rollback(_lab, table, _service):
    known = [one.snapshot_id for one in table.refresh().metadata.snapshots]
    table.manage_snapshots().rollback_to_snapshot(known[-2]).commit()


@pytest.mark.parametrize(
    ("happens", "reason"),
    [
        (held(HoldKind.HALT), "halted"),
        (held(HoldKind.PAUSE), "paused"),
        (a_rollback, "stale"),
        (another_daemon, "owner"),
    ],
    ids=["halted", "paused", "rollback", "moved"],
)
def test_what_happens_while_an_expiry_is_slow_is_seen_before_its_request(expiring, happens, reason):
    table, service, slow, sent = with_an_expiry(expiring, "on_load")
    happens(expiring, table, service)
    for _ in range(3):
        service.round()
        service.step(0)

    assert service.ledger.deletions(uuid_of(table)).get("marked"), "its marks were dropped under way"
    slow.may_go_on.set()
    end = ended(expiring, service)
    assert (end.outcome, end.reason, sent) == (OutcomeKind.FAILED, reason, [])
    assert service.ledger.deletions(uuid_of(table)) == {}
    service.stop()


def test_an_expiry_of_a_table_whose_scan_is_put_off_is_not_sent(expiring):
    """What is known of the table is what it was before the rollback, and says nothing of what must stay now."""
    table, service, slow, sent = with_an_expiry(expiring, "on_load", scan_s=5)
    a_rollback(expiring, table, service)
    slow.may_go_on.set()
    end = ended(expiring, service)

    assert (end.outcome, end.reason, sent) == (OutcomeKind.FAILED, "stale", [])
    assert len(table.refresh().snapshots()) == 5
    service.stop()


def test_what_a_person_holds_back_just_before_an_expirys_request_is_seen(expiring):
    """No round lies between, so the last look itself reads the topic."""
    table, service, slow, sent = with_an_expiry(expiring, "on_load")
    held(HoldKind.PAUSE)(expiring, table, service)
    slow.may_go_on.set()
    while len(service.expiries):
        service.expiries.finish()

    assert sent == []


def test_an_expiry_that_is_slow_when_the_daemon_stops_is_not_sent_afterwards(expiring):
    _, service, slow, sent = with_an_expiry(expiring, "on_load")
    service.stop()
    slow.may_go_on.set()
    assert slow.over.wait(60)
    after = expiring.service()
    after.start()

    assert ended(expiring, after).outcome is OutcomeKind.FAILED
    assert sent == []
    after.stop()


class ByTheLab(Threads):
    """Threads that are given up by the lab's clock."""

    def __init__(self, lab):
        super().__init__()
        self.lab = lab

    def asking(self, limit_s, wait_s):
        return Asking(limit_s, wait_s, self.lab.monotonic_s)


def test_an_expiry_that_was_given_up_and_goes_on_afterwards_leaves_no_files(expiring):
    """A catalog that is only a pointer looks at the table again, and takes the request also where that has gone on."""
    expiring.threads = ByTheLab(expiring)
    table, service, slow, _ = with_an_expiry(expiring, "on_commit")
    before = len(table.refresh().snapshots())
    expiring.ahead_ms += 1000 * int(COMMIT_LIMIT_S + 1)
    for _ in range(3):
        expiring.append(table, 7)
        service.step(0)
        expiring.ahead_ms += 600_000
    assert of(expiring, seen.JobEnded)[0].outcome is OutcomeKind.UNKNOWN
    slow.may_go_on.set()
    assert slow.over.wait(60)
    for _ in range(20):
        expiring.ahead_ms += 600_000
        service.step(0)
        wait_for_children(service)

    assert len(table.refresh().snapshots()) < before + 3
    assert [one.outcome for one in of(expiring, seen.JobEnded)[:2]] == [OutcomeKind.UNKNOWN, OutcomeKind.DONE]
    lists = {Path(one.manifest_list.removeprefix("file://")) for one in table.refresh().snapshots()}
    assert set((expiring.root / "warehouse").rglob("snap-*.avro")) == lists
    service.stop()
