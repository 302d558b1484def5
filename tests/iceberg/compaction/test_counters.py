"""What a rewrite says of how far it is."""

import subprocess
import sys
import tempfile
from dataclasses import astuple
from mmap import mmap

from hypothesis import given
from hypothesis import strategies as st

from isotherm.core.model.progress import Progress
from isotherm.iceberg.compaction.counters import NUMBERS, Counters, part_of, seen


def test_who_shares_the_memory_sees_what_was_read_and_written() -> None:
    with tempfile.TemporaryFile() as file:
        file.truncate(NUMBERS.size)
        shared, counters = mmap(file.fileno(), NUMBERS.size), Counters(file.fileno())
    assert seen(shared) == Progress()

    counters.read(0, 7)
    counters.passed(100, 1000, 900)
    counters.read(50, 500)
    counters.written(40, 300)
    counters.written(45, 350)

    assert seen(shared) == Progress(150, 1507, 145, 1250)
    counters.close()
    assert seen(shared) == Progress(150, 1507, 145, 1250)


WRITES = """
import sys
from isotherm.iceberg.compaction.counters import Counters
counters = Counters(int(sys.argv[1]))
while True:
    counters.read(8192, 10_000_000)
    counters.passed(1, 100, 90)
"""


def test_no_number_goes_back_whenever_one_looks() -> None:
    with tempfile.TemporaryFile() as file:
        file.truncate(NUMBERS.size)
        shared, descriptor = mmap(file.fileno(), NUMBERS.size), file.fileno()
        writer = subprocess.Popen([sys.executable, "-c", WRITES, str(descriptor)], pass_fds=[descriptor])
    try:
        while seen(shared) == Progress():
            assert writer.poll() is None
        fallen, last = [], astuple(seen(shared))
        for _ in range(50_000):
            now = astuple(seen(shared))
            fallen += [now for before, after in zip(last[:4], now[:4], strict=True) if after < before]
            last = now
    finally:
        writer.kill()
        writer.wait()

    assert fallen == []


@given(st.integers(0, 2**40), st.lists(st.integers(1, 1000)), st.integers(0, 5000))
def test_the_parts_of_a_file_are_the_file_whatever_its_batches(
    size: int, batches: list[int], more: int
) -> None:
    """Also where it has other rows than its manifest says."""
    start, parts, rows = 0, list[int](), max(sum(batches) - more, 0)
    for batch in batches:
        parts.append(part_of(size, rows, start, start + batch))
        start += batch

    assert min(parts, default=0) >= 0
    assert sum(parts) == (size if batches else 0)
