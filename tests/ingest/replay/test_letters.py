"""What letters say of their messages, which offsets are read for them, and what a summary says of those that are settled."""

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm_ingest.dead_letter_topic import DeadLetters
from isotherm_ingest.metrics import Metrics
from isotherm_ingest.plan.topic_metadata import Kafka
from isotherm_ingest.replay.choosing import GAP, Fate, Stand, choose, pieces, slices, wanted
from isotherm_ingest.replay.letters import Letter, letter_of
from isotherm_ingest.replay.settled import encode, settled
from isotherm_ingest.tables.offset_vector import REPLAYED
from isotherm_ingest.workers.raw_messages import RAW

ours = st.tuples(st.sampled_from(["a", "b.c"]), st.integers(0, 2), st.integers(0, 30))


class Kept:
    """A message of the dead-letter topic."""

    def __init__(self, headers, at_ms=5):
        self._headers, self._at_ms = headers, at_ms

    def headers(self):
        return self._headers

    def timestamp(self):
        return 1, self._at_ms


class Topic:
    def __init__(self):
        self.records = []

    def send(self, records):
        self.records += records


@pytest.mark.parametrize(
    "moment",
    [0, 1, 999, 1_704_067_200_001, -1, -62_135_596_799_999, 1_704_067_200_123, 253_402_300_799_999, 2**60],
)
def test_a_letter_is_read_as_it_was_sent(moment):
    """Also where the message had headers of the same names."""
    topic = Topic()
    row = {
        "key": b"k", "value": b"v", "timestamp": moment, "topic": "t", "partition": 3, "offset": 7,
        "headers": '[{"key": "isotherm.topic", "value": "eA=="}]', "problem": "no_row:why",
    }  # fmt: skip
    rows = pa.Table.from_pylist([row], schema=RAW.append(pa.field("problem", pa.string())))
    DeadLetters(topic, "dead", "p", Metrics()).send([rows])

    assert letter_of(Kept(topic.records[0].headers), "p") == Letter(("t", 3, 7), moment, "no_row", 5)
    assert letter_of(Kept(topic.records[0].headers), "q") is None


@pytest.mark.parametrize("headers", [None, [], [("isotherm.pipeline", b"p")], [("isotherm.pipeline", None)]])
def test_what_is_no_letter_is_none(headers):
    assert letter_of(Kept(headers), "p") is None


@given(st.lists(st.sets(ours), max_size=3))
def test_what_is_settled_is_read_back(some):
    summaries = [{REPLAYED: encode("x", one)} for one in some]

    assert settled([*summaries, {}]) == frozenset().union(*some)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"topics": 1}', '{"topics": {"t": {"0": "x"}}}'])
def test_a_summary_that_nobody_can_read_settles_nothing(text):
    assert settled([{REPLAYED: text}, {REPLAYED: encode("x", {("t", 0, 1)})}]) == {("t", 0, 1)}


def test_a_run_of_letters_is_short():
    assert '"0":"0-4999,6000"' in encode("x", [("t", 0, one) for one in (*range(5000), 6000)])


@given(st.sets(st.tuples(st.integers(0, 1), st.integers(0, 20).map(lambda one: one * GAP // 3)), min_size=1))
def test_what_is_read_has_each_letter_once_and_no_long_stretch_without_one(some):
    letters = [Letter(("t", number, offset), 1, "a", 1) for number, offset in some]
    spans = pieces(wanted(letters))

    read = [one.at for one in letters for span in spans if one.at[2] in range(*span.get(one.at[:2], (0, 0)))]
    assert sorted(read) == sorted(one.at for one in letters)
    for span in spans:
        ((position, (first, end)),) = span.items()
        inside = sorted(one.at[2] for one in letters if one.at[:2] == position and first <= one.at[2] < end)
        assert (inside[0], inside[-1]) == (first, end - 1)
        assert all(later - sooner <= GAP for sooner, later in pairwise(inside))


def test_letters_are_sliced_with_the_oldest_first():
    letters = [Letter(("t", 0, one), -one, "a", 1) for one in range(5)]

    assert [[one.at[2] for one in some] for some in slices(letters, 2)] == [[4, 3], [2, 1], [0]]


@pytest.mark.parametrize(
    ("more", "mirror", "changelog"),
    [
        ({}, None, None),
        ({"next": {("t", 0): 5}}, Fate.WAITS, Fate.WAITS),
        ({"next": {("t", 0): 6}}, None, None),
        ({"next": {("t", 1): 9}}, Fate.UNDECIDED, Fate.UNDECIDED),
        ({"kafka": Kafka(starts={("t", 0): 6})}, Fate.UNDECIDED, Fate.UNDECIDED),
        ({"kafka": Kafka(starts={("t", 0): 5})}, None, None),
        ({"settled": frozenset({("t", 0, 5)})}, Fate.THERE, Fate.THERE),
        ({"compacted": frozenset({"t"})}, Fate.UNDECIDED, None),
        ({"compacted": frozenset({"u"})}, None, None),
        ({"unread": frozenset({("t", 4)})}, Fate.UNDECIDED, None),
        ({"unread": frozenset({("u", 4)})}, None, None),
    ],
)
def test_which_letters_are_tried(more, mirror, changelog):
    letter = Letter(("t", 0, 5), 1, "a", 1)
    for is_mirror, fate in ((True, mirror), (False, changelog)):
        choice = choose([letter], Stand(is_mirror, **{"next": {("t", 0): 9}, "kafka": Kafka(), **more}))
        assert (choice.tried == (letter,)) == (fate is None)
        assert [one for one, _ in choice.told.values()] == ([] if fate is None else [fate])
