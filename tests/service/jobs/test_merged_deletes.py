"""The daemon merges or applies the deletes of a partition that was left behind: from the event to the commit."""

from isotherm.contract.identity import PartitionKey
from isotherm.core.model.files import FileKind
from isotherm.iceberg.manifests.live import live_files
from support.deleted_rows import delete_ids, delete_row
from support.lab import EAGER, Lab, settle, started

POLICY = EAGER.replace("min_files: 3", "min_files: 3, max_position_deletes: 3, max_delete_ratio: 9")


def live(table, key):
    table.refresh()
    found = live_files(table.metadata, table.io, table.metadata.current_snapshot(), key)
    return {
        kind: [entry.path for entry in found if entry.kind is kind]
        for kind in (FileKind.DATA, FileKind.POSITION_DELETES, FileKind.EQUALITY_DELETES)
    }


def test_while_data_rests_delete_files_become_one_and_no_row_comes_back(tmp_path):
    lab = Lab(tmp_path, policy=POLICY)
    table = lab.create()
    for hour in (1, 1, 1, 2, 4, 5):
        lab.append(table, hour)
    service = started(lab)
    settle(service)
    key = next(PartitionKey(one.key) for one in service.fold.partitions(str(table.metadata.table_uuid)))
    (data,) = live(table, key)[FileKind.DATA]
    before = table.refresh().scan().to_arrow().num_rows

    for position in (4, 0, 2):
        delete_row(lab, table, data, position, key)
    left = sorted(table.refresh().scan().to_arrow()["id"].to_pylist())
    deleted = live(table, key)[FileKind.POSITION_DELETES]
    for hour in (6, 7):
        lab.append(table, hour)
    settle(service)

    assert (len(left), len(deleted)) == (before - 3, 3)
    after = live(table, key)
    assert after[FileKind.DATA] == [data]
    assert len(after[FileKind.POSITION_DELETES]) == 1
    assert not set(after[FileKind.POSITION_DELETES]) & set(deleted)
    rows = sorted(table.scan().to_arrow()["id"].to_pylist())
    assert [one for one in rows if one < len(left) + 3] == left
    service.stop()


def test_equality_deletes_are_applied_and_a_plain_reader_can_read_the_table_again(tmp_path):
    lab = Lab(tmp_path, policy=POLICY.replace("min_files: 3", "min_files: 3, max_equality_deletes: 2"))
    table = lab.create()
    for hour in (1, 2, 4, 5):
        lab.append(table, hour, rows=6)
    service = started(lab)
    settle(service)
    key = next(PartitionKey(one.key) for one in service.fold.partitions(str(table.metadata.table_uuid)))
    rows = sorted(table.refresh().scan().to_arrow()["id"].to_pylist())

    delete_ids(lab, table, [0, 3, 7, 100], key)
    delete_ids(lab, table, [4, 3], key)
    assert len(live(table, key)[FileKind.EQUALITY_DELETES]) == 2
    for hour in (6, 7):
        lab.append(table, hour, rows=6)
    settle(service)

    after = live(table, key)
    assert [len(after[kind]) for kind in after] == [1, 0, 0]
    # 7 lies in another partition, of which these files say nothing.
    left = sorted(table.scan().to_arrow()["id"].to_pylist())
    assert left == [one for one in range(36) if one not in (0, 3, 4)]
    assert len(rows) == 24
    service.stop()
