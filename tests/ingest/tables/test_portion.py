"""What a table still lacks of a batch, and what it must not be given yet."""

import pytest

from isotherm_ingest.plan.resume_or_halt import Place
from isotherm_ingest.plan.topic_metadata import Kafka
from isotherm_ingest.tables.portion import Behind, Portion, wanted_from

A, B = ("orders", 0), ("orders", 1)


@pytest.mark.parametrize(
    ("needs", "ranges", "left_out_below"),
    [
        ({A: 0}, {A: (0, 5)}, {}),
        ({A: 3}, {A: (0, 5)}, {A: 3}),
        ({A: 5}, {A: (0, 5)}, None),
        ({A: 9}, {A: (0, 5)}, None),
        # One partition that lacks something is enough, and the other is left out as a whole.
        ({A: 5, B: 1}, {A: (0, 5), B: (0, 2)}, {A: 5, B: 1}),
        ({A: 5, B: 2}, {A: (0, 5), B: (0, 2)}, None),
    ],
)
def test_what_the_table_has_is_left_out(needs, ranges, left_out_below):
    assert wanted_from(Place("u", {}, needs), portion(ranges)) == left_out_below


def test_a_batch_that_begins_above_what_the_table_needs_would_make_a_hole():
    with pytest.raises(Behind):
        wanted_from(Place("u", {}, {A: 5, B: 1}), portion({A: (0, 9), B: (2, 3)}))


def portion(ranges):
    return Portion(1, (), ranges, Kafka(), "cluster")
