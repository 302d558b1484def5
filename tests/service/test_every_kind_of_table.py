"""A policy for everything on a catalog that holds everything: each table gets what can be done for it, and is told of."""

import gzip
import json
import sqlite3
from pathlib import Path

import pytest

from isotherm.contract.paths import normalised
from isotherm.contract.summary import JOB_ID
from isotherm.core import observations as seen
from isotherm.core.planner.plan import plan
from isotherm.iceberg.manifests.reading import read_manifest_list
from support.lab import Lab, believed, counted, of, started, uuid_of, wait_for_children

POLICY = """
tables: "*"
cold: {after: 1, quiet_for: 0s, quiet_commits: 2}
compact: {min_files: 3}
expire: {keep_for: 0s, keep_last: 3, at_once: 2, every: 0s, delete_after: 0s}
override: [expire.keep_for, expire.keep_last, expire.delete_after]
"""
HOURS = (1, 1, 1, 2, 3, 4)


def metadata_of(table):
    return Path(normalised(table.refresh().metadata_location))


def list_of(table):
    return Path(normalised(table.refresh().current_snapshot().manifest_list))


def manifest_of(table):
    manifests = read_manifest_list(table.io, table.refresh().current_snapshot().manifest_list)
    return Path(normalised(manifests[0].manifest_path))


def later_format(table):
    path = metadata_of(table)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format-version": 4}))


def without_history(table):
    path = metadata_of(table)
    said = json.loads(path.read_text())
    path.write_text(json.dumps(said | {"current-snapshot-id": 77, "refs": {}}))


def cut(place):
    def damage(table):
        path = place(table)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    return damage


def emptied(place):
    return lambda table: place(table).write_bytes(b"")


def gone(place):
    return lambda table: place(table).unlink()


def overwritten(place):
    def damage(table):
        path = place(table)
        content = bytearray(path.read_bytes())
        content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
        path.write_bytes(content)

    return damage


def packed(place):
    return lambda table: place(table).write_bytes(gzip.compress(place(table).read_bytes()))


DAMAGE = {
    "later_format": later_format,
    "no_such_head": without_history,
    "metadata_cut": cut(metadata_of),
    "metadata_empty": emptied(metadata_of),
    "metadata_gone": gone(metadata_of),
    "metadata_packed": packed(metadata_of),
    "list_cut": cut(list_of),
    "list_empty": emptied(list_of),
    "list_gone": gone(list_of),
    "manifest_cut": cut(manifest_of),
    "manifest_empty": emptied(manifest_of),
    "manifest_gone": gone(manifest_of),
    "manifest_overwritten": overwritten(manifest_of),
}
SOUND = {
    "shop.format_1": {"format-version": "1"},
    "shop.format_2": {},
    "shop.deep.down.below": {},
    "shop.With Space": {},
}


def filled(lab, name, **properties):
    table = lab.create(name, **properties)
    for hour in HOURS:
        lab.append(table, hour)
    return table


@pytest.fixture
def lake(tmp_path):
    """A lab with a table of every kind, and what each was before it was damaged."""
    lab = Lab(tmp_path, policy=POLICY)
    lab.catalog.create_namespace("shop.deep")
    lab.catalog.create_namespace("shop.deep.down")
    lab.sound = {name: filled(lab, name, **properties) for name, properties in SOUND.items()}
    lab.sound["shop.format_3"] = of_format_3(filled(lab, "shop.format_3"))
    lab.damaged, lab.whole = {}, {}
    for name, damage in DAMAGE.items():
        table = filled(lab, f"bad.{name}")
        places = (metadata_of(table), list_of(table), manifest_of(table))
        lab.whole[f"bad.{name}"] = {path: path.read_bytes() for path in places}
        damage(table)
        lab.damaged[f"bad.{name}"] = table
    # A row whose table never was: an import that broke off.
    with sqlite3.connect(tmp_path / "catalog.db") as catalog:
        catalog.execute(
            "INSERT INTO iceberg_tables SELECT catalog_name, 'bad', 'nowhere', 'file:///nowhere/metadata.json', NULL, 'TABLE' "
            "FROM iceberg_tables LIMIT 1"
        )
    catalog.close()
    return lab


def of_format_3(table):
    path = metadata_of(table)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format-version": 3, "next-row-id": 0}))
    return table


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
    for name in ("shop.format_2", "shop.deep.down.below", "shop.With Space"):
        table = lake.sound[name].refresh()
        assert any(JOB_ID in s.summary.additional_properties for s in table.snapshots()), name
    for name, table in lake.sound.items():
        assert rows_of(table) == before[name]
        assert counted(lake.scan(name)) == believed(service, uuid_of(table))
        assert len(table.snapshots()) <= 4, f"{name} has its snapshots expired"
    assert "format version 1 is followed" in why_of(service, lake.sound["shop.format_1"])
    assert "format version 3 is followed" in why_of(service, lake.sound["shop.format_3"])
    assert service.ledger.deletions_held() is None, "a table that stays damaged is no sign of a lost ledger"
    assert of(lake, seen.TableHalted) == of(lake, seen.StateDrifted) == []
    service.stop()


def why_of(service, table):
    """What is said of each of its partitions."""
    row, now_ms = service.fold.table(uuid_of(table)), service.now_ms()
    everything = {one.key: one.state for one in service.fold.partitions(uuid_of(table))}
    view = service.verdicts.view(row, (), partitions=everything)
    return "\n".join(
        one.why for one in plan(view, service.verdicts.policy_of(row).policy, now_ms).of_partitions
    )


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
