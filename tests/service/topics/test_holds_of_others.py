"""What one daemon says of what it holds back, another hears; what nobody can read stops nothing."""

import json
from dataclasses import replace

import pytest

from isotherm.contract.identity import PartitionKey, TableId
from isotherm.core import observations as seen
from isotherm.core.model.holds import Hold, HoldKind
from isotherm.core.model.jobs import JobRead
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.service.topics.holds import Holds
from isotherm.store import Ledger
from isotherm.store.database import to_json
from support.held import due_table, hold_of, ours, put
from support.lab import of, settle, started, uuid_of
from support.memory_topics import MemoryKeyedTopic


@pytest.fixture
def topics():
    """One topic, as each of two daemons has it."""
    records = []
    return [MemoryKeyedTopic(records), MemoryKeyedTopic(records)]


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


def test_a_job_that_goes_well_in_parts_begins_no_hold_anywhere(two, heard):
    """Its size is said again with each of them, to all."""
    one, other = two
    partition = PartitionKey("{}")
    one.set_back(TableId("t", "shop.orders"), partition, Refusal(Reason.DEADLINE, "x"), 0, JobRead(9, 0, 900))
    other.refresh(0)
    one.went_well("t", partition)
    other.refresh(0)

    told = [change.is_held for change in heard if isinstance(change, seen.HoldChanged)]
    assert told == [True, True, False, False]


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
    topic = MemoryKeyedTopic([("t/pause", record), ("u/halt", to_json(replace(HALT, uuid="u")).encode())])
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
@pytest.mark.parametrize("field", ["until_ms", "failures", "part"])
def test_a_number_beyond_all_bounds_holds_its_table_and_makes_nothing_fail(lab, field, number):
    table = due_table(lab)
    uuid = uuid_of(table)
    record = {
        "kind": "pause",
        "uuid": uuid,
        "name": "shop.orders",
        "why": "load test",
        "at_ms": 1,
        field: {"bytes": number, "at_ms": 1} if field == "part" else number,
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


def test_what_a_newer_version_says_of_a_partition_holds_the_whole_table(lab):
    table = due_table(lab)
    service = lab.settled()
    wait = hold_of(table, HoldKind.QUARANTINE, partition=PartitionKey('{"1000":1}'))
    said = json.loads(to_json(wait)) | {"kind": "siesta"}
    lab.held.append((wait.key, json.dumps(said).encode()))
    service.holds.refresh(0)

    assert "siesta" in service.ledger.halted(uuid_of(table))
    service.stop()
