"""What a replay makes of small histories: its jobs, its conflicts, what it counts, and what expires."""

from dataclasses import replace

from isotherm.contract.summary import Origin
from isotherm.core.policy.policy import Cold, Compact, Expire, Policy
from isotherm.core.replay.assumed import Assumed
from isotherm.core.replay.replay import replay
from support.builders import BUCKETS, HOUR, KIB, MIB, MINUTE, NOW, SECOND, key, snapshots
from support.written_history import Writer


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


EXPIRING = Policy(
    compact=Compact(enabled=False), expire=Expire(keep_for="1m", keep_last=1, at_once=2, every="0s")
)


def test_a_snapshot_that_a_tag_names_is_not_expired():
    history = replace(one_cold_partition().history(HOUR), pinned=frozenset({2}))

    # It, the head, and one more that alone is not worth a commit yet.
    assert replay(history, EXPIRING, SLOW).totals.snapshots == 3


def test_a_sink_that_keeps_its_place_in_snapshots_goes_on_and_lets_the_old_ones_expire():
    history = one_cold_partition().history(HOUR)
    by_a_sink = [replace(one, change=replace(one.change, origin=Origin.FOREIGN)) for one in history.recorded]

    assert replay(replace(history, recorded=tuple(by_a_sink)), EXPIRING, SLOW).totals.snapshots == 1


def test_snapshots_that_were_there_before_are_expired_too():
    before = snapshots(30, newest_at_ms=NOW - HOUR)
    history = replace(one_cold_partition().history(HOUR), snapshots=before)

    assert replay(history, None, SLOW).totals.snapshots == 36
    # The head alone.
    assert replay(history, EXPIRING, SLOW).totals.snapshots == 1
