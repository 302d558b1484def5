"""Who may create tables can register one twice: it is told, and neither entry is maintained or deleted from."""

import json
from pathlib import Path
from uuid import uuid4

import pytest

from isotherm.core import observations as seen
from isotherm.core.model.decisions import Verdict
from isotherm.core.model.holds import HoldKind
from isotherm.service.ports import Refused, StoreAway, TableMissing, Unavailable, Unreadable
from support.lab import EXPIRING, Lab, of, settle, started, uuid_of

NAMED = EXPIRING.replace('tables: "*"', "tables: shop.*")


def rows(table):
    return sorted(map(repr, table.refresh().scan().to_arrow().to_pylist()))


@pytest.fixture(params=[EXPIRING, NAMED], ids=["a policy matches both", "no policy matches the other"])
def twice(request, tmp_path):
    """A table with a second entry, whose history goes on by itself."""
    lab = Lab(tmp_path, policy=request.param)
    table = lab.create()
    for hour in (1, 1, 1, 2, 3, 4):
        lab.append(table, hour)
    lab.catalog.create_namespace_if_not_exists("other")
    yield lab, table, lambda: lab.catalog.register_table("other.clone", table.refresh().metadata_location)
    lab.executor.stop()


def days(lab, service, number=40):
    for _ in range(number):
        lab.ahead_ms += 21_600_000
        service.step(0)
        service.maintainer.wait(30)


def test_a_table_with_two_entries_is_halted_and_both_keep_their_rows(twice):
    lab, table, register = twice
    clone = register()
    expected = rows(clone)
    service = started(lab)
    days(lab, service)
    # All that the first entry drops, the second still reads.
    table.refresh().delete()
    for hour in (5, 6, 7, 8):
        lab.append(table, hour)
    days(lab, service)

    assert expected == rows(clone)
    (halted,) = of(lab, seen.TableHalted)
    assert (halted.table.name, halted.reason) in {
        ("shop.orders", "two_entries"),
        ("other.clone", "two_entries"),
    }
    assert "shop.orders" in halted.why
    assert "other.clone" in halted.why
    # What began before the other name was looked at has deleted nothing.
    assert [one for one in of(lab, seen.FilesDeleted) if one.files] == []
    assert {row.verdict for row in service.fold.partitions(uuid_of(table))} == {Verdict.HALTED}
    service.stop()


def copied(lab, table, name, **changes):
    """A table that is registered by a copy of another one's metadata.json, in a folder of its own."""
    folder = lab.root / "warehouse" / name.replace(".", "/") / "metadata"
    folder.mkdir(parents=True)
    said = json.loads(at(table.refresh().metadata_location).read_text())
    path = folder / "00000-copy.metadata.json"
    path.write_text(json.dumps(said | {"location": f"file://{folder.parent}"} | changes))
    return lab.catalog.register_table(name, f"file://{path}")


def at(location):
    return Path(location.removeprefix("file://"))


def test_of_two_tables_of_one_uuid_in_different_folders_none_is_changed_or_deleted_from(twice):
    """One was made of a copy of the other's metadata.json. It is no second entry, and reads the first one's files."""
    lab, table, _ = twice
    service = started(lab)
    settle(service)
    copy = copied(lab, table, "other.clone")
    expected, commits = rows(copy), copy.metadata_location
    lab.seen.clear()
    for hour in (5, 6, 7, 8, 9):
        lab.append(table, hour)
    days(lab, service)
    table.refresh().delete()
    lab.append(table, 5)
    days(lab, service)

    assert expected == rows(copy)
    assert commits == copy.refresh().metadata_location
    (halted,) = of(lab, seen.TableHalted)
    assert (halted.table.name, halted.reason) == ("shop.orders", "two_entries")
    assert "the catalog has two tables of this uuid, shop.orders and other.clone" in halted.why
    assert f"They lie in {table.location()} and in {copy.location()}" in halted.why
    assert "they share their files" not in halted.why
    assert [one for one in of(lab, seen.FilesDeleted) if one.files] == []
    service.stop()


def test_a_copy_that_got_a_uuid_of_its_own_is_another_table(tmp_path):
    lab = Lab(tmp_path, policy=EXPIRING)
    table = lab.create()
    lab.append(table, 1)
    lab.catalog.create_namespace_if_not_exists("other")
    service = started(lab)
    days(lab, service, number=4)
    copied(lab, table, "other.clone")
    days(lab, service, number=6)
    (halted,) = of(lab, seen.TableHalted)
    assert "`table-uuid` of its own. Then `isotherm resume`" in halted.why
    lab.catalog.drop_table("other.clone")
    own = str(uuid4())
    copied(lab, table, "other.own", **{"table-uuid": own})
    service.holds.lift(uuid_of(table), HoldKind.HALT)
    days(lab, service, number=8)

    assert len(of(lab, seen.TableHalted)) == 1
    assert service.fold.names() == {uuid_of(table): "shop.orders", own: "other.own"}
    service.stop()


def test_an_entry_that_comes_later_keeps_what_was_already_marked(twice):
    lab, table, register = twice
    (lab.root / "policies" / "all.yaml").write_text(
        lab.policy.replace("delete_after: 0s", "delete_after: 30d")
    )
    service = started(lab)
    settle(service)
    clone = register()
    for hour in (5, 6, 7, 8, 9):
        lab.append(table, hour)
    settle(service)
    expected = rows(clone)
    days(lab, service, number=160)

    assert expected == rows(clone)
    assert of(lab, seen.TableHalted)
    assert of(lab, seen.FilesDeleted) == []
    service.stop()


def test_it_is_maintained_again_when_one_entry_is_dropped_and_a_person_said_so(twice):
    lab, table, register = twice
    register()
    service = started(lab)
    days(lab, service, number=6)
    assert of(lab, seen.TableHalted)
    # Said too early, it is halted again.
    service.holds.lift(uuid_of(table), of(lab, seen.HoldChanged)[0].kind)
    days(lab, service, number=6)
    assert len(of(lab, seen.TableHalted)) == 2
    lab.catalog.drop_table("other.clone")
    service.holds.lift(uuid_of(table), of(lab, seen.HoldChanged)[0].kind)
    days(lab, service, number=8)

    assert len(of(lab, seen.TableHalted)) == 2
    assert service.ledger.operations()
    service.stop()


def test_a_table_that_is_halted_for_two_entries_is_asked_about_no_more(tmp_path):
    lab = Lab(tmp_path, policy=EXPIRING)
    table = lab.create()
    lab.append(table, 1)
    lab.catalog.create_namespace_if_not_exists("other")
    lab.catalog.register_table("other.clone", table.metadata_location)
    service = started(lab)
    days(lab, service, number=6)
    assert of(lab, seen.TableHalted)
    lab.seen.clear()
    days(lab, service, number=20)
    assert of(lab, seen.TrySoon) == []

    # Where the entry that we know is the one that is dropped, the table goes on under the other name.
    known = service.fold.names()[uuid_of(table)]
    lab.catalog.drop_table(known)
    days(lab, service, number=8)
    assert list(service.fold.names().values()) == [({"shop.orders", "other.clone"} - {known}).pop()]
    service.holds.lift(uuid_of(table), HoldKind.HALT)
    days(lab, service, number=8)
    assert of(lab, seen.TableHalted) == []
    service.stop()


def test_a_table_that_was_renamed_has_one_entry(lab):
    table = lab.create()
    lab.append(table, 1)
    service = started(lab)
    settle(service)
    lab.catalog.rename_table("shop.orders", "shop.sold")
    settle(service)

    assert service.fold.names() == {uuid_of(table): "shop.sold"}
    assert of(lab, seen.TableHalted) == []
    service.stop()


def test_another_spelling_of_a_name_is_no_other_entry(lab):
    """A catalog that does not tell capitals apart answers to both, and lists one."""
    table = lab.create()
    event = lab.append(table, 1)
    service = started(lab)
    settle(service)
    real = service.catalog.load
    service.catalog.load = lambda name: real(name.lower()) if name != "Shop.Orders" else _named(real, name)
    lab.announce(event.model_copy(update={"table": "Shop.Orders", "table_uuid": "unknown"}))
    names = []
    for _ in range(4):
        service.step(0)
        names.append(service.fold.names())

    assert names == [{uuid_of(table): "shop.orders"}] * 4
    assert of(lab, seen.TableHalted) == []
    service.stop()


def _named(load, name):
    loaded = load(name.lower())
    return type(loaded)(
        type(loaded.table)(loaded.table.uuid, name),
        loaded.facts, loaded.head, loaded.snapshots, loaded.parents, loaded.handle,
    )  # fmt: skip


def test_nothing_is_deleted_before_each_table_of_the_catalog_was_looked_at_once(tmp_path):
    lab = Lab(tmp_path, policy=NAMED)
    table = lab.create()
    for hour in (1, 1, 1, 2, 3, 4, 5, 6):
        lab.append(table, hour)
    for number in range(10):
        lab.create(f"other.t{number:02}")
    service = started(lab)
    real, faults = service.catalog.lies, {"other.t03": Unavailable("time-out")}

    def lies(name):
        if name in faults:
            raise faults[name]
        return real(name)

    service.catalog.lies = lies
    days(lab, service, number=3)
    assert of(lab, seen.SnapshotsExpired)
    assert service.ledger.tables_to_sweep(service.now_ms()) == [uuid_of(table)]
    assert of(lab, seen.FilesDeleted) == []
    # What refuses, or makes no sense, is nothing that we shall ever know.
    faults["other.t03"] = Unreadable("format version 7")
    faults["other.t07"] = TableMissing("dropped")
    faults["other.t09"] = RuntimeError("a mistake of ours")
    days(lab, service, number=6)

    assert of(lab, seen.FilesDeleted)
    service.stop()
    lab.executor.stop()


@pytest.mark.parametrize("what", ["nobody knew it before", "another table had its name"])
def test_an_entry_under_a_name_that_was_looked_at_long_ago_is_noticed(tmp_path, what):
    lab = Lab(tmp_path, policy=NAMED)
    lab.catalog.create_namespace("archive")
    lab.catalog.create_namespace("shop")
    ours, theirs = (
        ("archive.orders", "shop.orders")
        if what == "nobody knew it before"
        else ("shop.orders", "archive.orders")
    )
    first = lab.create(ours)
    for hour in (1, 2):
        lab.append(first, hour)
    if ours == "shop.orders":
        lab.append(lab.create(theirs), 1)
    service = started(lab)
    days(lab, service, number=3)
    assert of(lab, seen.TableHalted) == []
    if ours == "shop.orders":
        lab.catalog.drop_table(theirs)
    other = lab.catalog.register_table(theirs, first.refresh().metadata_location)
    stream = lab.catalog.load_table("shop.orders")
    expected = rows(lab.catalog.load_table("archive.orders"))
    # Before anybody looks at the other name again.
    stream.delete("id >= 0")
    for hour in (5, 6, 7):
        lab.append(stream, hour)
    days(lab, service)

    assert expected == rows(lab.catalog.load_table("archive.orders"))
    assert {one.reason for one in of(lab, seen.TableHalted)} == {"two_entries"}
    assert str(other.metadata.table_uuid) == uuid_of(first)
    service.stop()


@pytest.mark.parametrize(
    "fault", [StoreAway("Unable to load libjvm"), Refused("AWS Error ACCESS_DENIED")], ids=["store", "right"]
)
def test_a_table_of_others_that_cannot_be_read_does_not_stop_deletion_for_ever(tmp_path, fault):
    lab = Lab(tmp_path, policy=NAMED)
    table = lab.create()
    for hour in (1, 1, 1, 2, 3, 4, 5, 6):
        lab.append(table, hour)
    lab.create("other.x")
    service = started(lab)
    real = service.catalog.lies

    def lies(name):
        if name == "other.x":
            raise fault
        return real(name)

    service.catalog.lies = lies
    for _ in range(150):
        lab.ahead_ms += 1_800_000
        service.step(0)
        service.maintainer.wait(30)

    assert any(one.files for one in of(lab, seen.FilesDeleted))
    service.stop()


def test_whoever_claims_a_tables_folder_later_does_not_keep_its_files_from_being_deleted(tmp_path):
    lab = Lab(tmp_path, policy=NAMED)
    table = lab.create()
    for hour in (1, 1, 1, 2, 3, 4):
        lab.append(table, hour)
    service = started(lab)
    days(lab, service, number=1)
    lab.create("other.x", **{"write.data.path": table.location()})
    for hour in (5, 6, 7, 8):
        lab.append(table, hour)
    days(lab, service, number=10)

    assert any(one.files for one in of(lab, seen.FilesDeleted))
    assert not any("another table" in one.why for one in of(lab, seen.FilesDeleted))
    service.stop()
