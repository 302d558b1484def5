"""What a commit event says that its snapshot did to each partition, without Spark."""

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField

from isotherm_ingest.announce.events import event_of
from isotherm_ingest.tables.lake import Lake

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False), NestedField(2, "shop", LongType(), required=False)
)
BY_SHOP = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "shop"))


def rows(shop, *ids):
    return pa.table({"id": pa.array(ids, pa.int64()), "shop": pa.array([shop] * len(ids), pa.int64())})


def told(table, snapshot):
    """By partition: files added and removed, rows added and removed."""
    event = event_of(table, snapshot, "lake", "announced")
    assert event.partitions_complete
    assert event.announced_by == "announced"
    return {
        one.partition: (one.added_files, one.removed_files, one.added_rows, one.removed_rows)
        for one in event.partitions
    }


def test_what_came_to_a_partition_and_what_left_it_are_told_apart(tmp_path):
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
    catalog = load_catalog("lake", **properties)
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", SCHEMA, partition_spec=BY_SHOP)
    table.append(rows(1, 1, 2, 3, 4, 5))
    table.append(rows(1, 6, 7))
    table.append(rows(2, 8, 9, 10))
    table.delete("id in (1, 2)")  # the other three rows of their file are written again
    table.delete("shop = 2")

    now = Lake("lake", properties).load("db.t")
    assert [told(now, snapshot) for snapshot in table.metadata.snapshots] == [
        {'{"1000":1}': (1, 0, 5, 0)},
        {'{"1000":1}': (1, 0, 2, 0)},
        {'{"1000":2}': (1, 0, 3, 0)},
        {'{"1000":1}': (1, 1, 3, 5)},
        {'{"1000":2}': (0, 1, 0, 3)},
    ]


def test_a_partition_of_doubles_has_the_name_that_the_daemon_gives_it(tmp_path):
    """PyIceberg's compiled decoder rounds 0.1 to 0.10000000149011612, and that partition is nobody's."""
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
    catalog = load_catalog("lake", **properties)
    catalog.create_namespace("db")
    schema = Schema(NestedField(2, "share", DoubleType(), required=False))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "share"))
    table = catalog.create_table("db.t", schema, partition_spec=spec)
    table.append(pa.table({"share": [0.1, 0.1, 1e300]}))

    now = Lake("lake", properties).load("db.t")
    names = told(now, table.current_snapshot()).keys()
    assert names == {'{"1000":0.1}', '{"1000":1e+300}'}
