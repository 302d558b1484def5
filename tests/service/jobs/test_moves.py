"""Old partition specs on real tables: what is cold is written in the current one, and nothing goes where writers are."""

from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.transforms import BucketTransform, DayTransform
from pyiceberg.types import TimestamptzType

from isotherm.audit.evidence import ColdRule, Judged
from isotherm.audit.evidence_reader import commits_of, compared
from isotherm.audit.promises import cold_only, same_rows
from isotherm.contract.events import Intent, encode
from isotherm.contract.identity import UNPARTITIONED, partition_key
from isotherm.contract.summary import INGEST_VALID_THROUGH, JOB_ID
from isotherm.core.model.decisions import Verdict
from isotherm.core.planner.plan import plan
from isotherm.iceberg.manifests.live import live_files
from isotherm.runtime.clock import now_ms
from isotherm.service.jobs.beginning_compactions import BOUND_AGAIN
from isotherm.service.topics.events_to_state import Touched
from support.audited import history
from support.lab import (
    EAGER,
    HOURS,
    START,
    Lab,
    believed,
    counted,
    event_of,
    settle,
    started,
    until_a_job_runs,
    uuid_of,
    wait_for_children,
)

MOVING = EAGER.replace("min_files: 3", "min_files: 3, output_spec: current")
DAY, FIRST_DAY, FIRST_HOUR = 24, int(START.timestamp()) // 86_400, int(START.timestamp()) // 3600


def hour(number):
    return partition_key({1000: FIRST_HOUR + number})


def day(number, field_id=1001):
    return partition_key({field_id: FIRST_DAY + number})


def by_days(lab, *hours, spec=HOURS, transform=None, name="at_day"):
    """A table that was written at some hours, and is divided by days from then on."""
    table = lab.create(spec=spec)
    for one in hours:
        lab.append(table, one)
    with table.update_spec() as update:
        for part in table.spec().fields:
            update.remove_field(part.name)
        update.add_field("at", transform or DayTransform(), name)
    return table.refresh()


def rows(table):
    return sorted(table.refresh().scan().to_arrow().to_pylist(), key=lambda row: row["id"])


def older(table):
    metadata = table.refresh().metadata
    live = live_files(metadata, table.io, metadata.current_snapshot())
    return {one.partition for one in live if one.spec_id != metadata.default_spec_id}


def ours(table):
    return [one for one in table.refresh().snapshots() if JOB_ID in one.summary.additional_properties]


def decision(service, table, key):
    uuid = uuid_of(table)
    row = service.fold.table(uuid)
    view = service.verdicts.view(row, (), partitions=service.fold.states(uuid, [key]), whole=False)
    (found,) = plan(view, service.verdicts.policy_of(row).policy, service.now_ms()).of_partitions
    return found


def intent_on(table, *keys):
    uuid, until_ms = uuid_of(table), now_ms() + 10**11
    intent = Intent(
        table_uuid=uuid,
        table="shop.orders",
        intent_id="i",
        writer="w",
        state="open",
        at_ms=now_ms(),
        expires_at_ms=until_ms,
        partitions=keys,
    )
    return encode(intent)[1]


def test_old_hours_go_into_days_once_these_are_cold(tmp_path):
    """However few their files are; the state is what a scan finds, and the audit finds nothing hot."""
    lab = Lab(tmp_path, MOVING)
    table = by_days(lab, 1, 2, 30, 30, 75)
    before = rows(table)
    for at in (4 * DAY, 4 * DAY + 1, 4 * DAY + 2):
        lab.append(table, at)
    service = lab.settled()

    assert older(table) == {hour(75)}
    assert rows(table)[: len(before)] == before
    assert believed(service, uuid_of(table)) == counted(lab.scan())
    assert {day(0), day(1), day(4), hour(75)} == set(lab.scan())
    # What waits says for what.
    waits = decision(service, table, hour(75))
    assert Verdict.HOT is waits.verdict
    assert "it stays in an older partition spec: its rows go into at_day=2026-01-04, hot: " in waits.why
    # Then the stream goes on.
    lab.append(table, 7 * DAY)
    lab.append(table, 8 * DAY)
    settle(service)
    assert not older(table)
    assert believed(service, uuid_of(table)) == counted(lab.scan())
    moves = len(ours(table))
    settle(service)
    assert moves == len(ours(table))


def test_without_the_policy_they_stay(tmp_path):
    lab = Lab(tmp_path)
    table = by_days(lab, 1, 2, 30)
    lab.append(table, 9 * DAY)
    lab.append(table, 9 * DAY)
    lab.settled()

    assert older(table) == {hour(1), hour(2), hour(30)}
    assert not ours(table)


def test_a_spec_that_is_no_time_is_said(tmp_path):
    lab = Lab(tmp_path, MOVING)
    table = by_days(lab, 1, 1, 1, 1, 9, 9, 9, transform=BucketTransform(2), name="b")
    service = lab.settled()

    # Compacted as ever, in its own spec.
    assert (1, older(table)) == (len(ours(table)), {hour(1), hour(9)})
    why = decision(service, table, hour(1)).why
    said = "it stays in an older partition spec: b, the field of the current one, is no time (bucket[2] of timestamptz)"
    assert said in why, why


def test_what_was_not_divided_goes_as_far_as_its_time_is_over(tmp_path):
    """Its key tells no time, so its files do."""
    lab = Lab(tmp_path, MOVING)
    table = by_days(lab, 1, 30, 31, 4 * DAY, spec=UNPARTITIONED_PARTITION_SPEC)
    before = rows(table)
    lab.append(table, 4 * DAY + 1)
    lab.append(table, 4 * DAY + 2)
    service = lab.settled()

    live = lab.scan()
    assert {UNPARTITIONED, day(0, 1000), day(1, 1000), day(4, 1000)} == set(live)
    assert 1 == live[UNPARTITIONED].data_total.files
    assert rows(table)[: len(before)] == before
    assert believed(service, uuid_of(table)) == counted(live)
    # The youngest waits for its time, and is tried again.
    refused = [one for one in service.ledger.operations() if one.reason]
    assert any("1 hold rows from 2026-01-0" in one.outcome_why for one in refused), refused
    lab.append(table, 9 * DAY)
    lab.append(table, 9 * DAY)
    lab.ahead_ms += 2 * 86_400_000
    settle(service)
    assert not older(table)


@pytest.mark.parametrize(("named", "is_refused"), [((day(0),), True), ((day(7),), False)])
def test_an_intent_on_a_day_ends_what_would_go_there(tmp_path, named, is_refused):
    lab = Lab(tmp_path, MOVING)
    table = by_days(lab, 1)
    lab.append(table, 9 * DAY)
    lab.append(table, 9 * DAY)
    service = started(lab)
    until_a_job_runs(service)
    wait_for_children(service)
    lab.topic.messages.append(intent_on(table, *named))
    service.compactions.finish()

    (operation,) = service.ledger.operations()
    assert operation.reason == ("output_spec" if is_refused else "committed"), operation
    assert older(table) == ({hour(1)} if is_refused else set())


def test_a_writer_in_a_day_ends_the_job_that_runs(tmp_path):
    lab = Lab(tmp_path, MOVING)
    table = by_days(lab, 1)
    lab.append(table, 9 * DAY)
    lab.append(table, 9 * DAY)
    service = started(lab)
    until_a_job_runs(service)
    service.compactions.cancel_touched([Touched(uuid_of(table), frozenset([day(5)]))])
    assert 1 == len(service.compactions)
    service.compactions.cancel_touched([Touched(uuid_of(table), frozenset([day(0)]))])

    assert 0 == len(service.compactions)
    (operation,) = service.ledger.operations()
    assert "output_spec" == operation.reason


def test_where_files_go_is_asked_before_anything_is_read(tmp_path):
    """Of files that were not divided nobody knows before they are bound."""
    lab = Lab(tmp_path, MOVING)
    table = by_days(lab, 1, spec=UNPARTITIONED_PARTITION_SPEC)
    lab.append(table, 9 * DAY)
    lab.append(table, 9 * DAY)
    lab.topic.messages.append(intent_on(table, day(0, 1000)))
    service = lab.settled()

    (operation,) = service.ledger.operations()
    assert ("output_spec", 0) == (operation.reason, operation.bytes_read)
    assert "1 hold rows of partitions that are hot (at_day=2026-01-01: writer w means to write" in (
        operation.outcome_why
    )
    assert older(table) == {UNPARTITIONED}


def test_a_day_that_stays_hot_keeps_its_own_rows_alone(tmp_path):
    lab = Lab(tmp_path, MOVING)
    table = by_days(lab, 1, 30, 50, spec=UNPARTITIONED_PARTITION_SPEC)
    before = rows(table)
    for at in (31, 9 * DAY, 9 * DAY):
        lab.append(table, at)
    lab.topic.messages.append(intent_on(table, day(1, 1000)))
    service = lab.settled()

    live = lab.scan()
    assert (1, 1) == (live[UNPARTITIONED].data_total.files, live[day(1, 1000)].data_total.files)
    assert {day(0, 1000), day(2, 1000)} < set(live)
    assert rows(table)[: len(before)] == before
    assert believed(service, uuid_of(table)) == counted(live)


def test_a_day_that_nobody_knows_yet_keeps_its_own_rows_alone(tmp_path):
    """A writer means to write the day; it is not there, so no verdict says that it is hot."""
    lab = Lab(tmp_path, MOVING)
    table = by_days(lab, 1, 30, 50, spec=UNPARTITIONED_PARTITION_SPEC)
    before = rows(table)
    for at in (9 * DAY, 9 * DAY):
        lab.append(table, at)
    lab.topic.messages.append(intent_on(table, day(1, 1000)))
    lab.settled()

    live = lab.scan()
    assert 1 == live[UNPARTITIONED].data_total.files
    assert {UNPARTITIONED, day(0, 1000), day(2, 1000), day(9, 1000)} == set(live)
    assert rows(table)[: len(before)] == before


def test_a_row_without_a_value_keeps_its_own_file_alone(tmp_path):
    """The partition of such rows is not there, and has no time that could have passed."""
    lab = Lab(tmp_path, MOVING)
    table = by_days(lab, 1, 2, spec=UNPARTITIONED_PARTITION_SPEC)
    one = {
        "id": pa.array([999], pa.int64()),
        "at": pa.array([None], pa.timestamp("us", "UTC")),
        "what": ["x"],
    }
    table.append(pa.table(one))
    lab.announce(event_of(table.refresh()))
    before = rows(table)
    lab.append(table, 9 * DAY)
    lab.append(table, 9 * DAY)
    lab.settled()

    live = lab.scan()
    assert (1, 4) == (live[UNPARTITIONED].data_total.files, live[day(0, 1000)].data_total.rows)
    assert [one for one in rows(table) if one in before] == before


def test_a_writer_in_the_day_keeps_no_hour_from_being_compacted_in_its_own_spec(tmp_path):
    lab = Lab(tmp_path, MOVING)
    table = by_days(lab, *[1] * 5)
    lab.append(table, 9 * DAY)
    lab.append(table, 9 * DAY)
    service = started(lab)
    until_a_job_runs(service)
    service.compactions.cancel_touched([Touched(uuid_of(table), frozenset([day(0)]))])
    lab.topic.messages.append(intent_on(table, day(0)))
    settle(service)

    assert ["committed", "output_spec"] == sorted(one.reason for one in service.ledger.operations())
    assert 1 == lab.scan()[hour(1)].data_total.files
    service.stop()


def bindings_of(service, meanwhile=lambda _: None):
    """What is bound from now on, job by job; something else happens before each."""
    found, begin = [], service.maintainer.start_binding

    def start_binding(loaded, partition, job_id, *asked, **more):
        meanwhile(len(found))
        found.append(job_id)
        begin(loaded, partition, job_id, *asked, **more)

    service.maintainer.start_binding = start_binding
    return found


def test_what_was_hot_before_is_not_found_out_by_binding(tmp_path):
    lab = Lab(tmp_path, MOVING)
    table = by_days(lab, 1, 30, 50, spec=UNPARTITIONED_PARTITION_SPEC)
    for at in (31, 9 * DAY, 9 * DAY):
        lab.append(table, at)
    lab.topic.messages.append(intent_on(table, day(1, 1000)))
    service = started(lab)
    bindings = bindings_of(service)
    settle(service)

    assert older(table) == {UNPARTITIONED}
    assert len(set(bindings)) == len(bindings) == len(service.ledger.operations())
    service.stop()


def test_where_a_writer_comes_to_one_day_after_another_a_job_is_bound_a_few_times_at_most(tmp_path):
    lab = Lab(tmp_path, MOVING)
    table = by_days(lab, *range(1, 10 * DAY, DAY), spec=UNPARTITIONED_PARTITION_SPEC)
    for at in (19 * DAY, 19 * DAY):
        lab.append(table, at)
    service = started(lab)

    def comes(number):
        lab.topic.messages.append(intent_on(table, *(day(one, 1000) for one in range(number + 1))))
        service.compactions.hear(service.intake.take(service.events.poll(0)))

    bindings = bindings_of(service, comes)
    settle(service)

    (operation,) = (one for one in service.ledger.operations() if one.job_id == bindings[0])
    assert ("output_spec", 1 + BOUND_AGAIN) == (operation.reason, bindings.count(bindings[0]))
    assert 0 == len(service.compactions)
    service.stop()


def test_a_writer_in_the_hour_itself_makes_it_wait_altogether(tmp_path):
    """Its other jobs would be in vain, too."""
    lab = Lab(tmp_path, MOVING)
    table = by_days(lab, *[1] * 5)
    lab.append(table, 9 * DAY)
    lab.append(table, 9 * DAY)
    service = started(lab)
    until_a_job_runs(service)
    service.compactions.cancel_touched([Touched(uuid_of(table), frozenset([hour(1), day(0)]))])
    settle(service)

    assert ["cancelled"] == [one.reason for one in service.ledger.operations()]
    assert decision(service, table, hour(1)).why.startswith("waits (cancelled: ")
    service.stop()


def test_a_day_that_turns_hot_while_an_hour_is_bound_ends_it_at_once(tmp_path):
    """The key tells the day: to bind it once more would give the same job."""
    lab = Lab(tmp_path, MOVING)
    table = by_days(lab, 1)
    lab.append(table, 9 * DAY)
    lab.append(table, 9 * DAY)
    service = started(lab)
    bindings = bindings_of(
        service, lambda number: number or lab.topic.messages.append(intent_on(table, day(0)))
    )
    settle(service)

    assert 2 >= len(bindings)
    assert ["output_spec"] == [one.reason for one in service.ledger.operations()]
    assert 0 == len(service.compactions)
    assert older(table) == {hour(1)}
    service.stop()


def test_what_stays_in_an_older_spec_is_compacted_in_it(tmp_path):
    """The column of the current spec came later: nothing tells into which of its partitions the old rows go."""
    lab = Lab(tmp_path, MOVING)
    table = lab.create()
    for _ in range(6):
        lab.append(table, 1)
    with table.update_schema() as schema:
        schema.add_column("seen", TimestamptzType())
    with table.refresh().update_spec() as spec:
        spec.remove_field("at_hour").add_field("seen", DayTransform(), "seen_day")
    before = rows(table)
    for days in (9, 10, 11):
        at = pa.array([START + timedelta(days=days)], pa.timestamp("us", "UTC"))
        one = {"id": pa.array([1000 + days], pa.int64()), "at": at, "what": ["x"], "seen": at}
        table.refresh().append(pa.table(one))
        lab.announce(event_of(table.refresh()))
    service = lab.settled()
    lab.ahead_ms += 60_000
    settle(service)

    assert 1 == lab.scan()[hour(1)].data_total.files
    assert rows(table)[: len(before)] == before
    asked = decision(service, table, hour(1))
    assert (
        "it stays in an older partition spec: 1 files of older partition specs: 1 hold rows of partitions that are hot ((no value): it is not there yet"
        in asked.why
    )
    # It is asked again within a day, and rewritten for that no more.
    moves = len(ours(table))
    lab.ahead_ms += 86_400_000
    settle(service)
    assert moves == len(ours(table)) == 1
    service.stop()


def test_the_audit_judges_both_sides_of_a_move(tmp_path):
    """Its rule knows days and hours by itself; a move into a day that was written shortly before would be a breach."""
    lab = Lab(tmp_path, MOVING)
    table = by_days(lab, 1, 2)
    through_ms = int((START + timedelta(days=9)).timestamp() * 1000)
    for _ in range(2):
        lab.append(table, 9 * DAY, snapshot_properties={INGEST_VALID_THROUGH: str(through_ms)})
    lab.settled()
    commits = tuple(commits_of(table.refresh()))
    one = ColdRule(after_ms=lambda length_ms: length_ms, quiet_for_ms=0, silent_for_ms=10**9)
    hashes = {commit.policy_hash: one for commit in commits if commit.is_ours}
    rows_of = tuple(same for commit in commits if commit.is_ours for same in compared(table, commit))
    transforms = {1000: "hour", 1001: "day"}
    found = replace(
        history(*commits, rows=rows_of, now_ms=now_ms() + 10**7), transforms=transforms, rules=hashes
    )

    touched = {touch.partition for commit in commits if commit.is_ours for touch in commit.touches or ()}
    assert {hour(1), hour(2), day(0)} == touched
    assert Judged.PROVED is cold_only(found).verdict, cold_only(found)
    assert Judged.PROVED is same_rows(found).verdict, same_rows(found)
    strict = replace(found, rules=dict.fromkeys(hashes, replace(one, after_ms=lambda _: 9 * DAY * 3_600_000)))
    assert Judged.BROKEN is cold_only(strict).verdict
    assert any(f"partition {day(0)}" in line for line in cold_only(strict).evidence)
