"""Nothing needed is deleted, whatever the daemon remembers and whatever it is told: whole daemons, real tables."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.core import observations as seen
from isotherm.core.deletion import Cause, Mark
from isotherm.core.model.holds import Hold, HoldKind
from isotherm.core.units import DAY_MS
from isotherm.service.jobs.graces import together_ms
from support.deleting import GRACE, every_snapshot_reads, rows, turn, with_waiting_files
from support.lab import Lab, of, settle, started, uuid_of, with_a_job


def test_a_mismatch_halts_the_table(lab):
    table, service = with_a_job(lab)
    real = service.maintainer.finished

    def lying():
        return [(job_id, replace(found, hash_written=found.hash_written + 1)) for job_id, found in real()]

    service.maintainer.finished = lying
    service.compactions.finish()

    assert "mismatch" in service.ledger.halted(uuid_of(table))
    assert [one.reason for one in of(lab, seen.TableHalted)] == ["mismatch"]
    assert not list((lab.root / "warehouse").rglob("isotherm-*.parquet"))
    service.stop()


def test_files_go_after_their_grace_and_not_before(tmp_path):
    lab = Lab(tmp_path, policy=GRACE)
    table, service = with_waiting_files(lab)
    waiting = service.ledger.deletions(uuid_of(table))["waiting"]
    lab.ahead_ms += 59 * 60_000
    turn(service)
    assert service.ledger.deletions(uuid_of(table))["waiting"] >= waiting

    # Those of about one grace go together.
    lab.ahead_ms += 62 * 60_000
    turn(service)

    assert service.ledger.deletions(uuid_of(table))["deleted"] >= waiting
    every_snapshot_reads(table)
    service.stop()


@pytest.mark.parametrize("ahead_ms", [8 * DAY_MS, -2 * DAY_MS])
def test_a_clock_that_jumps_neither_expires_nor_deletes(tmp_path, ahead_ms):
    lab = Lab(tmp_path, policy=GRACE)
    table, service = with_waiting_files(lab)
    before = service.ledger.deletions(uuid_of(table))
    for hour in (9, 9, 9):
        lab.append(table, hour)
    snapshots = len(table.refresh().snapshots())
    wall = service.now_ms
    for part in (service, service.clocks, service.deletions, service.expiries, service.verdicts):
        name = "_now_ms" if part is service.verdicts else "now_ms"
        setattr(part, name, lambda: wall() + ahead_ms)
    turn(service, 6)

    assert service.ledger.deletions(uuid_of(table)) == before
    assert len(table.refresh().snapshots()) == snapshots
    assert "jumped" in service.deletions.everywhere()
    assert of(lab, seen.RoundPlanned)[-1].deletions_held
    service.stop()


def test_a_list_that_does_not_show_the_table_itself_keeps_its_files(tmp_path):
    """It is not the whole: a replica that lags, or a right that is missing."""
    lab = Lab(tmp_path, policy=GRACE)
    lab.create("other.t")
    table, service = with_waiting_files(lab)
    names = service.catalog.names
    service.catalog.names = lambda *_: replace(names(), names=["other.t"])
    for shows_it in (False, True):
        if shows_it:
            service.catalog.names = names
        for _ in range(40):
            lab.ahead_ms += 300_000
            turn(service, 1)
        assert bool(service.ledger.deletions(uuid_of(table)).get("deleted")) is shows_it
    service.stop()


def test_a_clock_that_differs_from_the_stores_deletes_nothing(tmp_path):
    lab = Lab(tmp_path, policy=GRACE)
    table, service = with_waiting_files(lab)
    before = service.ledger.deletions(uuid_of(table))
    service.stop()
    service = lab.service()
    # A machine that has been wrong since it started: nothing jumps.
    lab.ahead_ms = 8 * DAY_MS
    service.maintainer.lab = Lab.__new__(Lab)
    service.maintainer.lab.ahead_ms = 0
    service.start()
    turn(service, 6)

    assert service.ledger.deletions(uuid_of(table)) == before
    assert "ahead of that of the store" in service.deletions.everywhere()
    assert not list((lab.root / "warehouse").rglob("isotherm-clock-*"))
    service.stop()


@pytest.mark.parametrize("what", ["moved", "paused", "policy", "unmatched"])
def test_between_expiry_and_deletion_a_table_is_still_asked_for(tmp_path, what):
    lab = Lab(tmp_path, policy=GRACE)
    table, service = with_waiting_files(lab)
    before = service.ledger.deletions(uuid_of(table))
    match what:
        case "moved":
            service.events.term = 0
        case "paused":
            service.holds.put(Hold(HoldKind.PAUSE, uuid_of(table), "shop.orders", "a test", service.now_ms()))
        case "policy":
            (lab.config.policies / "all.yaml").write_text(
                lab.policy.replace("expire: {", "expire: {enabled: false, ")
            )
        case "unmatched":
            (lab.config.policies / "all.yaml").write_text(lab.policy.replace('"*"', "shop.other"))
    turn(service, 2)
    lab.ahead_ms += 2 * 3_600_000
    turn(service)

    assert service.ledger.deletions(uuid_of(table)) == before
    match what:
        case "moved":
            service.events.term = 2
        case "paused":
            service.holds.lift(uuid_of(table), HoldKind.PAUSE)
        case _:
            (lab.config.policies / "all.yaml").write_text(lab.policy)
    turn(service, 6)
    assert not service.ledger.deletions(uuid_of(table)).get("waiting", 0) >= before["waiting"]
    every_snapshot_reads(table)
    service.stop()


def test_a_fenced_daemon_deletes_nothing(tmp_path):
    lab = Lab(tmp_path, policy=GRACE)
    table, service = with_waiting_files(lab)
    before = service.ledger.deletions(uuid_of(table))
    service.events.is_member = False
    lab.ahead_ms += 2 * 3_600_000
    turn(service)

    assert service.ledger.deletions(uuid_of(table)) == before
    service.stop()


def test_a_table_that_waits_holds_up_no_other(tmp_path):
    lab = Lab(tmp_path, policy=GRACE)
    tables = [lab.create(name) for name in ("shop.aaa", "shop.bbb", "shop.ccc")]
    for table in tables:
        for hour in (1, 1, 1, 1, 1, 9, 9):
            lab.append(table, hour)
    service = started(lab)
    for _ in range(60):
        turn(service, 1)
        if all(service.ledger.deletions(uuid_of(table)).get("waiting") for table in tables):
            break
    first, second, third = tables
    service.holds.put(Hold(HoldKind.HALT, uuid_of(first), "shop.aaa", "a test", service.now_ms()))
    lab.catalog.drop_table("shop.bbb")
    lab.ahead_ms += 2 * 3_600_000
    turn(service, 8)

    assert service.ledger.deletions(uuid_of(third))["deleted"] > 0
    assert "deleted" not in service.ledger.deletions(uuid_of(first))
    assert "deleted" not in service.ledger.deletions(uuid_of(second))
    service.stop()


def test_a_table_within_another_tables_folder_keeps_its_files(tmp_path):
    """Whoever owns the outer table may take the inner one's files into a snapshot of his own."""
    lab = Lab(tmp_path, policy=GRACE)
    inner = lab.create("shop.orders_inner")
    lab.append(inner, 1)
    outer = lab.catalog.create_table(
        "shop.outer",
        inner.schema(),
        location=f"file://{lab.root}/warehouse/shop",
        partition_spec=inner.spec(),
    )
    (task,) = inner.scan().plan_files()
    outer.add_files([task.file.file_path])
    outer.overwrite(inner.scan().to_arrow())
    for hour in (9, 9, 9, 9):
        lab.append(outer, hour)
    service = started(lab)
    for _ in range(40):
        turn(service, 1)
        if service.ledger.deletions(uuid_of(outer)).get("waiting"):
            break
    lab.ahead_ms += 2 * 3_600_000
    turn(service, 8)

    assert len(rows(inner)) == 2
    assert any(one.kept and "elsewhere" in one.why for one in of(lab, seen.FilesDeleted))
    service.stop()


@pytest.mark.parametrize("gap_s", [1, 400])
def test_a_table_made_in_the_place_of_one_that_is_gone_is_swept_as_any(tmp_path, gap_s):
    lab = Lab(tmp_path, policy=GRACE)
    old = lab.create()
    lab.append(old, 1)
    service = started(lab)
    settle(service)
    lab.catalog.drop_table("shop.orders")
    for _ in range(4):
        turn(service, 2)
        lab.ahead_ms += gap_s * 1000
    table = lab.create()
    assert table.location() == old.location()
    for hour in (1, 1, 1, 1, 1, 9, 9):
        lab.append(table, hour)
    for _ in range(40):
        turn(service, 1)
        if service.ledger.deletions(uuid_of(table)).get("waiting"):
            break
    # The old table is looked for in the whole catalog, twice.
    for _ in range(8):
        lab.ahead_ms += 2 * 3_600_000
        turn(service, 8)

    assert set(service.ledger.deletions(uuid_of(table))) == {"deleted"}
    every_snapshot_reads(table)
    service.stop()


def test_tables_that_come_slowly_and_are_others_by_now_keep_the_loop_for_one_of_them(tmp_path):
    lab = Lab(tmp_path, policy=GRACE)
    tables = [lab.create(f"shop.t{number:02}") for number in range(12)]
    service = started(lab)
    settle(service)
    for table in tables:
        mark = Mark(f"{table.location()}/data/left.parquet", "a job", Cause.LEFTOVER, None)
        service.ledger.mark(uuid_of(table), "a job", [mark], lab.now_ms(), due_at_ms=lab.now_ms())
        name = ".".join(table.name())
        lab.catalog.drop_table(name)
        lab.create(name)
    real, loads = service.catalog.load, []

    def slow(name):
        lab.ahead_ms += 8000
        loads.append(name)
        return real(name)

    service.catalog.load = slow
    most = []
    for _ in range(40):
        lab.ahead_ms += 1000
        del loads[:]
        service.step(0)
        most.append(len(loads))
    assert max(most) <= 4
    service.stop()


@given(uuid=st.uuids(), now_ms=st.integers(0, 10**13), grace_ms=st.integers(0, 10**10))
def test_files_wait_for_one_to_two_graces_and_have_one_end_in_each(uuid, now_ms, grace_ms):
    due_ms = together_ms(str(uuid), now_ms, grace_ms)

    assert now_ms + grace_ms <= due_ms < now_ms + 2 * max(grace_ms, 1)
    if grace_ms:
        assert due_ms == together_ms(str(uuid), due_ms - grace_ms, grace_ms)
        assert due_ms + grace_ms == together_ms(str(uuid), due_ms - grace_ms + 1, grace_ms)


def test_the_files_of_many_tables_come_due_at_all_times_of_the_grace():
    hours = Counter(
        together_ms(f"{number:08x}-0000-4000-8000-000000000000", 0, DAY_MS) // 3_600_000
        for number in range(2400)
    )

    assert set(hours) == set(range(24, 48))
    assert max(hours.values()) < 150, "a hundred in each, more or less"
