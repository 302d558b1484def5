"""Offset vectors: what a table needs next, merged, compared, and found again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.contract.summary import INGEST_PIPELINE, INGEST_TOKEN, INGEST_VALID_THROUGH, property_name
from isotherm_ingest.tables.offsets import (
    Source,
    TokenError,
    decode,
    encode,
    find_token,
    merge,
    next_offset,
    same_topics,
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
    source = Source(vector, "cluster", dict.fromkeys(vector, "id"))

    assert source == decode(encode(source))


@given(VECTORS, VECTORS, VECTORS)
def test_merging_takes_the_largest_in_any_order(one, two, three):
    assert merge(one, two, three) == merge(three, merge(two, one))
    assert merge(one, one) == merge(one)
    for topic, offsets in one.items():
        for partition, offset in offsets.items():
            assert offset <= next_offset(merge(one, two), (topic, partition))


@pytest.mark.parametrize(
    "text", ["", "7", "{}", '{"topics":{"a":{}}}', '{"topics":{"a":{"next":{"x":1}}}}', "nonsense"]
)
def test_a_token_that_cannot_be_read_is_no_empty_token(text):
    with pytest.raises(TokenError):
        decode(text)


def test_nothing_said_is_none_not_an_empty_vector():
    assert find_token("shop", [{}, {"operation": "x"}], None, {}) is None
    assert find_token("shop", [summary(5, "other")], None, {}) is None


def test_the_largest_of_the_recent_tokens_wins_though_an_older_one_came_last():
    """A driver that hung has woken up and committed its old batch."""
    token = find_token("shop", [summary(5), {}, summary(9), summary(3)], None, {})

    assert {"a": {0: 9}} == token.source.vector


def test_the_tag_and_then_the_property_speak_where_the_history_was_cut():
    text = encode(Source({"a": {0: 4, 1: 8}}))

    assert {"a": {0: 4, 1: 8}} == find_token("shop", [], None, {property_name("shop"): text}).source.vector
    assert {"a": {0: 7, 1: 8}} == find_token(
        "shop", [], summary(7), {property_name("shop"): text}
    ).source.vector
    assert find_token("shop", [], summary(7, "other"), {"ingest.other.source": text}) is None


def test_the_boundary_is_the_largest_that_was_said():
    token = find_token(
        "shop", [summary(5), summary(4, valid_through=100), summary(3, valid_through=200)], None, {}
    )

    assert 200 == token.valid_through_ms


def test_a_topic_that_was_made_again_begins_at_its_beginning():
    source = Source({"a": {0: 9}, "b": {0: 3}}, "", {"a": "old", "b": "same"})

    assert ({"b": {0: 3}}, ("a",)) == same_topics(source, {"a": "new", "b": "same"})
    assert ({"a": {0: 9}, "b": {0: 3}}, ()) == same_topics(source, {})


def test_offsets_of_the_topic_before_say_nothing_about_the_new_one():
    token = find_token("shop", [summary(2, topic_id="new"), summary(900, topic_id="old")], None, {})

    assert {"a": {0: 2}} == token.source.vector
