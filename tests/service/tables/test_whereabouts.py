"""A table's files are its own, wherever it is by now: one that is not found is not gone."""

import pytest
from prometheus_client import generate_latest
from pyiceberg.table.update import AssertTableUUID, SetLocationUpdate

from isotherm.core import observations as seen
from isotherm.core.model.holds import HoldKind
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.service.ports import Refused
from isotherm.telemetry.metrics import Metrics
from support.in_process import InProcess
from support.lab import EXPIRING, HOURS, SCHEMA, Lab, of, started, uuid_of, wait_for_children

POLICY = EXPIRING.replace("compact: {min_files: 3}", "compact: {enabled: false}") + "\norphans: {mode: off}\n"
SHOP = POLICY.replace('tables: "*"', 'tables: "shop.*"')
HOUR_MS = 3_600_000


def turn(service, times=3):
    for _ in range(times):
        service.step(0)
        wait_for_children(service)


def turn_for_hours(lab, service, hours=3):
    for _ in range(hours * 4):
        lab.ahead_ms += HOUR_MS // 4
        turn(service, 2)


def takes_over(lab, new, files):
    """A table takes files of another one, drops them, and goes on until its snapshots expire."""
    new.add_files(files)
    new.refresh().delete("id >= 0")
    for hour in (5, 6, 7):
        lab.append(new, hour)


def files_of(table):
    return [task.file.file_path for task in table.scan().plan_files()]


def series(metrics):
    return generate_latest(metrics.registry).decode()


def moved_to(lab, table, location):
    table.refresh()
    check = AssertTableUUID(uuid=table.metadata.table_uuid)
    lab.catalog.commit_table(table, (check,), (SetLocationUpdate(location=location),))


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path, policy=SHOP)


def test_a_table_that_was_renamed_to_where_no_policy_reaches_keeps_its_files(lab):
    old = lab.create()
    lab.append(old, 1)
    service = started(lab)
    turn(service)
    lab.catalog.create_namespace("archive")
    lab.catalog.rename_table("shop.orders", "archive.orders")
    new = lab.catalog.create_table("shop.orders", SCHEMA, partition_spec=HOURS, location=old.location())
    turn(service)
    takes_over(lab, new, files_of(old.refresh() if new.name() != old.name() else old))
    turn_for_hours(lab, service)

    assert service.ledger.deletions(uuid_of(new))["waiting"]
    assert len(lab.catalog.load_table("archive.orders").scan().to_arrow()) == 2
    service.stop()


def test_a_table_that_comes_back_has_all_its_places_again(lab):
    old = lab.create()
    lab.append(old, 1)
    home = old.location()
    service = started(lab)
    turn(service)
    moved_to(lab, old, home + "_moved")
    turn(service)
    last = old.refresh().metadata_location
    lab.catalog.drop_table("shop.orders")
    lab.create("shop.other")
    for _ in range(4):
        lab.ahead_ms += 200_000
        turn(service)
    lab.catalog.register_table("shop.old", last)
    turn(service)
    new = lab.catalog.create_table("shop.orders", SCHEMA, partition_spec=HOURS, location=home)
    turn(service)
    takes_over(lab, new, files_of(lab.catalog.load_table("shop.old")))
    turn_for_hours(lab, service)

    assert len(lab.catalog.load_table("shop.old").scan().to_arrow()) == 2
    service.stop()


def test_what_a_table_writes_elsewhere_is_its_own_as_well(lab):
    pool = f"file://{lab.root}/pool"
    old = lab.create("shop.old", **{"write.data.path": f"{pool}/data"})
    lab.append(old, 1)
    service = started(lab)
    turn(service)
    new = lab.catalog.create_table("shop.new", SCHEMA, partition_spec=HOURS, location=pool)
    takes_over(lab, new, files_of(old.refresh() if new.name() != old.name() else old))
    turn_for_hours(lab, service)

    assert len(old.refresh().scan().to_arrow()) == 2
    service.stop()


def made_again_unseen(lab, how):
    """A table was dropped and another one made in its place, while this daemon could not see it."""
    old = lab.create()
    lab.append(old, 1)
    gone = uuid_of(old)
    service = started(lab)
    if how == "another daemon's":
        service.events.elsewhere.add(gone)
    turn(service)
    service.maintainer.stop()
    service.fold.close()
    service.ledger.close()
    lab.catalog.drop_table("shop.orders")
    if how == "the fold was lost":
        for file in (lab.root / "state").glob("fold.db*"):
            file.unlink()
    new = lab.create()
    assert new.location() == old.location()
    for hour in (1, 1, 1, 1):
        lab.append(new, hour)
    lab.executor = InProcess()
    return gone, new, started(lab)


@pytest.mark.parametrize("how", ["the fold was lost", "another daemon's"])
def test_a_table_that_is_nowhere_in_the_catalog_keeps_nothing_back_in_the_end(lab, how):
    gone, new, service = made_again_unseen(lab, how)
    turn(service, 6)
    assert service.ledger.deletions(uuid_of(new)).get("waiting")
    assert not [one for one in service.ledger.places() if one.is_gone]
    turn_for_hours(lab, service)

    assert [one.uuid for one in service.ledger.places() if one.is_gone] == [gone]
    assert set(service.ledger.deletions(uuid_of(new))) == {"deleted"}
    service.stop()


@pytest.mark.parametrize("what", ["a namespace", "a name"])
def test_while_one_name_cannot_be_seen_nobody_is_gone(lab, what):
    lab.create("hidden.table")
    _, new, service = made_again_unseen(lab, "the fold was lost")
    turn(service, 6)
    lies, names = service.catalog.lies, service.catalog.names

    def hiding(*_):
        listing = names()
        listing.unlisted["hidden"] = "403"
        return listing

    def refusing(name):
        if name == "hidden.table":
            raise Refused("403")
        return lies(name)

    if what == "a name":
        service.catalog.lies = refusing
    else:
        service.catalog.names = hiding
    turn_for_hours(lab, service)

    assert not [one for one in service.ledger.places() if one.is_gone]
    assert service.ledger.deletions(uuid_of(new))["waiting"]
    assert [one for one in of(lab, seen.TrySoon) if "hold files back" in one.what]
    assert HoldKind.LEDGER not in [one.kind for one in service.ledger.holds()]
    # `plan` and `explain` have it from there.
    assert ("403" if what == "a name" else "hidden") in service.ledger.obstacles()["search"]
    service.catalog.lies, service.catalog.names = lies, names
    turn_for_hours(lab, service)

    assert service.ledger.obstacles() == {}
    service.stop()


@pytest.mark.parametrize("is_taken", [False, True], ids=["nobody has its old name", "another took it"])
def test_a_renamed_table_takes_its_series_and_its_pauses_along(lab, is_taken):
    """A halt that was shown under a name that nobody has would page until the next start."""
    metrics = Metrics(lab.now_ms, "test")
    table = lab.create()
    lab.append(table, 1)
    service = lab.service(listen=lambda what: (lab.seen.append(what), metrics(what)))
    service.start()
    turn(service)
    state = service.fold.table(uuid_of(table)).state
    service.holds.halt(state.table, Refusal(Reason.CORRUPT_FILE, "for a test"))
    turn(service)
    with service.barrier.around("shop.orders", "something"):
        raise ValueError("a mistake")
    assert 'isotherm_table_halted{table="shop.orders"} 1.0' in series(metrics)

    lab.catalog.rename_table("shop.orders", "shop.sold")
    if is_taken:
        lab.append(lab.create(), 1)
    turn_for_hours(lab, service)
    assert 'isotherm_table_halted{table="shop.sold"} 1.0' in series(metrics)
    assert 'isotherm_table_failing{table="shop.orders"}' not in series(metrics)
    old_series = 'isotherm_table_halted{table="shop.orders"} 0.0' if is_taken else 'table="shop.orders"'
    assert (old_series in series(metrics)) == is_taken
    assert [one.name for one in of(lab, seen.TableRecovered)] == ["shop.orders"]
    assert len(of(lab, seen.TableMoved)) == (0 if is_taken else 1)
    service.stop()
