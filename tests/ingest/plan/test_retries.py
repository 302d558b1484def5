"""Pauses after failures in a row."""

from isotherm_ingest.plan.retries import pause_s


def test_pauses_double_up_to_the_longest():
    assert [pause_s(count) for count in range(1, 9)] == [2, 4, 8, 16, 32, 64, 120, 120]
    assert [pause_s(count, 1.0, 30.0) for count in (1, 5, 6)] == [1, 16, 30]


def test_what_fails_for_weeks_is_tried_again_as_before():
    assert pause_s(100_000) == 120
