"""Daemons that expire and delete, and tables on which they do."""

from isotherm.core.deletion import LEFTOVER_GRACE_MS
from isotherm.core.model.holds import HoldKind
from support.in_process import InProcess
from support.lab import EXPIRING, settle, started, uuid_of, wait_for_children

POLICY = EXPIRING.replace("compact: {min_files: 3}", "compact: {enabled: false}")
GRACE = EXPIRING.replace("delete_after: 0s", "delete_after: 1h").replace(", expire.delete_after", "")
ONLY_EXPIRY = GRACE.replace("compact: {min_files: 3}", "compact: {enabled: false}")


def rows(table):
    return sorted(row["id"] for row in table.refresh().scan().to_arrow().to_pylist())


def every_snapshot_reads(table):
    for snapshot in table.refresh().metadata.snapshots:
        table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()


def turn(service, times=4):
    for _ in range(times):
        service.step(0)
        wait_for_children(service)


def with_waiting_files(lab):
    """A table, and a daemon that has expired snapshots; their files wait for an hour."""
    table = lab.create()
    for hour in (1, 1, 1, 1, 1, 9, 9):
        lab.append(table, hour)
    service = started(lab)
    for _ in range(40):
        turn(service, 1)
        if service.ledger.deletions(uuid_of(table)).get("waiting"):
            return table, service
    raise AssertionError("nothing expired")


def closed(service):
    """As after SIGKILL: nothing is said or saved any more."""
    service.maintainer.stop()
    service.fold.close()
    service.ledger.close()


def reborn(lab):
    lab.executor = InProcess()
    return started(lab)


def again(lab, service):
    closed(service)
    return reborn(lab)


def settled_for_days(lab, service, days=3):
    """The daemon with all that it does in some days: a person has allowed it to delete, and every grace is over."""
    settle(service)
    service.holds.lift(service.ledger.id, HoldKind.LEDGER)
    for _ in range(days):
        lab.ahead_ms += LEFTOVER_GRACE_MS + 60_000
        turn(service, 2)
        settle(service)


def filled(lab, name="shop.orders"):
    table = lab.create(name)
    for hour in (1, 1, 1, 1, 1):
        lab.append(table, hour)
    return table


def until_files_wait(lab, service, *tables):
    for _ in range(60):
        lab.ahead_ms += 1000
        turn(service, 1)
        if all(service.ledger.deletions(uuid_of(table)).get("waiting") for table in tables):
            return
    raise AssertionError("nothing expired")


def followed(lab):
    """A table with one commit, and a daemon that knows it."""
    table = lab.create()
    lab.append(table, 1)
    service = started(lab)
    service.step(0)
    return table, service


def clock_wrong(_table, service):
    clocks = service.clocks
    clocks.seen = clocks.seen.compared("the store", 10**7, service.monotonic_s())
