"""Whatever stands on the control topic: no crash, one clear record, nothing that the catalog does not confirm."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.contract.events import encode
from isotherm.contract.paths import normalised
from isotherm.core import observations as seen
from isotherm.service.ports import Message
from support.lab import Lab, believed, counted, event_of, settle
from support.memory_topics import MemoryEvents, MemoryLetters


def hostile(event):
    """Forms of an event that a careless or an evil writer may send, each with what comes of it."""
    data = event.model_dump(mode="json", exclude_defaults=True)
    manifest = data["added_manifests"][0]
    far = 2**70
    changes = [
        {"snapshot_id": far},
        {"parent_id": -far},
        {"sequence_number": 2**63},
        {"sequence_number": -1},
        {"timestamp_ms": 10**17},
        {"timestamp_ms": float("nan")},
        {"valid_through_ms": far},
        {"table_uuid": "u" * 2000},
        {"writer": "w" * 2000},
        {"table": ""},
        {"table": 7},
        {"added_manifests": [manifest | {"length": -5}]},
        {"added_manifests": [manifest | {"added_files": far}]},
        {"added_manifests": [manifest] * 201},
        {"partitions": [{"partition": "no key", "added_files": 1, "removed_files": 0}]},
        {"open_window": {"partitions": ["[1]"]}},
        {"summary": {"total-records": 7}},
        {"origin": "heaven"},
    ]
    envelope = {"specversion": "1.0", "type": "io.isotherm.commit.v1"}
    return [json.dumps(envelope | {"data": data | change}).encode() for change in changes]


def count_microseconds(table):
    """As if the table's writer had stamped its newest snapshot in another unit."""
    path = Path(normalised(table.metadata_location))
    metadata = json.loads(path.read_text())
    metadata["last-updated-ms"] *= 1000
    for entries in (metadata["snapshots"], metadata["snapshot-log"]):
        entries[-1]["timestamp-ms"] *= 1000
    path.write_text(json.dumps(metadata))


@pytest.mark.parametrize("way", ["from the journal", "from the table"])
def test_a_table_whose_writer_counts_microseconds_is_set_aside_in_plain_words(lab, way):
    odd, sound = lab.create("shop.odd"), lab.create("shop.sound")
    for table in (odd, sound):
        lab.append(table, 1)
    service = lab.settled()
    event = lab.append(odd, 1, announce=False)
    count_microseconds(odd.refresh())
    settle(service)
    if way == "from the table":
        service.fold.recorded = lambda *_: None  # as after a journal that is full
    lab.ahead_ms += 31_000
    settle(service)

    failed = [one for one in lab.seen if isinstance(one, seen.TableFailed)]
    assert {one.name for one in failed} == {"shop.odd"}
    assert f"snapshot {event.snapshot_id} of shop.odd cannot be " in failed[0].error
    assert (
        "no time in milliseconds before the year 10000; its writer may count microseconds" in failed[0].error
    )
    assert "pydantic" not in failed[0].error
    assert failed[0].traceback == ""
    assert "shop.sound" in service.fold.names().values()
    service.stop()


def test_hostile_events_are_each_one_record_and_change_nothing(lab):
    letters = MemoryLetters()
    table = lab.create()
    lab.append(table, 1)
    service = lab.service(letters=letters)
    service.start()
    settle(service)
    before = believed(service, str(table.metadata.table_uuid))
    messages = hostile(event_of(table))
    lab.seen.clear()
    lab.topic.messages.extend(messages)
    service.consume(service.events.poll(0))

    assert [message.value for message, _ in letters.safe] == messages
    rejected = [one for one in lab.seen if isinstance(one, seen.EventRejected)]
    assert sum(one.messages for one in rejected) == len(messages)
    assert [one for one in lab.seen if not isinstance(one, seen.EventRejected)] == []
    assert believed(service, str(table.metadata.table_uuid)) == before
    service.stop()


@pytest.mark.parametrize("key", [None, b"", b"another table", b"\xff"])
def test_an_event_under_another_key_is_refused(lab, key):
    table = lab.create()
    event = lab.append(table, 1)
    service = lab.service()
    (message,) = MemoryEvents(lab.topic).poll(0)
    service.intake.take([replace(message, key=key)])

    assert message.key == event.table_uuid.encode()
    assert [one.reason for one in lab.seen] == ["its key is not the uuid of its table"]
    assert service.follower.suspects == set()
    service.stop()


def test_a_flood_is_told_in_a_few_lines_and_counted_in_full(lab):
    letters = MemoryLetters(is_reachable=False)
    service = lab.service(letters=letters)
    lab.topic.messages.extend([b"garbage"] * 400)
    service.consume(service.events.poll(0))
    rejected = [one for one in lab.seen if isinstance(one, seen.EventRejected)]

    assert len(rejected) == 11
    assert sum(one.messages for one in rejected) == 400
    assert [one.what for one in lab.seen if isinstance(one, seen.TrySoon)] == ["the dead-letter topic"]
    service.stop()


@pytest.fixture(scope="module")
def long_lab(tmp_path_factory):
    """One daemon for all that hypothesis thinks of."""
    lab = Lab(tmp_path_factory.mktemp("a lab"))
    table = lab.create()
    lab.append(table, 1)
    service = lab.service()
    service.start()
    settle(service)
    lab.append(table, 2, announce=False)
    yield lab, service, event_of(table.refresh())
    service.stop()
    lab.executor.stop()


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**80), 2**80)
    | st.floats()
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    ["{}", '{"1000": 490896}', '{"1000":null}', '{"x":1}', '{"1000":[1]}', "[]", "7", "", "{"]
)
FIELDS = ["snapshot_id", "parent_id", "sequence_number", "timestamp_ms", "operation", "origin", "writer", "table", "ref",
    "added_manifests", "added_manifests_complete", "partitions", "partitions_complete", "summary", "valid_through_ms",
    "open_window", "source_offsets", "announced_by", "schema_id", "spec_ids", "catalog", "manifest_list",
    "intent_id", "state", "at_ms", "expires_at_ms", "attempt", "outcome"]  # fmt: skip


@given(
    st.sampled_from(["commit", "never committed", "intent"]),
    st.dictionaries(st.sampled_from(FIELDS), ANYTHING | st.lists(KEYS, max_size=3), max_size=3),
    st.lists(KEYS, max_size=3),
)
def test_an_event_with_anything_in_its_fields_changes_nothing_that_the_catalog_does_not_confirm(
    long_lab, kind, changes, keys
):
    lab, service, event = long_lab
    if kind == "never committed":
        forged = {
            "snapshot_id": len(service.events.topic.messages),
            "parent_id": event.snapshot_id,
            "sequence_number": event.sequence_number + 1,
        }
        event = event.model_copy(update=forged)
    data = event.model_dump(mode="json", exclude_defaults=True)
    if kind == "intent":
        data |= {"intent_id": "i", "state": "open", "at_ms": 1, "expires_at_ms": 2, "partitions": keys}
    else:
        data |= {"open_window": {"partitions": keys}}
    type_ = "io.isotherm.intent.v1" if kind == "intent" else "io.isotherm.commit.v1"
    value = json.dumps({"specversion": "1.0", "type": type_, "data": data | changes}).encode()
    service.events.topic.messages.append(value)
    service.consume(service.events.poll(0))
    # The round confirms the head with the catalog, as before anything is done to the table.
    service.round()

    assert believed(service, event.table_uuid) == counted(lab.scan())


@given(st.lists(st.tuples(st.integers(0), st.binary(max_size=4), st.integers(0, 4)), min_size=1, max_size=4))
def test_an_event_with_other_bytes_in_it_changes_nothing_that_the_catalog_does_not_confirm(long_lab, edits):
    lab, service, event = long_lab
    key, value, _ = encode(event)
    for at, new, gone in edits:
        place = at % (len(value) + 1)
        value = value[:place] + new + value[place + gone :]
    service.intake.take([Message("control", 0, 0, 0, value, key)])
    service.round()

    assert believed(service, event.table_uuid) == counted(lab.scan())
