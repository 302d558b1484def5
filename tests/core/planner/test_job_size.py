"""How much one job takes: what fits the pause of its writers, and what a budget allows."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.core.model.decisions import Verdict
from isotherm.core.model.files import FileKind, FileStats, size_bucket
from isotherm.core.partition_state import PartitionState
from isotherm.core.planner.plan import plan
from isotherm.core.policy.policy import Compact, Policy, Work
from isotherm.core.units import parse_size
from support.builders import GIB, MIB, MINUTE, NOW, files, key, partition, view
from support.drawn_views import partition_states
from support.planned import POLICY


def test_deletes_that_are_merged_along_make_no_job_larger_than_a_budget_allows():
    """It would wait for ever."""
    deletes = {FileKind.POSITION_DELETES: FileStats(60, 6000, 100 * MIB)}
    state = PartitionState(data=files(100, 20 * MIB, rows=10**6), deletes=deletes, last_write_at_ms=0)
    policy = Policy(work=Work(bytes_per_hour=GIB))
    decision = plan(view({key(1): state}), policy, NOW).of_partitions[0]

    assert decision.verdict is Verdict.DUE
    assert decision.bytes <= GIB


PAUSES = (20 * MINUTE, 20 * MINUTE, 20 * MINUTE, 6 * MINUTE, 20 * MINUTE)


@pytest.mark.parametrize(
    ("quiet", "size", "verdict", "why"),
    [
        (15 * MINUTE, MIB, Verdict.DUE, "10 files, 10.0 MiB to rewrite"),
        (15 * MINUTE, 90 * MIB, Verdict.DUE, "100 files, 8.8 GiB to rewrite"),
        (19 * MINUTE + 55_000, 90 * MIB, Verdict.WAITING, "its writers come back in"),
        (23 * MINUTE, 90 * MIB, Verdict.DUE, "8.8 GiB to rewrite"),
    ],
    ids=["a small job", "a large one in parts", "not even two files", "longer than any pause"],
)
def test_a_job_is_as_long_as_its_writers_stay_away(quiet, size, verdict, why):
    """They come back every twenty minutes or so. Of a large partition as much is taken as fits."""
    count = 10 if size == MIB else 100
    state = replace(partition(count, size), last_write_at_ms=NOW - quiet, pauses_ms=PAUSES)
    decision = plan(view({key(1): state}), POLICY, NOW).of_partitions[0]

    if verdict is Verdict.DUE and size > MIB and quiet < 20 * MINUTE:
        assert decision.bytes < 10 * GIB
        assert 10_000 + decision.bytes * 1000 // (20 * MIB) <= 20 * MINUTE - quiet
    else:
        assert why in decision.why
    assert decision.verdict is verdict
    if verdict is Verdict.WAITING:
        assert decision.wake.at_ms == NOW - quiet + 20 * MINUTE


@pytest.mark.parametrize(
    ("millions", "quiet", "verdict", "why"),
    [
        (192, 16 * MINUTE, Verdict.DUE, "2.9 GiB to read, equality deletes become position deletes"),
        (192, 18 * MINUTE, Verdict.WAITING, "its writers come back in 2m"),
        (350, 16 * MINUTE, Verdict.DUE, "4.4 GiB to rewrite"),
    ],
    ids=["it fits", "it fits the next pause", "no pause is as long"],
)
def test_equality_deletes_are_not_applied_in_parts_where_they_can_be_converted_in_the_next_pause(
    millions, quiet, verdict, why
):
    """A part takes no delete away, and the partition would rest from it for a day."""
    deletes = {FileKind.EQUALITY_DELETES: FileStats(70, 70_000, MIB)}
    data = files(288, 128 * MIB, rows=millions * 10**6 // 288)
    state = PartitionState(data, deletes, last_write_at_ms=NOW - quiet, pauses_ms=(20 * MINUTE,) * 4)
    (decision,) = plan(view({key(1): state}), Policy(), NOW).of_partitions

    assert decision.verdict is verdict
    assert why in decision.why


@pytest.mark.parametrize(
    ("pauses_ms", "work", "says"),
    [
        (
            (20 * MINUTE,) * 4,
            Work(),
            "5.3 GiB would make position deletes of them, but the pause that its writers",
        ),
        ((), Work(bytes_per_hour=4 * GIB), "of them, but work.bytes_per_hour allows 4.0 GiB"),
        (
            (),
            Work(bytes_per_day=4 * GIB, bytes_per_hour=6 * GIB),
            "of them, but work.bytes_per_day allows 4.0 GiB",
        ),
        ((), Work(bytes_per_hour=6 * GIB), None),
    ],
    ids=["the pause", "an hour", "a day", "it fits"],
)
def test_the_why_of_applied_equality_deletes_names_what_keeps_them_from_becoming_positions(
    pauses_ms, work, says
):
    deletes = {FileKind.EQUALITY_DELETES: FileStats(70, 70_000, MIB)}
    data = files(288, 128 * MIB, rows=350 * 10**6 // 288)
    state = PartitionState(data, deletes, last_write_at_ms=NOW - 16 * MINUTE, pauses_ms=pauses_ms)
    (decision,) = plan(view({key(1): state}), Policy(work=work), NOW).of_partitions

    assert decision.take.converts_equality is (says is None)
    assert (says or "equality deletes become position deletes") in decision.why


@given(partition_states(), st.integers(GIB, 9 * GIB), st.integers(1, 2000))
def test_who_raises_a_budget_as_far_as_the_why_says_has_raised_it_enough(state, limit, times):
    """With a larger budget a job takes more."""
    state = replace(
        state, data={bucket: FileStats(s.files * times, s.rows, s.bytes * times) for bucket, s in state.data.items()},
        compacted_at_ms=None, last_write_at_ms=0, stamped_at_ms=None, arrivals=(),
    )  # fmt: skip

    def why(most):
        policy = Policy(work=Work(bytes_per_hour=most), compact=Compact(max_delete_ratio=0.001))
        (decision,) = plan(view({key(1): state}), policy, NOW).of_partitions
        return decision.why

    said = re.search(r"its ([0-9.]+ .i?B) are more than work.bytes_per_hour ever allows", why(limit))
    if said:
        enough = parse_size(said.group(1).replace(" ", ""))
        assert "ever allows" not in why(enough), why(enough)


def test_what_is_said_to_be_enough_is_so_as_it_is_said():
    """1,029.6 MiB is 1.1 GiB in words, and under that much a job took 1.11 GiB."""
    deletes = {
        FileKind.POSITION_DELETES: FileStats(1, 98, 98 * MIB),
        FileKind.DELETION_VECTORS: FileStats(1, 54, 54 * MIB),
    }
    data = {size_bucket(96 * MIB): FileStats(63, 100, 63 * 96 * MIB)}
    state = PartitionState(data, deletes, last_write_at_ms=0)

    def why(most):
        policy = Policy(work=Work(bytes_per_hour=most), compact=Compact(max_delete_ratio=0.001))
        (decision,) = plan(view({key(1): state}), policy, NOW).of_partitions
        return decision.why

    said = re.search(r"its ([0-9.]+ .i?B) are more than", why(GIB))
    assert said is not None
    assert "are more than" not in why(parse_size(said.group(1)))


def test_where_no_job_is_allowed_that_is_why_it_waits():
    policy = Policy(work=Work(jobs_at_once=0))
    (decision,) = plan(view({key(1): partition(30)}), policy, NOW).of_partitions

    assert (decision.verdict, "work.jobs_at_once allows no job" in decision.why) == (Verdict.WAITING, True)


def test_deletes_that_do_not_fit_a_budget_keep_no_small_files_waiting():
    """The keys of the large files that deletes name are more than an hour allows; a hundred small ones are not."""
    large, small = PartitionState(data=files(8, 2 * GIB, rows=10**8), last_write_at_ms=0), partition(100, MIB)
    deletes = {FileKind.EQUALITY_DELETES: FileStats(12, 100, MIB)}
    both = replace(small, data={**large.data, **small.data}, deletes=deletes)
    world = view({key(1): both, key(2): replace(large, deletes=deletes)}, hour_budget_bytes=GIB)
    first, without_small = plan(world, Policy(), NOW).of_partitions

    assert (first.verdict, first.files, first.bytes) == (Verdict.DUE, 100, 100 * MIB)
    assert first.why.startswith("cold and due: 100 of 6 files below 96.0 MiB;")
    assert without_small.verdict is Verdict.WAITING
    assert "12 of 10 equality-delete files" in without_small.why


def test_why_keys_of_a_huge_partition_are_not_read_is_said():
    deletes = {FileKind.EQUALITY_DELETES: FileStats(70, 70_000, MIB)}
    state = PartitionState(files(1600, 128 * MIB, rows=10**6), deletes, last_write_at_ms=0)
    (decision,) = plan(view({key(1): state}), Policy(), NOW).of_partitions

    assert decision.why.endswith("would make position deletes of them, but a job reads 10.0 GiB at most")
