"""What is known of a table equals a scan of it, which is found out where it does not."""

from dataclasses import replace
from types import SimpleNamespace

from pyiceberg.table import snapshots

from isotherm.contract.boundary import MAX_AHEAD_MS
from isotherm.contract.summary import INGEST_VALID_THROUGH
from isotherm.core import observations as seen
from isotherm.core.model.files import FileStats
from support.lab import believed, counted, of, settle, uuid_of


def test_the_state_equals_a_full_scan_after_every_step(lab):
    table = lab.create()
    service = lab.service()
    service.start()
    uuid = str(table.metadata.table_uuid)
    for hour in (1, 1, 2, 1, 3, 3, 4, 1, 5, 6):
        lab.append(table, hour, hour + 1)
        service.step(0)
        settle(service)

        assert counted(lab.scan()) == believed(service, uuid)
    service.stop()
    assert of(lab, seen.EventApplied)
    assert not of(lab, seen.StateDrifted)


def test_a_scan_of_a_table_with_a_commit_from_the_future_does_not_move_the_boundary_far(lab):
    table = lab.create()
    days_10_ms = 10 * 86_400_000
    lab.append(table, 1, snapshot_properties={INGEST_VALID_THROUGH: str(lab.now_ms() + days_10_ms)})
    lab.ahead_ms = -days_10_ms
    service = lab.service()
    service.start()
    service.follower.confirm("shop.orders")
    boundary_ms = service.fold.table(uuid_of(table)).state.boundary_ms

    assert boundary_ms <= service.now_ms() + MAX_AHEAD_MS
    service.stop()


def test_a_corrupt_fold_is_rebuilt(lab):
    table = lab.create()
    lab.append(table, 1)
    service = lab.settled()
    service.stop()
    service.fold.close()
    (lab.root / "state" / "fold.db").write_bytes(b"this is no database" * 1000)
    again = lab.settled()

    assert counted(lab.scan()) == believed(again, str(table.metadata.table_uuid))
    again.stop()


def test_a_scan_knows_the_last_compaction_of_a_partition_and_the_pauses_of_its_writers(lab, monkeypatch):
    """So a partition that rests goes on resting, and a job still fits the pauses, when the fold is lost."""
    monkeypatch.setattr(snapshots, "time", SimpleNamespace(time=lambda: lab.now_ms() / 1000))
    table = lab.create()
    service = lab.settled()
    for hour in (1, 1, 1, 2, 3, 4):
        lab.append(table, hour)
    settle(service)
    for minutes in (6, 10, 40):
        lab.ahead_ms += minutes * 60_000
        for _ in range(2):
            lab.append(table, 1)
        settle(service)
    before = {one.key: one for one in service.fold.partitions(uuid_of(table))}
    service.stop()
    service.fold.close()
    (lab.root / "state" / "fold.db").unlink()
    again = lab.settled()
    after = {one.key: one for one in again.fold.partitions(uuid_of(table))}
    (key,) = (key for key, one in before.items() if one.state.compacted_at_ms is not None)

    assert before.keys() == after.keys()
    assert [one.state.compacted_at_ms for one in before.values()] == [
        one.state.compacted_at_ms for one in after.values()
    ]
    assert len(before[key].state.pauses_ms) == 3
    assert [one.state.pauses_ms for one in before.values()] == [one.state.pauses_ms for one in after.values()]
    again.stop()


def test_the_self_audit_finds_a_partition_that_is_wrong_and_has_the_table_built_again(lab):
    """The totals are right, so that no comparison with a summary could find it."""
    table = lab.create()
    for hour in range(12):
        lab.append(table, hour, rows=1)
    service = lab.settled()
    uuid = str(table.metadata.table_uuid)
    one, other, *_ = (row for row in service.fold.partitions(uuid) if row.state.data_total.files == 1)
    swapped = {
        one.key: None,
        other.key: replace(other.state, data=other.state.data | {3: FileStats(1, 1, 3)}),
    }
    service.fold.save_partitions(uuid, swapped)
    lab.seen.clear()
    for _ in range(4):
        service.recount.sample(service.recount.next_table())
        if of(lab, seen.StateDrifted):
            break

    assert [drift.gap.startswith("counted again: ") for drift in of(lab, seen.StateDrifted)] == [True]
    settle(service)
    assert believed(service, uuid) == counted(lab.scan())
    assert of(lab, seen.TableScanned)


def test_the_self_audit_comes_to_every_partition_of_every_table_and_finds_nothing_where_all_is_right(lab):
    for name in ("shop.orders", "shop.items"):
        table = lab.create(name)
        for hour in range(7):
            lab.append(table, hour, rows=1)
    service = lab.settled()
    lab.seen.clear()
    for _ in range(4):
        service.recount.sample(service.recount.next_table())
    found = of(lab, seen.PartitionsRecounted)

    assert sorted((one.table.name, one.partitions) for one in found) == [
        ("shop.items", 2),
        ("shop.items", 5),
        ("shop.orders", 2),
        ("shop.orders", 5),
    ]
    assert all(one.wrong == 0 for one in found)
    assert not of(lab, seen.StateDrifted)
