"""Writers that come in visits: whatever rhythm they have, no silence within a visit is taken for its end."""

from itertools import accumulate, pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from isotherm.contract.summary import Origin
from isotherm.core.partition_state import PartitionState
from isotherm.core.state import apply, with_pauses
from isotherm.core.units import DAY_MS as DAY
from isotherm.core.units import HOUR_MS as HOUR
from isotherm.core.units import MINUTE_MS as MINUTE
from isotherm.core.visits import MOST, NO_VISITS
from support.builders import HOURLY, NOW, added, change, key, table_state

LONG = 2 * HOUR
"""What counts as an absence under the default policy."""


def visits_of(*gaps_ms):
    """What is remembered of commits with these gaps between them."""
    visits = NO_VISITS.after(NOW)
    for at_ms in accumulate(gaps_ms, initial=NOW):
        visits = visits.after(at_ms)
    return visits


def nights(*gaps_ms, of=4, away_ms=21 * HOUR):
    return [gap for _ in range(of) for gap in (away_ms, *gaps_ms)]


@pytest.mark.parametrize(
    ("gaps_ms", "within_ms"),
    [
        (nights(), 0),
        (nights(10 * MINUTE), 10 * MINUTE),
        (nights(*(90 * MINUTE,) * 2), 90 * MINUTE),
        ([*nights(*(90 * MINUTE,) * 2), 21 * HOUR], 90 * MINUTE),
        (nights(*(9 * MINUTE,) * 40), 9 * MINUTE),
        (nights(HOUR, HOUR, 100 * MINUTE, HOUR, HOUR, HOUR), 100 * MINUTE),
        # Run again some hours later, now and then.
        ((*nights(210 * MINUTE, of=2), *nights(of=2, away_ms=DAY)), 0),
        ((5 * HOUR,) * 20, 0),
        ((5 * HOUR, 5 * HOUR, 14 * HOUR) * 3, 0),
        (nights(2 * MINUTE), 0),
        (nights(of=2), None),
        ((90 * MINUTE,) * 40, None),
        ((MINUTE,) * 500, None),
        # A stream that was down three times.
        ((5 * HOUR, *(MINUTE,) * 1500) * 3, None),
        # A batch each night, and then a stream that stands still for a quarter of an hour.
        ([*nights(), *(MINUTE,) * 2600, 15 * MINUTE], None),
        # That it was down is forgotten once it comes in visits.
        ([*(5 * HOUR, *(MINUTE,) * 1500) * 3, *nights(of=4)], 0),
    ],
)
def test_visits_are_known_by_the_absences_between_them(gaps_ms, within_ms):
    assert visits_of(*gaps_ms).longest_within_ms(LONG) == within_ms


def naively(times, long_ms):
    """The same of all that ever was, by the definition."""
    gaps = [later - earlier for earlier, later in pairwise(times)]
    long = [place for place, gap in enumerate(gaps) if gap > long_ms][-3:]
    if len(long) < 3:
        return None
    starts = [times[place + 1] for place in long]
    ends = [*(times[place] for place in long[1:]), times[-1]]
    if any(end - start > 2 * gaps[place] for place, start, end in zip(long, starts, ends, strict=True)):
        return None
    return max([gap for gap in gaps[long[0] :] if 5 * MINUTE <= gap <= long_ms], default=0)


GAPS = st.one_of(
    st.integers(0, 12 * MINUTE),
    st.sampled_from([HOUR, 2 * HOUR, 3 * HOUR]),
    st.integers(10 * MINUTE, 5 * HOUR),
    st.integers(4 * HOUR, 2 * DAY),
)


@given(st.lists(GAPS, max_size=60), st.sampled_from([HOUR, LONG, 4 * HOUR, 12 * HOUR]))
@example([5 * HOUR, 5 * HOUR, 14 * HOUR] * 5, LONG)
def test_whoever_is_said_to_come_in_visits_does_and_no_pause_within_them_is_longer(gaps_ms, long_ms):
    """What is forgotten may keep a partition hot. It never makes a pause within a visit look like an absence."""
    visits = visits_of(*gaps_ms)
    within_ms = visits.longest_within_ms(long_ms)
    surely = naively(list(accumulate(gaps_ms, initial=NOW)), long_ms)

    assert len(visits.absences) <= MOST
    if within_ms is not None and within_ms <= long_ms:
        assert surely is not None
        assert within_ms >= surely


def test_what_the_daemon_did_not_hear_of_in_time_is_no_absence_of_its_writers():
    """It was down for five hours, three times. Between the commits that it heard of then lay a minute each."""
    state, partitions, late_ms = table_state(), {}, 0
    for number in range(300):
        at_ms = NOW + number * MINUTE
        late_ms = 5 * HOUR if number % 90 == 80 else max(late_ms - MINUTE, 0)
        one = change(number + 2, state.head, {key(1): added(1)}, committed_at_ms=at_ms)
        applied = apply(state, partitions, one, HOURLY, at_ms + late_ms)
        state, partitions = applied.state, dict(applied.partitions)

    assert partitions[key(1)].visits.absences == ()
    assert partitions[key(1)].pauses_ms == ()


def test_of_a_partition_that_a_scan_has_found_the_first_pause_counts_from_its_last_write():
    found = {key(1): PartitionState(added(1).data, last_write_at_ms=NOW)}
    one = change(2, 1, {key(1): added(1)}, committed_at_ms=NOW + 2 * HOUR)
    after = apply(table_state(head=1), found, one, HOURLY, NOW + 3 * HOUR).partitions[key(1)]

    assert after.pauses_ms == (2 * HOUR,)
    assert [one.away_ms for one in after.visits.absences] == [2 * HOUR]


@pytest.mark.parametrize(
    ("lost", "head", "pauses"),
    [
        ((), 6, [2 * HOUR] * 5),
        ((3,), 6, [2 * HOUR] * 2),
        ((6,), 6, []),
        ((1, 2), 6, [2 * HOUR] * 3),
        ((), 7, [2 * HOUR] * 5),
        ((), 8, []),
    ],
    ids=["nothing", "in between", "the newest", "the oldest", "ours came since", "two came since"],
)
def test_where_a_change_is_missing_nobody_knows_who_wrote_meanwhile(lost, head, pauses):
    """A daemon that was down for long has the table scanned, and does not hear of each commit that it missed."""
    recorded = [
        (change(number, number - 1, {key(1): added(1)}, committed_at_ms=at_ms), at_ms)
        for number in range(1, 7)
        if number not in lost
        for at_ms in [NOW + 2 * HOUR * number]
    ]
    found = {key(1): PartitionState(added(6).data)}
    origin = Origin.MAINTENANCE if head > 6 else Origin.FOREIGN
    after = with_pauses(found, recorded, change(head, head - 1, origin=origin))[key(1)]

    assert list(after.pauses_ms) == pauses
    assert [one.away_ms for one in after.visits.absences] == pauses


def test_a_clock_that_ran_ahead_makes_no_absence_longer():
    visits = NO_VISITS.after(NOW + 40 * DAY).after(NOW).after(NOW + 2 * HOUR)

    assert [one.away_ms for one in visits.absences] == [2 * HOUR]
