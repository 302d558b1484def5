"""Nothing in the loop is long: what may be many (partitions, marks, files) is done in slices. Counted, not timed."""

from dataclasses import replace

import pytest

import support.builders as b
from isotherm.contract.identity import TableId
from isotherm.core import observations as seen
from isotherm.core.lateness import Lateness
from isotherm.core.model.files import FileKind, FileStats
from isotherm.runtime.clock import now_ms
from isotherm.runtime.config import LoopConfig
from isotherm.service.jobs.expiries import MARKED_AT_ONCE
from isotherm.service.rounds.verdicts import DECIDED_AT_ONCE, DUE_AT_ONCE
from isotherm.store.fold import JOURNAL_LENGTH, Fold
from perf.made import make
from support.lab import (
    EAGER,
    EXPIRING,
    NEVER_DUE,
    Lab,
    believed,
    counted,
    of,
    started,
    uuid_of,
    wait_for_children,
)

PARTITIONS = 3 * DECIDED_AT_ONCE + 10


@pytest.fixture
def service(tmp_path):
    """A daemon with a table of many partitions that nobody decided of yet, and a small one, both made up."""
    lab = Lab(tmp_path, policy=NEVER_DUE)
    service = lab.service()
    service.start()
    made_up(service, b.TABLE, PARTITIONS)
    yield service
    lab.executor.stop()


def made_up(service, table, count):
    at_ms = service.now_ms()
    newest = at_ms // b.HOUR
    partitions = {
        b.key(newest - place): b.partition(10, b.MIB, last_write_at_ms=at_ms - (place + 100) * b.HOUR)
        for place in range(count)
    }
    state = b.table_state(
        table=table, boundary_ms=newest * b.HOUR, partitions=count, totals={FileKind.DATA: FileStats(1, 1, 1)}
    )
    facts = replace(b.facts(), confirmed_at_ms=at_ms)
    service.fold.replace(state, facts, partitions, ())


def decided(service, table=b.TABLE):
    return sum(one.verdict is not None for one in service.fold.partitions(table.uuid))


def test_a_table_of_many_partitions_is_decided_in_slices(service):
    row = service.fold.table(b.TABLE.uuid)
    before = decided(service)
    slices = []
    while service.verdicts.decide(row, ()).has_more:
        slices.append(decided(service))

    assert before == 0
    assert slices == [DECIDED_AT_ONCE, 2 * DECIDED_AT_ONCE, 3 * DECIDED_AT_ONCE]
    assert decided(service) == PARTITIONS
    assert not service.verdicts.decide(row, ()).view.partitions


def test_to_decide_all_again_is_one_note_and_goes_on_where_a_restart_found_it(service):
    row = service.fold.table(b.TABLE.uuid)
    while service.verdicts.decide(row, ()).has_more:
        pass
    before = service.fold.db.total_changes
    service.fold.touch(b.TABLE.uuid, None)
    written = service.fold.db.total_changes - before
    first = service.verdicts.decide(row, ())
    second = service.verdicts.decide(row, ())

    assert written <= 2
    assert len(first.view.partitions) == len(second.view.partitions) == DECIDED_AT_ONCE
    assert not first.view.partitions.keys() & second.view.partitions.keys()
    assert b.TABLE.uuid in service.fold.agenda(service.now_ms(), 10**12)


def test_what_a_version_with_other_rules_decided_is_decided_again(service):
    """A verdict stands until its facts change. A new default, or another planner, is no fact."""
    row = service.fold.table(b.TABLE.uuid)
    while service.verdicts.decide(row, ()).has_more:
        pass
    ledger = service.fold.ledger
    service.fold.decide_by("the rules of before")
    while service.verdicts.decide(row, ()).has_more:
        pass
    before = service.verdicts.decide(row, ()).view.partitions

    service.start()

    assert before == {}
    assert len(service.verdicts.decide(row, ()).view.partitions) == DECIDED_AT_ONCE
    assert service.fold.ledger == ledger


def test_an_event_does_not_wait_for_the_slices(service):
    row = service.fold.table(b.TABLE.uuid)
    (some, *_) = service.fold.sample(b.TABLE.uuid, None, 1)
    service.fold.touch(b.TABLE.uuid, [some])

    assert list(service.verdicts.decide(row, (), in_round=False).view.partitions) == [some]


def test_of_many_that_are_due_the_dearest_are_looked_at_again(tmp_path):
    lab = Lab(tmp_path, policy=EAGER)
    service = lab.service()
    service.start()
    made_up(service, b.TABLE, PARTITIONS)
    row = service.fold.table(b.TABLE.uuid)
    while service.verdicts.decide(row, ()).has_more:
        pass
    due = service.verdicts.decide(row, ())

    assert service.fold.tally(b.TABLE.uuid).verdicts["due"] > 2 * DUE_AT_ONCE
    assert len(due.view.partitions) == len(due.plan.requests) == DUE_AT_ONCE
    lab.executor.stop()


def test_a_great_many_files_are_marked_and_confirmed_in_slices(tmp_path):
    lab = Lab(tmp_path, policy=EXPIRING.replace("delete_after: 0s", "delete_after: 5m"))
    table = lab.create()
    for hour in (1, 1, 1, 9, 9):
        lab.append(table, hour)
    service = lab.service()
    service.start()
    read = service.maintainer.read
    more = tuple(f"{table.location()}/data/made-up-{number}.parquet" for number in range(3 * MARKED_AT_ONCE))

    def with_more():
        return [(job_id, replace(reading, files=reading.files + more)) for job_id, reading in read()]

    service.maintainer.read = with_more
    steps = []
    while not steps or "waiting" not in states(service, table) or "marked" in states(service, table):
        assert len(steps) < 100
        before = service.ledger.db.total_changes
        service.step(0)
        wait_for_children(service)
        steps.append(service.ledger.db.total_changes - before)
        if len(table.refresh().snapshots()) < 5:
            # Everything was marked before the request went out.
            assert sum(states(service, table).values()) > len(more)

    assert states(service, table)["waiting"] > 3 * MARKED_AT_ONCE
    assert len(of(lab, seen.SnapshotsExpired)) == 1
    # A slice, its confirmation, and what else a turn writes.
    assert max(steps) < 2 * MARKED_AT_ONCE + 500
    service.stop()


def states(service, table):
    return service.ledger.deletions(uuid_of(table))


@pytest.mark.parametrize(("behind", "scans"), [(JOURNAL_LENGTH, 1), (JOURNAL_LENGTH + 1, 2)])
def test_a_table_that_is_far_behind_is_scanned_and_not_followed_snapshot_by_snapshot(tmp_path, behind, scans):
    lab = Lab(tmp_path, policy=NEVER_DUE)
    made = make(
        lab,
        "shop.orders",
        columns=3,
        now_ms=now_ms(),
        files=20,
        manifests=2,
        partitions=10,
        snapshots=behind + 1,
    )
    service = lab.service()
    service.start()
    loaded = service.catalog.load("shop.orders")
    service.follower.confirm_loaded(service.catalog.at(loaded, made.head - behind))
    service.follower.confirm("shop.orders")

    assert service.fold.table(made.uuid).state.head == made.head
    assert len(of(lab, seen.TableScanned)) == scans
    assert believed(service, made.uuid) == counted(lab.scan())
    lab.executor.stop()


def confirmations(service, lab, minutes, announced):
    """How often the catalog is asked for a table with a commit a minute, and how many of its snapshots are known.

    To the daemon, whose clock is moved on, the commits are ever older: the table seems to rest a little.
    """
    table = lab.create()
    asked = []
    real = service.catalog.load
    service.catalog.load = lambda name: asked.append(name) or real(name)
    for _ in range(minutes):
        lab.append(table, 1, announce=announced)
        for _ in range(2):
            service.step(0)
            lab.ahead_ms += 30_000
    service.step(0)
    return len(asked), len(service.ledger.accounts(uuid_of(table)))


@pytest.mark.parametrize(("announced", "most", "least"), [(True, 2, 1), (False, 21, 15)])
def test_a_table_is_confirmed_each_minute_unless_its_commits_are_announced(tmp_path, announced, most, least):
    lab = Lab(tmp_path, policy=NEVER_DUE)
    pace = LoopConfig(plan_every_s=10, poll_tables_every_s=60, recount_every_s=0)
    lab.config = lab.config.model_copy(update={"loop": pace})
    service = lab.service()
    service.start()
    asked, known = confirmations(service, lab, 20, announced)

    assert least <= asked <= most
    assert known == 20
    service.stop()


def test_a_table_that_rests_is_confirmed_ever_more_rarely_and_each_hour_at_least(tmp_path):
    fold = Fold(None)
    at_ms, minute = 10**12, b.MINUTE
    asked = {}
    for name, rested in {"fresh": 0, "an hour": 60, "a day": 24 * 60}.items():
        table = TableId(name, name)
        facts = replace(b.facts(), confirmed_at_ms=at_ms)
        fold.replace(
            b.table_state(table=table), facts, {}, b.snapshots(1, newest_at_ms=at_ms - rested * minute)
        )
        asked[name] = next(m for m in range(1, 200) if fold.is_silent(name, at_ms + m * minute, 60_000))
    empty = TableId("empty", "empty")
    fold.replace(b.table_state(table=empty, head=None), replace(b.facts(), confirmed_at_ms=at_ms), {}, ())
    asked["empty"] = next(m for m in range(1, 200) if fold.is_silent("empty", at_ms + m * minute, 60_000))
    fold.note_events({"fresh": at_ms})
    announced = next(m for m in range(1, 200) if fold.is_silent("fresh", at_ms + m * minute, 60_000))

    assert asked == {"fresh": 1, "an hour": 6, "a day": 60, "empty": 1}
    assert announced == 5


def test_what_a_table_has_taught_is_forgotten_long_after_it_is_gone_and_not_before_all_were_looked_for(
    tmp_path,
):
    lab = Lab(tmp_path, policy=NEVER_DUE)
    uuid = uuid_of(lab.create())
    lab.append(lab.catalog.load_table("shop.orders"), 1)
    service = started(lab)
    service.step(0)
    long_ago_ms = lab.now_ms() - 91 * 86_400_000
    for one in (uuid, "gone"):
        service.ledger.learn(one, TAUGHT, long_ago_ms)
    service.rounds.has_found_all = False
    lab.ahead_ms += 3_600_000
    service.pruning.turn()
    assert service.ledger.learnt("gone") == TAUGHT

    service.rounds.has_found_all = True
    lab.ahead_ms += 3_600_000
    service.pruning.turn()

    assert service.ledger.learnt("gone") == Lateness()
    assert service.ledger.learnt(uuid) == TAUGHT
    service.stop()
    lab.executor.stop()


TAUGHT = Lateness(updated_at_ms=1)
