"""Manifests of a few kilobytes whose owner wants memory: what they say is refused before it is held."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import FixedType, LongType, NestedField

from isotherm.clients.manifests.avro import AvroData, UnreadableError, file_of
from isotherm.clients.manifests.reading import Manifest, read_manifest_list
from isotherm.contract.paths import normalised
from isotherm.iceberg import values
from isotherm.iceberg.manifests.columns import NotReadError, read_columns
from isotherm.iceberg.manifests.live import MAX_PATH_CHARS, MOST_TIMES, live_files
from isotherm.iceberg.manifests.writing import write_manifest_list
from support.lab import Lab
from support.rewriting import partitions


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path)


def rewritten_list(table, manifests):
    """The head's list, which names these."""
    head = table.current_snapshot()
    Path(normalised(head.manifest_list)).unlink()
    numbers = (head.snapshot_id, None, head.sequence_number)
    write_manifest_list(table.io, table.metadata, head.manifest_list, *numbers, manifests)


@pytest.mark.parametrize(("size", "is_read"), [(8, True), (100_000, False)])
def test_a_type_that_is_as_large_as_the_memory_is_not_read_in_columns(lab, size, is_read):
    """Of each null of such a type DataFusion makes so many zeros; without memory for them it ends the process."""
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "k", FixedType(8)))
    by_k = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "k"))
    lab.catalog.create_namespace_if_not_exists("shop")
    table = lab.catalog.create_table("shop.fixed", schema, partition_spec=by_k)
    table.append(pa.table({"id": pa.array([1], pa.int64()), "k": pa.array([None], pa.binary(8))}))
    (manifest,) = table.current_snapshot().manifests(table.io)
    avro = AvroData("m", Path(normalised(manifest.manifest_path)).read_bytes())
    ((count, block),) = avro.pieces(sys.maxsize)
    said = json.loads(avro.schema)
    (file,) = (one for one in said["fields"] if one["name"] == "data_file")
    (partition,) = (one for one in file["type"]["fields"] if one["name"] == "partition")
    partition["type"]["fields"][0]["type"][1]["size"] = size
    written = Manifest("m", b"".join(file_of(json.dumps(said), count, [block])))

    def rows():
        return sum(one.num_rows for one in read_columns(written, SimpleNamespace(added_snapshot_id=1)))

    if is_read:
        assert rows() == 1
    else:
        with pytest.raises(NotReadError, match="100000 bytes"):
            rows()


@pytest.mark.parametrize("times", [MOST_TIMES, MOST_TIMES + 1])
def test_a_manifest_that_a_list_names_again_and_again_is_not_held_as_often(lab, times):
    table = lab.create()
    lab.append(table, 1)
    (manifest,) = read_manifest_list(table.io, table.refresh().current_snapshot().manifest_list)
    (key,) = partitions(table)
    rewritten_list(table, [manifest] * times)

    def files():
        return len(live_files(table.metadata, table.io, table.current_snapshot(), key))

    if times <= MOST_TIMES:
        assert files() == times
    else:
        with pytest.raises(UnreadableError, match=f"more than {MOST_TIMES} times"):
            files()


@pytest.mark.parametrize("most", [4, 3])
def test_a_partition_of_more_files_than_fit_in_memory_is_not_compacted(lab, monkeypatch, most):
    """Nine million, in manifests of 28 KB, took five gigabytes."""
    table = lab.create()
    for hour in (1, 1, 1, 1, 2):
        lab.append(table, hour)
    many, one = partitions(table.refresh())
    monkeypatch.setattr("isotherm.iceberg.manifests.live.MOST_LIVE", most)

    def files(key):
        return len(live_files(table.metadata, table.io, table.current_snapshot(), key))

    assert files(one) == 1
    if most == 4:
        assert files(many) == 4
    else:
        with pytest.raises(UnreadableError, match="more than 3 live files"):
            files(many)


@pytest.mark.parametrize("times", [3, 4])
def test_a_snapshot_that_adds_more_manifests_than_a_commit_makes_is_not_read(lab, monkeypatch, times):
    """Those of 32 snapshots were in memory together, however often a list named one."""
    monkeypatch.setattr(values, "MOST_ADDED", 3)
    table = lab.create()
    lab.append(table, 1)
    snapshot = table.refresh().current_snapshot()
    (manifest,) = read_manifest_list(table.io, snapshot.manifest_list)
    rewritten_list(table, [manifest] * times)

    if times <= 3:
        assert len(values.added_manifests(table.io, snapshot)) == times
    else:
        with pytest.raises(UnreadableError, match="more than 3 manifests that its snapshot added"):
            values.added_manifests(table.io, snapshot)


@pytest.mark.parametrize("length", [1000, MAX_PATH_CHARS + 1])
def test_a_location_that_no_store_takes_is_not_held(lab, length):
    table = lab.create()
    lab.append(table, 1)
    (key,) = partitions(table.refresh())
    with table.transaction() as change, change.update_snapshot().fast_append() as append:
        (task,) = table.scan().plan_files()
        task.file[1] = f"file:///{'x' * length}"
        append.append_data_file(task.file)
    table.refresh()

    def files():
        return len(live_files(table.metadata, table.io, table.current_snapshot(), key))

    if length <= MAX_PATH_CHARS:
        assert files() == 2
    else:
        with pytest.raises(UnreadableError, match="location has more than"):
            files()


@pytest.mark.parametrize("said", [-1, 2**60])
def test_a_size_that_no_file_has_is_not_believed(lab, said):
    """Budgets and metrics of all tables would count it."""
    table = lab.create()
    lab.append(table, 1)
    (key,) = partitions(table.refresh())
    with table.transaction() as change, change.update_snapshot().fast_append() as append:
        (task,) = table.scan().plan_files()
        task.file[5] = said
        append.append_data_file(task.file)
    table.refresh()

    with pytest.raises(UnreadableError, match="as its manifest says"):
        live_files(table.metadata, table.io, table.current_snapshot(), key)
