"""Which cuts a driver knows: by what the marks say, what the broker says, and what tables show."""

from dataclasses import replace

import pytest

from isotherm_ingest.batches.cut_back_topics import CutTopics
from isotherm_ingest.mark_text import Mark
from isotherm_ingest.plan.cut_backs import Cut
from isotherm_ingest.plan.topic_metadata import Kafka

P, Q = ("shop.orders", 0), ("shop.orders", 1)
FIRST, SECOND = Cut(7, 400, 500), Cut(9, 300, 450)


def kafka(topic_id="a", end=900):
    return Kafka({P: 0, Q: 0}, {P: end, Q: end}, {"shop.orders": topic_id})


def test_marks_of_the_topic_before_take_no_cut_from_those_of_this_one():
    """Partitions are marked each for itself: one that had no leader for long has a mark of the topic before still."""
    for order in ((P, Q), (Q, P)):
        cuts = CutTopics(None)
        marks = {P: Mark(500, "a", cuts=(FIRST,)), Q: Mark(50, "before", cuts=(SECOND,))}
        cuts.recall({one: marks[one] for one in order})

        assert cuts.told(kafka(), {})[0].cuts == {P: (FIRST,)}
        assert cuts.told(kafka("b"), {})[0].cuts == {}


def test_a_cut_that_is_in_no_mark_yet_is_not_forgotten_for_what_the_marks_say():
    """As where a driver begins a second time, because the commit of it has failed."""
    cuts, marks = CutTopics(None), {P: Mark(450, "a", cuts=(FIRST,))}
    cuts.recall(marks)
    cuts.told(kafka(), {})
    assert (cuts.unmarked(marks), cuts.note({P: SECOND}), cuts.note({P: SECOND})) == (
        set(),
        {"shop.orders"},
        set(),
    )
    cuts.recall(marks)
    assert cuts.of(P) == (SECOND,)
    assert cuts.marks(marks) == {P: replace(marks[P], through=300, cuts=(SECOND,))}

    later = replace(marks[P], cuts=(SECOND, Cut(11, 350, 400)))
    cuts.recall({P: later})
    assert (cuts.of(P), cuts.marks({P: later})) == (later.cuts, {})


@pytest.mark.parametrize(
    ("now", "ends", "cut"),
    [
        (kafka(end=300), {P: 300, Q: 300}, {P: 300}),
        (kafka(end=500), {P: 500, Q: 500}, {}),
        (Kafka(ends={Q: 900}, ids={"shop.orders": "a"}), {Q: 900}, {}),
        (kafka("b", end=300), {}, {}),
    ],
    ids=["so it is", "the leader was no leader any more", "nobody says", "made again"],
)
def test_an_end_before_what_was_read_is_believed_once_it_is_said_again(now, ends, cut):
    asked = []
    cuts = CutTopics(lambda topics: asked.append(topics) or now)
    told, new = cuts.told(kafka(end=400), {P: 500, Q: 200})

    assert (told.ends, {one: cuts.of(one)[-1].end for one in new}) == (ends, cut)
    assert (asked, told.starts.keys()) == ([{"shop.orders"}], ends.keys())
    cuts.told(kafka(end=500), {P: 500, Q: 500})
    assert len(asked) == 1
