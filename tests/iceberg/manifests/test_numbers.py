"""What reaches a file, and what is taken for seen when that is asked."""

from pathlib import Path
from uuid import uuid4

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, AssertTableUUID, SetSnapshotRefUpdate

from isotherm.clients.manifests.avro import UnreadableError
from isotherm.contract.paths import normalised
from isotherm.core.deletion import Cause, Mark, Neighbours, Seen, own_folders
from isotherm.iceberg.manifests.reachability import left_behind, reached, youngest
from isotherm.iceberg.manifests.writing import write_manifest_list
from isotherm.iceberg.remover import sweep
from isotherm.runtime.clock import now_ms
from isotherm.service.ports import Sweep
from support.faults import FaultyCatalog
from support.lab import HOURS, SCHEMA, Lab, uuid_of


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
    own = own_folders(table.location(), (), ("shop", "orders"))
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
    own = own_folders(table.location(), (), ("shop", "orders"))
    lost = f"{table.location()}/data/a.parquet"
    wanted = Sweep(uuid_of(table), (Mark(lost, "job", Cause.EXPIRED, seen),), {"job": ()}, Neighbours(own))

    assert "last sequence number" in sweep(table, wanted, lambda: False).postponed[lost]


def test_a_file_goes_only_when_no_manifest_that_stays_names_it(lab):
    table = lab.create()
    lab.append(table, 1, 2)
    first = table.refresh().current_snapshot()
    table.delete("id < 2")
    (task,) = table.refresh().scan().plan_files()
    (manifest,) = first.manifests(table.io)
    assert manifest.manifest_path not in {
        one.manifest_path for one in table.current_snapshot().manifests(table.io)
    }

    found = left_behind(table.metadata, table.io, [first.snapshot_id])

    assert manifest.manifest_path in found
    assert task.file.file_path not in found


def test_manifests_and_lists_are_reached_as_files_are(lab):
    table, _ = one_file(lab)
    head = table.refresh().current_snapshot()
    needed = {head.manifest_list, *(one.manifest_path for one in head.manifests(table.io))}

    found = reached(table.metadata, table.io, needed, None)

    assert found == {normalised(path) for path in needed}


class TwoClusters(PyArrowFileIO):
    """Two clusters of HDFS, each a folder of this machine."""

    def __init__(self, folder):
        super().__init__()
        self.folder, self.opened = folder, []

    def new_input(self, location):
        self.opened.append(location)
        return super().new_input(location.replace("hdfs://", f"file://{self.folder}/"))


def on_clusters(lab, folder, places):
    """A table of which one snapshot names the manifest of another table at each of these places; its files."""
    files, manifests = [], []
    for number, place in enumerate(places):
        table = lab.create(f"shop.of_{number}")
        lab.append(table, 1)
        (manifest,) = table.refresh().current_snapshot().manifests(table.io)
        files += [task.file.file_path for task in table.scan().plan_files()]
        local = Path(folder, place.removeprefix("hdfs://"))
        local.parent.mkdir(parents=True, exist_ok=True)
        local.write_bytes(Path(normalised(manifest.manifest_path)).read_bytes())
        manifest[0] = place
        manifests.append(manifest)
    table = lab.create()
    metadata, place = table.metadata, f"{table.location()}/metadata/snap-1.avro"
    write_manifest_list(table.io, metadata, place, 1, None, 1, manifests)
    snapshot = Snapshot(snapshot_id=1, sequence_number=1, timestamp_ms=now_ms(), manifest_list=place)
    return metadata.model_copy(update={"snapshots": [snapshot]}), files


def test_files_of_two_clusters_are_two_whatever_their_paths(lab, tmp_path):
    """To know a manifest by its path alone was to leave out what the other one names."""
    files = TwoClusters(tmp_path / "hdfs")
    metadata, live = on_clusters(lab, files.folder, ["hdfs://a/t/m.avro", "hdfs://b/t/m.avro"])

    assert reached(metadata, files, live, None) == {normalised(path) for path in live}


def test_a_list_that_all_snapshots_name_is_read_once(lab, tmp_path):
    files = TwoClusters(tmp_path / "hdfs")
    metadata, live = on_clusters(lab, files.folder, ["hdfs://a/t/m.avro"])
    (one,) = metadata.snapshots
    many = [one.model_copy(update={"snapshot_id": number}) for number in range(1, 40)]

    found = reached(metadata.model_copy(update={"snapshots": many}), files, [*live, "/gone"], None)

    assert found == {normalised(path) for path in live}
    assert files.opened == [one.manifest_list, "hdfs://a/t/m.avro"]


def test_lists_that_name_too_many_manifests_together_prove_nothing(lab, tmp_path, monkeypatch):
    monkeypatch.setattr("isotherm.iceberg.manifests.snapshot_files.MOST_NAMED", 1)
    files = TwoClusters(tmp_path / "hdfs")
    metadata, live = on_clusters(lab, files.folder, ["hdfs://a/t/m.avro", "hdfs://b/t/n.avro"])

    with pytest.raises(UnreadableError, match="more than 1 manifests together"):
        reached(metadata, files, live, None)


def second_file(lab):
    """A table, and a file that the second of its snapshots has, and no later one."""
    table = lab.create()
    lab.append(table, 1)
    lab.append(table, 2)
    path = next(task.file.file_path for task in table.refresh().scan("id >= 2").plan_files())
    table.delete("id >= 2")
    for hour in (3, 4, 5):
        lab.append(table, hour)
    return table.refresh(), path


def test_what_is_not_sure_to_be_seen_is_read(lab):
    table, path = second_file(lab)
    head = table.current_snapshot()
    (first,) = [one for one in table.metadata.snapshots if one.parent_snapshot_id is None]
    (root_manifest,) = first.manifests(table.io)
    seen = Seen(head.snapshot_id, head.sequence_number)

    assert reached(table.metadata, table.io, [path], seen) == frozenset()
    used_again = Seen(head.snapshot_id, head.sequence_number - 1)
    assert reached(table.metadata, table.io, [path], used_again) == {normalised(path)}
    table.delete("id >= 0")
    head = table.refresh().current_snapshot()
    seen = Seen(head.snapshot_id, head.sequence_number)
    old = root_manifest.manifest_path
    assert reached(table.metadata, table.io, [old], seen) == {normalised(old)}, "a root may have any number"


def sweep_of(table, path, taken, seen, **more):
    own = own_folders(table.location(), (), ("shop", "orders"))
    wanted = Sweep(uuid_of(table), (Mark(path, "job", Cause.EXPIRED, seen),), {"job": taken}, Neighbours(own))
    return sweep(table, wanted, lambda: False, **more)


def expired_second(lab):
    """The snapshot with the file is taken; the table then, where it was before, and the file."""
    table, path = second_file(lab)
    before = table.metadata_location
    taken = tuple(one.snapshot_id for one in table.metadata.snapshots[1:2])
    seen = youngest(table.metadata, taken)
    table.maintenance.expire_snapshots().by_ids(list(taken)).commit()
    return lab.catalog.load_table("shop.orders"), before, path, taken, seen


def is_replaced(lab, _table, _before, _path):
    lab.catalog.drop_table("shop.orders")
    new = lab.catalog.create_table("shop.orders", SCHEMA, partition_spec=HOURS)
    for hour in range(8):
        lab.append(new, hour)


def is_put_back(lab, _table, before, _path):
    lab.catalog.drop_table("shop.orders")
    lab.catalog.register_table("shop.orders", before)


def has_gc_disabled(_lab, table, _before, _path):
    table.transaction().set_properties({"gc.enabled": "false"}).commit_transaction()


def takes_the_file(_lab, table, _before, path):
    table.add_files([path])


@pytest.mark.parametrize("happens", [is_replaced, is_put_back, has_gc_disabled, takes_the_file])
def test_what_comes_while_evidence_is_gathered_keeps_the_files(lab, happens):
    gathered_from, before, path, taken, seen = expired_second(lab)
    happens(lab, lab.catalog.load_table("shop.orders"), before, path)

    found = sweep_of(gathered_from, path, taken, seen)

    assert (found.gone, [*found.postponed]) == ((), [path])
    assert Path(normalised(path)).exists()
