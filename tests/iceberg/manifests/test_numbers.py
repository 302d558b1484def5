"""What is taken for seen where sequence numbers go back, when it is asked whether a snapshot reaches a file."""

from uuid import uuid4

import pytest
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, AssertTableUUID, SetSnapshotRefUpdate

from isotherm.core.deletion import Cause, Mark, Neighbours, own_folders
from isotherm.iceberg.manifests.reachability import youngest
from isotherm.iceberg.manifests.writing import write_manifest_list
from isotherm.iceberg.remover import sweep
from isotherm.runtime.clock import now_ms
from isotherm.service.ports import Sweep
from support.faults import FaultyCatalog
from support.lab import Lab, uuid_of


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path)


def root(lab, table, number):
    """A replace of the table that began when it had come to this number, and lands now."""
    metadata = table.refresh().metadata
    snapshot_id = metadata.new_snapshot_id()
    place = f"{metadata.location}/metadata/snap-{uuid4()}.avro"
    write_manifest_list(table.io, metadata, place, snapshot_id, None, number, [])
    snapshot = Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=None,
        sequence_number=number,
        timestamp_ms=now_ms(),
        manifest_list=place,
        summary=Summary(operation=Operation.OVERWRITE),
        schema_id=metadata.current_schema_id,
    )
    head = SetSnapshotRefUpdate(ref_name="main", type=SnapshotRefType.BRANCH, snapshot_id=snapshot_id)
    lab.catalog.commit_table(
        table, (AssertTableUUID(uuid=metadata.table_uuid),), (AddSnapshotUpdate(snapshot=snapshot), head)
    )


def one_file(lab):
    table = lab.create()
    lab.append(table, 1)
    (task,) = table.scan().plan_files()
    table.delete("id >= 0")
    for hour in (2, 3, 4, 5):
        lab.append(table, hour)
    return table, task.file.file_path


def swept(table, path, seen, taken=()):
    own = own_folders(table.location(), (), "shop", "orders")
    wanted = Sweep(uuid_of(table), (Mark(path, "job", Cause.EXPIRED, seen),), {"job": taken}, Neighbours(own))
    return sweep(table.refresh(), wanted, lambda: False)


def taken_out(table):
    """Expire the snapshots that had the file; how far the history went then."""
    ids = [one.snapshot_id for one in table.refresh().metadata.snapshots[:2]]
    seen = youngest(table.metadata, ids)
    table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, "audit").commit()
    table.refresh().maintenance.expire_snapshots().by_ids(ids).commit()
    return seen, tuple(ids)


def test_a_file_that_nothing_reaches_any_more_goes(lab):
    table, path = one_file(lab)
    seen, ids = taken_out(table)

    assert swept(table, path, seen, ids).gone == (path,)


def test_a_snapshot_behind_one_that_set_the_numbers_back_is_read(lab):
    table, path = one_file(lab)
    seen, ids = taken_out(table)
    root(lab, table, 3)
    table.refresh().add_files([path])
    back = table.refresh().current_snapshot()
    assert back.sequence_number < seen.sequence_number
    table.manage_snapshots().create_tag(back.snapshot_id, "undo").commit()
    table.refresh().delete("id >= 0")
    for hour in (6, 7, 8, 9):
        lab.append(table, hour)

    assert [*swept(table, path, seen, ids).kept] == [path]
    assert len(table.scan(snapshot_id=back.snapshot_id).to_arrow()) == 2


def test_a_history_that_is_cut_back_while_it_is_looked_at_keeps_the_files(lab):
    table, _ = one_file(lab)
    earlier = table.refresh().metadata_location
    lab.append(table, 9)
    table.refresh()
    seen = youngest(table.metadata, ())
    lab.catalog.drop_table("shop.orders")
    restored = lab.catalog.register_table("shop.orders", earlier)
    table.catalog = FaultyCatalog(lab.catalog)
    assert restored.metadata.last_sequence_number < table.metadata.last_sequence_number
    own = own_folders(table.location(), (), "shop", "orders")
    lost = f"{table.location()}/data/a.parquet"
    wanted = Sweep(uuid_of(table), (Mark(lost, "job", Cause.EXPIRED, seen),), {"job": ()}, Neighbours(own))

    assert "last sequence number" in sweep(table, wanted, lambda: False).postponed[lost]
