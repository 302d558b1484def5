"""Metadata is read within limits. Who needs only the newest snapshots of a table gets these, the refs, and nothing that would be taken for the whole."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.clients.metadata_file import (
    MAX_METADATA_VALUES,
    PIECE_BYTES,
    TooLargeError,
    newest_only,
    within_limits,
)


def metadata(parents, refs, head, **more):
    """Snapshots 1, 2, … with their parents."""
    return {
        "snapshots": [
            {"snapshot-id": number, "parent-snapshot-id": parent, "summary": {"operation": "append"}}
            for number, parent in enumerate(parents, 1)
        ],
        "snapshot-log": [{"snapshot-id": number, "timestamp-ms": number} for number in range(1, len(parents) + 1)],
        "current-snapshot-id": head,
        "refs": {f"r{one}": {"snapshot-id": one, "type": "tag"} for one in refs},
        **more,
    }  # fmt: skip


def kept(data, count):
    found = json.loads(newest_only(json.dumps(data).encode(), count))
    found = found.get("metadata", found)
    ids = [one["snapshot-id"] for one in found["snapshots"]]
    assert [one["snapshot-id"] for one in found["snapshot-log"]] == ids
    return ids


@given(st.data(), st.integers(1, 30), st.integers(1, 10))
def test_the_head_and_its_parents_and_all_refs_stay_and_so_many_at_least(data, size, count):
    parents = [
        data.draw(st.one_of(st.none(), st.integers(1, number))) if number else None for number in range(size)
    ]
    refs = data.draw(st.sets(st.integers(1, size)))
    head = data.draw(st.integers(1, size))
    ids = kept(metadata(parents, refs, head), count)

    assert len(ids) >= min(count, size)
    assert refs <= set(ids)
    assert ids == sorted(ids)
    at = head
    for _ in range(count):
        if at is None:
            break
        assert at in ids
        at = parents[at - 1]


def test_an_answer_of_a_catalog_keeps_all_else():
    inner = metadata([None, 1, 2, 3], [], 4, properties={"a": "ü"})
    answer = {"metadata-location": "s3://x", "metadata": inner, "config": {"token": "t"}}

    found = json.loads(newest_only(json.dumps(answer).encode(), 2))
    assert [one["snapshot-id"] for one in found["metadata"].pop("snapshots")] == [3, 4]
    assert {one: inner[one] for one in ("refs", "properties")} == {one: found["metadata"][one] for one in ("refs", "properties")}  # fmt: skip
    assert (found["metadata-location"], found["config"]) == ("s3://x", {"token": "t"})


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\x1f\x8b packed", b"[]", b"7", b"null", b'{"namespaces": []}', b'{"snapshots": {}}', b'{"snapshots": [7, 8]}',
        b'{"snapshots": [{"snapshot-id": []}], "current-snapshot-id": 1}', b'{"metadata": 7}', b'{"metadata": null}', b"[" * 100_000,
        json.dumps(metadata([None], [], 1)).encode(),
    ],
)  # fmt: skip
def test_what_is_anything_else_comes_back_as_it_is(data):
    assert newest_only(data, 1) == data


def in_pieces(data):
    return (data[at : at + PIECE_BYTES] for at in range(0, len(data), PIECE_BYTES))


@pytest.mark.parametrize(
    "data",
    [
        b"[" + b"0," * MAX_METADATA_VALUES + b"0]",
        b'{"a":' + b"[],[[]]" * MAX_METADATA_VALUES,
        b'{"a":"x","b":[' + b'"x",' * (MAX_METADATA_VALUES + 1) + b'"x"]}',
        b'{"a":"\\\\","b":[' + b"7 , " * (MAX_METADATA_VALUES + 1) + b"7]}",
        b'""' * 2 * MAX_METADATA_VALUES + b'","' * (MAX_METADATA_VALUES + 1),
        b'"never closed, ' + b'",' * 3 * MAX_METADATA_VALUES,
    ],
    ids=["a list", "lists", "texts", "behind a backslash", "no JSON", "a text without an end"],
)  # fmt: skip
def test_more_values_than_a_table_has_are_not_looked_at(data):
    """Each of them is a few bytes in a file, and some hundred in memory."""
    with pytest.raises(TooLargeError, match=f"what has more than {MAX_METADATA_VALUES} values"):
        within_limits(in_pieces(data), "what")


@pytest.mark.parametrize(
    "text",
    [
        "1,[" * MAX_METADATA_VALUES,
        '\\"5\\":7,' * (MAX_METADATA_VALUES + 1),
        "\\\\," * (MAX_METADATA_VALUES + 1),
        "ü\u001f,," * MAX_METADATA_VALUES,
    ],
    ids=["words", "a vector of offsets", "backslashes", "beyond ASCII"],
)  # fmt: skip
def test_commas_in_a_text_are_no_values(text):
    data = f'{{"summary":{{"a":"{text}","b":1}}}}'.encode()
    assert data.count(b",") > MAX_METADATA_VALUES

    assert within_limits(in_pieces(data), "what") == data
