"""Spans and sizes: how people write them, and what is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.core.units import MAX_SIZE, MAX_SPAN_MS, parse_size, parse_span_ms, size_written, span_written
from support.builders import DAY, GIB, KIB, MIB, MINUTE


@pytest.mark.parametrize(
    ("text", "ms"),
    [("0s", 0), ("15m", 15 * MINUTE), ("1h 30m", 90 * MINUTE), ("7d", 7 * DAY), ("250ms", 250)],
)
def test_spans_have_units(text, ms):
    assert ms == parse_span_ms(text)


@pytest.mark.parametrize("text", ["", "15", "m", "-5m", "1h30", 15, None, True, "5 parsecs"])
def test_what_has_no_unit_is_no_span(text):
    with pytest.raises(ValueError, match="unit"):
        parse_span_ms(text)


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [
        ("512MiB", 512 * MIB),
        ("1.5 GiB", 3 * GIB // 2),
        ("20gib", 20 * GIB),
        ("10KB", 10_000),
        ("7B", 7),
        (7, 7),
    ],
)
def test_sizes_have_units(text, bytes_):
    assert bytes_ == parse_size(text)


@pytest.mark.parametrize(
    "text", ["", "MiB", "-5MiB", "5 parsecs", "1e400", "9" * 400 + "MiB", True, None, 1.5]
)
def test_what_has_another_unit_is_no_size(text):
    with pytest.raises(ValueError, match="unit"):
        parse_size(text)


@given(st.integers(0, MAX_SPAN_MS), st.integers(0, MAX_SIZE))
def test_what_is_written_is_read_as_the_same(span, size):
    assert (span, size) == (parse_span_ms(span_written(span)), parse_size(size_written(size)))


def test_spans_and_sizes_are_written_as_people_write_them():
    spans = [span_written(ms) for ms in (0, 15 * MINUTE, 90 * MINUTE, 7 * DAY, 250)]
    sizes = [size_written(size) for size in (0, 128 * MIB, 1536 * KIB, 1000)]

    assert (["0s", "15m", "1h30m", "7d", "250ms"], ["0B", "128MiB", "1536KiB", "1000B"]) == (spans, sizes)
