"""Who owns a table says where it lies: that costs the others little, however often it changes, and nothing is written where the daemon was started."""

from pyiceberg.table.update import AssertTableUUID, SetLocationUpdate, SetPropertiesUpdate

from isotherm.contract.paths import normalised
from isotherm.core import observations as seen
from support.lab import EXPIRING, Lab, of, uuid_of


def seen_at(lab, service, table, location, **properties):
    """Its owner says where it lies, and the daemon looks a minute later."""
    changes = (SetLocationUpdate(location=location), SetPropertiesUpdate(updates=properties))
    lab.catalog.commit_table(table, (AssertTableUUID(uuid=table.metadata.table_uuid),), changes)
    lab.ahead_ms += 60_000
    service.step(0)


def test_a_table_that_lies_elsewhere_at_each_look_is_set_aside_and_costs_the_others_little(lab):
    """Each deletion of another table reads all places, and they are kept for as long as the ledger."""
    tables = [lab.create(f"shop.{name}") for name in ("aaa", "bbb")]
    for table in tables:
        lab.append(table, 1)
    service = lab.settled()
    home, uuid = tables[0].location(), uuid_of(tables[0])
    metadata, long = {"write.metadata.path": f"{home}/metadata"}, "y" * (8000 - len(home))
    for number in range(50):
        data = {f"write.{name}.path": f"{home}/{name}#{number}{long}" for name in ("data", "object-storage")}
        seen_at(lab, service, tables[0], f"{home}/x#{number}/{long}", **metadata, **data)

    failed = {one.name: one.error for one in of(lab, seen.TableFailed)}
    assert list(failed) == ["shop.aaa"]
    assert "were changed too often" in failed["shop.aaa"]
    places = [one.location for one in service.ledger.places() if one.uuid == uuid]
    assert places[0] == home
    assert sum(map(len, places)) < 1_000_000 + 5 * 8192
    others = service.deletions.neighbours(service.catalog.load("shop.bbb")).others
    assert f"{normalised(home)}/data#0{long}/" in others
    # Where it was is a place that is known for good.
    assert service.fold.table(uuid).facts.location != home
    back = {f"write.{name}.path": f"{home}/data" for name in ("data", "object-storage")}
    for _ in range(20):
        lab.ahead_ms += 3_600_000
        seen_at(lab, service, tables[0], home, **back)
    assert service.fold.table(uuid).facts.location == home
    service.stop()


def test_a_folder_that_a_table_names_is_none_of_those_in_which_a_daemon_was_started(tmp_path, monkeypatch):
    """Nothing is written there, neither by a compaction nor by an expiry."""
    lab = Lab(tmp_path, policy=EXPIRING)
    table = lab.create()
    for hour in (1, 1, 1, 2, 3, 4):
        lab.append(table, hour)
    started_in = tmp_path / "started in"
    started_in.mkdir()
    with table.transaction() as changed:
        changed.set_properties({"write.data.path": "here"})
    monkeypatch.chdir(started_in)

    lab.settled().stop()

    assert any("may name another place" in str(one) for one in lab.seen)
    assert list(started_in.iterdir()) == []
    assert len(table.refresh().metadata.snapshots) >= 6
