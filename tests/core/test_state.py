"""What a change makes of a table's state and of its partitions, and that it can be undone."""

import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.contract.identity import partition_key
from isotherm.contract.summary import Origin
from isotherm.core.model.files import FileKind, FileStats, total
from isotherm.core.partition_state import StateError
from isotherm.core.state import apply
from isotherm.core.units import HOUR_MS
from support.builders import BUCKETS, HOUR, HOURLY, KIB, MINUTE, NOW, added, change, key, removed, table_state

SIZES = st.sampled_from([KIB, 100 * KIB, 1024 * KIB])


@st.composite
def histories(draw):
    """Changes that could have happened: nothing is removed that was not there."""
    live: dict[tuple[int, int], int] = {}
    changes = []
    for number in range(2, draw(st.integers(2, 12))):
        place = (draw(st.integers(0, 3)), draw(SIZES))
        count = draw(st.integers(1, 3))
        if live.get(place, 0) >= count and draw(st.booleans()):
            delta, live[place] = removed(count, place[1]), live[place] - count
        else:
            delta, live[place] = added(count, place[1]), live.get(place, 0) + count
        origin = draw(st.sampled_from(Origin))
        changes.append(change(number, number - 1, {key(place[0]): delta}, origin=origin))
    return changes, live


def fold(state, changes):
    partitions, priors = {}, []
    for one in changes:
        applied = apply(state, partitions, one, HOURLY, NOW)
        state = applied.state
        priors.append(applied.prior)
        partitions = {k: v for k, v in {**partitions, **applied.partitions}.items() if v is not None}
    return state, partitions, priors


@given(histories())
def test_the_fold_counts_what_is_live(history):
    changes, live = history
    _, partitions, _ = fold(table_state(), changes)
    counted = {
        (place, size): sum(stats.files for stats in [partitions[key(place)].data.get(bucket, FileStats())])
        for (place, size) in live
        for bucket in [next(iter(added(1, size).data))]
        if key(place) in partitions
    }

    assert {place: count for place, count in live.items() if count} == {p: c for p, c in counted.items() if c}


@given(histories())
def test_the_totals_are_the_sum_of_the_partitions(history):
    state, partitions, _ = fold(table_state(), history[0])

    assert state.totals.get(FileKind.DATA, FileStats()) == total(
        one.data_total for one in partitions.values()
    )


@given(histories())
def test_undoing_gives_back_what_was_there(history):
    changes, _ = history
    start = table_state()
    state, partitions, priors = fold(start, changes)
    for prior in reversed(priors):
        state = prior.state
        partitions = {k: v for k, v in {**partitions, **prior.partitions}.items() if v is not None}

    assert (start, {}) == (state, partitions)


def test_a_change_that_does_not_follow_the_head_is_refused():
    with pytest.raises(StateError, match="follows 7"):
        apply(table_state(head=1), {}, change(8, 7), HOURLY, NOW)


def test_a_count_below_zero_is_refused():
    with pytest.raises(StateError, match="would hold"):
        apply(table_state(head=1), {}, change(2, 1, {key(): removed()}), HOURLY, NOW)


def test_a_partition_without_live_files_is_gone():
    first = apply(table_state(head=1), {}, change(2, 1, {key(): added()}), HOURLY, NOW)
    second = apply(first.state, first.partitions, change(3, 2, {key(): removed()}), HOURLY, NOW)

    assert second.partitions == {key(): None}


@pytest.mark.parametrize(
    ("fields", "counts"),
    [
        ({"origin": Origin.INGEST}, True),
        ({"origin": Origin.FOREIGN, "operation": "overwrite"}, True),
        ({"origin": Origin.MAINTENANCE, "operation": "replace"}, False),
        ({"origin": Origin.FOREIGN, "operation": "replace"}, False),
    ],
    ids=["ingest", "foreign-overwrite", "ours", "foreign-rewrite"],
)
def test_only_writes_of_others_count_as_writes(fields, counts):
    applied = apply(table_state(head=1), {}, change(2, 1, {key(): added()}, **fields), HOURLY, NOW + MINUTE)
    expected = NOW + MINUTE if counts else None

    assert expected == applied.partitions[key()].last_write_at_ms
    assert applied.state.foreign_commits == table_state().foreign_commits + counts


@pytest.mark.parametrize(
    ("delta", "late"),
    [
        (added(2), 2),
        (replace(added(2), deletes={FileKind.POSITION_DELETES: FileStats(1, 9, KIB)}), 0),
        (replace(added(2), removed=FileStats(1, 9, KIB)), 0),
        (replace(added(2), deletes={FileKind.EQUALITY_DELETES: FileStats(1, 9, KIB)}), 2),
    ],
    ids=["appended", "updated", "replaced", "upserted"],
)
def test_what_is_updated_later_does_not_come_late(delta, late):
    """Of the present hour all counts, also where its rows are updated: by that it is known how much came in time."""
    hour = NOW // HOUR
    start = table_state(head=1, boundary_ms=NOW)
    first = apply(start, {}, change(2, 1, {key(hour): added(), key(hour - 3): added()}), HOURLY, NOW)
    before = first.state.lateness

    after = apply(
        first.state, first.partitions, change(3, 2, {key(hour): delta, key(hour - 3): delta}), HOURLY, NOW
    ).state.lateness

    assert (sum(after.late) - sum(before.late), after.files - before.files) == (late, 2 + late)


def test_a_write_counts_from_when_we_heard_of_it_and_never_before_its_own_time():
    early = apply(table_state(head=1), {}, change(2, 1, {key(): added()}), HOURLY, NOW - MINUTE)

    assert early.partitions[key()].last_write_at_ms == NOW


def test_a_write_is_as_young_as_its_own_time_says_once_that_is_over():
    """A daemon whose clock was two hours behind took it for one from the future."""
    one = change(2, 1, {key(): added()}, committed_at_ms=NOW)
    written = apply(table_state(head=1), {}, one, HOURLY, NOW - 2 * HOUR_MS).partitions[key()]

    assert written.as_of(NOW - 1).last_write_at_ms == NOW - HOUR_MS
    assert written.as_of(NOW + 1).last_write_at_ms == NOW
    again = change(3, 2, {key(): added()}, committed_at_ms=NOW + 1)
    after = apply(table_state(head=2), {key(): written}, again, HOURLY, NOW + 1).partitions[key()]
    assert after.as_of(NOW + 1).last_write_at_ms == NOW + 1


def test_the_last_pauses_of_a_partitions_writers_are_remembered():
    """Those of five minutes and more; what we do is no end of one."""
    state, partitions, at_ms = table_state(), {}, NOW
    for number, minutes in enumerate([1, 20, 3, *range(6, 16)], 2):
        at_ms += minutes * MINUTE
        for origin in (Origin.INGEST, Origin.MAINTENANCE):
            head = state.head
            one = change(2 * number + (origin is Origin.MAINTENANCE), head, {key(1): added(1)}, origin=origin)
            applied = apply(state, partitions, replace(one, committed_at_ms=at_ms), HOURLY, at_ms)
            state, partitions = applied.state, dict(applied.partitions)

    assert partitions[key(1)].pauses_ms == tuple(minutes * MINUTE for minutes in range(8, 16))
    assert partitions[key(1)].compacted_at_ms == at_ms


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_of_several_partitions_of_an_hour_one_that_was_quiet_is_a_return(order):
    """In whichever order a commit names them."""
    fields = (*HOURLY, replace(BUCKETS[0], field_id=1001))
    hour, late = NOW // HOUR, NOW // HOUR - 3

    def place(value, bucket):
        return partition_key({1000: value, 1001: bucket})

    state, partitions = table_state(boundary_ms=None), {}
    steps = [
        (0, {place(hour, 1): added(1)}),
        (5, {place(late, 1): added(1), place(late, 2): added(1)}),
        (30, {place(late, 2): added(1)}),
        (32, {place(late, bucket): added(1) for bucket in order}),
    ]
    returns = []
    for number, (minutes, deltas) in enumerate(steps, 2):
        at_ms = NOW + minutes * MINUTE
        one = replace(change(number, state.head, deltas), committed_at_ms=at_ms)
        applied = apply(state, partitions, one, fields, at_ms)
        state, partitions = applied.state, {**partitions, **applied.partitions}
        returns.append(round(sum(age.returns for age in state.lateness.ages)))

    assert returns == [0, 1, 2, 3]


def test_a_change_costs_as_much_as_it_has_partitions_and_no_more():
    def calls(partitions):
        one = change(2, 1, {key(hour): added(1, KIB) for hour in range(partitions)})
        count = 0

        def note(*_):
            nonlocal count
            count += 1

        sys.setprofile(note)
        try:
            apply(table_state(head=1), {}, one, HOURLY, NOW)
        finally:
            sys.setprofile(None)
        return count

    calls(400)  # what is remembered of keys is
    assert calls(400) < 2.5 * calls(200)
