"""The tables of a replay in memory."""

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, TimestamptzType

FIELDS = [
    ("pk", LongType()), ("id", LongType()), ("note", StringType()), ("big", StringType()), ("at", TimestamptzType()),
]  # fmt: skip
OF_CHANGES = [
    ("_op", StringType()), ("_ts", TimestamptzType()), ("_topic", StringType()),
    ("_topic_partition", IntegerType()), ("_offset", LongType()), ("_lsn", LongType()),
]  # fmt: skip


@pytest.fixture(scope="package")
def catalog(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lake")
    made = load_catalog("lake", type="sql", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}/w")
    made.create_namespace("shop")
    for mode, fields in (("mirror", FIELDS), ("changelog", FIELDS + OF_CHANGES)):
        schema = Schema(*(NestedField(place, name, kind) for place, (name, kind) in enumerate(fields, 1)))
        made.create_table(f"shop.{mode}", schema)
    return made
