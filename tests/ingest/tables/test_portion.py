"""What a table still lacks of a batch."""

import pytest

from isotherm_ingest.tables.offsets import Source
from isotherm_ingest.tables.portion import Portion, wanted_from

A, B = ("orders", 0), ("orders", 1)


@pytest.mark.parametrize(
    ("has", "ranges", "left_out_below"),
    [
        ({}, {A: (0, 5)}, {}),
        ({"orders": {0: 0}}, {A: (0, 5)}, {}),
        ({"orders": {0: 3}}, {A: (0, 5)}, {A: 3}),
        ({"orders": {0: 5}}, {A: (0, 5)}, None),
        ({"orders": {0: 9}}, {A: (0, 5)}, None),
        # One partition that lacks something is enough, and the other is left out as a whole.
        ({"orders": {0: 5, 1: 1}}, {A: (0, 5), B: (0, 2)}, {A: 5, B: 1}),
        ({"orders": {0: 5, 1: 2}}, {A: (0, 5), B: (0, 2)}, None),
        # Another topic's offsets say nothing.
        ({"customers": {0: 5}}, {A: (0, 5)}, {}),
    ],
)
def test_what_the_table_has_is_left_out(has, ranges, left_out_below):
    portion = Portion("view", "query", 1, (), ranges, {}, {}, "cluster")

    assert wanted_from(Source(has), portion) == left_out_below
