"""Where a table goes on: what it says, what was known of it, and what Kafka holds, held against each other."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm_ingest.plan.cut_backs import Cut
from isotherm_ingest.plan.holes import Lost
from isotherm_ingest.plan.known import Known
from isotherm_ingest.plan.resume_or_halt import Found, place
from isotherm_ingest.plan.topic_metadata import Kafka

P, Q = ("shop.orders", 0), ("shop.orders", 1)
TOPICS = {"shop.orders"}


def kafka(start=0, end=1000, topic_id="a"):
    return Kafka({P: start, Q: start}, {P: end, Q: end}, {"shop.orders": topic_id})


def found(has, uuid="u", **more):
    return Found(uuid, None if has is None else {P: has}, {"shop.orders": "a"}, **more)


def known(had, through, uuid="u"):
    return Known(uuid, {} if had is None else {P: had}, {P: through}, {"shop.orders": "a"})


def judged(found, known=None, broker=None, on_hole="halt"):
    return place(found, known, broker or kafka(), TOPICS, on_hole)


def whys(holes):
    return [hole.why for hole in holes]


def test_a_new_table_begins_where_kafka_does():
    assert judged(Found(), None, kafka(start=7)).next == {P: 7, Q: 7}


def test_a_table_goes_on_by_its_own_word():
    assert judged(found(500)).next[P] == 500


def test_what_held_nothing_for_the_table_is_seen_through():
    """Tombstones, dead letters and markers of transactions: Kafka may drop them."""
    at = judged(found(480), known(480, 500), kafka(start=490))

    assert (at.next[P], at.halted, at.told) == (500, (), ())


def test_who_committed_more_than_was_known_is_believed():
    assert judged(found(520), known(480, 500)).next[P] == 520


@pytest.mark.parametrize(("on_hole", "next_offset"), [("halt", 100), ("backfill", 100), ("accept", 500)])
def test_a_rollback_is_a_hole(on_hole, next_offset):
    at = judged(found(100), known(480, 500), on_hole=on_hole)

    assert whys(at.halted if on_hole == "halt" else at.told) == [Lost.ROLLED_BACK]
    assert at.next[P] == next_offset


def test_a_rollback_to_before_the_first_token_is_one_too():
    assert whys(judged(found(None), known(480, 500)).halted) == [Lost.ROLLED_BACK]


def test_a_token_that_went_with_its_snapshot_is_no_hole():
    assert judged(found(None, history_is_cut=True), known(480, 500)).next[P] == 500


def test_a_token_that_went_with_its_snapshot_says_nothing_of_a_topic_that_was_made_again():
    at = judged(found(None, history_is_cut=True), known(480, 500), kafka(topic_id="b"), "backfill")

    assert set(whys(at.told)) == {Lost.TOPIC_MADE_AGAIN}
    assert (at.vector, at.next) == ({}, {P: 0, Q: 0})


@pytest.mark.parametrize("now", [Found(), found(None, uuid="other"), found(3, uuid="other")])
def test_a_table_that_was_dropped_or_made_again_is_a_hole(now):
    at = judged(now, known(480, 500))

    assert whys(at.halted) == [Lost.MADE_AGAIN]
    assert judged(now, known(480, 500), on_hole="backfill").next[P] == (now.vector or {P: 0})[P]
    assert judged(now, known(480, 500), on_hole="accept").next[P] == 500


def test_of_a_uuid_the_beginning_is_enough():
    """Of the tables of a topic with very many, no more is kept."""
    before = known(5, 9, uuid="01234567*")

    assert judged(found(5, uuid="01234567-89ab"), before).next[P] == 9
    assert whys(judged(found(5, uuid="01234568-89ab"), before).halted) == [Lost.MADE_AGAIN]
    assert whys(judged(Found(), before).halted) == [Lost.MADE_AGAIN]


def test_a_table_that_was_never_written_is_none():
    at = judged(found(None), known(None, 7, uuid=""), kafka(start=5))

    assert (at.next[P], at.halted, at.told) == (7, (), ())
    assert judged(found(6), known(None, 7, uuid="")).next[P] == 6


def test_retention_that_has_passed_cannot_be_filled():
    at = judged(found(100), None, kafka(start=300), "backfill")

    assert whys(at.halted) == [Lost.RETENTION]
    assert judged(found(100), None, kafka(start=300), "accept").next[P] == 300


def test_a_backfill_beyond_retention_says_both():
    at = judged(found(100), known(480, 500), kafka(start=300), "backfill")

    assert (whys(at.told), whys(at.halted)) == ([Lost.ROLLED_BACK], [Lost.RETENTION])


@pytest.mark.parametrize("end", [50, 2000])
def test_a_topic_that_was_made_again_is_another_shorter_or_longer(end):
    at = judged(found(500), known(500, 500), kafka(end=end, topic_id="b"), "backfill")

    assert set(whys(at.told)) == {Lost.TOPIC_MADE_AGAIN}
    assert at.next == {P: 0, Q: 0}
    assert at.vector == {}


def test_a_topic_that_was_made_again_is_told_once_though_the_table_has_committed_nothing_since():
    other = kafka(topic_id="b")
    first = judged(found(500), None, other, "accept")
    again = judged(found(500), first.known({P: 7, Q: 0}), other, "accept")

    assert whys(first.told) == [Lost.TOPIC_MADE_AGAIN] * 2
    assert (again.told, again.next) == ((), {P: 7, Q: 0})


def test_a_topic_that_was_made_again_stays_a_hole_where_nothing_else_is_known():
    """What a driver notes of a table that it has just met, and that is halted, is where Kafka begins, and no word on it."""
    begins = kafka(start=0, end=9, topic_id="b")
    noted = Known("", {}, {P: 0, Q: 0}, {"shop.orders": "b"}, is_halted=True)
    for seen in (None, noted):
        assert set(whys(judged(found(500), seen, begins).halted)) == {Lost.TOPIC_MADE_AGAIN}


def test_a_topic_that_lost_its_newest_messages_is_a_hole():
    assert whys(judged(found(500), None, kafka(end=400)).halted) == [Lost.CUT_BACK]
    assert judged(found(500), None, kafka(end=400), "accept").next[P] == 400


CUT = replace(kafka(), cuts={P: [Cut(7, 400, 500)]}, asked_ms=8)
"""A topic that was cut back at 400, where it had been read to 500, and has more than that by now."""


@pytest.mark.parametrize(
    "seen", [None, known(500, 500), replace(known(500, 500), is_halted=True), known(390, 400)]
)
def test_it_stays_one_when_kafka_has_given_the_offsets_to_others(seen):
    """Also of a driver that last knew the table when it had less than is left."""
    assert whys(judged(found(500), seen, CUT).halted) == [Lost.CUT_BACK]
    for how in ("backfill", "accept"):
        at = judged(found(500), seen, CUT, how)
        assert (whys(at.told), at.next[P], at.vector, at.cuts) == ([Lost.CUT_BACK], 400, {P: 400}, {P: 7})


def test_a_topic_that_was_cut_back_is_told_once_though_the_table_has_committed_nothing_since():
    first = judged(found(500), known(500, 500), CUT, "accept")
    again = judged(found(500), first.known({P: 450}), CUT)

    assert (again.told, again.halted, again.next[P], again.vector) == ((), (), 450, {P: 400})


def test_a_table_that_has_nothing_of_what_was_lost_goes_on_behind_the_cut():
    at = judged(found(300), known(300, 500), CUT)

    assert (at.told, at.halted, at.next[P], at.cuts) == ((), (), 400, {P: 7})
    assert whys(judged(found(200), known(300, 500), CUT).halted) == [Lost.ROLLED_BACK]


def test_a_table_that_was_still_to_get_what_was_lost_lacks_it():
    at = judged(found(300), known(300, 450), CUT, "accept")

    assert (whys(at.told), at.next[P]) == ([Lost.CUT_BACK], 400)


def test_a_table_whose_token_has_expired_has_what_was_known_also_of_a_topic_that_was_cut_back():
    gone = found(None, history_is_cut=True)

    assert whys(judged(gone, known(500, 500), CUT).halted) == [Lost.CUT_BACK]
    at = judged(gone, replace(known(450, 450), cuts={P: 7}), CUT)
    assert (at.halted, at.next[P], at.vector, at.cuts) == ((), 450, {P: 450}, {P: 7})


def test_a_table_that_was_halted_until_its_token_expired_is_not_filled():
    """Nobody knows what it has, and all of it would be written once more. It was rolled back, or its topic was cut back."""
    halted = replace(known(480, 500), is_halted=True)
    gone = found(None, history_is_cut=True)
    for how in ("halt", "backfill"):
        assert whys(judged(gone, halted, on_hole=how).halted) == [Lost.ROLLED_BACK]
    at = judged(gone, halted, CUT, "accept")
    assert (whys(at.told), at.next[P]) == ([Lost.ROLLED_BACK], 400)


def test_a_table_that_knows_of_a_later_cut_than_the_marks_goes_on_knowing_it():
    """Otherwise each token that it gets is older than the one it has, and its rows are written for ever."""
    at = judged(replace(found(450), cuts={P: 9}), replace(known(450, 450), cuts={P: 7}), CUT)

    assert (at.halted, at.next[P], at.cuts) == ((), 450, {P: 9})


def test_what_was_made_again_and_has_as_much_lacks_nothing():
    """A driver that began meanwhile has made and filled it; or it was restored, and its own word says more."""
    for has in (450, 480):
        at = judged(found(has, "another"), known(450, 450), on_hole="accept")
        assert (at.told, at.halted, at.next[P]) == ((), (), has)
    assert whys(judged(found(449, "another"), known(450, 450)).halted) == [Lost.MADE_AGAIN]
    assert whys(judged(found(None, "another"), known(450, 450)).halted) == [Lost.MADE_AGAIN]


def test_where_a_rollback_is_filled_what_the_table_has_nothing_of_is_read_again_too():
    """A key may have moved there from what is filled, and its newest change would come before the older ones."""
    seen = Known("u", {P: 480}, {P: 500, Q: 7}, {"shop.orders": "a"})

    filled = judged(found(450), seen, on_hole="backfill")
    assert (filled.next, filled.passed) == ({P: 450, Q: 0}, {Q: 7})
    assert judged(found(450), seen, on_hole="accept").next == {P: 500, Q: 7}
    assert judged(found(480), seen, on_hole="backfill").next == {P: 500, Q: 7}


def test_what_retention_takes_while_a_new_table_is_brought_up_halts_nothing():
    seen = Known("", {}, {P: 0}, {"shop.orders": "a"})

    at = place(Found(), seen, kafka(100), TOPICS, "halt", passed={P: 100})
    assert (whys(at.told), at.halted, at.next[P]) == ([Lost.RETENTION], (), 100)
    assert whys(place(Found(), seen, kafka(101), TOPICS, "halt", passed={P: 100}).halted) == [Lost.RETENTION]
    assert whys(place(Found(), seen, kafka(100), TOPICS, "halt").halted) == [Lost.RETENTION]


def test_what_was_passed_of_a_topic_that_is_gone_or_before_a_cut_counts_for_nothing():
    seen = Known("", {}, {P: 0}, {"shop.orders": "a"})
    for broker in (kafka(100, topic_id="another"), replace(kafka(100), cuts={P: (Cut(5, 50, 200),)})):
        at = place(Found(), seen, broker, TOPICS, "backfill", passed={P: 200})
        assert Lost.RETENTION not in whys(at.told), broker


def test_a_table_that_was_rolled_back_while_its_topic_was_made_again_lacks_changes():
    """To where it says nothing of the topic: it looked like one that had never had any of it."""
    for gone in (found(None), Found("u", {}, is_unknown=True), Found("u", {("shop.other", 0): 7})):
        at = judged(gone, known(450, 450), kafka(topic_id="another"))
        assert Lost.TOPIC_MADE_AGAIN in whys(at.halted)


offsets = st.integers(0, 30)


@given(
    st.none() | offsets,
    st.none() | st.tuples(st.none() | offsets, offsets, st.sampled_from(["u", "other", ""])),
    offsets,
    offsets,
    st.booleans(),
    st.sampled_from(["halt", "backfill", "accept"]),
)
def test_nothing_between_what_a_table_has_and_where_it_goes_on_is_left_out_unsaid(
    has, was, start, length, cut, on_hole
):
    """Where no hole is told, it goes on no further than what it has, or than what was seen through with so much."""
    known = (
        None
        if was is None
        else Known(was[2], {} if was[0] is None or not was[2] else {P: min(was[:2])}, {P: was[1]})
    )
    broker = kafka(start, start + length)
    at = judged(found(has, history_is_cut=cut), known, broker, on_hole)

    assert broker.starts[P] <= at.next[P] <= broker.ends[P]
    if not [hole for hole in (*at.told, *at.halted) if hole.position == P]:
        seen = known.through[P] if known is not None and known.uuid in {"u", ""} else 0
        assert at.next[P] <= max(has or 0, seen, start if has is None else 0)
        if seen > (has or 0) and at.next[P] == seen:
            assert (has or 0) >= known.vector.get(P, 0) or (has is None and cut)
    if on_hole == "accept":
        assert at.halted == ()
    if on_hole == "halt":
        assert at.told == ()


def test_what_is_noted_of_a_table_that_cannot_be_written_is_no_word_of_it():
    """It is where Kafka began: what the table says itself wins, and a topic that it has rows of is judged by that."""
    other = {("shop.customers", 0): 7}
    noted = known(480, 500).lacking(Kafka(other, {("shop.customers", 0): 9}, {"shop.customers": "c"}))
    assert (noted.through, noted.noted) == ({P: 500, **other}, other.keys())
    assert noted.lacking(Kafka(other, other, {"shop.customers": "c"})) is noted

    lost = replace(known(480, 500), through={P: 500, Q: 7}, noted=frozenset({Q}))
    own = replace(found(480), vector={P: 480, Q: 3})
    assert judged(own, lost).next == {P: 500, Q: 3}
    assert whys(judged(own, lost, kafka(start=7), "accept").told) == [Lost.RETENTION]
    gone = judged(found(None, uuid="other"), lost)
    assert [(hole.why, hole.position) for hole in gone.halted] == [(Lost.MADE_AGAIN, P)]
