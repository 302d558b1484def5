"""When the stream has left a partition: far enough behind it, as the policy says or the table has shown, and quiet."""

from dataclasses import replace

import pytest

from isotherm.contract.identity import UNPARTITIONED
from isotherm.core.lateness import UNTAUGHT, Written, files_come_within
from isotherm.core.model.files import FileKind, FileStats
from isotherm.core.model.tables import PartitionField
from isotherm.core.partitions import TimeSpan
from isotherm.core.planner.coldness import boundary_rule, findings, first_hot, quiet_rule
from isotherm.core.planner.job_size import job_bytes
from isotherm.core.planner.view import Surroundings
from isotherm.core.policy.policy import Cold, Policy
from isotherm.core.visits import NO_VISITS
from support.builders import (
    BUCKETS,
    DAY,
    GIB,
    HOUR,
    HOURLY,
    MIB,
    MINUTE,
    NOW,
    facts,
    files,
    key,
    partition,
    table_state,
)

DAILY = (PartitionField(1000, "day", "day", "timestamptz"),)
YEARLY = (PartitionField(1000, "year", "year", "timestamptz"),)
HOUR_100 = key(100)
ENDS = 101 * HOUR


def found(behind_ms, lateness=UNTAUGHT, *, fields=HOURLY, where=HOUR_100, ends=ENDS, now_ms=NOW, **cold):
    state = table_state(boundary_ms=ends + behind_ms, lateness=lateness)
    written = partition(10, MIB, last_write_at_ms=now_ms - 2 * HOUR)
    return boundary_rule(where, written, Surroundings(state, fields), Cold.model_validate(cold), now_ms)


@pytest.mark.parametrize(
    ("after", "needed_ms"), [(0, 0), (2, 2 * HOUR), (0.5, 30 * MINUTE), ("90m", 90 * MINUTE), ("0s", 0)]
)
def test_a_policy_says_it_in_intervals_or_as_a_span(after, needed_ms):
    assert found(needed_ms - 1, after=after).is_hot
    assert not found(needed_ms, after=after).is_hot


def test_intervals_have_a_cap_and_a_span_has_none():
    assert not found(3 * HOUR, after=10, after_at_most="3h").is_hot
    assert found(3 * HOUR, after="4h", after_at_most="3h").is_hot


def test_a_table_of_which_nothing_is_known_waits_for_two_intervals():
    untaught = found(2 * HOUR - 1)

    assert untaught.is_hot
    assert untaught.why.endswith("2h needed: how late its rows come is not known yet")
    assert not found(2 * HOUR).is_hot


def test_where_files_come_late_it_is_as_long_as_they_need():
    late = files_come_within(20 * MINUTE, NOW)

    assert found(31 * MINUTE, late).is_hot
    assert not found(32 * MINUTE, late).is_hot
    assert found(31 * MINUTE, late).why == (
        "ends 31m behind the stream (boundary 1970-01-05 05:31:00), 32m needed: 49 of 50 files come within 32m"
    )


def test_it_is_never_longer_than_for_a_table_of_which_nothing_is_known():
    assert not found(2 * HOUR, files_come_within(10 * HOUR, NOW)).is_hot


def test_where_no_file_is_late_the_last_part_of_the_interval_is_its_end():
    """A load at three in the morning brings the whole of the day before, and its last row is of 23:59."""
    on_time = files_come_within(0, NOW)
    day = {"fields": DAILY, "where": key(10), "ends": 11 * DAY}
    year = {"fields": YEARLY, "where": key(0), "ends": 365 * DAY}

    assert found(-30 * MINUTE, on_time, **day).is_hot
    assert not found(2 * MINUTE, on_time, **day).is_hot
    assert found(-2 * HOUR, on_time, **year).is_hot


def test_a_partition_that_the_stream_is_within_is_not_looked_at_again_before_it_comes_to_its_end():
    """It is hot until then, whatever is learned. It was decided again every ten minutes."""
    silent_at_ms = NOW - 2 * HOUR + DAY
    within, at_its_end = found(-20 * MINUTE), found(-MINUTE)

    assert (within.wake.at_ms, within.wake.boundary_ms) == (silent_at_ms, ENDS - MINUTE)
    assert at_its_end.wake.at_ms == NOW + 10 * MINUTE


def test_it_is_looked_at_again_while_less_may_be_learned():
    late = found(40 * MINUTE)

    assert late.wake.at_ms == NOW + 10 * MINUTE
    assert late.wake.boundary_ms == ENDS + 2 * HOUR
    assert found(40 * MINUTE, after=2).wake.at_ms == NOW - 2 * HOUR + DAY


def test_what_a_clock_far_ahead_has_stamped_is_said_to_be_so():
    ahead = partition(10, MIB, last_write_at_ms=NOW + 3 * HOUR)
    around = Surroundings(table_state(boundary_ms=ENDS), HOURLY)

    assert quiet_rule(HOUR_100, ahead, around, Cold(), NOW).why == (
        "its last write is stamped 3h ahead of this machine's clock"
    )


def test_a_partition_is_as_quiet_as_the_last_writes_own_time_says_once_that_is_over():
    """This clock was behind when it came, and an hour beyond it was believed; now it is right."""
    written = replace(partition(10, MIB, last_write_at_ms=NOW - HOUR), stamped_at_ms=NOW - MINUTE)
    around = Surroundings(table_state(boundary_ms=ENDS + DAY), HOURLY)
    hot = first_hot(HOUR_100, written, around, Cold(), NOW)

    assert hot is not None
    assert hot.why == "quiet for 1m of 15m"
    assert first_hot(HOUR_100, written, around, Cold(), NOW - 2 * MINUTE) is None
    assert hot in findings(HOUR_100, written, around, Cold(), NOW)


@pytest.mark.parametrize("pauses_ms", [(20 * MINUTE,) * 3, (20 * MINUTE, HOUR, 16 * MINUTE, 20 * MINUTE)])
@pytest.mark.parametrize(("where", "fields"), [(key(1), BUCKETS), (HOUR_100, HOURLY)])
def test_commits_of_others_say_nothing_where_each_pause_of_its_writers_is_long(pauses_ms, where, fields):
    """A batch each twenty minutes that writes every partition: no commit of the table ever goes by without it."""
    state = table_state(foreign_commits=7)
    written = partition(10, MIB, last_write_at_ms=NOW - 16 * MINUTE, number=7)
    seldom = replace(written, pauses_ms=pauses_ms)
    around = Surroundings(state, fields)

    assert quiet_rule(where, written, around, Cold(), NOW).is_hot
    assert not quiet_rule(where, seldom, around, Cold(), NOW).is_hot
    for too_few in (pauses_ms[:2], (*pauses_ms, 14 * MINUTE)):
        assert quiet_rule(where, replace(written, pauses_ms=too_few), around, Cold(), NOW).is_hot


@pytest.mark.parametrize(
    ("pauses_h", "quiet_ms", "is_hot"),
    [
        ((23, 25, 24), 15 * MINUTE, False),
        ((23, 25, 24), 14 * MINUTE, True),
        ((3, 4, 3), 15 * MINUTE, False),
        ((3, 4, 2), 15 * MINUTE, True),
        ((23, 0.5, 25, 0.25, 24), 60 * MINUTE, False),
        ((23, 0.5, 25, 0.25, 24), 59 * MINUTE, True),
        ((23, 1.9, 25, 24), 3 * HOUR - 1, True),
        ((23, 1.9, 25, 24), 3 * HOUR, False),
        ((23, 3.5, 25, 24), 15 * MINUTE, False),
        ((23, 25), 15 * MINUTE, True),
        ((23, 25), DAY, False),
        ((), DAY - 1, True),
    ],
)
def test_where_writers_come_in_visits_a_job_begins_early_in_the_pause_between_them(
    pauses_h, quiet_ms, is_hot
):
    """A batch each night into the present month. After a day of silence the next one is due, and met a job of ours."""
    written = partition(10, MIB, last_write_at_ms=NOW - quiet_ms)
    visits, at_ms = NO_VISITS, NOW - quiet_ms - int(sum(pauses_h) * HOUR)
    for pause_h in (0, *pauses_h):
        at_ms += int(pause_h * HOUR)
        visits = visits.after(at_ms)
    written = replace(written, visits=visits)
    around = Surroundings(table_state(boundary_ms=ENDS - HOUR // 2), HOURLY)
    found = boundary_rule(HOUR_100, written, around, Cold(), NOW)

    assert found.is_hot is is_hot
    if not is_hot and quiet_ms == 15 * MINUTE:
        assert found.why == (
            "nobody wrote to it for 15m, 15m needed: its writers stay away for longer than 2h again and again"
        )
    assert not boundary_rule(HOUR_100, written, around, Cold(silent_for="10m"), NOW).is_hot


def test_a_pause_is_five_minutes_long_however_little_quiet_a_policy_asks_for():
    """Shorter ones are not on record, so that none was shorter says nothing."""
    written = partition(10, MIB, last_write_at_ms=NOW - 4 * MINUTE, number=7)
    seldom = replace(written, pauses_ms=(20 * MINUTE,) * 3)
    around, cold = Surroundings(table_state(foreign_commits=7), HOURLY), Cold(quiet_for="0s")
    early = quiet_rule(HOUR_100, seldom, around, cold, NOW)

    assert early.is_hot
    assert early.wake.at_ms == NOW + MINUTE
    assert quiet_rule(HOUR_100, written, around, cold, NOW).wake.at_ms == NOW + 56 * MINUTE
    assert not quiet_rule(HOUR_100, seldom, around, cold, NOW + MINUTE).is_hot


def test_of_a_table_that_became_unpartitioned_the_partition_of_all_new_files_needs_no_other_commits():
    state = table_state(foreign_commits=7)
    written = partition(10, MIB, last_write_at_ms=NOW - 16 * MINUTE, number=7)
    around = Surroundings(state, tuple(replace(one, is_current=False) for one in BUCKETS))

    assert not quiet_rule(UNPARTITIONED, written, around, Cold(), NOW).is_hot
    assert quiet_rule(key(1), written, around, Cold(), NOW).is_hot


@pytest.mark.parametrize("fields", [HOURLY, (replace(BUCKETS[0], field_id=999, is_current=False), *HOURLY)])
def test_the_partition_of_rows_without_a_value_is_quiet_once_others_have_gone_by(fields):
    """Rows without a time come at any time. What is older than the table's first division is there too."""
    written = partition(10, MIB, last_write_at_ms=NOW - 16 * MINUTE, number=7)
    hot = first_hot(
        UNPARTITIONED, written, Surroundings(table_state(foreign_commits=16), fields), Cold(), NOW
    )

    assert (hot.rule, hot.why) == ("quiet", "quiet for 9 of 10 commits of the table")
    assert (hot.wake.commits, hot.wake.at_ms) == (17, NOW + 44 * MINUTE)
    passed = Surroundings(table_state(foreign_commits=17), fields)
    assert first_hot(UNPARTITIONED, written, passed, Cold(), NOW) is None


@pytest.mark.parametrize(("version", "least", "most"), [(2, 12 * MIB, 2 * GIB), (3, 8 * GIB, 11 * GIB)])
def test_the_risk_is_that_of_the_job_which_the_format_allows(version, least, most):
    """In version 2 keys are read, and become position deletes; in version 3 deletes are applied, so the data is rewritten."""
    upserted = replace(
        partition(80, 128 * MIB), deletes={FileKind.EQUALITY_DELETES: FileStats(12, 1200, 12 * MIB)}
    )

    read_bytes = job_bytes(Policy(), facts(format_version=version))(upserted)

    assert least < read_bytes < most


def test_the_risk_is_that_of_what_a_job_reads_and_not_of_the_whole_partition():
    """A batch each half hour writes each of ten days: a job of ten minutes would meet it, and one of ten seconds not."""
    lateness, at_ms = UNTAUGHT, NOW
    days = [TimeSpan(number * DAY, (number + 1) * DAY) for number in range(10)]
    for _ in range(400):
        at_ms += 30 * MINUTE
        lateness = lateness.after(dict.fromkeys(days, Written(1, quiet=1)), 10 * DAY, 10, at_ms)
    around = Surroundings(table_state(boundary_ms=10 * DAY, lateness=lateness, foreign_commits=400), DAILY)
    large = partition(80, 128 * MIB, last_write_at_ms=at_ms, number=1)
    crumbs = replace(large, data={**large.data, **files(30, MIB)})
    laden = replace(crumbs, deletes={FileKind.POSITION_DELETES: FileStats(5, 90_000, MIB)})

    def hot(one, of=None):
        return first_hot(key(5), one, around, Cold(after=0), at_ms + 2 * HOUR, of)

    assert hot(crumbs).rule == "lateness"
    assert hot(crumbs, job_bytes(Policy(), facts())) is None
    assert "within the 8m 37s of a job" in hot(laden, job_bytes(Policy(), facts())).why
    assert job_bytes(Policy(), facts())(crumbs) == 30 * MIB


@pytest.mark.parametrize(
    ("pauses_min", "is_held"), [((30, 30, 30), False), ((30, 30, 25), True), ((30, 30), True), ((), True)]
)
def test_where_each_pause_was_long_enough_for_the_job_no_risk_holds_it_back(pauses_min, is_held):
    """The more a partition owes, the longer is its job, and the greater the risk: it would stay hot for good."""
    lateness, at_ms = UNTAUGHT, NOW
    days = [TimeSpan(number * DAY, (number + 1) * DAY) for number in range(10)]
    for _ in range(400):
        at_ms += 30 * MINUTE
        lateness = lateness.after(dict.fromkeys(days, Written(1, quiet=1)), 10 * DAY, 10, at_ms)
    around = Surroundings(table_state(boundary_ms=10 * DAY, lateness=lateness, foreign_commits=400), DAILY)
    large = partition(80, 128 * MIB, last_write_at_ms=at_ms, number=1)
    known = replace(large, pauses_ms=tuple(one * MINUTE for one in pauses_min))

    hot = first_hot(key(5), known, around, Cold(after=0), at_ms + 20 * MINUTE)

    assert (hot is not None and hot.rule == "lateness") is is_held


def test_the_rule_is_looked_at_again_once_the_present_pause_has_outlasted_a_short_one():
    """From then on the next longer one counts, and it may leave time enough."""
    lateness, at_ms = UNTAUGHT, NOW
    days = [TimeSpan(number * DAY, (number + 1) * DAY) for number in range(10)]
    for _ in range(400):
        at_ms += 30 * MINUTE
        lateness = lateness.after(dict.fromkeys(days, Written(1, quiet=1)), 10 * DAY, 10, at_ms)
    around = Surroundings(table_state(boundary_ms=10 * DAY, lateness=lateness, foreign_commits=400), DAILY)
    large = partition(80, 128 * MIB, last_write_at_ms=at_ms, number=1)
    known = replace(large, pauses_ms=tuple(one * MINUTE for one in (180, 180, 180, 20)))

    hot = first_hot(key(5), known, around, Cold(after=0), at_ms + 16 * MINUTE)

    assert (hot.rule, hot.wake.at_ms) == ("lateness", at_ms + 20 * MINUTE)
    assert first_hot(key(5), known, around, Cold(after=0), hot.wake.at_ms) is None
