"""What goes wrong at the worst moment: each test is a sequence that once lost something, or stopped somebody else."""

import shutil
from dataclasses import replace
from pathlib import Path

from isotherm.contract.events import Intent, decode, encode
from isotherm.contract.identity import TableId, partition_key
from isotherm.contract.paths import normalised
from isotherm.core import observations as seen
from isotherm.core.model.decisions import Verdict
from isotherm.core.model.holds import Hold, HoldKind
from isotherm.core.model.tables import PartitionField
from isotherm.core.partitions import time_span, with_epochs
from isotherm.runtime.clock import now_ms
from isotherm.service.policies.policy_folder import PolicyFolder
from isotherm.service.ports import TableMissing, Unavailable
from support.in_process import InProcess
from support.lab import (
    EXPIRING,
    Lab,
    believed,
    counted,
    event_of,
    of,
    settle,
    started,
    uuid_of,
    wait_for_children,
    with_a_job,
)


def turn(service, times=3):
    for _ in range(times):
        service.step(0)


def test_what_a_last_look_drains_is_kept_though_the_table_moved_away_meanwhile(lab):
    other = lab.create("shop.other")
    lab.append(other, 1)
    _, service = with_a_job(lab)
    intent = Intent(
        table_uuid=uuid_of(other), table="shop.other", intent_id="i", writer="w", state="open", at_ms=now_ms(),
        expires_at_ms=now_ms() + 600_000,
    )  # fmt: skip
    drain = service.events.drain

    def rebalanced(timeout_s):
        lab.topic.messages.append(encode(intent)[1])
        service.events.term += 1
        return drain(timeout_s)

    service.events.drain = rebalanced
    service.compactions.finish()

    assert [one.reason for one in service.ledger.operations()] == ["owner"]
    assert [one.intent_id for one in service.fold.intents(uuid_of(other))] == ["i"]
    service.stop()


def test_a_compaction_is_not_committed_after_the_policy_said_no(lab):
    _, service = with_a_job(lab)
    (lab.root / "policies" / "all.yaml").write_text(
        lab.policy.replace("min_files: 3", "min_files: 3, enabled: false")
    )
    for _ in range(2):  # a change is taken once it looks the same twice
        service.reload_policies()
    service.compactions.finish()

    assert [one.reason for one in service.ledger.operations()] == ["policy"]
    service.stop()


def test_a_compaction_that_a_broken_file_stops_says_which(lab):
    _, service = with_a_job(lab)
    (lab.root / "policies" / "new.yaml").write_text("tables: shop.orders\nfoo: 1\n")
    for _ in range(2):
        service.reload_policies()
    service.compactions.finish()

    (ended,) = of(lab, seen.JobEnded)
    assert ended.reason == "policy"
    assert "any more: new.yaml names the table and is broken, so it is left alone: new.yaml:" in ended.why
    service.stop()


def test_files_of_a_halted_table_stay_until_it_is_resumed(tmp_path):
    lab = Lab(
        tmp_path,
        policy=EXPIRING.replace("delete_after: 0s", "delete_after: 1h").replace(", expire.delete_after", ""),
    )
    table = lab.create()
    for hour in (1, 1, 1, 1, 1, 9, 9):
        lab.append(table, hour)
    service = started(lab)
    for _ in range(20):
        service.step(0)
        wait_for_children(service)
        if service.ledger.deletions(uuid_of(table)).get("waiting"):
            break
    waiting = service.ledger.deletions(uuid_of(table))["waiting"]
    service.holds.put(Hold(HoldKind.HALT, uuid_of(table), "shop.orders", "mismatch: rows", now_ms()))
    lab.ahead_ms = 2 * 3_600_000
    turn(service)
    assert service.ledger.deletions(uuid_of(table)) == {"waiting": waiting}

    service.holds.lift(uuid_of(table), HoldKind.HALT, None)
    for _ in range(4):
        service.step(0)
        wait_for_children(service)
    assert "waiting" not in service.ledger.deletions(uuid_of(table))
    service.stop()


def test_a_lost_ledger_is_noticed_though_a_table_could_not_be_read_at_first(tmp_path):
    lab = Lab(tmp_path, policy=EXPIRING)
    lab.append(lab.create("shop.aaa"), 1)
    last = lab.create("shop.zzz")
    for hour in (1, 1, 1, 1, 9, 9, 9):
        lab.append(last, hour)
    service = started(lab)
    settle(service)
    service.stop()
    shutil.rmtree(lab.root / "state")
    lab.held.clear()
    lab.topic.messages.clear()
    lab.executor = InProcess()
    service = started(lab)
    load, hiccups = service.catalog.load, ["once"]

    def unsteady(name):
        if name == "shop.zzz" and hiccups:
            raise Unavailable(hiccups.pop())
        return load(name)

    service.catalog.load = unsteady
    turn(service, 3)
    lab.ahead_ms += 20_000
    turn(service, 6)

    assert service.ledger.deletions_held() is not None
    service.stop()


def test_one_table_that_cannot_be_read_hides_no_other(lab):
    broken, sound = lab.create("shop.aaa"), lab.create("shop.bbb")
    lab.append(sound, 1, announce=False)
    path = Path(normalised(broken.refresh().metadata_location))
    path.rename(path.with_suffix(".gone"))
    service = started(lab)
    turn(service)

    assert list(service.fold.names().values()) == ["shop.bbb"]
    service.stop()


def test_a_table_that_was_away_for_a_moment_is_still_its_writers_to_write(lab):
    table = lab.create()
    lab.append(table, 1)
    service = started(lab)
    turn(service)
    intent = Intent(
        table_uuid=uuid_of(table), table="shop.orders", intent_id="i", writer="w", state="open", at_ms=now_ms(),
        expires_at_ms=now_ms() + 600_000,
    )  # fmt: skip
    lab.topic.messages.append(encode(intent)[1])
    turn(service, 1)
    load, absences = service.catalog.load, ["once"]

    def away(name):
        if absences:
            raise TableMissing(absences.pop())
        return load(name)

    service.catalog.load = away
    service.follower.suspects.add("shop.orders")
    turn(service, 4)

    assert [one.intent_id for one in service.fold.intents(uuid_of(table))] == ["i"]
    assert {one.verdict for one in service.fold.partitions(uuid_of(table))} == {Verdict.HOT}
    service.stop()


def test_a_snapshot_that_nobody_announced_is_announced_though_the_table_was_built_again_meanwhile(lab):
    table = lab.create()
    lab.append(table, 1)
    service = started(lab)
    turn(service)
    missed = lab.append(table, 2, announce=False)
    turn(service)
    service.follower.rebuild_later(TableId(uuid_of(table), "shop.orders"))
    turn(service)
    assert service.ledger.unannounced(uuid_of(table), now_ms()) == [missed.snapshot_id]

    # The journal is new since the scan: what it does not have comes from the table.
    service.announcer.announce(uuid_of(table), [missed.snapshot_id])
    told = decode(lab.topic.messages[-1])

    assert (told.snapshot_id, told.parent_id, told.announced_by) == (
        missed.snapshot_id,
        missed.parent_id,
        "isotherm",
    )
    assert service.ledger.unannounced(uuid_of(table), now_ms()) == []
    service.stop()


def test_a_forged_event_with_a_number_that_fits_nowhere_is_survived(lab):
    table = lab.create()
    lab.append(table, 1)
    service = started(lab)
    turn(service)
    head = table.refresh().current_snapshot()
    forged = event_of(table).model_copy(
        update={
            "snapshot_id": 77,
            "parent_id": head.snapshot_id,
            "sequence_number": 99,
            "added_manifests": (),
            "summary": {"total-records": "9" * 5000, "ingest.valid-through": "--5"},
        }
    )
    lab.announce(forged)
    turn(service)

    assert service.fold.table(uuid_of(table)).state.head == head.snapshot_id
    assert believed(service, uuid_of(table)) == counted(lab.scan())
    service.stop()


def test_a_number_in_another_unit_than_the_policy_says_is_no_time():
    fields = with_epochs((PartitionField(1000, "ts", "identity", "long"),), {"ts": "s"})

    assert time_span(partition_key({1000: 1_700_000_000_000_000_000}), fields) is None
    assert time_span(partition_key({1000: 1_700_000_000}), fields).start_ms == 1_700_000_000_000


def test_a_partition_is_decided_again_when_the_stream_says_for_the_first_time_how_far_it_is(lab):
    table = lab.create()
    for hour in (1, 1, 1, 1):
        lab.append(table, hour)
    service = started(lab)
    scan = service.catalog.scan
    # As where no write is left in the history.
    service.catalog.scan = lambda *asked: replace(scan(*asked), boundary_ms=None)
    turn(service)
    assert {one.verdict for one in service.fold.partitions(uuid_of(table))} == {Verdict.HOT}

    for _ in range(4):
        lab.append(table, 30)
        service.consume(service.events.poll(0))
    verdicts = {one.key: one.verdict for one in service.fold.partitions(uuid_of(table))}

    assert sorted(verdicts.values()) == [Verdict.DUE, Verdict.HOT]
    service.stop()


def test_the_tables_of_a_file_that_never_was_good_are_left_alone_and_not_ruled_by_a_general_one(lab):
    folder = lab.config.policies
    (folder / "orders.yaml").write_text("tables: shop.orders\nexpire: {enabled: false}\ncompakt: {}\n")
    fresh = PolicyFolder(folder)
    fresh.reload()

    assert fresh.resolve("shop.orders", {}) is None
    assert fresh.resolve("shop.items", {}) is not None
    assert any("compakt" in complaint for complaint in fresh.complaints)

    # Also where the general one was in force before.
    known = PolicyFolder(folder)
    known.recall({"all.yaml": lab.policy})
    known.reload(at_once=True)
    assert known.resolve("shop.orders", {}) is None
    assert known.resolve("shop.items", {}).policy.compact.min_files == 3

    (folder / "orders.yaml").write_text("tables: shop.orders\nexpire: {enabled: false}\n")
    for _ in range(2):  # a change is taken once it looks the same twice
        fresh.reload()
    assert fresh.resolve("shop.orders", {}).policy.expire.enabled is False
