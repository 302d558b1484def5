"""How far the rows that came reach, by the bounds of their files."""

import struct

import pytest
from pyiceberg.manifest import DataFileContent
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    YearTransform,
)
from pyiceberg.types import DateType, StringType, TimestampNanoType, TimestampType, TimestamptzType

from isotherm.iceberg.manifests.counts import Question
from support.written_manifest import AS_COLUMNS, AS_ENTRIES, DELETED, EXISTING, STAGE, Written, entry, plainly

TIMES = {
    "timestamp by the hour": (TimestamptzType(), HourTransform(), "<q", 1_700_000_000_123_456),
    "nanoseconds by the day": (TimestampNanoType(), DayTransform(), "<q", 1_700_000_000_123_456_789),
    "a timestamp by the month": (TimestampType(), MonthTransform(), "<q", 1_700_000_000_123_456),
    "before 1970": (TimestamptzType(), YearTransform(), "<q", -1_000_001),
    "a date by itself": (DateType(), IdentityTransform(), "<i", 19_675),
}
REACHED_MS = [1_700_000_040_000, 1_700_000_040_000, 1_700_000_040_000, 0, 19_675 * 86_400_000]
"""Rounded up to a minute."""


@pytest.mark.parametrize("large_bytes", [AS_COLUMNS, AS_ENTRIES])
@pytest.mark.parametrize(("kind", "reached_ms"), list(zip(TIMES, REACHED_MS, strict=True)))
def test_the_bounds_of_the_time_column_say_how_far_the_rows_that_came_reach(
    tmp_path, kind, reached_ms, large_bytes
):
    source, transform, layout, newest = TIMES[kind]
    step = 1000 if layout == "<i" else 10**12
    written = Written(tmp_path, [(StringType(), IdentityTransform()), (source, transform)])
    column = written.spec.fields[1].source_id
    bound, other = struct.pack(layout, newest), struct.pack(layout, newest - step)
    manifest = written.write(
        entry("a", 1, upper={1: b"b", column: other}, rows=900),
        entry("a", 1, upper={1: b"b", column: bound}, rows=100),
        entry("a", 1, upper={1: b"b", column: struct.pack(layout, newest + step)}, rows=1),
        entry("a", 1, upper={column: bound + b"??"}),
        entry("b", 1, upper={1: b"b"}),
        entry("c", 1, upper={}),
        entry("d", 1, upper={column: bound}, status=EXISTING),
        entry("d", 1, upper={column: bound}, status=DELETED),
        entry("d", 1, upper={column: bound}, content=DataFileContent.EQUALITY_DELETES),
    )

    counted = written.counted(manifest, Question(STAGE), large_bytes)
    reached = {key: one.delta().reached_ms for key, one in plainly(counted).items()}

    assert counted.read_slowly == 0
    assert list(reached.values()) == [reached_ms, None, None, None]
    assert not any(one.reached for one in written.counted(manifest).partitions.values())


def test_of_a_spec_without_time_no_bounds_are_read(tmp_path):
    written = Written(tmp_path, [(TimestamptzType(), BucketTransform(4))])
    manifest = written.write(entry(1, upper={at: bytes(8) for at in range(5)}))

    counts = [written.counted(manifest, Question(STAGE), large) for large in (AS_COLUMNS, AS_ENTRIES)]

    assert [one.reached for count in counts for one in count.partitions.values()] == [[], []]
