"""A reload of the policies is a record, and only what it touched is decided again."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from isotherm.core import observations as seen
from isotherm.store import Ledger
from support.lab import EAGER, EXPIRING, Lab, of, settle, uuid_of

LAZY = EAGER.replace("min_files: 3", "min_files: 30")
EVENTS, ORDERS = "shop.events", "shop.orders"


@pytest.fixture
def two_tables(tmp_path):
    """A daemon that has settled with two tables of three partitions each, under one policy for all."""
    lab = Lab(tmp_path, policy=LAZY)
    for name in (EVENTS, ORDERS):
        lab.append(lab.create(name), 1, 2, 3)
    service = lab.settled()
    lab.seen.clear()
    yield lab, service
    service.stop()
    lab.executor.stop()


def write(lab, text, name="all.yaml"):
    (lab.root / "policies" / name).write_text(text)


def rounds(service, count=2):
    for _ in range(count):
        service.round()


def loaded(lab):
    return [one for one in lab.seen if isinstance(one, seen.PoliciesLoaded)]


def touched(service):
    """The tables of which something is to be decided again."""
    return {
        name
        for uuid, name in service.fold.names().items()
        if service.fold.db.execute(
            "SELECT EXISTS (SELECT 1 FROM partitions WHERE uuid = ?1 AND touched) "
            "OR (SELECT anew_after IS NOT NULL FROM tables WHERE uuid = ?1)",
            (uuid,),
        ).fetchone()[0]
    }


def test_the_record_says_what_changed_for_whom_and_what_was_dropped(two_tables):
    lab, service = two_tables
    write(lab, LAZY.replace("min_files: 30", "min_files: 40") + "manifests: {min_count: 7}\n")
    rounds(service)

    assert loaded(lab) == [
        seen.PoliciesLoaded(
            ok=True,
            files=1,
            complaints="",
            changes="all.yaml: compact.min_files 30 → 40; all.yaml: manifests.min_count unset → 7",
            tables="shop.events; shop.orders",
            decisions_dropped=6,
        )
    ]
    at_ms, kept = service.ledger.reloads()[0]
    assert (kept, at_ms > 0) == (loaded(lab)[0], True)


def test_only_tables_with_another_policy_are_decided_again(two_tables):
    lab, service = two_tables
    write(lab, "tables: shop.events\ncold: {after: 5}\n", "events.yaml")
    service.reload_policies()
    service.reload_policies()

    assert touched(service) == {EVENTS}
    (record,) = loaded(lab)
    assert record.changes == "events.yaml: new, for shop.events"
    assert (record.tables, record.decisions_dropped) == (EVENTS, 3)
    assert service.policies.resolve(ORDERS, {}).policy.cold.after == 1


def test_a_new_file_that_is_broken_drops_the_decisions_on_the_tables_that_it_leaves_alone(two_tables):
    lab, service = two_tables
    write(lab, "tables: shop.events\nexpire: {enabeld: false}\n", "events.yaml")
    service.reload_policies()
    service.reload_policies()

    assert touched(service) == {EVENTS}
    (record,) = loaded(lab)
    assert (record.ok, record.tables, record.decisions_dropped) == (False, EVENTS, 3)
    assert service.policies.resolve(EVENTS, {}) is None


def test_nothing_begins_after_a_restart_before_the_folder_has_settled(tmp_path):
    """A folder that is being filled has the general file, and not yet the one that keeps a table from it."""
    lab = Lab(tmp_path, policy=EXPIRING)
    table = lab.create()
    write(lab, "tables: shop.orders\nexpire: {enabled: false}\ncompact: {enabled: false}\n", "orders.yaml")
    service = lab.service()
    service.start()
    for hour in (1, 1, 1, 1, 9, 9, 9, 9):
        lab.append(table, hour)
    settle(service)
    service.stop()
    texts = {path: path.read_text() for path in (lab.root / "policies").iterdir()}
    (lab.root / "policies" / "orders.yaml").unlink()
    again = lab.service()
    again.start()
    again.round()
    for path, text in texts.items():
        path.write_text(text)
    settle(again)

    assert len(table.refresh().snapshots()) == 8
    assert not of(lab, seen.JobStarted)
    again.stop()


def test_a_policy_that_was_changed_while_the_daemon_was_down_is_waited_for(tmp_path):
    """What was in force before it ended is not what anybody wants by now."""
    lab = Lab(tmp_path, policy=EXPIRING)
    table = lab.create()
    lab.append(table, 1)
    service = lab.settled()
    service.stop()
    write(lab, EXPIRING + "work: {windows: []}\n")
    write(lab, "tables: shop.orders\nexpire: {enabled: false}\ncompact: {enabled: false}\n", "orders.yaml")
    for hour in (1, 1, 1, 9, 9, 9, 9):
        lab.append(table, hour)
    again = lab.service()
    again.start()
    settle(again)

    assert len(table.refresh().snapshots()) == 8
    assert not of(lab, seen.JobStarted)
    again.stop()


def test_a_change_that_means_nothing_for_any_table_drops_nothing(two_tables):
    lab, service = two_tables
    write(lab, "# a comment\n" + LAZY + "tests: []\n")
    rounds(service)
    assert loaded(lab) == []

    write(lab, "tables: web.*\ncold: {after: 5}\n", "web.yaml")
    service.reload_policies()
    service.reload_policies()

    assert touched(service) == set()
    assert (loaded(lab)[0].tables, loaded(lab)[0].decisions_dropped) == ("", 0)


def test_a_file_that_is_removed_ends_the_maintenance_of_its_tables(two_tables):
    lab, service = two_tables
    (lab.root / "policies" / "all.yaml").unlink()
    rounds(service)

    (record,) = loaded(lab)
    assert (record.changes, record.files, record.ok) == ("all.yaml: gone, was for *", 0, True)
    assert service.policies.resolve(ORDERS, {}) is None
    assert service.health.missing(service.monotonic_s()) == ["no policy is loaded"]


def test_a_file_that_breaks_changes_no_decision_and_is_told_once(two_tables):
    lab, service = two_tables
    write(lab, "tables: '*'\ncold: {quiet_fro: 5m}")
    rounds(service, 4)

    (record,) = loaded(lab)
    assert (record.ok, record.files, record.changes, record.tables) == (False, 1, "", "")
    assert "did you mean `quiet_for`?" in record.complaints


def test_a_reload_that_fails_half_way_leaves_the_old_policy_in_force_and_is_done_again(two_tables):
    """Else the new policy was in force, and neither its record nor its decisions were ever made."""
    lab, service = two_tables
    with closing(sqlite3.connect(lab.config.state.path / "ledger.db", isolation_level=None)) as beside:
        beside.execute(
            "CREATE TRIGGER full BEFORE INSERT ON reloads BEGIN SELECT RAISE(ABORT, 'disk full'); END"
        )
        write(lab, LAZY.replace("min_files: 30", "min_files: 40"))
        assert service.reload_policies()
        for _ in range(2):
            with pytest.raises(Exception, match="disk full"):
                service.reload_policies()
            assert service.policies.resolve(ORDERS, {}).policy.compact.min_files == 30
        beside.execute("DROP TRIGGER full")
    service.reload_policies()

    assert service.policies.resolve(ORDERS, {}).policy.compact.min_files == 40
    assert touched(service) == {EVENTS, ORDERS}
    assert [one.changes for one in loaded(lab)] == ["all.yaml: compact.min_files 30 → 40"]
    assert "min_files: 40" in service.ledger.policies()["all.yaml"]


def test_a_restart_with_a_broken_file_holds_what_was_in_force(two_tables):
    """Else a table falls to a more general policy, which may keep less."""
    lab, service = two_tables
    write(lab, "tables: shop.orders\nexpire: {keep_for: 30d}", "orders.yaml")
    rounds(service)
    service.stop()
    write(lab, "tables: shop.orders\nexpire: {keep_for: 30}", "orders.yaml")
    again = lab.service()
    again.start()
    rounds(again)

    assert again.policies.resolve(ORDERS, {}).policy.expire.keep_for == 30 * 86_400_000
    assert not loaded(lab)[-1].ok
    again.stop()


def test_a_change_while_the_daemon_was_down_is_recorded_once_the_folder_has_settled(two_tables):
    lab, service = two_tables
    service.stop()
    write(lab, LAZY.replace("after: 1", "after: 3"))
    again = lab.service()
    again.start()
    assert again.health.missing(again.monotonic_s()).count("no policy is loaded") == 0
    rounds(again)

    record = loaded(lab)[-1]
    assert (record.changes, record.decisions_dropped) == ("all.yaml: cold.after 1 → 3", 6)
    again.stop()


def test_a_table_property_that_has_a_say_drops_the_decisions_and_no_other_does(two_tables):
    lab, service = two_tables
    table = lab.catalog.load_table(ORDERS)
    table.transaction().set_properties({"comment": "orders"}).commit_transaction()
    service.follower.confirm(ORDERS)
    assert touched(service) == set()

    table.transaction().set_properties({"write.target-file-size-bytes": "16777216"}).commit_transaction()
    service.follower.confirm(ORDERS)

    assert touched(service) == {ORDERS}


def test_partitions_that_mean_other_times_now_are_read_again(two_tables):
    lab, service = two_tables
    write(lab, LAZY.replace("after: 1", "after: 1, epochs: {at_hour: s}"))
    rounds(service)

    fields = {field.epoch for row in service.fold.tables().values() for field in row.facts.fields}
    assert fields == {"s"}


def test_long_lists_are_cut_in_the_record(two_tables):
    lab, service = two_tables
    for number in range(60):
        write(lab, f"tables: ns{number}.*", f"{number:02}.yaml")
    rounds(service)

    assert loaded(lab)[-1].changes.endswith("; … and 10 more")


def test_old_records_are_pruned(tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    record = seen.PoliciesLoaded(ok=True, files=1, complaints="")
    ledger.reloaded(record, {"a.yaml": "tables: a"}, 0)
    ledger.reloaded(record, {"a.yaml": "tables: b"}, 100 * 86_400_000)
    ledger.prune(100 * 86_400_000)

    assert [at_ms for at_ms, _ in ledger.reloads()] == [100 * 86_400_000]
    assert ledger.policies() == {"a.yaml": "tables: b"}
    ledger.close()


def test_a_daemon_starts_though_its_policies_cannot_be_read_and_begins_nothing(lab):
    table = lab.create()
    for hour in (1, 1, 1, 9, 9):
        lab.append(table, hour)
    service = lab.service()
    service.policies.path = Path("no\0path")
    service.start()
    for _ in range(3):
        service.step(0)

    failed = of(lab, seen.TableFailed)
    assert failed[0].name == "all tables (reading the policies)"
    # The rest of the words is Python's, and differs from version to version.
    assert failed[0].error.startswith("ValueError: ")
    assert of(lab, seen.RoundPlanned)[-1].started == 0

    service.policies.path = lab.config.policies
    lab.ahead_ms += 60_000
    settle(service)
    assert of(lab, seen.RoundPlanned)[-1].requests == 0
    assert len(service.ledger.operations(uuid_of(table))) == 1
    service.stop()


@pytest.mark.parametrize("is_good", [True, False], ids=["the file is there", "the file is broken"])
def test_a_policy_whose_row_is_no_text_any_more_is_one_that_nobody_can_read(tmp_path, is_good):
    """It ended the daemon at each start, whatever its file said."""
    lab = Lab(tmp_path, policy=LAZY)
    lab.append(lab.create(ORDERS), 1, 2, 3)
    service = lab.settled()
    service.stop()
    with closing(sqlite3.connect(lab.root / "state" / "ledger.db")) as db, db:
        assert db.execute("UPDATE policies SET text = CAST(x'F1' || CAST(text AS BLOB) AS TEXT)").rowcount
    if not is_good:
        write(lab, "tables: [")
    service = lab.settled()

    assert (service.policies.resolve(ORDERS, {}) is not None) == is_good
    assert set(service.ledger.policies()) == {"all.yaml"}
    service.stop()
    service = lab.settled()
    write(lab, LAZY)
    rounds(service, 3)
    assert service.policies.resolve(ORDERS, {}) is not None
    assert service.ledger.policies() == {"all.yaml": LAZY}
    service.stop()
    lab.executor.stop()
