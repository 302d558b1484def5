"""The daemon's whole path on real tables: events, state, compaction, expiry, deletion, announcement."""

from dataclasses import replace
from pathlib import Path

import pytest

from isotherm.contract.boundary import MAX_AHEAD_MS
from isotherm.contract.events import CommitEvent, Intent, decode, encode
from isotherm.contract.paths import normalised
from isotherm.contract.summary import INGEST_VALID_THROUGH, JOB_ID
from isotherm.core import observations as seen
from isotherm.core.deletion import LEFTOVER_GRACE_MS
from isotherm.core.model.decisions import Verdict
from isotherm.core.model.files import FileStats
from isotherm.core.model.jobs import OutcomeKind
from isotherm.service.ports import Message
from support.any_case import any_case
from support.lab import (
    EAGER,
    EXPIRING,
    Lab,
    believed,
    counted,
    event_of,
    of,
    settle,
    started,
    until_a_job_runs,
    uuid_of,
    wait_for_children,
)


def rows(table, snapshot_id=None):
    return sorted(map(repr, table.refresh().scan(snapshot_id=snapshot_id).to_arrow().to_pylist()))


def files_on_disk(root):
    return {str(path) for path in (root / "warehouse").rglob("*") if path.is_file() and path.suffix != ".crc"}


def test_what_the_stream_has_left_is_compacted_and_the_rest_is_untouched(lab):
    table = lab.create()
    for hour in (1, 1, 1, 1, 2, 2, 3, 3, 4, 4):
        lab.append(table, hour)
    before = {s.snapshot_id: rows(table, s.snapshot_id) for s in table.refresh().snapshots()}
    hot_before = {
        t.file.file_path for t in table.scan(row_filter="at >= '2026-01-01T03:00:00+00:00'").plan_files()
    }
    service = lab.settled()
    service.stop()

    ours = [s for s in table.refresh().snapshots() if JOB_ID in s.summary.additional_properties]
    assert [str(s.summary.operation.value) for s in ours] == ["replace"]
    assert before == {snapshot_id: rows(table, snapshot_id) for snapshot_id in before}
    assert rows(table) == before[ours[0].parent_snapshot_id]
    scan = table.scan(row_filter="at < '2026-01-01T02:00:00+00:00'")
    assert len(list(scan.plan_files())) == 1
    hot_after = {
        t.file.file_path for t in table.scan(row_filter="at >= '2026-01-01T03:00:00+00:00'").plan_files()
    }
    assert hot_before == hot_after


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


def test_an_event_alone_makes_the_verdict_without_asking_the_catalog(lab):
    table = lab.create()
    lab.append(table, 1)
    service = lab.settled()
    lab.append(table, 1, 2)
    uuid = str(table.metadata.table_uuid)
    service.consume(service.events.poll(0))

    assert [one.snapshot_id for one in of(lab, seen.EventApplied)] == [table.current_snapshot().snapshot_id]
    assert {one.verdict for one in service.fold.partitions(uuid)} <= {Verdict.HOT, Verdict.CLEAN}
    assert counted(lab.scan()) == believed(service, uuid)
    service.stop()


def test_our_own_commit_is_announced(lab):
    table = lab.create()
    for hour in (1, 1, 1, 2, 3, 4):
        lab.append(table, hour)
    service = lab.settled()
    service.stop()

    events = [decode(message) for message in lab.topic.messages]
    announced = {event.snapshot_id for event in events if isinstance(event, CommitEvent)}
    assert {s.snapshot_id for s in table.refresh().snapshots()} == announced
    assert [event.origin for event in events if event.announced_by == "isotherm"] == ["maintenance"]


def test_expired_snapshots_take_exactly_the_files_with_them_that_nothing_else_needs(tmp_path):
    lab = Lab(tmp_path, policy=EXPIRING)
    table = lab.create()
    for hour in (1, 1, 1, 2, 2, 2, 3, 3, 4, 5):
        lab.append(table, hour)
    expected = rows(table)
    service = lab.settled()
    service.stop()

    table.refresh()
    assert expected == rows(table)
    assert len(table.snapshots()) < 10
    reachable = set()
    for snapshot in table.snapshots():
        reachable.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            reachable.add(manifest.manifest_path)
            reachable |= {e.data_file.file_path for e in manifest.fetch_manifest_entry(table.io)}
        assert rows(table, snapshot.snapshot_id)
    on_disk = {f"file://{path}" for path in files_on_disk(tmp_path) if not path.endswith(".metadata.json")}
    assert reachable == on_disk


def test_a_tag_keeps_its_snapshot_and_files(tmp_path):
    lab = Lab(tmp_path, policy=EXPIRING)
    table = lab.create()
    for hour in (1, 1, 1, 2, 2, 2, 3):
        lab.append(table, hour)
    tagged = table.refresh().snapshots()[1].snapshot_id
    expected = rows(table, tagged)
    table.manage_snapshots().create_tag(tagged, "audit-2026").commit()
    service = lab.settled()
    service.stop()

    assert expected == rows(table, tagged)


def test_an_intent_on_a_running_jobs_partition_cancels_that_job(lab):
    table = lab.create()
    for hour in (1, 1, 1, 2, 3, 4):
        lab.append(table, hour)
    service = lab.service()
    service.start()
    until_a_job_runs(service)
    uuid = str(table.metadata.table_uuid)
    ((operation, job),) = service.ledger.unfinished()
    intent = Intent(
        table_uuid=uuid,
        table="shop.orders",
        intent_id="m1",
        writer="w",
        state="open",
        at_ms=0,
        expires_at_ms=2**50,
        partitions=(job.partition,),
    )
    lab.announce(intent)
    service.step(0)

    assert len(service.compactions) == 0
    ended = of(lab, seen.JobEnded)[-1]
    assert (ended.outcome, ended.reason) == (OutcomeKind.FAILED, "cancelled")
    assert not [path for path in files_on_disk(lab.root) if operation.job_id in path]
    settle(service)
    assert not [s for s in table.refresh().snapshots() if JOB_ID in s.summary.additional_properties]
    service.stop()


def test_a_commit_that_arrives_during_the_rewrite_wins(lab):
    """Nobody announces it: the last look before the swap finds it in the catalog."""
    table = lab.create()
    for hour in (1, 1, 1, 2, 3, 4):
        lab.append(table, hour)
    service = lab.service()
    service.start()
    until_a_job_runs(service)
    lab.append(table, 1, announce=False)
    expected = rows(table)
    service.events.topic.messages.clear()
    service.events.position = 0
    for _ in range(100):
        if not len(service.compactions):
            break
        wait_for_children(service)
        service.compactions.finish()

    ended = of(lab, seen.JobEnded)[-1]
    assert ended.outcome is OutcomeKind.FAILED
    assert ended.reason in {"conflict", "hot"}
    assert expected == rows(table)
    service.stop()


def test_a_daemon_that_died_in_the_middle_leaves_nothing_behind(lab):
    table = lab.create()
    for hour in (1, 1, 1, 2, 3, 4):
        lab.append(table, hour)
    expected = rows(table)
    service = lab.service()
    service.start()
    until_a_job_runs(service)
    ((operation, _),) = service.ledger.unfinished()
    lab.executor.cancel(operation.job_id)  # as a SIGKILL of the daemon takes its children with it
    leftover = Path(table.location().removeprefix("file://")) / "data" / "at_hour=2026-01-01-01"
    (leftover / f"isotherm-{operation.job_id}-00000.parquet").write_bytes(b"half a file")

    again = lab.settled()
    again.stop()

    states = {one.job_id: (one.state, one.reason) for one in again.ledger.operations()}
    assert states.pop(operation.job_id) == ("failed", "crashed")
    assert [state for state, _ in states.values()] == ["done"]
    # Whether a request had been sent only the dead daemon knew: it waits a day, and is looked at then.
    assert [path for path in files_on_disk(lab.root) if operation.job_id in path]
    lab.ahead_ms += LEFTOVER_GRACE_MS
    last = lab.settled()
    last.stop()
    assert [one.state for one in last.ledger.operations()] == ["done", "failed"]
    assert not [path for path in files_on_disk(lab.root) if operation.job_id in path]
    assert expected == rows(table)


def test_garbage_is_counted_and_stops_nothing(lab):
    table = lab.create()
    lab.topic.messages += [
        None,
        b"",
        b"\xff\xfe",
        b"[1,2]",
        b'{"specversion":"1.0","type":"io.isotherm.commit.v1","data":{}}',
    ]
    lab.append(table, 1)
    service = lab.settled()
    service.stop()

    assert len(of(lab, seen.EventRejected)) == 5
    assert counted(lab.scan()) == believed(lab.service(), str(table.metadata.table_uuid))


@pytest.mark.parametrize(
    "deliver", ["dropped", "doubled", "reversed", "forged-parent", "forged-manifests", "forged-operation"]
)
def test_what_happens_to_events_delays_and_never_misleads(lab, deliver, tmp_path):
    table = lab.create()
    lab.append(table, 1)
    service = lab.settled()
    events = [lab.append(table, hour, announce=False) for hour in (1, 2, 2, 3)]
    match deliver:
        case "dropped":
            events = []
        case "doubled":
            events = [event for event in events for _ in range(2)]
        case "reversed":
            events.reverse()
        case "forged-parent":
            events = [event.model_copy(update={"parent_id": 17}) for event in events]
        case "forged-manifests":
            events = [events[0].model_copy(update={"added_manifests": events[1].added_manifests})]
        case "forged-operation":
            events = [event.model_copy(update={"operation": "replace", "summary": {}}) for event in events]
    for event in events:
        lab.announce(event)
    settle(service)

    assert counted(lab.scan()) == believed(service, str(table.metadata.table_uuid))
    service.stop()


def test_an_event_of_a_snapshot_that_was_never_committed_is_undone(lab):
    table = lab.create()
    lab.append(table, 1)
    service = lab.settled()
    real = lab.append(table, 2, announce=False)
    head = table.snapshots()[0]
    forged = real.model_copy(
        update={
            "snapshot_id": 4711,
            "parent_id": head.snapshot_id,
            "sequence_number": 9,
            "added_manifests": (),
        }
    )
    lab.announce(forged)
    settle(service)

    assert counted(lab.scan()) == believed(service, str(table.metadata.table_uuid))
    service.stop()


def test_a_rollback_is_followed_back_and_forth(lab):
    table = lab.create()
    for hour in (1, 2, 3):
        lab.append(table, hour)
    service = lab.settled()
    ids = [s.snapshot_id for s in table.refresh().snapshots()]
    uuid = str(table.metadata.table_uuid)
    for target in (ids[0], ids[2], ids[1]):
        table.manage_snapshots().set_current_snapshot(target).commit()
        settle(service)

        assert counted(lab.scan()) == believed(service, uuid)
    service.stop()


def test_a_table_that_is_dropped_and_made_again_begins_from_nothing(lab):
    table = lab.create()
    lab.append(table, 1)
    service = lab.settled()
    lab.catalog.drop_table("shop.orders")
    settle(service)
    # A catalog that is restarted says the same for a moment.
    assert set(service.fold.tables()) == {str(table.metadata.table_uuid)}
    for _ in range(2):
        lab.ahead_ms += 301_000
        settle(service)
    assert service.fold.tables() == {}
    again = lab.create()
    lab.append(again, 5)
    settle(service)

    assert list(service.fold.tables()) == [str(again.metadata.table_uuid)]
    assert counted(lab.scan()) == believed(service, str(again.metadata.table_uuid))
    service.stop()


def test_an_event_that_is_replayed_does_not_make_a_retired_writer_speak_again(lab):
    table = lab.create()
    said = lab.append(table, 1, announce=False)
    service = lab.service()
    service.start()
    service.follower.confirm("shop.orders")
    uuid, now_ms = said.table_uuid, service.now_ms()
    key, value, _ = encode(said)
    first = Message("control", 0, 7, now_ms - 60_000, value, key)
    service.intake.take([first])
    lab.ahead_ms += 7_200_000
    lab.append(table, 1)
    service.intake.take([first])
    (word,) = service.fold.words(uuid)
    heard_at_ms = service.fold.table(uuid).last_event_at_ms

    assert word.at_ms == heard_at_ms == now_ms - 60_000
    service.step(0)
    (newer,) = service.fold.words(uuid)
    service.intake.take([first])

    assert newer.at_ms >= now_ms + 7_200_000
    assert service.fold.words(uuid) == (newer,), "what is replayed is older than what is known"
    assert service.fold.table(uuid).last_event_at_ms == newer.at_ms
    service.stop()


def test_snapshots_that_may_go_are_told_as_a_score_and_those_that_the_policy_keeps_are_not(tmp_path):
    lab = Lab(tmp_path, policy=EXPIRING)
    table = lab.create()
    for _ in range(6):
        lab.append(table, 1)
    service = lab.settled()
    scores = [one.expire_score for one in of(lab, seen.TablePlanned)]

    assert scores[0] == 2.0, "four of six may go, two make it due"
    assert scores[-1] < 1
    assert (
        of(lab, seen.TablePlanned)[-1].metadata_file_bytes
        == Path(normalised(table.refresh().metadata_location)).stat().st_size
    )
    service.stop()


def test_a_writer_that_never_announces_is_usual_and_one_that_stops_is_not(lab):
    table = lab.create()
    lab.append(table, 1, announce=False)
    service = lab.settled()

    lab.append(table, 1, announce=False)
    settle(service)
    lab.ahead_ms += 61_000
    settle(service)
    assert of(lab, seen.GapHealed)[-1].ok
    assert service.fold.table(uuid_of(table)).last_event_at_ms == 0, (
        "what we announce is no event of the writer's"
    )
    lab.append(table, 1)
    settle(service)
    lab.append(table, 1, announce=False)
    settle(service)
    lab.ahead_ms += 61_000
    settle(service)

    assert not of(lab, seen.GapHealed)[-1].ok
    service.stop()


def test_a_table_keeps_its_name_whatever_the_case_in_which_a_writer_spells_it(lab):
    table = lab.create()
    (lab.root / "policies" / "all.yaml").write_text(EAGER.replace('"*"', "shop.orders"))
    any_case(lab.root / "catalog.db")
    slow = lab.config.loop.model_copy(update={"poll_tables_every_s": 3600})
    lab.config = lab.config.model_copy(update={"loop": slow})
    first = lab.append(table, 1, announce=False)
    second = lab.append(table, 1, announce=False)
    service = started(lab)
    service.follower.suspects.add("SHOP.orders")
    for event in (first, second.model_copy(update={"ref": "audit"})):
        settle(service)
        assert list(service.fold.names().values()) == ["shop.orders"]
        lab.announce(event.model_copy(update={"table": "Shop.ORDERS"}))
    settle(service)

    assert list(service.fold.names().values()) == ["shop.orders"]
    assert {one.table.name for one in of(lab, seen.TablePlanned)} == {"shop.orders"}
    service.stop()


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


def test_a_scan_knows_the_last_compaction_of_a_partition_and_the_pauses_of_its_writers(lab):
    """So a partition that rests goes on resting, and a job still fits the pauses, when the fold is lost."""
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


def test_a_policy_that_breaks_leaves_the_last_good_one_in_force(lab):
    table = lab.create()
    lab.append(table, 1)
    service = lab.settled()
    (lab.root / "policies" / "all.yaml").write_text("tables: '*'\ncold: {quiet_fro: 5m}")
    settle(service)

    loaded = of(lab, seen.PoliciesLoaded)[-1]
    assert not loaded.ok
    assert "all.yaml:2:8: cold.quiet_fro: unknown key; did you mean `quiet_for`?" in loaded.complaints
    assert service.policies.resolve("shop.orders", {}).policy.cold.quiet_commits == 2
    service.stop()


def test_a_foreign_event_names_itself(lab):
    """The event that a lab sends is the one that the real contract carries."""
    table = lab.create()
    event = lab.append(table, 1)

    assert event == decode(lab.topic.messages[0]) == event_of(table)


def test_nothing_is_rewritten_while_the_topic_cannot_be_read_to_its_end(lab):
    table = lab.create()
    for hour in (1, 1, 1, 2, 3, 4):
        lab.append(table, hour)
    service = lab.service()
    service.events.is_reachable = False
    service.start()
    for _ in range(60):
        service.step(0)
        if len(service.compactions):
            wait_for_children(service)

    ended = [(one.outcome, one.reason) for one in of(lab, seen.JobEnded)]
    assert ended == [(OutcomeKind.FAILED, "topic")]
    service.events.is_reachable = True
    settle(service)
    assert of(lab, seen.JobEnded)[-1].outcome is OutcomeKind.DONE
    service.stop()


def test_a_true_event_is_enough_the_table_is_scanned_once(lab):
    """Ingest leaves the long offset vector out of the event's summary, and says itself who it is."""
    table = lab.create()
    lab.append(table, 1)
    service = lab.settled()
    token = {"ingest.source": '{"topics":{}}', "ingest.valid-through": "1767225600000"}
    for hour in (1, 2, 3):
        event = lab.append(table, hour, announce=False, snapshot_properties=token)
        summary = {name: value for name, value in event.summary.items() if name != "ingest.source"}
        lab.announce(event.model_copy(update={"summary": summary, "valid_through_ms": 1_767_225_600_000}))
        settle(service)

    assert event.origin == "ingest"
    assert len(of(lab, seen.EventApplied)) == 3
    assert [one.why for one in of(lab, seen.TableScanned)] == ["first seen"]
    service.stop()


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


def test_events_whose_parent_has_expired_by_the_time_they_are_confirmed_are_accounted_for(lab):
    """PyIceberg takes the parent out of a snapshot when that expires, so it is not what its event said any more."""
    table = lab.create()
    first = lab.append(table, 1).snapshot_id
    service = lab.settled()
    for hour in (1, 2):
        lab.append(table, hour)
    service.consume(service.events.poll(0))
    table.refresh().maintenance.expire_snapshots().by_id(first).commit()
    service.step(0)

    assert of(lab, seen.TableFailed) == []
    assert counted(lab.scan()) == believed(service, uuid_of(table))
    assert service.fold.table(uuid_of(table)).confirmed_head == table.refresh().metadata.current_snapshot_id
