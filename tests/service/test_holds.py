"""What holds a table back: halts, pauses, quarantines, a lost ledger; here, and from another daemon."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from isotherm.contract.identity import PartitionKey
from isotherm.contract.summary import JOB_ID
from isotherm.core import observations as seen
from isotherm.core.model.decisions import Verdict
from isotherm.core.model.holds import Hold, HoldKind
from isotherm.core.model.jobs import OutcomeKind
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.service.holds import REFUSED_FOR_MS, TELL_FOR_S, Holds
from isotherm.service.ports import Refused
from isotherm.store import Ledger
from isotherm.store.database import to_json
from support.fakes import Clock, MemoryHolds
from support.lab import EXPIRING, Lab, of, settle, started, until_a_job_runs, uuid_of, wait_for_children


def ours(table):
    return [s for s in table.refresh().snapshots() if JOB_ID in s.summary.additional_properties]


def due_table(lab):
    table = lab.create()
    for hour in (1, 1, 1, 2, 3, 4):
        lab.append(table, hour)
    return table


def hold_of(table, kind=HoldKind.HALT, **fields):
    return Hold(kind, str(table.metadata.table_uuid), "shop.orders", "somebody said so", 1, **fields)


def put(lab, hold):
    """As another daemon, or a person, would."""
    lab.held.append((hold.key, to_json(hold).encode()))


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


# A daemon whose partition fails


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


# What one daemon says, and another hears


@pytest.fixture
def topics():
    """One topic, as each of two daemons has it."""
    records = []
    return [MemoryHolds(records), MemoryHolds(records)]


@pytest.fixture
def heard():
    """What was told, of both."""
    return []


@pytest.fixture
def two(tmp_path, topics, heard):
    """The holds of two daemons on one topic."""
    ledgers = [Ledger(tmp_path / name / "ledger.db") for name in ("one", "two")]
    return [
        Holds(topic, ledger, heard.append, lambda: 1000, heard.append, lambda: 0.0)
        for topic, ledger in zip(topics, ledgers, strict=True)
    ]


HALT = Hold(HoldKind.HALT, "t", "shop.orders", "mismatch: rows", 5)
HALTED = Refusal(Reason.HALTED, "mismatch: rows")


def test_what_one_holds_the_other_holds_and_what_one_lifts_is_lifted(two):
    one, other = two
    one.put(HALT)
    assert other.refresh(0)
    assert one.stops("t") == other.stops("t") == HALTED
    other.lift("t", HoldKind.HALT)
    one.refresh(0)

    assert one.stops("t") is other.stops("t") is None


def test_a_halt_that_could_not_be_told_holds_here_and_is_told_later(two, topics):
    one, other = two
    one.put(HALT)
    one.lift("t", HoldKind.HALT)
    topics[0].is_reachable = False
    one.put(HALT)
    assert one.stops("t")
    assert not one.refresh(0)
    topics[0].is_reachable = True
    assert one.refresh(0), "the tombstone on the topic is older than what was never told"
    other.refresh(0)

    assert one.stops("t") == other.stops("t") == HALTED


def test_a_hold_that_the_broker_does_not_take_keeps_no_other_from_being_told(two, topics, heard):
    one, other = two
    topics[0].largest = 300
    long = Hold(HoldKind.QUARANTINE, "a", "shop.aaa", "x" * 400, 5, partition=PartitionKey("{}"), until_ms=9)
    one.put(long)
    one.put(HALT)
    for _ in range(5):
        one.refresh(0)
    other.refresh(0)

    assert other.stops("t") == HALTED
    assert len([what for what in heard if isinstance(what, seen.TrySoon)]) == 1


def test_what_is_said_of_an_end_is_cut():
    """A file chooses what an error of its reader repeats."""
    assert len(Refusal(Reason.CORRUPT_FILE, "x" * 3_000_000).why) == 1001


def test_a_topic_that_was_lost_is_told_what_the_ledgers_know(two, topics):
    one, other = two
    one.put(HALT)
    one.refresh(0)
    topics[0].records.clear()
    one.refresh(0)
    other.refresh(0)

    assert one.stops("t") == other.stops("t") == HALTED


def test_garbage_among_them_is_told_and_stops_nothing(two, topics):
    one, other = two
    topics[0].records += [
        ("t/halt", b"\xff"),
        ("t/halt", b'{"kind": "halt"}'),
        ("x", b"[]"),
        ("u/halt", to_json(HALT).encode()),
    ]
    one.put(HALT)

    assert other.refresh(0)
    assert other.stops("t") == HALTED
    assert other.stops("u") is None


LONE = b'{"kind": "%s", "uuid": "t", "name": "%s", "why": "%s", "at_ms": "x"}'


@pytest.mark.parametrize(
    "record",
    [
        LONE % (b"pause", rb"\ud800", b""),
        LONE % (b"pause", b"shop.orders", rb"\udfff"),
        LONE % (b"a newer kind", b"", rb"half a \ud83d pair"),
    ],
    ids=["name", "why", "newer-kind"],
)
def test_half_a_surrogate_pair_is_one_rejected_record_and_every_other_counts(record):
    """JSON may spell it out; nothing can store it."""
    heard = []
    topic = MemoryHolds([("t/pause", record), ("u/halt", to_json(replace(HALT, uuid="u")).encode())])
    holds = Holds(topic, Ledger(None), heard.append, lambda: 1000, lambda _: None, lambda: 0.0)

    assert holds.refresh(0)
    assert [said.key for said in heard if isinstance(said, seen.HoldRejected)] == ["t/pause"]
    assert (holds.stops("t"), holds.stops("u")) == (None, Refusal(Reason.HALTED, "mismatch: rows"))


def test_no_record_on_the_topic_ends_the_loop_and_what_comes_behind_it_counts(lab):
    table = due_table(lab)
    lab.held.append((f"{uuid_of(table)}/pause", LONE % (b"pause", rb"\ud800", b"")))
    put(lab, hold_of(table))
    service = started(lab)
    settle(service)

    assert len(of(lab, seen.HoldRejected)) == 1
    assert of(lab, seen.JobStarted) == []
    service.stop()


@pytest.mark.parametrize("number", [10**400, -1], ids=["huge", "negative"])
@pytest.mark.parametrize("field", ["until_ms", "failures"])
def test_a_number_beyond_all_bounds_holds_its_table_and_makes_nothing_fail(lab, field, number):
    table = due_table(lab)
    uuid = uuid_of(table)
    record = {
        "kind": "pause",
        "uuid": uuid,
        "name": "shop.orders",
        "why": "load test",
        "at_ms": 1,
        field: number,
    }
    lab.held.append((f"{uuid}/pause", json.dumps(record).encode()))
    service = started(lab)
    settle(service)

    assert of(lab, seen.TableFailed) == of(lab, seen.JobStarted) == []
    assert str(service.holds.stops(uuid)).startswith(
        "halted: a newer version of Isotherm holds it back (pause: load test)"
    )
    lab.held.append((f"{uuid}/pause", None))
    settle(service)
    assert len(ours(table)) == 1
    service.stop()


def test_a_record_under_another_tables_key_holds_nothing(two, topics):
    _, other = two
    topics[0].records.append(("u/halt", to_json(HALT).encode()))

    assert other.refresh(0)
    assert (other.stops("t"), other.stops("u")) == (None, None)


@pytest.mark.parametrize(
    "record",
    [
        {"kind": "freeze", "uuid": "t", "name": "shop.orders", "why": "an audit", "at_ms": 5},
        {"kind": "halt", "uuid": "t", "why": {"text": "an audit"}, "at_ms": "2026-01-01T00:00:00Z"},
    ],
    ids=["another-kind", "another-form"],
)
def test_what_only_a_newer_version_can_read_holds_its_table_until_it_is_lifted(two, topics, record):
    one, other = two
    key = f"t/{record['kind']}"
    topics[0].records.append((key, json.dumps(record).encode()))
    one.refresh(0)
    stopped = one.stops("t")

    assert stopped.reason is Reason.HALTED
    assert stopped.why.startswith("a newer version of Isotherm holds it back")
    assert "an audit" in stopped.why
    assert one.stops("u") is None
    # Nothing of it is written over: the newer version still reads what it wrote.
    assert topics[0].records == [(key, json.dumps(record).encode())]
    topics[0].records.append((key, None))
    one.refresh(0)
    assert one.stops("t") is None
    assert other.refresh(0)
    assert other.stops("t") is None


def test_a_pause_ends_by_itself(two):
    one, _ = two
    one.put(Hold(HoldKind.PAUSE, "t", "shop.orders", "load test", 5, until_ms=1001))
    one.put(Hold(HoldKind.PAUSE, "u", "shop.items", "load test", 5, until_ms=1000))

    assert one.stops("t") == Refusal(Reason.PAUSED, "load test")
    assert one.stops("u") is None


# A ledger that was lost


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


def holds_on(topic, ledger, clock):
    return Holds(topic, ledger, lambda _: None, clock.now_ms, lambda _: None, clock.monotonic_s)


class SlowHolds(MemoryHolds):
    """A broker that takes half of the time for a record."""

    def __init__(self, clock):
        super().__init__([])
        self.clock = clock

    def write(self, key, value):
        super().write(key, value)
        self.clock.advance(TELL_FOR_S / 2)


def test_what_a_topic_has_lost_is_told_some_at_a_time_and_what_stops_a_table_first():
    clock, ledger = Clock(), Ledger(None)
    topic = SlowHolds(clock)
    holds = holds_on(topic, ledger, clock)
    for uuid in "abc":
        wait = Hold(HoldKind.QUARANTINE, uuid, "", "storage", 1, partition=PartitionKey("{}"), until_ms=2)
        ledger.hold(wait, told=False)
    holds.put(Hold(HoldKind.HALT, "z", "", "why", 1))

    assert [key for key, _ in topic.records] == ["z/halt", "a/quarantine/{}"]
    assert holds.refresh(5.0)
    assert [key for key, _ in topic.records[2:]] == ["b/quarantine/{}", "c/quarantine/{}"]


def test_waits_that_were_over_long_ago_are_lifted_together_and_told_some_at_a_time():
    clock, ledger = Clock(), Ledger(None)
    topic = SlowHolds(clock)
    holds = holds_on(topic, ledger, clock)
    for uuid in "abcd":
        wait = Hold(HoldKind.QUARANTINE, uuid, "", "storage", 1, partition=PartitionKey("{}"), until_ms=2)
        ledger.hold(wait, told=True)
    holds.lift_old(lambda _: True)

    assert [ledger.holds(uuid) for uuid in "abcd"] == [[]] * 4
    assert topic.records == [("a/quarantine/{}", None), ("b/quarantine/{}", None)]


def test_the_waits_of_a_table_cost_as_much_as_there_are_of_them_and_an_event_of_it_nothing(lab):
    """Of a store that takes no files, thousands of partitions wait."""
    table = due_table(lab)
    service = lab.settled()
    uuid, steps = uuid_of(table), Counter()
    wait = hold_of(table, HoldKind.QUARANTINE, until_ms=2**45, failures=1)

    def cost(act):
        steps.clear()
        service.ledger.db.set_progress_handler(lambda: steps.update(["ledger"]), 10)
        act()
        service.ledger.db.set_progress_handler(None, 10)
        return steps["ledger"]

    def read(count):
        for _ in range(count):
            put(lab, replace(wait, partition=PartitionKey(f'{{"1000":{len(lab.held)}}}')))
        return cost(lambda: service.holds.refresh(0))

    def hear():
        lab.append(table, 9)
        return cost(lambda: service.consume(service.events.poll(0)))

    hear()
    before, few = hear(), read(200)
    many = read(200)  # beside as many that are known

    assert len(service.ledger.holds(uuid)) == 400
    assert many < 1.5 * few
    assert hear() < 1.5 * before
    service.stop()


def test_what_a_newer_version_says_of_a_partition_holds_the_whole_table(lab):
    table = due_table(lab)
    service = lab.settled()
    wait = hold_of(table, HoldKind.QUARANTINE, partition=PartitionKey('{"1000":1}'))
    said = json.loads(to_json(wait)) | {"kind": "siesta"}
    lab.held.append((wait.key, json.dumps(said).encode()))
    service.holds.refresh(0)

    assert "siesta" in service.ledger.halted(uuid_of(table))
    service.stop()


class RefusingHolds(MemoryHolds):
    """A broker that takes no record of one table, as one that is too large for it."""

    def __init__(self, uuid):
        super().__init__([])
        self.uuid, self.refused = uuid, []

    def write(self, key, value):
        if key.startswith(f"{self.uuid}/"):
            self.refused.append(value)
            raise Refused("MSG_SIZE_TOO_LARGE")
        super().write(key, value)


def test_a_record_that_is_refused_is_tried_again_after_an_hour_or_once_it_is_another():
    clock, ledger, topic = Clock(), Ledger(None), RefusingHolds("large")
    holds = holds_on(topic, ledger, clock)
    large = Hold(HoldKind.HALT, "large", "", "why", 1)
    holds.put(large)
    holds.put(Hold(HoldKind.HALT, "other", "", "why", 1))
    assert ([key for key, _ in topic.records], len(topic.refused)) == (["other/halt"], 1)

    clock.advance(REFUSED_FOR_MS / 1000 - 1)
    holds.refresh(5.0)
    assert len(topic.refused) == 1
    holds.put(replace(large, why="another"))
    assert len(topic.refused) == 2
    clock.advance(REFUSED_FOR_MS / 1000)
    topic.uuid = "nobody"
    holds.refresh(5.0)
    assert [key for key, _ in topic.records] == ["other/halt", "large/halt"]
    assert ledger.untold() == []
