"""The sink's messages: recorded ones, and everything that somebody might send in their place."""

import json
from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from isotherm.contract.events import EventError
from isotherm.contract.identity import name_from
from isotherm.kafka.formats import FORMATS
from isotherm.kafka.formats.kafka_connect import MAX_BODY_BYTES, decode
from isotherm.runtime.config import Format
from isotherm.service.ports import Announced
from support.kafka_connect import COMMIT, RECORDED, commit_to_table, joined, parted

UUID = "2c42b491-dfe9-4385-8178-58af730584ff"
SCHEMA = json.loads(parted(COMMIT)[0])
BODY = parted(COMMIT)[1]


def changed(**of_fields):
    """The recorded schema with other types for some fields, by name, wherever they stand."""

    def walk(part):
        if isinstance(part, dict):
            if part.get("name") in of_fields and "field-id" in part:
                return part | {"type": of_fields[part["name"]]}
            return {key: walk(value) for key, value in part.items()}
        return [walk(one) for one in part] if isinstance(part, list) else part

    return walk(SCHEMA)


def test_the_configuration_knows_every_format_and_no_other():
    assert set(get_args(Format)) == set(FORMATS)


def test_a_commit_to_a_table_says_where_to_look():
    announced = decode(COMMIT)

    assert (announced.table, announced.writer) == ("shop.orders", "connect-sink")
    assert announced.snapshot_id > 0
    assert announced.uuid is not None


@pytest.mark.parametrize("kind", sorted(RECORDED.keys() - {"commit-to-table"}))
def test_the_sinks_other_events_announce_nothing(kind):
    assert decode(RECORDED[kind]) is None


def test_every_kind_was_recorded():
    assert len(RECORDED) == 5


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=2),
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.uuids().map(str),
)
def test_what_a_commit_names_is_read_as_it_was_written(names, snapshot_id, uuid):
    table = name_from(names)

    assert decode(commit_to_table(table, snapshot_id, uuid)) == Announced(
        table, snapshot_id, uuid, "connect-sink"
    )


def test_an_event_of_megabytes_that_announces_nothing_is_not_read():
    assert decode(RECORDED["data-written"] + bytes(4_000_000)) is None


def test_fields_are_told_by_their_ids_and_a_newer_sink_may_say_more():
    text = parted(COMMIT)[0].replace(b'"snapshot_id"', b'"snap"').replace(b'"payload"', b'"load"')
    newer = json.loads(text)
    newer["fields"].append({"name": "more", "type": ["null", "string"], "field-id": 10_599})
    expected = decode(COMMIT)

    assert decode(joined(newer, BODY + b"\x02\x06abc")) == expected


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        (None, "begin with"),
        (b"", "begin with"),
        (b'{"specversion":"1.0"}', "begin with"),
        (COMMIT[:1], "begin with"),
        (COMMIT[:2], "ends within"),
        (COMMIT[:500], "ends within"),
        (COMMIT[: -len(BODY)], "right after"),
        (COMMIT[:-1], "not what its schema says"),
        (COMMIT + b"x", "1 bytes left over"),
        (joined(SCHEMA, BODY + bytes(MAX_BODY_BYTES)), "behind the schema"),
        (joined(b"no JSON", BODY), "not JSON"),
        (joined(b"[" * 60_000, BODY), "not JSON"),
        (joined(b"1" * 6_000, BODY), "not JSON"),
        (joined("string", BODY), "not that of an event"),
        (joined({"type": "record", "fields": [{"field-id": "x"}, 3]}, BODY), "not that of an event"),
        (joined(changed(snapshot_id="string"), BODY), "snapshot_id|f10402|not what"),
        (joined(changed(snapshot_id="float"), BODY), "f10402|not what|left over"),
        (joined(changed(name=["null", "string"]), BODY), "f10603|not what|left over"),
        (joined(changed(namespace="int"), BODY), "f10601|not what|left over"),
        (
            joined(changed(snapshot_id={"type": "enum", "name": "e", "symbols": []}), BODY),
            "no event of the sink",
        ),
        (joined(changed(group_id=["string", "int", "null"]), BODY), "no event of the sink"),
        (joined(changed(group_id="unheard.of"), BODY), "no event of the sink"),
    ],
)
def test_what_is_no_event_is_a_complaint(message, complaint):
    with pytest.raises(EventError, match=complaint):
        decode(message)


MANY = b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"
"""An Avro number: 4,611,686,018,427,387,903."""


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ({"type": "array", "items": "null"}, MANY),
        ({"type": "array", "items": {"type": "fixed", "name": "nothing", "size": 0}}, MANY),
        ({"type": "array", "items": {"type": "record", "name": "empty", "fields": []}}, MANY),
        ({"type": "array", "items": "string"}, MANY),
        ({"type": "map", "values": "null"}, MANY),
        ("string", MANY),
        ("bytes", MANY),
        ({"type": "fixed", "name": "vast", "size": 2**62}, b""),
        ("Event", b""),
        ({"type": "record", "name": "A", "fields": [{"name": "a", "type": "A", "field-id": 1}]}, b""),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2**40, "scale": -(2**40)}, b"\x02\x01"),
    ],
)
def test_a_few_bytes_that_mean_a_world_are_a_complaint_at_once(kind, body):
    bomb = {**SCHEMA, "fields": [{"name": "bomb", "type": kind, "field-id": 1}, *SCHEMA["fields"]]}
    with pytest.raises(EventError):
        decode(joined(bomb, body + BODY[:20]))


def test_a_schema_within_schemas_is_a_complaint():
    deep = "int"
    for number in range(30):
        deep = {
            "type": "record",
            "name": f"r{number}",
            "fields": [{"name": "x", "type": deep, "field-id": 1}],
        }
    with pytest.raises(EventError, match="deeper"):
        decode(joined(changed(group_id=deep), BODY))


@given(st.binary(max_size=200) | st.binary(max_size=60).map(lambda tail: b"\xc2\x01" + tail))
def test_any_bytes_are_a_complaint(value):
    with pytest.raises(EventError):
        decode(value)


@given(
    st.sampled_from(sorted(RECORDED)),
    st.lists(st.tuples(st.integers(0), st.binary(max_size=4), st.integers(0, 4)), min_size=1, max_size=5),
)
@example("commit-to-table", [(0, b"", 0)])
def test_a_message_with_other_bytes_in_it_is_an_event_or_a_complaint(kind, edits):
    message = RECORDED[kind]
    for at, new, gone in edits:
        place = at % (len(message) + 1)
        message = message[:place] + new + message[place + gone :]
    try:
        announced = decode(message)
    except EventError:
        return

    assert announced is None or isinstance(announced, Announced)


TYPES = st.recursive(
    st.sampled_from(["null", "boolean", "int", "long", "double", "bytes", "string", "uuid_fixed", "Event", 3, None]),
    lambda inner: st.lists(inner, max_size=3)
    | st.fixed_dictionaries({"type": st.just("array"), "items": inner})
    | st.fixed_dictionaries({"type": st.just("map"), "values": inner})
    | st.fixed_dictionaries({"type": st.just("fixed"), "name": st.text(max_size=2), "size": st.integers(-1, 40)})
    | st.lists(st.fixed_dictionaries({"name": st.text(max_size=2), "type": inner, "field-id": st.integers(0, 5)}))
    .map(lambda fields: {"type": "record", "name": "r", "fields": fields}),
    max_leaves=6,
)  # fmt: skip


@given(
    st.dictionaries(
        st.sampled_from(["id", "group_id", "namespace", "name", "snapshot_id", "table_uuid"]), TYPES
    ),
    st.binary(max_size=60),
)
def test_any_types_in_the_schema_are_an_event_or_a_complaint(types, body):
    for behind in (body, BODY):
        try:
            announced = decode(joined(changed(**types), behind))
        except EventError:
            continue

        assert isinstance(announced, Announced)
