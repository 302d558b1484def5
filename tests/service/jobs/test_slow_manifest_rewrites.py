"""A store keeps a rewrite of manifests waiting: the daemon stops meanwhile, or waits no longer."""

import pytest

from isotherm.core import observations as seen
from isotherm.core.deletion import Cause
from isotherm.core.model.holds import HoldKind
from isotherm.core.model.jobs import Action, OutcomeKind
from isotherm.core.model.refusals import Reason
from isotherm.iceberg.maintainer import COMMIT_LIMIT_S
from isotherm.service.jobs.manifest_rewrites import READ_FOR_MS
from service.jobs.test_manifest_rewrites import HOURS, ONLY_MANIFESTS, ours
from service.jobs.test_slow_commits import ByTheLab, Slow
from support.held import hold_of, put
from support.lab import Lab, of, started, uuid_of


class SlowToReadBack:
    """A store in which what was just written is not there for a while."""

    def __init__(self, io, slow):
        self.io, self.slow = io, slow
        self.written = set()

    def __getattr__(self, name):
        return getattr(self.io, name)

    def new_output(self, location):
        self.written.add(location)
        return self.io.new_output(location)

    def new_input(self, location):
        if location in self.written:
            self.slow(lambda: None)
        return self.io.new_input(location)


@pytest.fixture
def lab(tmp_path):
    lab = Lab(tmp_path, policy=ONLY_MANIFESTS, commit_wait_s=0)
    lab.threads = ByTheLab(lab)
    yield lab
    lab.executor.stop()


def with_a_rewrite(lab):
    """A table, and a daemon whose rewrite has written a manifest, and waits for the store."""
    table = lab.create()
    for hour in HOURS:
        lab.append(table, hour)
    service, slow = started(lab), Slow()

    def load(real, *arguments):
        version = real(*arguments)
        version.io = SlowToReadBack(version.io, slow)
        return version

    service.maintainer.requests.on_load = load
    while not slow.begun.is_set():
        service.step(0)
    return table, service, slow


def left(service, table):
    """How many files are marked as what a job has left."""
    return service.ledger.waiting_for(uuid_of(table), Cause.LEFTOVER)[0]


def test_where_the_daemon_stops_it_was_stopped_and_what_it_wrote_is_marked(lab):
    """No crash, which would have the next one wait: a deploy is no fault of the table."""
    table, service, slow = with_a_rewrite(lab)

    service.stop()
    slow.may_go_on.set()
    assert slow.over.wait(60)

    again = started(lab)
    (operation,) = again.ledger.operations()
    assert (operation.state, operation.reason) == ("failed", Reason.STOPPED)
    assert left(again, table) == 1
    assert ours(table) == []
    again.stop()


def test_one_that_goes_on_and_on_gives_way_to_other_tables(lab):
    """Its store answers, and slowly."""
    table, service, slow = with_a_rewrite(lab)

    lab.ahead_ms += READ_FOR_MS + 1
    service.manifests.maintainer._manifests._running.heard_s = lab.monotonic_s()  # noqa: SLF001 (as if it had got on)
    service.step(0)

    (ended,) = of(lab, seen.JobEnded)
    assert (ended.outcome, ended.reason) == (OutcomeKind.FAILED, Reason.STORAGE)
    assert "other tables wait" in ended.why
    assert service.manifests.has_room
    slow.may_go_on.set()
    assert slow.over.wait(60)
    assert ours(table) == []
    service.stop()


@pytest.mark.parametrize("kind", [HoldKind.HALT, HoldKind.PAUSE])
def test_where_its_table_is_held_back_it_ends_at_once(lab, kind):
    table, service, slow = with_a_rewrite(lab)

    put(lab, hold_of(table, kind))
    for _ in range(5):
        service.step(0)

    (ended,) = of(lab, seen.JobEnded)
    assert ended.reason is (Reason.HALTED if kind is HoldKind.HALT else Reason.PAUSED)
    assert left(service, table) == 1
    slow.may_go_on.set()
    assert slow.over.wait(60)
    assert ours(table) == []
    service.stop()


def test_one_that_takes_too_long_has_failed_and_sends_nothing_afterwards(lab):
    table, service, slow = with_a_rewrite(lab)

    lab.ahead_ms += 1000 * int(COMMIT_LIMIT_S + 1)
    service.step(0)

    (ended,) = of(lab, seen.JobEnded)
    assert (ended.outcome, ended.reason) == (OutcomeKind.FAILED, Reason.STORAGE)
    assert "not done after 600s" in ended.why
    assert left(service, table) == 1
    # Nobody waited for it, so no other commit is held up.
    assert service.expiries.operations.may_commit(Action.EXPIRE, "another job")
    slow.may_go_on.set()
    assert slow.over.wait(60)
    assert ours(table) == []
    service.stop()
