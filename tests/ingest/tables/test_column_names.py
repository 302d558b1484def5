"""Which names a table takes for the columns of its source."""

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import HourTransform, IdentityTransform
from pyiceberg.types import IntegerType, ListType, NestedField, StringType, StructType, TimestampType

from isotherm_ingest.decode.debezium_schema import Column
from isotherm_ingest.decode.kinds import kind_of
from isotherm_ingest.streams import Stream
from isotherm_ingest.tables.column_names import Names, first_clash, names_of
from support.wire import array, typed

TEXT, NUMBERS, LISTS = typed("string"), array(typed("int32")), array(array(typed("int32")))


def column(name, schema=TEXT):
    return Column(name, kind_of(schema))


POINT = StructType(NestedField(6, "Lat", IntegerType()))
TABLE = Schema(
    NestedField(1, "at", TimestampType()),
    NestedField(2, "a", ListType(3, IntegerType())),
    NestedField(4, "points", ListType(5, POINT)),
    NestedField(7, "b.element", StringType()),
    NestedField(8, "area", StringType()),
)
# The column was `region` once.
NOW = PartitionSpec(PartitionField(8, 1001, IdentityTransform(), "region"), spec_id=1)
BEFORE = PartitionSpec(PartitionField(1, 1000, HourTransform(), "at_hour"), spec_id=0)


@pytest.mark.parametrize(
    ("name", "schema", "why"),
    [
        ("at_hour", TEXT, "of the source has the name of a partition field of the table"),
        ("region", TEXT, "of the source has the name of a partition field of the table"),
        ("a.element", TEXT, "of the source has the name of what is within another column"),
        ("A.Element", TEXT, "of the source has the name of what is within another column"),
        ("points.lat", TEXT, "of the source has the name of what is within another column"),
        ("b", NUMBERS, "of the source has the name of column 'b.element'"),
        ("B", LISTS, "of the source has the name of column 'b.element'"),
        ("b", TEXT, None),
        ("a.x", TEXT, None),
        ("at_day", TEXT, None),
        ("c", LISTS, None),
    ],
)
def test_what_something_in_the_table_is_called_no_new_column_can_be(name, schema, why):
    told = names_of(TABLE, [BEFORE, NOW]).clash_of(column(name, schema))

    assert told is None if why is None else told.endswith(why)


@pytest.mark.parametrize(
    ("columns", "partitions", "clashes"),
    [
        ([("at", TEXT), ("at_hour", TEXT)], ["hours(at)"], True),
        ([("id", TEXT), ("id_bucket", TEXT)], ["bucket(4, id)"], True),
        ([("id", TEXT), ("id_trunc", TEXT)], ["truncate(4, id)"], True),
        ([("id", TEXT), ("at_hour", TEXT)], ["id"], False),
        ([("a", NUMBERS), ("a.element", TEXT)], [], True),
        ([("a", LISTS), ("A.element.element", TEXT)], [], True),
        ([("a", NUMBERS), ("a.element.element", TEXT)], [], False),
        ([("id", TEXT), ("_file", TEXT)], [], True),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_columns_that_clash_make_no_table(columns, partitions, clashes, turned):
    stream = Stream(topics="t", table="a.b", partition_by=partitions)
    there = [column(*one) for one in columns]

    assert clashes == (first_clash(reversed(there) if turned else there, stream) is not None)


def test_two_new_columns_of_one_message_may_clash():
    names = Names().with_column(column("a", LISTS))

    assert names.clash_of(column("a.element.element")) is not None
    assert names.clash_of(column("a.b")) is None
