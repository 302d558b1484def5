"""A policy for everything on a catalog that holds everything: each table gets what can be done for it, and is told of."""

import pytest

from isotherm.contract.summary import JOB_ID
from isotherm.core import observations as seen
from support.every_kind import every_kind
from support.lab import believed, counted, of, started, uuid_of, wait_for_children


@pytest.fixture
def lake(tmp_path):
    return every_kind(tmp_path)


def turn(service, lab, rounds):
    """Let some time pass, with all that runs beside the loop."""
    for _ in range(rounds):
        service.step(0)
        wait_for_children(service)
        lab.ahead_ms += 30_000


def rows_of(table):
    return sorted(row["id"] for row in table.refresh().scan().to_arrow().to_pylist())


def test_it_does_what_it_can_and_says_what_it_cannot(lake):
    before = {name: rows_of(table) for name, table in lake.sound.items()}
    service = started(lake)
    turn(service, lake, 40)
    last = {one.table.name: one for one in of(lake, seen.TablePlanned)}
    failed = {one.name: one for one in of(lake, seen.TableFailed)}

    assert last.keys() == lake.sound.keys()
    assert failed.keys() == {*lake.damaged, "bad.nowhere"}
    for name, one in failed.items():
        assert name in one.error, "it names the table"
        assert ".metadata.json" in one.error or ".avro" in one.error or "/metadata.json" in one.error, (
            one.error
        )
        assert "roll the table back" in one.remedy
        assert not one.traceback, f"{one.error}: damage is expected, and no mistake of ours"
    for name in (
        "shop.format_1",
        "shop.format_2",
        "shop.format_3",
        "shop.deep.down.below",
        "shop.With Space",
    ):
        table = lake.sound[name].refresh()
        assert any(JOB_ID in s.summary.additional_properties for s in table.snapshots()), name
    for name, table in lake.sound.items():
        assert rows_of(table) == before[name]
        assert counted(lake.scan(name)) == believed(service, uuid_of(table))
        assert len(table.snapshots()) <= 4, f"{name} has its snapshots expired"
    assert service.ledger.deletions_held() is None, "a table that stays damaged is no sign of a lost ledger"
    assert of(lake, seen.TableHalted) == of(lake, seen.StateDrifted) == []
    service.stop()


def test_what_is_mended_is_maintained_again(lake):
    service = started(lake)
    turn(service, lake, 5)
    for files in lake.whole.values():
        for path, content in files.items():
            path.write_bytes(content)
    lake.ahead_ms += 3_600_000
    turn(service, lake, 40)
    recovered = {one.name for one in of(lake, seen.TableRecovered)}

    assert recovered == set(lake.damaged)
    for name, table in lake.damaged.items():
        assert counted(lake.scan(name)) == believed(service, uuid_of(table))
        assert any(JOB_ID in s.summary.additional_properties for s in table.refresh().snapshots()), name
    service.stop()
