"""Pauses after failures in a row."""

from isotherm_ingest.plan.retries import ANY, less, more, pause_s


def test_pauses_double_up_to_the_longest():
    assert [pause_s(count) for count in range(1, 9)] == [2, 4, 8, 16, 32, 64, 120, 120]
    assert [pause_s(count, 1.0, 30.0) for count in (1, 5, 6)] == [1, 16, 30]


def test_what_fails_for_weeks_is_tried_again_as_before():
    assert pause_s(100_000) == 120


def test_what_fails_is_taken_in_smaller_pieces_down_to_one_and_in_larger_ones_again_once_it_passes():
    tried = [100_000]
    while tried[-1] > 1:
        tried.append(less(tried[-1]))
    assert len(tried) < 12
    assert less(1) == 1

    at_most = 1
    while at_most is not None:
        assert at_most <= ANY
        at_most = more(at_most)
