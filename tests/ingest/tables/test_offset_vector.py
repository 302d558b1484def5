"""Offset vectors: what a table needs next, merged, compared, and found again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.contract.summary import (
    INGEST_PIPELINE,
    INGEST_TOKEN,
    INGEST_VALID_THROUGH,
    MAX_TOKEN_CHARS,
    as_of,
    kept_as_of,
    kept_token,
    property_name,
    taken_at,
)
from isotherm_ingest.tables.offset_vector import (
    Source,
    TokenError,
    decode,
    encode,
    find_token,
    merge,
    next_offset,
)

VECTORS = st.dictionaries(
    st.sampled_from(["a", "b.c", 'd"e']),
    st.dictionaries(st.integers(0, 3), st.integers(0, 2**62), min_size=1),
    max_size=3,
)


def summary(
    next_of_a: int, pipeline: str = "shop", topic_id: str = "", valid_through: int | None = None
) -> dict[str, str]:
    ids = {"a": topic_id} if topic_id else {}
    found = {INGEST_PIPELINE: pipeline, INGEST_TOKEN: encode(Source({"a": {0: next_of_a}}, "", ids))}
    return found if valid_through is None else {**found, INGEST_VALID_THROUGH: str(valid_through)}


@given(VECTORS)
def test_a_vector_survives_its_journey(vector):
    cuts = {(topic, number): 7 for topic, offsets in vector.items() for number in list(offsets)[:1]}
    source = Source(vector, "cluster", dict.fromkeys(vector, "id"), cuts)

    assert source == decode(encode(source))


@given(VECTORS, VECTORS, VECTORS)
def test_merging_takes_the_largest_in_any_order(one, two, three):
    assert merge(one, two, three) == merge(three, merge(two, one))
    assert merge(one, one) == merge(one)
    for topic, offsets in one.items():
        for partition, offset in offsets.items():
            assert offset <= next_offset(merge(one, two), (topic, partition))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7",
        '{"topics":{"a":{"next":{"0":7},"cuts":{"0":"x"}}}}',
        "{}",
        '{"topics":{"a":{}}}',
        '{"topics":{"a":{"next":{"x":1}}}}',
        '{"topics":{"a":{"next":{"0":1e999}}}}',
        "[" * 2000,
        "nonsense",
    ],
)
def test_a_token_that_cannot_be_read_is_no_empty_token(text):
    with pytest.raises(TokenError):
        decode(text)


def test_nothing_said_is_none_not_an_empty_vector():
    assert find_token("shop", [{}, {"operation": "x"}], None, {}, bool) is None
    assert find_token("shop", [summary(5, "other")], None, {}, bool) is None


def test_the_largest_of_the_recent_tokens_wins_though_an_older_one_came_last():
    """A driver that hung has woken up and committed its old batch."""
    token = find_token("shop", [summary(5), {}, summary(9), summary(3)], None, {}, bool)

    assert {"a": {0: 9}} == token.source.vector


def test_an_offset_from_before_a_topic_was_cut_back_says_nothing_about_what_came_in_its_place():
    """A partition's offset may be lower then; that of another one is what it was."""
    vector = {"a": {0: 10, 1: 7}}
    before = Source(vector)
    cut, again = (Source({"a": {0: next_of, 1: 7}}, cuts={("a", 0): 3}) for next_of in (6, 8))
    late = Source({"a": {0: 10, 1: 8}})
    history = [
        {INGEST_PIPELINE: "shop", INGEST_TOKEN: encode(one)} for one in (late, again, cut, before, before)
    ]

    found = find_token("shop", history, None, {}, bool)
    assert (found.source.vector, found.source.cuts) == ({"a": {0: 8, 1: 8}}, {("a", 0): 3})


def test_the_tag_and_then_the_property_speak_where_the_history_was_cut():
    kept = {property_name("shop"): encode(Source({"a": {0: 4, 1: 8}}))}

    assert {"a": {0: 4, 1: 8}} == find_token("shop", [], None, kept, bool).source.vector
    assert {"a": {0: 7}} == find_token("shop", [], summary(7), kept, bool).source.vector
    assert {"a": {0: 2}} == find_token("shop", [summary(2)], summary(7), kept, bool).source.vector
    assert find_token("shop", [], summary(7, "other"), {"ingest.other.source": "{}"}, bool) is None


@pytest.mark.parametrize(
    ("follows", "said"), [(True, ({"a": {0: 4}}, True)), (False, ({}, False)), (None, None)]
)
def test_a_property_says_what_the_table_has_only_where_that_can_be_seen(follows, said):
    """The daemon keeps the vector before it expires. Then the table is rolled back, or others expire newer ones."""
    kept = {property_name("shop"): kept_token(encode(Source({"a": {0: 4}})), 7, 9)}
    token = find_token("shop", [], None, kept, lambda _: follows)

    assert said == (None if token is None else (token.source.vector, token.is_known))


def test_the_boundary_is_the_largest_that_was_said():
    token = find_token(
        "shop", [summary(5), summary(4, valid_through=100), summary(3, valid_through=200)], None, {}, bool
    )

    assert 200 == token.valid_through_ms


def test_offsets_of_the_topic_before_say_nothing_about_the_new_one():
    token = find_token("shop", [summary(2, topic_id="new"), summary(900, topic_id="old")], None, {}, bool)

    assert {"a": {0: 2}} == token.source.vector


def test_of_a_vector_that_is_far_too_large_nothing_is_made():
    """Whoever owns a table may write it, and what is made of it takes twenty times its size."""
    token = '{"a":[' + "[]," * (MAX_TOKEN_CHARS // 3) + "[]]}"

    assert kept_token(token, 7, 9) == token
    largest = '{"a":"' + "x" * (MAX_TOKEN_CHARS - 8) + '"}'
    kept = kept_token(largest, 7, 9)
    assert (len(largest), taken_at(kept), as_of(kept)) == (MAX_TOKEN_CHARS, 7, 9)
    assert as_of(kept_as_of(kept, 11)) == 11
    assert kept_token('{"a":{}}', 7, 9) != '{"a":{}}'
