"""The daemon's whole path on real tables: events, state, compaction, expiry, deletion, announcement."""

from pathlib import Path

from isotherm.contract.events import CommitEvent, Intent, decode
from isotherm.contract.paths import normalised
from isotherm.contract.summary import JOB_ID
from isotherm.core import observations as seen
from isotherm.core.deletion import LEFTOVER_GRACE_MS
from isotherm.core.model.jobs import OutcomeKind
from support.lab import EXPIRING, Lab, of, settle, until_a_job_runs, wait_for_children


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
