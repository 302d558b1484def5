"""What an experienced person would ask of the decisions, held against each workload, under the default and the examples."""

import pytest

from isotherm.core.policy.policy import Compact, Policy
from support.builders import DAY, HOUR, KIB, MIB, MINUTE
from workloads import appends
from workloads.catalogue import CASES, WORKLOADS, Kind, outcome
from workloads.expiring import MOST_A_DAY, STREAMS, expiries_a_day
from workloads.fleets import one_large_job, one_large_partition, one_old_table, one_that_is_read
from workloads.measuring import measured, policy_of
from workloads.updates import gdpr_by_file, keyed_deletes, loaded_anew

GOALS = {
    "written twice at most": lambda got: got.write_amplification <= 2.05,
    "below three files, once settled": lambda got: got.settled_mean < 3,
    "below six files, once settled": lambda got: got.settled_mean < 6,
    "done within days": lambda got: got.jobs > 0 and got.delay_longest_ms <= 8 * DAY,
    "written 2.5 times at most": lambda got: got.write_amplification <= 2.5,
    "below 120 files": lambda got: got.files_p95 < 120,
    "below 120 files, once settled": lambda got: got.settled_p95 < 120,
    "half of them merged": lambda got: got.settled_mean < 15,
    "the last days as the others": lambda got: got.files_mean < 130,
    "below two hundred files too many": lambda got: got.spare_mean < 200,
    "left as it is": lambda got: got.write_amplification <= 1.1,
    "nothing in vain": lambda got: got.thrown_away == 0,
    "few repeats": lambda got: got.repeats < 0.02,
    "never in vain twice in a row": lambda got: got.in_a_row <= 1,
    "not left alone": lambda got: got.jobs > 0 or got.spare_mean <= 20,
}
OF_ALL = ("never in vain twice in a row", "not left alone")
OF_KIND = {
    Kind.APPENDS: ("written twice at most", "below three files, once settled", "few repeats"),
    Kind.LATE: ("written twice at most", "few repeats"),
    Kind.LONG: ("written twice at most", "done within days", "few repeats"),
    Kind.MIRROR: ("written 2.5 times at most", "below 120 files", "few repeats"),
    Kind.TIMELESS: (),
    Kind.ODD: (),
}
OF_ONE = {
    "hourly_late": ("below three files, once settled",),
    "hourly_slow": ("below three files, once settled",),
    "hourly_big": ("below three files, once settled",),
    # Of the first days there are late rows alone, of which nothing was compacted before.
    "monthly_in_two": ("written 2.5 times at most", "nothing in vain", "below 120 files"),
    "monthly_nightly": ("written 2.5 times at most", "few repeats", "nothing in vain"),
    "sensors": ("below six files, once settled",),
    "closing_orders": ("half of them merged",),
    "mirror_month": ("written 2.5 times at most", "few repeats", "the last days as the others"),
    "one_delete_row": ("written 2.5 times at most",),
    "old_table": ("written twice at most",),
    "regions": ("written twice at most", "below 120 files"),
    "buckets": ("few repeats", "written 2.5 times at most"),
    "half_hourly": ("written twice at most", "below two hundred files too many"),
    "hourly_merge": ("written 2.5 times at most",),
    "fortnight": ("written twice at most", "below 120 files"),
    "delete_files": ("below 120 files, once settled",),
    "gdpr_nightly": ("below 120 files", "half of them merged", "left as it is"),
    "well_sized_batch": ("left as it is",),
}
FLEETS = (
    pytest.param(lambda: one_old_table(partitions=200, hours=4), HOUR, id="one_old_table"),
    pytest.param(lambda: one_large_job(hours=8), 3 * HOUR, id="one_large_job"),
    pytest.param(lambda: one_large_partition(hours=6), 3 * HOUR, id="one_large_partition"),
)


def asked():
    """Every goal of every case."""
    for name, example in CASES:
        for goal in (*OF_ALL, *OF_KIND[WORKLOADS[name].kind], *OF_ONE.get(name, ())):
            label = f"{name}-{example or 'default'}-{goal}"
            yield pytest.param(name, example, goal, id=label.replace(" ", "_"))


@pytest.mark.parametrize(("name", "example", "goal"), list(asked()))
def test_what_is_asked_of_the_decisions(name, example, goal):
    got = outcome(name, example, is_short=True)

    assert GOALS[goal](got), got


@pytest.mark.parametrize(("play", "most_ms"), FLEETS)
def test_nothing_waits_for_its_turn_for_longer_than(play, most_ms):
    waits = play()

    assert waits
    assert max(one.waited_ms for one in waits) <= most_ms


def test_of_tables_that_are_due_alike_the_one_that_is_read_waits_least_and_the_others_hardly_longer():
    def mean_ms(waits):
        return sum(one.waited_ms for one in waits) / len(waits)

    (unread, alone), (read, others) = (
        ([one for one in waits if one.table == "shop.z"], [one for one in waits if one.table != "shop.z"])
        for waits in (one_that_is_read(3), one_that_is_read(3, reads_per_day=400))
    )

    assert mean_ms(read) < MINUTE < mean_ms(unread)
    assert mean_ms(others) < mean_ms(alone) + MINUTE


def test_a_backlog_that_is_read_much_keeps_the_others_waiting_for_minutes():
    waits = one_old_table(partitions=200, hours=4, reads_per_day=10_000)

    assert max(one.waited_ms for one in waits) <= 5 * MINUTE


def test_the_keys_of_a_partition_are_not_read_each_hour_for_a_few_rows_that_are_deleted():
    """From the second job on each waits until its rest is over, or much more is owed."""
    got = measured(keyed_deletes(days=3), Policy())

    assert 3 <= got.jobs <= 6


def test_delete_files_of_which_each_names_one_data_file_are_left_as_they_are():
    """Each reader opens one, and merged all of them would be read by each."""
    got = measured(gdpr_by_file(days=40), Policy())

    assert (got.jobs, got.files_p95) == (0, 80)


@pytest.mark.parametrize(
    ("apart_ms", "files_mean", "wait_ms"),
    [(DAY, (8, 12), 20 * MINUTE), (HOUR, (90, 100), DAY + 20 * MINUTE)],
    ids=["each night", "each hour"],
)
@pytest.mark.parametrize("is_emptied", [False, True])
def test_what_is_overwritten_as_a_whole_is_compacted_once_a_day(apart_ms, files_mean, wait_ms, is_emptied):
    """Each load is written in files of the same sizes, so what it changes cannot be told from its sums."""
    got = measured(loaded_anew(10, apart_ms, is_emptied=is_emptied), Policy())

    assert got.jobs == 10
    assert files_mean[0] <= got.files_mean <= files_mean[1]
    assert got.delay_longest_ms <= wait_ms


@pytest.mark.parametrize(
    ("stream", "most"), list(zip(STREAMS.values(), MOST_A_DAY, strict=True)), ids=STREAMS
)
def test_a_table_is_expired_once_a_day_or_as_often_as_its_commits_are_more_than_one_takes(stream, most):
    assert 0 < expiries_a_day(**stream) <= most


@pytest.mark.parametrize(("size", "most"), [(MIB, 2.05), (20 * KIB, 5)])
def test_what_is_only_appended_to_is_compacted_while_it_is_written(size, most):
    """Files and bytes that are written, once six hours have proved it: never more often than docs/design.md says."""
    past, policy = appends.log(2, size), Policy(compact=Compact(minor_after="6h"))
    alone, beside = measured(past, Policy()), measured(past, policy)

    assert (alone.jobs, beside.thrown_away) == (0, 0)
    assert beside.files_mean < alone.files_mean / 5
    assert 1 < beside.write_amplification <= most
    assert beside.files_p95 < 500


def test_under_the_example_for_logs_what_never_turns_cold_is_compacted_after_a_week():
    past = appends.log(10, apart_ms=4 * MINUTE)
    alone, got = measured(past, Policy()), measured(past, policy_of("log"))

    assert (alone.jobs, got.thrown_away) == (0, 0)
    assert 1.5 < got.write_amplification <= 2.05
    assert got.files_mean < 0.6 * alone.files_mean


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_is_the_same_each_time(name):
    make = WORKLOADS[name].make

    assert make(1) == make(1)
