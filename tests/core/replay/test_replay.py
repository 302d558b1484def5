"""The laws of a replay, on histories that could have happened."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isotherm.contract.summary import Origin
from isotherm.core.model.changes import Change, PartitionDelta
from isotherm.core.model.files import NO_FILES, FileKind, FileStats, size_bucket
from isotherm.core.model.jobs import Action
from isotherm.core.policy.policy import Cold, Compact, Expire, Policy, Schedule, Window, Work
from isotherm.core.policy.windows import opening
from isotherm.core.replay.history import History, Recorded, carried_over, counted_back
from isotherm.core.replay.replay import Assumed, replay
from isotherm.core.state import PartitionState, StateError, TableState, apply
from support.builders import (
    BUCKETS,
    DAY,
    HOUR,
    HOURLY,
    KIB,
    MIB,
    MINUTE,
    NOW,
    SECOND,
    TABLE,
    added,
    change,
    facts,
    files,
    key,
    snapshots,
)

BEFORE = tuple(
    replace(one, snapshot_id=1000 + one.snapshot_id)
    for one in snapshots(4, newest_at_ms=NOW - MINUTE, apart_ms=HOUR, token="sink")  # noqa: S106 (whose place, not a secret)
)
"""Snapshots from before a history."""


class Writer:
    """Writes a history file by file, so that nothing leaves that was not there."""

    def __init__(self, fields=HOURLY):
        self.fields = fields
        self.at_ms = NOW
        self.recorded = []
        self.live = {}
        self.deleted = {}

    def commit(self, deltas, *, operation="append", origin=Origin.FOREIGN):
        number = len(self.recorded) + 1
        one = Change(
            snapshot_id=number,
            parent_id=number - 1 or None,
            sequence_number=number,
            committed_at_ms=self.at_ms,
            operation=operation,
            origin=origin,
            partitions=deltas,
        )
        self.recorded.append(Recorded(one, self.at_ms))

    def append(self, *places):
        """One file in each place: `(partition, size, rows)`."""
        deltas = {}
        for where, size, rows in places:
            self.live.setdefault(where, []).append((size, rows))
            came = FileStats(1, rows, size)
            before = deltas.get(where, PartitionDelta())
            deltas[where] = plus(before, {size_bucket(size): came}, {}, added=came)
        self.commit(deltas, origin=Origin.INGEST)

    def delete_rows(self, where, rows):
        """A file of position deletes for rows that live."""
        rows = min(rows, self.rows(where))
        if rows > 0:
            self.deleted.setdefault(where, []).append(rows)
            came = FileStats(1, rows, 10 * rows)
            deletes = {FileKind.POSITION_DELETES: came}
            self.commit({where: plus(PartitionDelta(), {}, deletes, added=came)}, operation="delete")

    def rewrite(self, where, count, *, operation="overwrite", origin=Origin.FOREIGN):
        """Some files become one, as a MERGE or somebody's compaction does; all of them: with deletes applied."""
        mine = self.live.get(where, [])
        gone, stay = mine[:count], mine[count:]
        if not gone:
            return
        data, removed, deletes = {}, NO_FILES, {}
        for size, rows in gone:
            out = FileStats(1, rows, size)
            removed += out
            data[size_bucket(size)] = data.get(size_bucket(size), NO_FILES) - out
        left = sum(rows for _, rows in gone)
        if not stay:
            left -= sum(self.deleted.get(where, []))
            for rows in self.deleted.pop(where, []):
                out = FileStats(1, rows, 10 * rows)
                removed += out
                deletes[FileKind.POSITION_DELETES] = deletes.get(FileKind.POSITION_DELETES, NO_FILES) - out
        came = FileStats(1, left, sum(size for size, _ in gone)) if left else NO_FILES
        if came:
            stay = [*stay, (came.bytes, left)]
            data[size_bucket(came.bytes)] = data.get(size_bucket(came.bytes), NO_FILES) + came
        self.live[where] = stay
        delta = PartitionDelta({b: s for b, s in data.items() if s}, deletes, came, removed)
        self.commit({where: delta}, operation=operation, origin=origin)

    def rows(self, where):
        return sum(rows for _, rows in self.live.get(where, [])) - sum(self.deleted.get(where, []))

    def history(self, ends_after=0):
        return History(
            table=TABLE,
            facts=facts(fields=self.fields),
            partitions={},
            snapshots=BEFORE,
            pinned=frozenset(),
            recorded=tuple(self.recorded),
            starts_at_ms=NOW,
            ends_at_ms=self.at_ms + ends_after,
        )


def plus(delta, data, deletes, *, added):
    return PartitionDelta(
        {b: delta.data.get(b, NO_FILES) + data.get(b, NO_FILES) for b in {**delta.data, **data}},
        {k: delta.deletes.get(k, NO_FILES) + deletes.get(k, NO_FILES) for k in {**delta.deletes, **deletes}},
        delta.added + added,
        delta.removed,
    )


SIZES = st.sampled_from([KIB, MIB, 40 * MIB, 100 * MIB, 130 * MIB])
# Strategies are made here, once: making them at each draw took hypothesis longer than drawing.
FIELDS = st.sampled_from([HOURLY, BUCKETS])
HOURS = {HOURLY: st.integers(-3, 2), BUCKETS: st.integers(0, 3)}
PLACES = {
    fields: st.lists(st.tuples(hours, SIZES, st.integers(1, 1000)), min_size=1, max_size=4)
    for fields, hours in HOURS.items()
}
COUNTS = st.integers(0, 30)
PAUSES = st.sampled_from([SECOND, MINUTE, 7 * MINUTE, 40 * MINUTE])
APPENDS = ["append"] * 4
KINDS = {
    True: st.sampled_from(APPENDS),
    False: st.sampled_from([*APPENDS, "delete", "merge", "rewrite", "ours"]),
}
DELETED = st.integers(1, 500)
MERGED = st.integers(1, 3)


@st.composite
def writers(draw, *, appends_only=False, fields=None, before=0):
    """`before` so many files were appended, one after another."""
    fields = fields or draw(FIELDS)
    writer = Writer(fields)
    for _ in range(before):
        writer.at_ms += MINUTE
        writer.append((key(writer.at_ms // HOUR if fields is HOURLY else 0), MIB, 10))
    for _ in range(draw(COUNTS)):
        writer.at_ms += draw(PAUSES)
        stream = (writer.at_ms // HOUR) if fields is HOURLY else 0
        where = key(stream + draw(HOURS[fields]))
        match draw(KINDS[appends_only]):
            case "append":
                places = draw(PLACES[fields])
                writer.append(*((key(stream + hour), size, rows) for hour, size, rows in places))
            case "delete":
                writer.delete_rows(where, draw(DELETED))
            case "merge":
                writer.rewrite(where, draw(MERGED))
            case "rewrite":
                writer.rewrite(where, 1000, operation="replace")
            case "ours":
                writer.rewrite(where, 1000, operation="replace", origin=Origin.MAINTENANCE)
    return writer


HOURLY_WINDOW = Window(cron="0 * * * *", lasts="20m")
WINDOWS = (
    (HOURLY_WINDOW,),
    (HOURLY_WINDOW, Window(cron="40 */2 * * *", lasts="15m", do=("expire",))),
    (Window(cron="0 1,4,7,23 * * *", lasts="50m", do=("compact",)),),
)
policies = st.builds(
    lambda after, quiet, commits, few, keep, last, once, latest, every, work: Policy(
        # The risk of late writes fades from commit to commit; a partition held back for it is looked at again
        # after hours only, here as in the service. What is kept is then not what planning now would say.
        cold=Cold(after=after, quiet_for=quiet, quiet_commits=commits, quiet_at_most="2h", late_write_risk=1),
        compact=Compact(min_files=few, fill_files=max(few - 1, 2)),
        expire=Expire(keep_for=keep, keep_last=last, at_once=once, at_latest=latest, every=every),
        work=work,
    ),
    st.sampled_from([0, 1, 2.5]),
    st.sampled_from(["0s", "5m", "1h"]),
    st.sampled_from([0, 2, 10]),
    st.integers(2, 6),
    st.sampled_from(["10m", "3h"]),
    st.integers(1, 5),
    st.integers(1, 5),
    st.sampled_from(["0s", "30m", "1d"]),
    st.sampled_from(["0s", "20m", "1d"]),
    st.one_of(
        st.just(Work()),
        st.builds(
            Work,
            jobs_at_once=st.sampled_from([None, 0, 1]),
            bytes_per_hour=st.sampled_from([None, 50 * MIB]),
            bytes_per_day=st.sampled_from([None, 200 * MIB]),
            tz=st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kathmandu"]),
            windows=st.sampled_from([(), *WINDOWS]),
            schedules=st.sampled_from(
                [(), (Schedule(cron="30 */2 * * *", lasts="25m", do=("compact", "expire"), from_score=0.4),)]
            ),
        ),
    ),
)
assumptions = st.builds(
    Assumed,
    plan_every_ms=st.sampled_from([MINUTE, 10 * MINUTE]),
    jobs_at_once=st.integers(1, 3),
    bytes_per_s=st.sampled_from([100 * KIB, 50 * MIB]),
    bytes_per_hour=st.sampled_from([None, 100 * MIB]),
)
AFTERWARDS = st.sampled_from([0, HOUR, DAY])


@given(writers(), policies, assumptions, AFTERWARDS)
def test_rows_are_conserved_in_every_partition(writer, policy, assumed, afterwards):
    partitions = replay(writer.history(afterwards), policy, assumed, samples=1).partitions
    rows = {k: p.data_total.rows - p.deletes_total.rows for k, p in partitions.items()}
    expected = {where: writer.rows(where) for where in writer.live}

    assert {k: n for k, n in expected.items() if n} == {k: n for k, n in rows.items() if n}
    assert all(min(s.files, s.bytes) > 0 for p in partitions.values() for s in p.data.values() if s.rows)


def test_a_writer_that_applies_deletes_which_our_job_has_applied_already_takes_no_row_twice():
    """Its file keeps the size that it had, so that the difference is rows alone."""
    recorded = PartitionDelta(
        {size_bucket(MIB): FileStats(0, -1, 0)}, {FileKind.POSITION_DELETES: FileStats(-1, -1, -10)},
        added=FileStats(1, 3, MIB), removed=FileStats(2, 5, MIB + 10),
    )  # fmt: skip
    here = PartitionState({size_bucket(MIB): FileStats(1, 3, MIB)})
    after = carried_over(change(2, 1, {key(1): recorded}), {key(1): here}).partitions[key(1)]

    assert (after.data, after.deletes) == ({}, {})


def test_rows_that_our_job_has_deleted_already_do_not_come_back_with_a_file_that_leaves_their_deletes():
    """Two files of 150 rows become one, of which 149 are deleted by a file that stays: here it is gone, with them."""
    writer = Writer(BUCKETS)
    writer.append((key(), MIB, 100), (key(), KIB, 50), (key(), 40 * MIB, 1))
    writer.delete_rows(key(), 149)
    writer.at_ms += HOUR
    writer.rewrite(key(), 2)
    (here,) = replay(writer.history(), quiet(), SLOW, samples=1).partitions.values()

    assert (writer.rows(key()), here.data_total.rows, here.deletes_total.rows) == (2, 2, 0)
    assert here.data_total.files == 1


@settings(max_examples=60)
@given(writers(), policies, assumptions, AFTERWARDS)
def test_decisions_that_are_kept_give_the_jobs_that_planning_everything_each_time_gives(
    writer, policy, assumed, afterwards
):
    history = writer.history(min(afterwards, 2 * HOUR))
    kept = replay(history, policy, assumed, samples=5)
    anew = replay(history, policy, assumed, samples=5, keep_decisions=False)

    assert anew == kept


@settings(max_examples=60)
@given(writers(), policies, assumptions)
def test_a_job_begins_only_where_the_daemon_would_begin_one(writer, policy, assumed):
    """The replay asks its windows as any plan does, also where they open by the clocks of a zone."""
    jobs = replay(writer.history(DAY), policy, assumed, samples=1).jobs
    windows, tz = policy.work.windows_of(Action.COMPACT), policy.work.tz

    assert all(not windows or opening(windows, tz, job.started_at_ms).is_open for job in jobs)


@settings(max_examples=30)
@given(writers(before=25), policies, st.sampled_from(["10m", "1h"]), assumptions, AFTERWARDS)
def test_the_same_is_true_where_hot_partitions_are_compacted(
    writer, policy, minor_after, assumed, afterwards
):
    """Beside writers that append, until one of them does something else."""
    history = writer.history(min(afterwards, 2 * HOUR))
    compact = Compact(min_files=policy.compact.min_files, fill_files=2, minor_after=minor_after)
    work = policy.work.model_copy(update={"schedules": ()})
    policy = policy.model_copy(update={"compact": compact, "work": work})
    kept = replay(history, policy, assumed, samples=5)
    anew = replay(history, policy, assumed, samples=5, keep_decisions=False)

    assert anew == kept


@given(writers(), policies, assumptions, st.integers(1, 50))
def test_sampling_changes_nothing_but_the_samples(writer, policy, assumed, samples):
    history = writer.history(HOUR)
    few, many = (replay(history, policy, assumed, samples=n) for n in (1, samples))

    assert few.totals == many.totals
    assert few.jobs == many.jobs
    assert few.samples == (many.samples[0], many.samples[-1])


@given(writers(), policies, assumptions, st.integers(1, 50))
def test_what_is_shown_at_each_point_is_what_its_sample_counts(writer, policy, assumed, samples):
    shown = []
    replayed = replay(
        writer.history(HOUR), policy, assumed, samples=samples,
        show=lambda at_ms, there: shown.append((at_ms, sum(p.data_total.files for p in there.values()))),
    )  # fmt: skip

    assert shown == [(one.at_ms, one.files) for one in replayed.samples]


@given(writers(), assumptions)
def test_without_a_policy_there_are_no_jobs(writer, assumed):
    replayed = replay(writer.history(DAY), None, assumed, samples=1)

    assert replayed.jobs == ()
    assert (replayed.totals.rewritten_bytes, replayed.totals.expiries) == (0, 0)


@given(writers(), assumptions)
def test_a_table_that_is_only_observed_and_never_maintained_ends_as_it_did(writer, assumed):
    recorded = [one for one in writer.recorded if one.change.origin is not Origin.MAINTENANCE]
    if len(recorded) < len(writer.recorded):
        return  # what others then removed was ours
    state, partitions = TableState(TABLE, None, sequence_number=len(BEFORE)), {}
    for one in recorded:
        later = replace(one.change, sequence_number=state.sequence_number + 1)
        applied = apply(state, partitions, later, HOURLY, one.received_at_ms)
        state = applied.state
        partitions = {k: p for k, p in {**partitions, **applied.partitions}.items() if p is not None}

    assert partitions == replay(writer.history(), None, assumed, samples=1).partitions


@given(writers(appends_only=True), policies, assumptions)
def test_compaction_never_leaves_more_files_than_none_at_any_time(writer, policy, assumed):
    history = writer.history(DAY)
    with_it, without = (replay(history, one, assumed, samples=50) for one in (policy, None))

    assert all(ours.files <= bare.files for ours, bare in zip(with_it.samples, without.samples, strict=True))


@given(writers(appends_only=True), st.integers(2, 6), st.integers(0, 5), assumptions)
def test_where_nothing_comes_late_an_eager_policy_leaves_no_more_files_than_a_lazy_one(
    writer, eager, more, assumed
):
    """Late: after the partition was compacted. Here the whole history is written before anything turns cold."""

    def by(few):
        return Policy(
            cold=Cold(after=0, quiet_for="2d", quiet_commits=0),
            compact=Compact(min_files=few, fill_files=few),
        )

    unbound = replace(assumed, bytes_per_hour=None)
    history = replace(writer.history(4 * DAY), facts=facts(fields=BUCKETS))
    soon, late = (replay(history, by(few), unbound, samples=1) for few in (eager, eager + more))

    assert soon.totals.files <= late.totals.files


@given(writers())
def test_counting_back_from_the_end_gives_the_beginning(writer):
    changes = [one.change for one in writer.recorded]
    state, partitions = TableState(TABLE, None), {}
    cut = len(changes) // 2
    at_cut = {}
    for number, one in enumerate(changes):
        if number == cut:
            at_cut = partitions
        applied = apply(state, partitions, one, HOURLY, NOW)
        state = applied.state
        partitions = {k: p for k, p in {**partitions, **applied.partitions}.items() if p is not None}
    before = counted_back(partitions, changes[cut:], NOW)

    assert {k: (p.data, p.deletes) for k, p in (at_cut if changes else {}).items()} == {
        k: (p.data, p.deletes) for k, p in before.items()
    }


def one_cold_partition():
    """Six files of one bucket, a minute apart; then nothing."""
    writer = Writer(BUCKETS)
    for _ in range(6):
        writer.append((key(), 10 * MIB, 100))
        writer.at_ms += MINUTE
    return writer


def quiet():
    return Policy(cold=Cold(quiet_for="5m", quiet_commits=0, late_write_risk=1), compact=Compact(min_files=4))


SLOW = Assumed(plan_every_ms=MINUTE, bytes_per_s=MIB, job_overhead_ms=0)


def test_what_is_cold_and_due_is_compacted_once():
    replayed = replay(one_cold_partition().history(HOUR), quiet(), SLOW)
    (job,) = replayed.jobs
    last_write_ms = NOW + 5 * MINUTE

    assert (job.files, job.bytes, job.is_conflict) == (6, 60 * MIB, False)
    assert (job.started_at_ms, job.ended_at_ms) == (last_write_ms + 5 * MINUTE, last_write_ms + 6 * MINUTE)
    totals = replayed.totals
    assert (totals.files, totals.most_files, totals.write_amplification) == (1, 6, 2.0)
    assert (totals.mean_lag_ms, totals.still_due) == (MINUTE, 0)
    # Four from before, six commits of the writer, one of ours.
    assert totals.snapshots == 11


def test_a_write_while_a_job_runs_is_a_conflict_and_its_work_is_wasted():
    writer = one_cold_partition()
    writer.at_ms = NOW + 10 * MINUTE + 30 * SECOND
    writer.append((key(), MIB, 10))
    replayed = replay(writer.history(2 * HOUR), quiet(), SLOW)

    assert [job.is_conflict for job in replayed.jobs] == [True, False]
    assert (replayed.totals.conflicts, replayed.totals.jobs) == (1, 1)
    assert replayed.totals.wasted_bytes == 30 * MIB
    assert replayed.jobs[1].started_at_ms == NOW + 71 * MINUTE


def test_what_a_job_in_vain_did_not_read_is_given_back_to_the_hour_in_which_it_began():
    """Given back later, it would be room on top of the next hour's budget."""
    writer = one_cold_partition()
    writer.at_ms = NOW + 15 * MINUTE
    writer.append((key(), MIB, 10))
    writer.at_ms = NOW + 64 * MINUTE
    writer.append(*((key(bucket), 10 * MIB, 100) for bucket in (2, 3) for _ in range(4)))
    slow = replace(SLOW, bytes_per_s=MIB / 10, jobs_at_once=2, bytes_per_hour=60 * MIB)
    in_vain, first, second = replay(writer.history(2 * HOUR), quiet(), slow).jobs[:3]

    assert (in_vain.is_conflict, in_vain.started_at_ms) == (True, NOW + 10 * MINUTE)
    assert first.started_at_ms == NOW + 71 * MINUTE
    assert second.started_at_ms > first.started_at_ms + HOUR


def test_a_write_elsewhere_disturbs_no_job():
    writer = one_cold_partition()
    writer.at_ms = NOW + 10 * MINUTE + 30 * SECOND
    writer.append((key(2), MIB, 10))

    assert replay(writer.history(HOUR), quiet(), SLOW).totals.conflicts == 0


def test_our_own_recorded_maintenance_is_left_out():
    writer = one_cold_partition()
    writer.rewrite(key(), 6, operation="replace", origin=Origin.MAINTENANCE)

    assert replay(writer.history(HOUR), None, SLOW).totals.files == 6


def test_the_next_in_turn_begins_when_a_job_ends():
    writer = Writer(BUCKETS)
    writer.append(*((key(bucket), 10 * MIB, 100) for bucket in (1, 2) for _ in range(4)))
    hourly = replace(SLOW, plan_every_ms=HOUR)
    first, second = replay(writer.history(2 * HOUR), quiet(), hourly).jobs

    assert first.ended_at_ms == second.started_at_ms


def test_files_are_averaged_over_time():
    writer = Writer(BUCKETS)
    writer.append((key(), MIB, 1))
    writer.at_ms += HOUR
    writer.append((key(), MIB, 1))
    totals = replay(writer.history(HOUR), None, SLOW).totals

    assert totals.mean_files == 1.5


def test_a_snapshot_that_a_tag_names_is_not_expired():
    policy = Policy(expire=Expire(keep_for="1m", keep_last=1, at_once=2, every="0s"))
    history = replace(one_cold_partition().history(HOUR), pinned=frozenset({2}))

    assert replay(history, policy, SLOW).totals.snapshots == 2


def test_a_sink_that_keeps_its_place_in_snapshots_goes_on_and_lets_the_old_ones_expire():
    policy = Policy(expire=Expire(keep_for="1m", keep_last=1, at_once=2, every="0s"))
    history = one_cold_partition().history(HOUR)
    by_a_sink = [replace(one, change=replace(one.change, origin=Origin.FOREIGN)) for one in history.recorded]

    assert replay(replace(history, recorded=tuple(by_a_sink)), policy, SLOW).totals.snapshots == 2


def test_snapshots_that_were_there_before_are_expired_too():
    policy = Policy(expire=Expire(keep_for="1m", keep_last=1, at_once=2, every="0s"))
    before = snapshots(30, newest_at_ms=NOW - HOUR)
    history = replace(one_cold_partition().history(HOUR), snapshots=before)

    assert replay(history, None, SLOW).totals.snapshots == 36
    # The head, and one more that alone is not worth a commit yet.
    assert replay(history, policy, SLOW).totals.snapshots == 2


def carried(here, **delta):
    """A recorded removal, on a partition as it is here."""
    recorded = PartitionDelta(**delta, removed=FileStats(1, 1, 1))
    one = Change(1, None, 1, NOW, "overwrite", Origin.FOREIGN, {key(): recorded})
    return carried_over(one, {key(): here}).partitions[key()]


def test_a_removal_takes_what_is_there_where_it_is_there():
    gone = {size_bucket(MIB): FileStats(-2, -200, -2 * MIB)}

    assert carried(PartitionState(files(5, MIB)), data=gone).data == gone


def test_a_removal_from_files_that_were_merged_takes_their_rows():
    here = PartitionState(files(1, 100 * MIB, 1000))
    delta = carried(here, data={size_bucket(MIB): FileStats(-2, -200, -2 * MIB)})

    assert delta.data == {size_bucket(100 * MIB): FileStats(0, -200, -20 * MIB)}


def test_a_removal_of_all_rows_takes_all_files():
    here = PartitionState(files(1, 100 * MIB, 200))
    delta = carried(here, data={size_bucket(MIB): FileStats(-2, -200, -2 * MIB)})

    assert delta.data == {size_bucket(100 * MIB): FileStats(-1, -200, -100 * MIB)}


def test_no_more_leaves_than_there_is():
    here = PartitionState(files(1, 100 * MIB, 50))
    delta = carried(here, data={size_bucket(MIB): FileStats(-2, -200, -2 * MIB)})

    assert delta.data == {size_bucket(100 * MIB): FileStats(-1, -50, -100 * MIB)}


def test_rows_whose_deletes_were_applied_already_do_not_leave_twice():
    here = PartitionState(files(1, 100 * MIB, 300))
    delta = carried(
        here,
        data={
            size_bucket(MIB): FileStats(-2, -200, -2 * MIB),
            size_bucket(2 * MIB): FileStats(1, 150, 2 * MIB),
        },
        deletes={FileKind.POSITION_DELETES: FileStats(-1, -50, -500)},
    )

    assert sum(stats.rows for stats in delta.data.values()) == 0
    assert delta.deletes == {}


def test_changes_that_do_not_lead_to_the_state_are_refused():
    one = Change(1, None, 1, NOW, "append", Origin.FOREIGN, {key(): added(3)})

    with pytest.raises(StateError, match="would have held"):
        counted_back({key(): PartitionState(files(2))}, [one], NOW)
