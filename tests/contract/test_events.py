"""The contract: golden examples, its JSON Schema, and bytes of every kind."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.contract.events import (
    MAX_EVENT_BYTES,
    AddedManifest,
    CommitEvent,
    EventError,
    Intent,
    PartitionChange,
    WindowClosed,
    WindowGranted,
    WindowRequested,
    decode,
    encode,
    shortened,
)
from isotherm.contract.identity import PartitionKey, TableId
from isotherm.contract.summary import Origin
from isotherm.core.model.changes import Change, PartitionDelta
from isotherm.service.topics.announcer import announcement_of

FOLDER = Path(__file__).parents[2] / "docs" / "commit-event"
NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=1, max_size=20)
COUNTS = st.integers(0, 2**63 - 1)


WINDOWS = [
    ("window-requested", WindowRequested),
    ("window-granted", WindowGranted),
    ("window-closed", WindowClosed),
]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("commit", CommitEvent),
        ("intent-open", Intent),
        ("intent-closed", Intent),
        *WINDOWS,
        ("window-taken-back", WindowClosed),
    ],
)
def test_the_golden_examples_are_what_we_read_and_write(name, kind):
    text = (FOLDER / f"{name}.json").read_bytes()
    event = decode(text)

    assert isinstance(event, kind)
    assert json.loads(encode(event)[1]) == json.loads(text)
    assert encode(event)[0] == event.table_uuid.encode()


@pytest.mark.parametrize(("name", "kind"), [("commit", CommitEvent), ("intent", Intent), *WINDOWS])
def test_the_schema_in_the_documents_is_current(name, kind, request):
    """The `data` of each type, for writers in other languages."""
    path = FOLDER / f"{name}.schema.json"
    text = json.dumps(kind.model_json_schema(), indent=2) + "\n"
    if request.config.getoption("--rewrite"):
        path.write_text(text)

    assert path.read_text() == text


@given(
    NAMES,
    st.integers(-(2**63), 2**63 - 1),
    COUNTS,
    st.sampled_from(Origin),
    st.dictionaries(NAMES, COUNTS, max_size=4),
)
def test_an_announcement_survives_the_way_through_kafka(name, snapshot_id, sequence, origin, partitions):
    deltas = {PartitionKey(json.dumps({"1000": key})): PartitionDelta() for key in partitions}
    change = Change(snapshot_id, None, sequence, 0, "append", origin, deltas)
    event = announcement_of(TableId("uuid", name), "lake", change, "isotherm")

    assert decode(encode(event)[1]) == event


@given(st.binary(max_size=200))
def test_any_bytes_are_an_event_or_a_complaint(value):
    with pytest.raises(EventError):
        decode(value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)


@given(st.sampled_from(["io.isotherm.commit.v1", "io.isotherm.intent.v1", "other"]), JSON)
def test_any_data_is_an_event_or_a_complaint(kind, data):
    value = json.dumps({"specversion": "1.0", "type": kind, "data": data}).encode()
    if kind == "other":
        assert decode(value) is None
        return
    with pytest.raises(EventError):
        decode(value)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"snapshot_id": "seven"}, "data.snapshot_id"),
        ({"sequence_number": -1}, "data.sequence_number"),
        ({"added_manifests": [{"path": "x", "length": -5}]}, "data.added_manifests.0"),
        ({"partitions": [{"partition": "{}", "added_files": -1}]}, "data.partitions.0"),
        ({"origin": "heaven"}, "data.origin"),
        ({"table_uuid": ""}, "data.table_uuid"),
    ],
)
def test_a_complaint_names_the_field(change, complaint):
    envelope = json.loads((FOLDER / "commit.json").read_text())
    envelope["data"] |= change
    with pytest.raises(EventError, match=complaint):
        decode(json.dumps(envelope).encode())


MANIFEST = {"path": "x", "length": 1, "spec_id": 0, "content": "data", "added_files": 1, "deleted_files": 0}
NOTHING = {str(number): [] for number in range(1000)}


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("intent-open", {"partitions": [""] * 1000}),
        ("intent-closed", {"partitions": [0] * 1000}),
        ("commit", {"spec_ids": [[]] * 1000}),
        ("commit", {"added_manifests": [{}] * 1000}),
        ("commit", {"added_manifests": [MANIFEST] * 100 + [0] * 1000}),
        ("commit", {"partitions": [0] * 1000}),
        ("commit", {"open_window": {"partitions": ["x"] * 1000}}),
        ("commit", {"summary": NOTHING}),
        ("commit", {"source_offsets": NOTHING}),
        ("commit", {"source_offsets": {"orders": NOTHING}}),
        ("commit", {"source_offsets": {"orders": {str(number): "7" for number in range(1000)}}}),
    ],
)
def test_of_a_thousand_faults_of_one_kind_the_first_is_noted(name, wrong):
    """Each that is noted costs a kilobyte, and a message of a megabyte has room for half a million."""
    envelope = json.loads((FOLDER / f"{name}.json").read_text())
    envelope["data"] |= wrong
    with pytest.raises(EventError, match=rf"data\.{next(iter(wrong))}") as raised:
        decode(json.dumps(envelope).encode())

    assert raised.value.__cause__.error_count() <= 8


def test_a_fault_in_a_map_is_named():
    envelope = json.loads((FOLDER / "commit.json").read_text())
    envelope["data"]["source_offsets"] = {"orders": {"0": 7, "1": "x"}}
    with pytest.raises(EventError, match=r"orders: .*1: Input should be a valid integer"):
        decode(json.dumps(envelope).encode())


def test_an_intent_may_name_as_many_partitions_as_a_message_holds():
    envelope = json.loads((FOLDER / "intent-open.json").read_text())
    envelope["data"]["partitions"] = [f'{{"1000":{number}}}' for number in range(40_000)]
    value = json.dumps(envelope, separators=(",", ":")).encode()

    assert len(decode(value).partitions) == 40_000


@pytest.mark.parametrize(
    ("announced_by", "writer", "source"),
    [
        ("poller", "shop", "/isotherm/poller"),
        ("", "shop", "/isotherm/shop"),
        ("", "", "/isotherm/unknown"),
    ],
)
def test_the_source_of_a_message_is_who_announces_and_only_else_who_committed(announced_by, writer, source):
    event = large(0, 0).model_copy(update={"announced_by": announced_by, "writer": writer})
    message = json.loads(encode(event)[1])

    assert message["source"] == source
    assert decode(json.dumps(message).encode()) == event


def test_a_newer_writer_may_say_more():
    envelope = json.loads((FOLDER / "commit.json").read_text())
    envelope["data"]["something_new"] = {"a": 1}

    assert isinstance(decode(json.dumps(envelope).encode()), CommitEvent)


@pytest.mark.parametrize("value", [b"[" * 100_000, b" " * (MAX_EVENT_BYTES + 1), b"{}", b"null"])
def test_what_is_too_deep_or_too_large_is_a_complaint(value):
    with pytest.raises(EventError):
        decode(value)


@given(
    st.sampled_from(["commit", "intent-open", "intent-closed"]),
    st.lists(st.tuples(st.integers(0), st.binary(max_size=4), st.integers(0, 4)), min_size=1, max_size=4),
)
def test_an_example_with_other_bytes_in_it_is_an_event_or_a_complaint(name, edits):
    value = (FOLDER / f"{name}.json").read_bytes()
    for at, new, gone in edits:
        place = at % (len(value) + 1)
        value = value[:place] + new + value[place + gone :]
    try:
        event = decode(value)
    except EventError:
        return

    assert event is None or isinstance(event, CommitEvent | Intent)


@pytest.mark.parametrize("depth", [100, 190, 300, 900, 980, 990, 1000, 5000])
def test_data_of_any_depth_is_a_complaint(depth):
    data = b'{"summary":' + b"[" * depth + b"]" * depth + b"}"
    value = b'{"specversion":"1.0","type":"io.isotherm.commit.v1","data":' + data + b"}"
    with pytest.raises(EventError):
        decode(value)


def test_a_blank_in_a_key_does_not_hide_a_partition():
    envelope = json.loads((FOLDER / "intent-open.json").read_text())
    envelope["data"]["partitions"] = ['{ "1001": "x",  "1000": 7, "1002": null }']

    assert decode(json.dumps(envelope).encode()).partitions == ('{"1000":7,"1001":"x"}',)


def large(partitions, manifests):
    return CommitEvent(
        table_uuid="u",
        table="shop.orders",
        snapshot_id=1,
        sequence_number=1,
        timestamp_ms=1,
        operation="append",
        origin="foreign",
        partitions=tuple(
            PartitionChange(
                partition=f'{{"1000":"{number:04}{"x" * 2000}"}}',
                added_files=1,
                removed_files=0,
                added_rows=1,
                removed_rows=0,
            )
            for number in range(partitions)
        ),
        partitions_complete=True,
        added_manifests=tuple(
            AddedManifest(
                path="m" * 3000 + str(number),
                length=1,
                spec_id=0,
                content="data",
                added_files=1,
                deleted_files=0,
            )
            for number in range(manifests)
        ),
        added_manifests_complete=True,
    )


@pytest.mark.parametrize(("partitions", "manifests"), [(500, 0), (500, 200), (0, 200), (3, 1)])
@pytest.mark.parametrize("limit", [900_000, 100_000, 5000])
def test_an_announcement_is_cut_by_bytes_and_says_what_is_not_complete(partitions, manifests, limit):
    whole = large(partitions, manifests)
    cut = shortened(whole, limit)

    assert len(encode(cut)[1]) <= limit
    assert cut.partitions == whole.partitions[: len(cut.partitions)]
    assert cut.partitions_complete == (len(cut.partitions) == partitions)
    assert cut.added_manifests_complete == (len(cut.added_manifests) == manifests)
    assert decode(encode(cut)[1]) == cut


def test_an_announcement_whose_summary_alone_is_too_large_keeps_its_small_entries():
    summary = {"total-records": "1", "total-data-files": "1", "theirs": "x" * 2_000_000, "y" * 2_000_000: ""}
    cut = shortened(large(3, 1).model_copy(update={"summary": summary}))

    assert cut.summary == {"total-records": "1", "total-data-files": "1"}
    assert not cut.added_manifests_complete
    assert decode(encode(cut)[1]) == cut


def test_an_announcement_that_fits_stays_as_it_is():
    event = large(3, 1)

    assert shortened(event) is event
