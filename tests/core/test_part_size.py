"""How much a job reads after one that outlived its deadline, or its memory: a partition of any size is finished in the end."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.contract.identity import TableId
from isotherm.core.model.decisions import Verdict
from isotherm.core.model.files import FileKind, FileStats
from isotherm.core.model.holds import Hold, HoldKind, PartSize, Quarantine
from isotherm.core.model.job_limits import MAX_JOB_BYTES
from isotherm.core.model.jobs import ExecutorName, JobRead
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.core.part_size import (
    FORGOTTEN_AFTER,
    GROWS_MS,
    LEAST_KILLED_BYTES,
    after_failure,
    after_success,
    allowed_bytes,
)
from isotherm.core.partition_backoff import MAX_RETRY_MS, setback
from isotherm.core.partition_state import PartitionState
from isotherm.core.planner.file_selection import rewritten
from isotherm.core.planner.plan import plan
from isotherm.core.policy.policy import Compact, Policy, Work
from support.builders import DAY, GIB, HOUR, KIB, MIB, NOW, files, key, partition, view
from support.drawn_views import partition_states

TABLE = TableId("u", "db.t")
POLICY = Policy(compact=Compact(min_files=4))
TOO_LARGE = (Reason.DEADLINE, Reason.OUT_OF_MEMORY)
MOST_JOBS = 3_000
READ = JobRead(100, 0, 8 * GIB)


def failed(reason, before, read=READ, now_ms=NOW):
    return setback(TABLE, key(1), Refusal(reason, "a test"), before, 0, now_ms, read)


def held(part):
    """What is kept of a partition whose jobs went well in such parts."""
    return Hold(HoldKind.QUARANTINE, "u", "db.t", "deadline: a test", NOW, key(1), NOW, 0, part=part)


def read_by(decision, state):
    """What the job of a decision reads."""
    take, deletes = decision.take, 0
    if take.is_about_deletes:
        deletes = state.deletes_total.files if take.with_deletes else decision.files
    return JobRead(decision.files - deletes, deletes, decision.bytes)


def decided(state, hold, now_ms, facts=None):
    waits = {}
    if hold is not None:
        waits = {key(1): Quarantine(hold.until_ms, hold.failures, hold.why, hold.part)}
    more = {} if facts is None else {"facts": facts}
    return plan(view({key(1): state}, quarantined=waits, **more), POLICY, now_ms).of_partitions[0]


@pytest.mark.parametrize("reason", TOO_LARGE)
def test_after_a_job_that_did_not_end_in_time_the_next_one_reads_half_and_half_again(reason):
    hold = failed(reason, None, JobRead(100, 0, 8 * GIB))
    again = failed(reason, hold, JobRead(50, 0, 4 * GIB))

    assert (hold.part, again.part) == (PartSize(4 * GIB, NOW), PartSize(2 * GIB, NOW))


@pytest.mark.parametrize("reason", sorted(set(Reason) - set(TOO_LARGE)))
def test_no_other_end_makes_a_job_smaller_and_none_forgets_that_it_is(reason):
    part, read = PartSize(GIB, NOW - DAY), JobRead(100, 0, 8 * GIB)

    assert after_failure(None, reason, read, NOW) is None
    assert after_failure(held(part), reason, read, NOW) is part


KILLED, CRASHED, SUCCESS = Reason.KILLED, Reason.CRASHED, None


@pytest.mark.parametrize(
    ("ends", "part"),
    [
        ([KILLED], None),
        ([KILLED, KILLED], 4 * GIB),
        ([KILLED, KILLED, KILLED], 2 * GIB),
        ([KILLED, SUCCESS, KILLED], None),
        ([CRASHED], None),
        ([CRASHED, CRASHED], 4 * GIB),
        ([KILLED, CRASHED, KILLED], 2 * GIB),
        ([CRASHED, SUCCESS, CRASHED], None),
        ([Reason.CORRUPT_FILE, CRASHED], None),
        ([KILLED, KILLED, SUCCESS, KILLED], 4 * GIB),
        ([Reason.CORRUPT_FILE, KILLED], None),
        ([KILLED, Reason.CONFLICT, KILLED], None),
        ([Reason.DEADLINE, KILLED], 4 * GIB),
        ([KILLED, Reason.STORAGE, KILLED], 4 * GIB),
        ([KILLED, Reason.STORAGE, Reason.CATALOG, KILLED], 4 * GIB),
        ([Reason.CORRUPT_FILE, Reason.STORAGE, KILLED], None),
        ([Reason.STORAGE, KILLED], None),
        ([KILLED, SUCCESS, Reason.STORAGE, KILLED], None),
        ([KILLED, Reason.STORAGE, Reason.CONFLICT, KILLED], None),
    ],
)
def test_a_job_that_is_killed_twice_in_a_row_is_made_smaller_and_no_other_that_is_killed(ends, part):
    """Where memory is short the kernel kills it, or the daemon with it. Once, it may have been a person."""
    hold = None
    for reason in ends:
        if reason is SUCCESS:
            hold = hold and after_success(hold, NOW)
        else:
            allowed = 8 * GIB if hold is None or hold.part is None else hold.part.bytes
            refusal = Refusal(reason, "a test")
            hold = setback(TABLE, key(1), refusal, hold, DAY, NOW, JobRead(100, 0, allowed))

    assert (hold.part and hold.part.bytes) == part


def test_the_why_of_an_outage_says_why_a_job_failed_before():
    hold = failed(Reason.STORAGE, failed(Reason.STORAGE, failed(KILLED, None)))

    assert (hold.failures, hold.why) == (1, "storage: a test; it failed before as killed")


def test_who_fills_a_machine_is_no_small_job():
    """The kernel takes rewrites first. Jobs of twelve files left crumbs for four weeks, because of a neighbour."""
    least, few = LEAST_KILLED_BYTES, JobRead(12, 0, 12 * MIB)
    small = failed(KILLED, failed(KILLED, None, few), few)
    assert small.part is None

    hold, sizes = None, []
    for _ in range(6):
        allowed = 600 * MIB if hold is None or hold.part is None else hold.part.bytes
        hold = failed(KILLED, hold, JobRead(100, 0, allowed))
        sizes.append(hold.part and hold.part.bytes)
    assert sizes == [None, 300 * MIB, least, least, least, least]

    part = PartSize(100 * MIB, NOW - DAY)
    late = replace(held(part), failures=1, why="killed: a test")
    assert after_failure(late, KILLED, JobRead(9, 60, GIB), NOW) is part, (
        "what is smaller by something else stays"
    )


def test_a_job_that_reads_more_than_any_is_allowed_is_made_smaller_too():
    """Deletes are read with it, however many there are. Half of that was more than the most, and nothing followed."""
    hold = None
    for size in (5 * GIB, 5 * GIB // 2):
        hold = failed(Reason.DEADLINE, hold, JobRead(40, 400, 22 * GIB))
        assert hold.part == PartSize(size, NOW)


def test_a_writer_that_comes_back_meanwhile_lets_no_job_grow():
    hold = failed(Reason.DEADLINE, None, JobRead(100, 0, 8 * GIB))
    hold = setback(TABLE, key(1), Refusal(Reason.CONFLICT, "a test"), hold, DAY, NOW + HOUR)

    assert hold.part == PartSize(4 * GIB, NOW)


def test_what_is_read_whatever_is_allowed_makes_the_data_beside_it_less_all_the_same():
    """A gigabyte of deletes that name many files is read with one file as with a hundred."""
    part = PartSize(GIB, NOW)

    assert after_failure(held(part), Reason.DEADLINE, JobRead(50, 0, 3 * GIB), NOW) == PartSize(GIB // 2, NOW)


def test_a_job_of_two_files_is_made_no_smaller():
    """Once its store is fast again, whoever had crumbs of a size would be years at it."""
    read = JobRead(2, 0, 3 * GIB)

    assert after_failure(None, Reason.DEADLINE, read, NOW) is None
    assert after_failure(held(PartSize(GIB, NOW)), Reason.DEADLINE, read, NOW + DAY) == PartSize(
        GIB, NOW + DAY
    )


@pytest.mark.parametrize(
    ("read", "is_least"),
    [
        (JobRead(2, 0, GIB), True),
        (JobRead(3, 0, GIB), False),
        (JobRead(1, 60, GIB), True),
        (JobRead(2, 1, GIB), False),
        (JobRead(0, 2, GIB), True),
        (JobRead(0, 3, GIB), False),
    ],
)
def test_deletes_are_read_with_one_data_file_as_with_many(read, is_least):
    part = PartSize(GIB, NOW)

    assert read.is_least == is_least
    assert (after_failure(held(part), Reason.DEADLINE, read, NOW) == part) == is_least


def test_a_part_stays_what_one_data_file_takes_however_many_deletes_are_read_with_it():
    """It went to one byte: 400 files were 400 jobs once the limit was raised, for four weeks."""
    deletes = {FileKind.EQUALITY_DELETES: FileStats(60, 60_000_000, GIB)}
    state = replace(partition(400, 100 * MIB), last_write_at_ms=NOW - 90 * DAY, deletes=deletes)
    hold, now_ms, read = None, NOW, JobRead(400)
    for _ in range(40):
        decision = decided(state, hold, now_ms)
        read = read_by(decision, state)
        hold = failed(Reason.OUT_OF_MEMORY, hold, read, now_ms)
        now_ms = hold.until_ms

    assert (read.data_files, read.delete_files) == (1, 60)
    assert hold.part.bytes > 100 * MIB


def test_a_success_keeps_the_size_and_holds_nothing_back():
    hold = failed(Reason.DEADLINE, None, JobRead(100, 0, 8 * GIB))
    kept = after_success(hold, NOW)

    assert kept.part == hold.part
    assert hold.holds(NOW)
    assert not kept.holds(NOW)
    assert kept.failures == 0
    assert (kept.key, kept.why) == (hold.key, hold.why)


def test_a_success_forgets_a_wait_that_says_nothing_of_a_size():
    assert after_success(failed(Reason.CORRUPT_FILE, None, JobRead(9, 0, GIB)), NOW) is None


@pytest.mark.parametrize(
    ("weeks", "allowed"),
    [
        (-9, GIB),
        (0, GIB),
        (0.99, GIB),
        (1, 2 * GIB),
        (2.5, 4 * GIB),
        (3.99, 8 * GIB),
        (4, None),
        (10**9, None),
    ],
)
def test_with_each_week_a_job_may_read_twice_as_much_until_it_is_forgotten(weeks, allowed):
    now_ms = NOW + int(weeks * GROWS_MS)
    hold = failed(Reason.DEADLINE, None, JobRead(100, 0, 2 * GIB))

    assert allowed_bytes(hold.part, now_ms) == allowed
    assert (after_success(hold, now_ms) is None) == (allowed is None)


def test_a_part_is_forgotten_after_four_weeks_however_small_it_was():
    weeks = [allowed_bytes(PartSize(1, NOW), NOW + count * GROWS_MS) for count in range(6)]

    assert weeks == [1, 2, 4, 8, None, None]


@given(st.integers(1, 2**62), st.integers(-(10**13), 10**13))
def test_what_is_allowed_is_never_less_than_after_the_failure_and_always_less_than_any_job_reads(size, later):
    allowed = allowed_bytes(PartSize(size, NOW), NOW + later)

    assert allowed is None or size <= allowed < MAX_JOB_BYTES
    assert allowed is None or later < FORGOTTEN_AFTER * GROWS_MS


def test_the_verdict_says_how_much_is_read_at_most_and_why():
    state = replace(partition(100, 90 * MIB), last_write_at_ms=NOW - 30 * DAY)
    hold = failed(Reason.DEADLINE, None, JobRead(100, 0, 9000 * MIB))
    waiting, due = decided(state, hold, NOW), decided(state, hold, hold.until_ms)

    assert waiting.verdict is Verdict.WAITING
    assert waiting.why == (
        "failed once (deadline: a test); tried again in 1m, with 4.4 GiB at most, or two files"
    )
    assert due.verdict is Verdict.DUE
    assert due.why.endswith(
        "to rewrite; at most 4.4 GiB at once, or two files: a larger job outlived its deadline, or its memory"
    )
    assert due.bytes <= 4500 * MIB


def test_a_job_that_is_smaller_by_something_else_does_not_speak_of_it():
    state = replace(partition(10, MIB), last_write_at_ms=NOW - 30 * DAY)
    hold = failed(Reason.DEADLINE, None, JobRead(100, 0, 8 * GIB))
    less = Policy(compact=Compact(min_files=4), work=Work(bytes_per_hour=GIB))
    waits = {key(1): Quarantine(0, 1, "", hold.part)}
    (decision,) = plan(view({key(1): state}, quarantined=waits), less, NOW).of_partitions

    assert decision.verdict is Verdict.DUE
    assert "at once" not in decision.why


@pytest.mark.parametrize(
    ("files_", "policy", "executor"),
    [
        (30, POLICY, ExecutorName.SPARK),
        (12, POLICY, ExecutorName.LOCAL),
        (30, Policy(compact=Compact(min_files=4, executor=ExecutorName.LOCAL)), ExecutorName.LOCAL),
    ],
    ids=["the rest is large", "the rest is small", "the policy says where"],
)
def test_a_part_runs_where_the_whole_would(files_, policy, executor):
    """What a cluster did not end in its time would take this machine longer still, in the slots of all small jobs."""
    state = replace(partition(files_, 60 * MIB), last_write_at_ms=NOW - 30 * DAY)
    waits = {key(1): Quarantine(0, 1, "", PartSize(GIB // 4, NOW))}
    (request,) = plan(view({key(1): state}, quarantined=waits, cluster_from_bytes=GIB), policy, NOW).requests

    assert request.decision.bytes <= GIB // 4
    assert request.executor is executor


def at_rest(state):
    """As drawn, but left by its writers long ago."""
    return replace(
        state, last_write_at_ms=NOW - 60 * DAY, compacted_at_ms=None, stamped_at_ms=None, arrivals=()
    )


SIZES = st.dictionaries(st.sampled_from([KIB, MIB, 20 * MIB, 90 * MIB]), st.integers(1, 60), min_size=1)


def of_sizes(sizes):
    data = {}
    for size, count in sizes.items():
        data |= files(count, size)
    return PartitionState(data=data, last_write_at_ms=NOW - 60 * DAY)


def in_the_end(state, fits, reason):
    """The verdict on a partition of which no job ends that reads more than fits, once nothing can be done to it any more.

    At each moment it waits until a time that comes, or is due with a job that begins, or is done.
    """
    hold, now_ms, last = None, NOW, None
    for _ in range(MOST_JOBS):
        decision = decided(state, hold, now_ms)
        if decision.verdict in {Verdict.WAITING, Verdict.QUARANTINED}:
            assert now_ms < decision.wake.at_ms <= now_ms + MAX_RETRY_MS
            now_ms = decision.wake.at_ms
            continue
        if decision.verdict is not Verdict.DUE:
            return decision.verdict
        read = read_by(decision, state)
        assert decision.files >= 2
        if last is not None and not decision.take.is_about_deletes:
            assert read.is_least or read.bytes <= last // 2
        now_ms += HOUR
        if read.bytes <= fits:
            state, last = rewritten(state, decision.take, int(POLICY.compact.target_file_size)), None
            hold = None if hold is None else after_success(hold, now_ms)
        elif read.is_least:
            return Verdict.DUE
        else:
            hold, last = failed(reason, hold, read, now_ms), read.bytes
    raise AssertionError("its jobs do not come to an end")


@given(partition_states().map(at_rest), st.integers(1, 12 * GIB), st.sampled_from(TOO_LARGE))
def test_a_partition_is_finished_in_the_end_whatever_its_jobs_may_read_before_their_deadline(
    state, fits, reason
):
    """Where two of its files fit, and two of those that are made, with the deletes that are read beside them."""
    made = [stats.bytes // stats.files for stats in state.data.values()]
    least = 2 * max([int(POLICY.compact.target_file_size), *made]) + state.deletes_total.bytes

    assert in_the_end(state, max(fits, least), reason) is Verdict.CLEAN


@given(SIZES.map(of_sizes), st.integers(1, GIB), st.sampled_from(TOO_LARGE))
def test_all_is_done_that_two_files_at_a_time_can_do(state, fits, reason):
    """Files that are made of two are larger, and two of these may fit no more. Those that are large enough stay."""
    large_enough = 2 * int(POLICY.compact.target_file_size)

    assert in_the_end(state, fits, reason) is Verdict.CLEAN or fits < large_enough


@given(SIZES.map(of_sizes), st.integers(1, GIB))
def test_what_never_fits_is_tried_with_two_files_in_the_end_and_never_with_fewer(state, first):
    hold, now_ms, sizes = failed(Reason.DEADLINE, None, JobRead(9, 0, first)), NOW, []
    for _ in range(60):
        now_ms = hold.until_ms
        decision = decided(state, hold, now_ms)
        if decision.verdict is not Verdict.DUE:
            assert decision.verdict is Verdict.CLEAN
            return
        sizes.append(decision.files)
        hold = failed(Reason.DEADLINE, hold, read_by(decision, state), now_ms)
        assert hold.until_ms - now_ms <= MAX_RETRY_MS

    assert sizes[-1] == 2
    assert min(sizes) == 2
    assert hold.part.bytes > 0
