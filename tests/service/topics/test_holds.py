"""What holds a table back: halts, pauses, quarantines, a lost ledger; here, and from another daemon."""

import json

import pytest

from isotherm.contract.identity import PartitionKey
from isotherm.core import observations as seen
from isotherm.core.model.decisions import Verdict
from isotherm.core.model.holds import HoldKind
from isotherm.core.model.jobs import OutcomeKind
from isotherm.core.model.refusals import Reason, Refusal
from support.held import due_table, hold_of, ours, put
from support.lab import EXPIRING, Lab, of, settle, started, until_a_job_runs, uuid_of, wait_for_children


def finish(service):
    for _ in range(100):
        wait_for_children(service)
        service.compactions.finish()
        if not len(service.compactions):
            return
    raise AssertionError("the job does not end")


def halt(lab, table, _):
    put(lab, hold_of(table))


def pause(lab, table, _):
    put(lab, hold_of(table, HoldKind.PAUSE))


def becomes(part, name, value):
    return lambda _lab, _table, service: setattr(getattr(service, part), name, value)


@pytest.mark.parametrize("kind", [HoldKind.HALT, HoldKind.PAUSE])
def test_a_hold_of_another_daemon_is_known_before_a_job_begins_and_lifted_with_it(lab, kind):
    table = due_table(lab)
    put(lab, hold_of(table, kind))
    service = lab.settled()

    assert of(lab, seen.JobStarted) == ours(table) == []
    assert of(lab, seen.HoldChanged)[0].why == "somebody said so"
    lab.held.append((hold_of(table, kind).key, None))
    settle(service)
    assert len(ours(table)) == 1
    service.stop()


def test_a_wait_that_was_over_for_a_week_is_lifted_whether_its_partition_is_there_or_not(lab):
    table = lab.create()
    lab.append(table, 1)
    day_ms = 86_400_000
    ends = {days: lab.now_ms() - days * day_ms for days in (6, 8)}
    waits = {
        days: hold_of(table, HoldKind.QUARANTINE, partition=PartitionKey(f'{{"1000":{days}}}'), until_ms=end)
        for days, end in ends.items()
    }
    for hold in (*waits.values(), hold_of(table, HoldKind.PAUSE, until_ms=ends[8])):
        put(lab, hold)
    service = started(lab)
    settle(service)

    kept = service.ledger.holds(uuid_of(table))
    assert {(one.kind, one.until_ms) for one in kept} == {
        (HoldKind.PAUSE, ends[8]),
        (HoldKind.QUARANTINE, ends[6]),
    }
    assert dict(lab.held)[waits[8].key] is None
    lab.ahead_ms += 2 * day_ms
    settle(service)
    assert {one.kind for one in service.ledger.holds(uuid_of(table))} == {HoldKind.PAUSE}
    service.stop()


def test_what_is_held_of_one_partition_has_no_other_decided_again(lab):
    """A table of a million partitions is not decided as a whole because of one."""
    table = due_table(lab)
    service = lab.settled()
    uuid, (held, *_) = uuid_of(table), lab.scan()

    def decided_again():
        """Which partitions, and whether the table is decided as a whole; a round decides them."""
        assert service.holds.refresh(0)
        state = service.fold.table(uuid).state
        found = service.fold.undecided(
            uuid, lab.now_ms(), state.boundary_ms, state.foreign_commits, 100, anew=True
        )
        is_whole = service.fold.table(uuid).is_whole_touched
        settle(service)
        return set(found.states), is_whole

    assert decided_again() == (set(), False)
    hold = hold_of(table, HoldKind.QUARANTINE, partition=held, until_ms=lab.now_ms() + 10**8)
    put(lab, hold)
    assert decided_again() == ({held}, False)
    lab.held.append((hold.key, None))
    assert decided_again() == ({held}, False)
    put(lab, hold_of(table, HoldKind.PAUSE))
    assert decided_again() == (set(lab.scan()), True)
    service.stop()


def test_nothing_begins_where_the_topic_with_holds_cannot_be_read(lab):
    table = due_table(lab)
    service = lab.service()
    service.hold_topic.is_reachable = False
    service.start()
    for _ in range(20):
        service.step(0)

    assert of(lab, seen.JobStarted) == []
    assert of(lab, seen.RoundPlanned)[-1].requests
    service.hold_topic.is_reachable = True
    settle(service)
    assert len(ours(table)) == 1
    service.stop()


@pytest.mark.parametrize(
    ("reason", "happens"),
    [
        ("halted", halt),
        ("paused", pause),
        ("topic", becomes("hold_topic", "is_reachable", False)),
        ("owner", becomes("events", "is_member", False)),
        ("owner", becomes("events", "term", 2)),
        ("owner", becomes("events", "term", None)),
    ],
    ids=["halt", "pause", "unreadable", "stranger", "came-back", "moved"],
)
def test_what_happens_while_a_job_runs_is_seen_by_the_last_look(lab, reason, happens):
    table = due_table(lab)
    service = lab.service()
    service.start()
    until_a_job_runs(service)
    ((operation, _),) = service.ledger.unfinished()
    happens(lab, table, service)
    finish(service)

    assert ours(table) == []
    ended = of(lab, seen.JobEnded)[-1]
    assert (ended.outcome, ended.reason) == (OutcomeKind.FAILED, reason)
    assert not list((lab.root / "warehouse").rglob(f"isotherm-{operation.job_id}*"))
    assert service.ledger.quarantined(operation.table.uuid) == {}
    service.stop()


@pytest.mark.parametrize(
    ("reason", "happens"),
    [
        ("halted", halt),
        ("owner", becomes("events", "term", 2)),
    ],
    ids=["halt", "came-back"],
)
def test_a_running_job_is_cancelled_at_once(lab, reason, happens):
    table = due_table(lab)
    service = lab.service()
    service.start()
    until_a_job_runs(service)
    happens(lab, table, service)
    service.compactions.cancel_moved()
    service.holds.refresh(0)
    service.compactions.cancel_held()

    assert len(service.compactions) == 0
    assert of(lab, seen.JobEnded)[-1].reason == reason
    service.stop()


def test_a_table_that_moved_away_is_told_once_and_not_planned(lab):
    table = due_table(lab)
    service = lab.settled()
    service.events.term = None
    for _ in range(3):
        service.step(0)

    assert [one.table.uuid for one in of(lab, seen.TableMoved)] == [str(table.metadata.table_uuid)]
    service.stop()


def test_no_expiry_for_somebody_elses_table(tmp_path):
    lab = Lab(tmp_path, policy=EXPIRING.replace("min_files: 3", "enabled: false"))
    table = due_table(lab)
    service = lab.service()
    service.start()
    service.events.is_member = False
    for _ in range(5):
        service.step(0)
        wait_for_children(service)
    before = len(table.refresh().snapshots())
    ended = {(one.state, one.reason, one.outcome_why) for one in service.ledger.operations()}

    assert before == 6
    ended -= {("running", "", "")}
    assert ended == {("failed", "owner", "somebody else is")}
    assert service.ledger.deletions(str(table.metadata.table_uuid)) == {}

    service.events.is_member = True
    settle(service)
    assert len(table.refresh().snapshots()) < before
    service.stop()


def test_lost_messages_are_told_and_every_table_is_looked_at(lab):
    table = due_table(lab)
    service = lab.settled()
    lab.append(table, 5, announce=False)
    service.config = service.config.model_copy(
        update={"loop": service.config.loop.model_copy(update={"poll_tables_every_s": 3600})}
    )
    service.events.lost.append("the topic was made again")
    service.step(0)

    assert [one.why for one in of(lab, seen.EventsLost)] == ["the topic was made again"]
    uuid = str(table.metadata.table_uuid)
    assert service.fold.table(uuid).state.head == table.refresh().current_snapshot().snapshot_id
    service.stop()


class Broken:
    """A maintainer whose rewrites all fail at once, until it is mended."""

    def __init__(self, real):
        self._real, self.is_mended, self._failed = real, False, []

    def __getattr__(self, name):
        return getattr(self._real, name)

    def start(self, loaded, job):
        if self.is_mended:
            self._real.start(loaded, job)
        else:
            self._failed.append(job.job_id)

    def finished(self):
        failed, self._failed = self._failed, []
        return [
            (job_id, Refusal(Reason.MISSING_FILE, "it is gone")) for job_id in failed
        ] + self._real.finished()


def test_a_partition_is_tried_again_soon_and_quarantined_from_the_third_failure_in_a_row(lab):
    table = due_table(lab)
    uuid = str(table.metadata.table_uuid)
    service = lab.service()
    service.maintainer = service.compactions.maintainer = Broken(service.maintainer)
    service.start()
    verdicts, spans_s = [], []
    for _ in range(4):
        until_a_job_runs(service)
        finish(service)
        service.step(0)
        ((key, quarantine),) = service.ledger.quarantined(uuid).items()
        spans_s.append(round((quarantine.until_ms - service.now_ms()) / 1000, -1))
        verdicts.append(next(one.verdict for one in service.fold.partitions(uuid) if one.key == key))
        lab.ahead_ms += quarantine.until_ms - service.now_ms()

    assert verdicts == [Verdict.WAITING, Verdict.WAITING, Verdict.QUARANTINED, Verdict.QUARANTINED]
    assert spans_s == [60, 120, 240, 480]
    assert of(lab, seen.TablePlanned)[-1].quarantined == 1

    # It follows the table, and is forgotten after a success.
    ((told, value),) = dict(lab.held).items()
    assert (told, json.loads(value)["failures"]) == (f"{uuid}/quarantine/{key}", 4)
    service.maintainer.is_mended = True
    settle(service)
    assert len(ours(table)) == 1
    assert service.ledger.quarantined(uuid) == {}
    assert lab.held[-1] == (told, None)
    service.stop()


def lose_ledger(lab, *also):
    for name in ("ledger.db", "ledger.db-wal", "ledger.db-shm", *also):
        (lab.root / "state" / name).unlink(missing_ok=True)


@pytest.mark.parametrize("also", [(), ("fold.db", "fold.db-wal", "fold.db-shm")], ids=["ledger", "folder"])
def test_a_daemon_whose_ledger_is_lost_only_tells_what_it_would_delete_until_it_is_told_to(tmp_path, also):
    lab = Lab(tmp_path, policy=EXPIRING.replace("keep_last: 2, at_once: 2", "keep_last: 4, at_once: 2"))
    table = due_table(lab)
    service = lab.settled()
    service.stop()
    service.fold.close()
    service.ledger.close()
    assert ours(table)
    lose_ledger(lab, *also)
    for hour in (4, 5, 6):
        lab.append(table, hour)
    before = {s.snapshot_id for s in table.refresh().snapshots()}
    service = lab.settled()

    assert before <= {s.snapshot_id for s in table.refresh().snapshots()}
    assert len(of(lab, seen.LedgerLost)) == 1
    assert of(lab, seen.RoundPlanned)[-1].deletions_held
    expiry = next(
        one for one in service.fold.table(str(table.metadata.table_uuid)).of_table if one.action == "expire"
    )
    assert expiry.verdict is Verdict.HALTED
    assert "`isotherm resume` lets it delete again" in expiry.why

    # It is still so after a restart, and over after the word of a person.
    service.stop()
    service = lab.settled()
    assert before <= {s.snapshot_id for s in table.refresh().snapshots()}
    (key,) = [key for key in dict(lab.held) if key.endswith("/ledger")]
    lab.held.append((key, None))
    settle(service)
    assert len(table.refresh().snapshots()) < len(before)
    assert not of(lab, seen.RoundPlanned)[-1].deletions_held
    service.stop()


def test_a_new_daemon_on_new_tables_deletes_from_the_start(tmp_path):
    lab = Lab(tmp_path, policy=EXPIRING)
    table = due_table(lab)
    service = lab.settled()
    service.stop()

    assert of(lab, seen.LedgerLost) == []
    assert not service.ledger.is_new
    assert len(table.refresh().snapshots()) <= 3
