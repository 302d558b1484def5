"""What a commit event says that its snapshot did to each partition, without Spark."""

import zlib
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.avro.decoder import new_decoder
from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField

from isotherm.clients.manifests.avro import MAX_BLOCK_BYTES, number
from isotherm_ingest.announce.events import MAX_ENTRIES, event_of
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


@pytest.fixture
def owned(tmp_path):
    """A table with one file, how its event is made, and its manifest, which its owner may write."""
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
    catalog = load_catalog("lake", **properties)
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", SCHEMA, partition_spec=BY_SHOP)
    table.append(rows(1, 1, 2, 3))
    snapshot = table.current_snapshot()
    (manifest,) = snapshot.manifests(table.io)
    now = Lake("lake", properties).load("db.t")
    path = Path(manifest.manifest_path.removeprefix("file://"))
    return path, snapshot, lambda: event_of(now, snapshot, "lake", "announced")


def header_and_block(path):
    data = path.read_bytes()
    end = data.index(data[-16:]) + 16
    return data[:end], data[end:]


def test_a_manifest_that_unpacks_to_more_than_is_read_is_left_out_of_its_event(owned):
    """The daemon reads it by itself, within its own limits. In ingest it would be in memory whole."""
    path, snapshot, event = owned
    assert event().partitions_complete
    head, block = header_and_block(path)
    decoder = new_decoder(block)
    assert decoder.read_int() == 1
    packer, entry = zlib.compressobj(1, wbits=-15), zlib.decompress(decoder.read(decoder.read_int()), -15)
    bomb = packer.compress(entry + bytes(MAX_BLOCK_BYTES)) + packer.flush()
    path.write_bytes(head + number(1) + number(len(bomb)) + bomb + block[-16:])
    told = event()

    assert path.stat().st_size < 1024 * 1024
    assert (told.snapshot_id, told.partitions, told.partitions_complete) == (snapshot.snapshot_id, (), False)
    assert told.added_manifests_complete


def test_a_manifest_has_as_many_entries_as_it_has_whatever_its_list_says(owned):
    path, _, event = owned
    head, block = header_and_block(path)
    path.write_bytes(head + block * MAX_ENTRIES)
    assert [one.added_files for one in event().partitions] == [MAX_ENTRIES]

    path.write_bytes(head + block * (MAX_ENTRIES + 1))
    assert (event().partitions, event().partitions_complete) == ((), False)


@pytest.mark.parametrize(
    "damage", [b"", b"Obj\x01", b"no manifest"], ids=["empty", "cut off", "another file"]
)
@pytest.mark.parametrize("which", ["manifest", "list"])
def test_a_snapshot_whose_manifests_make_no_sense_is_announced_without_them(owned, which, damage):
    path, snapshot, event = owned
    damaged = path if which == "manifest" else Path(snapshot.manifest_list.removeprefix("file://"))
    damaged.write_bytes(damage)
    told = event()

    assert told.snapshot_id == snapshot.snapshot_id
    assert (told.partitions_complete, told.added_manifests_complete) == (False, which == "manifest")
