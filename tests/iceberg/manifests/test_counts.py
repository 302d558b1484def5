"""Files are counted as PyIceberg reads them, by both readers: columns for large manifests, entries for small ones."""

import json
import sys
import uuid
from decimal import Decimal

import pytest
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from isotherm.clients.manifests.avro import UnreadableError, file_of
from isotherm.clients.manifests.reading import Manifest
from isotherm.core.model.files import FileKind, size_bucket
from isotherm.iceberg.manifests import counts
from isotherm.iceberg.manifests.counts import FIELDS_KEPT, MAX_KEYS_CHARS, Question, census
from isotherm.iceberg.manifests.partition_values import MAX_KEY_CHARS, checked_key, entry_partition_key
from isotherm.service.ports import TooLong
from support.written_manifest import AS_COLUMNS, AS_ENTRIES, DELETED, EXISTING, STAGE, Written, entry, plainly

KINDS = {
    "boolean": (BooleanType(), IdentityTransform(), [True, False]),
    "int": (IntegerType(), IdentityTransform(), [-5, 2**31 - 1]),
    "long": (LongType(), IdentityTransform(), [-(2**63), 2**60]),
    "float": (FloatType(), IdentityTransform(), [1.1, 0.0, -0.0, float("nan"), float("-inf")]),
    "double": (DoubleType(), IdentityTransform(), [0.1, 0.0, -0.0, float("nan"), float("inf")]),
    "decimal": (DecimalType(9, 2), IdentityTransform(), [Decimal("-0.01"), Decimal("1.50")]),
    "long decimal": (
        DecimalType(38, 10),
        IdentityTransform(),
        [Decimal("1234567890123456789012345678.0123456789")],
    ),
    "date": (DateType(), IdentityTransform(), [-1, 20000]),
    "time": (TimeType(), IdentityTransform(), [0, 86_399_999_999]),
    "timestamp": (TimestampType(), IdentityTransform(), [-1, 1_700_000_000_123_456]),
    "timestamptz": (TimestamptzType(), IdentityTransform(), [-1, 1_700_000_000_123_456]),
    "timestamp_ns": (TimestampNanoType(), IdentityTransform(), [-1, 1_700_000_000_123_456_789]),
    "timestamptz_ns": (TimestamptzNanoType(), IdentityTransform(), [-1, 1_700_000_000_123_456_789]),
    "string": (StringType(), IdentityTransform(), ["a", 'q"ü\0', ""]),
    "uuid": (UUIDType(), IdentityTransform(), [uuid.UUID(int=7), uuid.UUID(int=2**127)]),
    "fixed": (FixedType(16), IdentityTransform(), [bytes(16), bytes(range(16))]),
    "binary": (BinaryType(), IdentityTransform(), [b"\0\xff", b""]),
    "hour": (TimestamptzType(), HourTransform(), [-3, 490_000]),
    "day": (TimestamptzType(), DayTransform(), [-3, 20_000]),
    "month": (DateType(), MonthTransform(), [-3, 600]),
    "year": (DateType(), YearTransform(), [-3, 56]),
    "bucket": (StringType(), BucketTransform(16), [0, 15]),
    "truncate": (StringType(), TruncateTransform(1), ["a", "ü"]),
    "void": (StringType(), VoidTransform(), []),
}


def under(schema, written):
    """The same entries in a file with another schema, which must tell the same of each byte."""
    ((count, entries),) = Manifest.read(written.io, str(written.path)).pieces(sys.maxsize)
    return b"".join(file_of(schema, count, [entries]))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_partition_value_is_told_apart_by_both_readers(tmp_path, kind):
    source, transform, values = KINDS[kind]
    written = Written(tmp_path, [(source, transform)])
    values = [*values, None]
    manifest = written.write(*(entry(value, rows=1 + place) for place, value in enumerate(values * 2)))

    columns = written.counted(manifest)
    entries = written.counted(manifest, large_bytes=AS_ENTRIES)

    assert columns.read_slowly == 0
    assert len(columns.partitions) == len(values)
    assert plainly(columns) == plainly(entries)
    assert sorted(one.added[1] for one in columns.partitions.values()) == [
        2 + 2 * place + len(values) for place in range(len(values))
    ]


@pytest.mark.parametrize("large_bytes", [AS_COLUMNS, AS_ENTRIES])
def test_kinds_and_sizes_are_summed_up(tmp_path, large_bytes):
    written = Written(tmp_path)
    sizes = [0, 1, 2, 3, 1023, 1024, 1535, 1536, 2**40 - 1, 2**40, 2**53 + 1]
    manifest = written.write(
        *(entry(size=size, rows=2) for size in sizes * 2),
        entry(content=DataFileContent.POSITION_DELETES, rows=3),
        entry(content=DataFileContent.POSITION_DELETES, rows=4, file_format=FileFormat.PUFFIN),
        entry(content=DataFileContent.EQUALITY_DELETES, rows=5),
    )

    census = written.counted(manifest, large_bytes=large_bytes)

    assert (census.files, census.read_slowly) == (2 * len(sizes) + 3, 0)
    counted = census.partitions["{}"]
    expected = {size_bucket(size): 0 for size in sizes}
    for size in sizes:
        expected[size_bucket(size)] += 2
    assert {bucket: sums[0] for bucket, sums in counted.data.items()} == expected
    assert counted.deletes == {
        FileKind.POSITION_DELETES: [1, 3, 1000],
        FileKind.DELETION_VECTORS: [1, 4, 1000],
        FileKind.EQUALITY_DELETES: [1, 5, 1000],
    }
    assert counted.delete_sizes == {size_bucket(1000): [1, 3, 1000]}
    assert counted.added == [25, 44 + 12, 2 * sum(sizes) + 3000]


@pytest.mark.parametrize("large_bytes", [AS_COLUMNS, AS_ENTRIES])
def test_what_is_live_and_who_wrote_it_last(tmp_path, large_bytes):
    written = Written(tmp_path, [(IntegerType(), IdentityTransform())])
    manifest = written.write(
        entry(1, status=EXISTING, snapshot=50),
        entry(1, status=EXISTING, snapshot=60),
        entry(1, status=EXISTING, snapshot=40),
        entry(2),
        entry(2, status=DELETED),
        entry(3, status=DELETED, snapshot=60),
        entry(4, status=EXISTING, snapshot=99),
    )
    order = {40: 1, 50: 2, 60: 3, STAGE: 4}

    census = written.counted(manifest, Question(numbers=order, ours={99: 1, 50: 2}), large_bytes)

    assert {key: (one.added[0], one.number, one.ours) for key, one in plainly(census).items()} == {
        '{"1000":1}': (3, 3, 2),
        '{"1000":2}': (1, 4, 0),
        '{"1000":4}': (1, 0, 1),
    }


@pytest.mark.parametrize("large_bytes", [AS_COLUMNS, AS_ENTRIES])
def test_a_job_that_only_merged_deletes_read_no_data(tmp_path, large_bytes):
    written = Written(tmp_path, [(IntegerType(), IdentityTransform())])
    positions = DataFileContent.POSITION_DELETES
    merged, converted = (entry(at, status=EXISTING, snapshot=90 + at, content=positions) for at in (1, 2))
    manifest = written.write(merged, converted)

    census = written.counted(manifest, Question(ours={91: 1, 92: 2}, conversions={92: 2}), large_bytes)

    assert {key: one.ours for key, one in plainly(census).items()} == {'{"1000":1}': 0, '{"1000":2}': 2}


@pytest.mark.parametrize("large_bytes", [AS_COLUMNS, AS_ENTRIES])
def test_what_one_snapshot_did(tmp_path, large_bytes):
    written = Written(tmp_path, [(IntegerType(), IdentityTransform())])
    manifest = written.write(
        entry(1),
        entry(1, status=DELETED, rows=4, size=3000),
        entry(2, status=DELETED, snapshot=STAGE),
        entry(3, status=EXISTING, snapshot=STAGE),
        entry(3, status=DELETED, snapshot=60),
    )

    census = written.counted(manifest, Question(STAGE), large_bytes)

    assert {key: (one.added, one.removed) for key, one in plainly(census).items()} == {
        '{"1000":1}': ([1, 10, 1000], [1, 4, 3000]),
        '{"1000":2}': ([0, 0, 0], [1, 10, 1000]),
    }
    assert census.partitions['{"1000":1}'].data == {
        size_bucket(1000): [1, 10, 1000],
        size_bucket(3000): [-1, -4, -3000],
    }


@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard", "bzip2"])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_formats_and_codecs(tmp_path, version, codec):
    written = Written(tmp_path, [(IntegerType(), IdentityTransform())], codec=codec)
    manifest = written.write(*(entry(at % 3, snapshot=STAGE) for at in range(20)), version=version)

    columns, entries = (written.counted(manifest, large_bytes=large) for large in (AS_COLUMNS, AS_ENTRIES))

    assert (columns.files, columns.read_slowly) == (20, 0)
    assert plainly(columns) == plainly(entries)


def test_what_a_writer_may_leave_out(tmp_path):
    written = Written(tmp_path, [(IntegerType(), IdentityTransform())])
    without = {"column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds"}
    without |= {"upper_bounds", "key_metadata", "split_offsets", "equality_ids", "sort_order_id"}
    manifest = written.write(*(entry(at) for at in range(5)), without=without)

    columns, entries = (written.counted(manifest, large_bytes=large) for large in (AS_COLUMNS, AS_ENTRIES))

    assert (columns.files, columns.read_slowly) == (5, 0)
    assert plainly(columns) == plainly(entries)


def test_several_partition_fields_keep_their_order(tmp_path):
    written = Written(
        tmp_path,
        [
            (StringType(), IdentityTransform()),
            (StringType(), VoidTransform()),
            (LongType(), BucketTransform(4)),
        ],
    )
    manifest = written.write(entry("b", None, 1), entry(None, None, 1), entry("b", None, None))

    columns, entries = (written.counted(manifest, large_bytes=large) for large in (AS_COLUMNS, AS_ENTRIES))

    assert list(plainly(columns)) == ['{"1000":"b","1002":1}', '{"1000":"b"}', '{"1002":1}']
    assert plainly(columns) == plainly(entries)


def test_what_cannot_be_read_as_columns_is_read_slowly_and_counted(tmp_path):
    """A partition field whose column is gone has no type in a manifest of the newest writers."""
    plain, written = Written(tmp_path), Written(tmp_path, [(IntegerType(), IdentityTransform())])
    plain.write(entry(), entry())
    schema = json.loads(Manifest.read(plain.io, str(plain.path)).avro_schema)
    partition = next(one for one in schema["fields"][-1]["type"]["fields"] if one["name"] == "partition")
    partition["type"]["fields"] = [{"name": "p", "type": "null", "default": None, "field-id": 1000}]
    written.path.write_bytes(under(json.dumps(schema), plain))

    census = written.counted(written.listed())

    assert (list(census.partitions), census.files, census.read_slowly) == (["{}"], 2, 1)


def test_fields_are_found_by_their_ids(tmp_path):
    written = Written(tmp_path, [(IntegerType(), IdentityTransform())])
    written.write(entry(1), entry(2))
    renamed = Manifest.read(written.io, str(written.path)).avro_schema.replace("record_count", "rowCount")
    written.path.write_bytes(under(renamed, written))

    census = written.counted(written.listed())

    assert (census.files, census.read_slowly) == (2, 0)
    assert census.partitions['{"1000":1}'].added == [1, 10, 1000]


def test_many_manifests_are_read_at_once_and_an_error_ends_it(tmp_path):
    written = [Written(tmp_path, [(IntegerType(), IdentityTransform())]) for _ in range(30)]
    manifests = [one.write(entry(place % 7), entry(7)) for place, one in enumerate(written)]
    first = written[0]

    whole = census(first.metadata, first.io, manifests, Question(), AS_COLUMNS)

    assert whole.files == 60
    assert whole.partitions['{"1000":7}'].added == [30, 300, 30_000]

    written[3].path.write_bytes(b"nothing")
    with pytest.raises(UnreadableError, match="a manifest"):
        census(first.metadata, first.io, manifests, Question(), AS_COLUMNS)


ONE_TEXT = [(StringType(), IdentityTransform())]
AROUND = len('{"1000":""}')


@pytest.mark.parametrize("large_bytes", [AS_COLUMNS, AS_ENTRIES])
def test_a_partition_value_is_as_long_as_anybody_needs_and_no_longer(tmp_path, large_bytes):
    longest = "x" * (MAX_KEY_CHARS - AROUND)
    written = Written(tmp_path, ONE_TEXT)
    census = written.counted(written.write(entry(longest), entry("a")), large_bytes=large_bytes)

    assert {len(key) for key in census.partitions} == {MAX_KEY_CHARS, AROUND + 1}
    written = Written(tmp_path, ONE_TEXT)
    with pytest.raises(UnreadableError, match="a partition's values have 16385 characters, more than 16384"):
        written.counted(written.write(entry(longest + "x"), entry("a")), large_bytes=large_bytes)
    with pytest.raises(UnreadableError, match="16385 characters"):
        entry_partition_key(written.metadata, 0, entry(longest + "x"))


@pytest.mark.parametrize("large_bytes", [AS_COLUMNS, AS_ENTRIES])
def test_all_partition_values_together_have_a_limit(tmp_path, large_bytes):
    """They are packed well: some hundred kilobytes would fill the memory and the disk."""
    long = "\U0001f600" * ((MAX_KEY_CHARS - 100) // 12)
    written = Written(tmp_path, ONE_TEXT, in_block=1000)
    manifest = written.write(
        *(entry(f"{place}{long}") for place in range(MAX_KEYS_CHARS // MAX_KEY_CHARS + 100))
    )

    with pytest.raises(UnreadableError, match="have more than 134217728 characters together"):
        written.counted(manifest, large_bytes=large_bytes)


@pytest.mark.parametrize("large_bytes", [AS_COLUMNS, AS_ENTRIES])
def test_counting_ends_in_the_middle_of_a_manifest_where_it_is_to_end(tmp_path, large_bytes):
    written = Written(tmp_path, in_block=10)
    manifest = written.write(*(entry() for _ in range(100)))
    asked = []

    def go_on():
        asked.append(1)
        if len(asked) == 2:
            raise TooLong("it takes too long")

    with pytest.raises(TooLong):
        census(written.metadata, written.io, [manifest], Question(), large_bytes, go_on=go_on)


@pytest.mark.parametrize("question", [Question(), Question(STAGE)])
@pytest.mark.parametrize("large_bytes", [AS_COLUMNS, AS_ENTRIES])
def test_a_manifest_that_is_listed_a_thousand_times_is_read_once_and_counts_each_time(
    tmp_path, large_bytes, question
):
    written = Written(tmp_path, [(LongType(), IdentityTransform())])
    deletes = entry(2, content=DataFileContent.POSITION_DELETES, rows=3)
    manifest = written.write(entry(1), entry(2), deletes, entry(2, status=DELETED))
    once = written.counted(manifest, question, large_bytes)
    steps = []

    listed = [manifest] * 1000
    often = census(written.metadata, written.io, listed, question, large_bytes, go_on=lambda: steps.append(1))

    assert len(steps) < 10
    assert (often.files, often.partitions.keys()) == (1000 * once.files, once.partitions.keys())
    for key, partition in once.partitions.items():
        assert often.partitions[key].added == [1000 * number for number in partition.added]
        assert often.partitions[key].removed == [1000 * number for number in partition.removed]
        assert often.partitions[key].data == {
            bucket: [1000 * number for number in sums] for bucket, sums in partition.data.items()
        }


@pytest.mark.parametrize("large_bytes", [AS_COLUMNS, AS_ENTRIES])
def test_one_file_that_is_listed_for_two_snapshots_is_counted_for_each(tmp_path, large_bytes):
    """What its entries inherit is said by the list."""
    written = Written(tmp_path)
    listed = [written.write(entry()), written.listed()]
    listed[1]._data[6] = STAGE + 1  # noqa: SLF001 (it has no setter)
    assert listed[1].added_snapshot_id == STAGE + 1

    counted = census(written.metadata, written.io, listed, Question(STAGE), large_bytes)

    assert counted.files == 1


@pytest.mark.parametrize(("width", "are_kept"), [(FIELDS_KEPT, True), (FIELDS_KEPT + 1, False)])
def test_keys_of_many_fields_are_not_kept(tmp_path, monkeypatch, width, are_kept):
    """Keys of a thousand fields have 70 KB each, and 20,000 of them are kept for as long as the daemon runs."""
    made = []
    monkeypatch.setattr(counts, "checked_key", lambda values: made.append(values) or checked_key(values))
    written = Written(tmp_path, [(LongType(), IdentityTransform())] * width)
    manifest = written.write(entry(*range(7000, 7000 + width)))

    for _ in range(2):
        assert len(written.counted(manifest, large_bytes=AS_ENTRIES).partitions) == 1

    assert len(made) == (1 if are_kept else 2)
