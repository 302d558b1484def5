"""What a change makes of a table's state and of its partitions, and that it can be undone."""

import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.contract.boundary import MAX_AHEAD_MS
from isotherm.contract.identity import partition_key
from isotherm.contract.summary import Origin
from isotherm.core.emptied import Emptied, emptied_after
from isotherm.core.model.changes import PartitionDelta
from isotherm.core.model.files import FileKind, FileStats, size_bucket, total
from isotherm.core.partition_state import StateError
from isotherm.core.state import apply
from isotherm.core.units import DAY_MS, HOUR_MS
from support.builders import (
    BUCKETS,
    HOUR,
    HOURLY,
    KIB,
    MIB,
    MINUTE,
    NOW,
    added,
    change,
    key,
    partition,
    removed,
    table_state,
)

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


def boundary_after(before, **fields):
    partitions = fields.pop("partitions", {key(): added()})
    spec = fields.pop("spec", HOURLY)
    one = change(2, 1, partitions, **fields)
    return apply(table_state(head=1, boundary_ms=before), {}, one, spec, NOW).state.boundary_ms


def test_the_boundary_is_what_the_writer_vouches_for_and_never_goes_back():
    assert boundary_after(None, valid_through_ms=5 * HOUR) == 5 * HOUR
    assert boundary_after(9 * HOUR, valid_through_ms=5 * HOUR) == 9 * HOUR


def test_a_row_from_2099_cannot_move_the_boundary_far():
    assert boundary_after(0, valid_through_ms=NOW * 3) == NOW + MAX_AHEAD_MS


def test_a_commit_from_2099_holds_nothing_back_for_long_and_does_not_move_the_boundary_far():
    future = change(2, 1, {key(): added()}, committed_at_ms=NOW * 3, valid_through_ms=NOW * 3)
    applied = apply(table_state(head=1, boundary_ms=0), {}, future, HOURLY, NOW)

    assert applied.state.boundary_ms == NOW + 2 * MAX_AHEAD_MS
    assert applied.partitions[key()].last_write_at_ms == NOW + MAX_AHEAD_MS
    assert applied.state.lateness.updated_at_ms == NOW + MAX_AHEAD_MS


def test_a_write_is_as_young_as_its_own_time_says_once_that_is_over():
    """A daemon whose clock was two hours behind took it for one from the future."""
    one = change(2, 1, {key(): added()}, committed_at_ms=NOW)
    written = apply(table_state(head=1), {}, one, HOURLY, NOW - 2 * HOUR_MS).partitions[key()]

    assert written.as_of(NOW - 1).last_write_at_ms == NOW - HOUR_MS
    assert written.as_of(NOW + 1).last_write_at_ms == NOW
    again = change(3, 2, {key(): added()}, committed_at_ms=NOW + 1)
    after = apply(table_state(head=2), {key(): written}, again, HOURLY, NOW + 1).partitions[key()]
    assert after.as_of(NOW + 1).last_write_at_ms == NOW + 1


def test_without_a_word_of_the_writer_the_bulk_of_the_rows_says_how_far_the_stream_is():
    hours = {key(100): added(rows=990), key(10**6): added(rows=5), key(5): added(rows=5)}

    assert boundary_after(None, partitions=hours) == 100 * HOUR_MS


def test_a_backfill_of_last_year_does_not_move_the_boundary():
    assert boundary_after(5000 * HOUR, partitions={key(7): added(50)}) == 5000 * HOUR


def test_our_own_commits_do_not_move_the_boundary():
    assert boundary_after(7, origin=Origin.MAINTENANCE, valid_through_ms=5 * HOUR) == 7


def test_buckets_have_no_boundary():
    assert boundary_after(None, spec=BUCKETS) is None


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


@pytest.mark.parametrize(
    ("left", "rests_from_ms"),
    [
        (FileStats(3, 300, 3 * MIB), NOW),
        (FileStats(4, 310, 3 * MIB + KIB), NOW),
        (FileStats(2, 200, 2 * MIB), NOW + 20 * MINUTE),
        (FileStats(5, 20, 5 * KIB), NOW + 20 * MINUTE),
    ],
    ids=["all of it", "its deletes too", "a part", "delete files, more than there are data files"],
)
def test_what_is_loaded_anew_rests_from_its_last_load_and_all_else_from_its_last_job(left, rests_from_ms):
    """It was compacted after each load. From the end of a job on, a nightly load would wait longer each night."""
    state, partitions = table_state(), {}
    load = PartitionDelta(data=added(2, 2 * MIB).data, added=added(2, 2 * MIB).added, removed=left)
    job = PartitionDelta(data={**removed(3).data, **added(1, 3 * MIB, rows=300).data})
    life = [(0, added(3), Origin.FOREIGN), (20, job, Origin.MAINTENANCE), (60, load, Origin.FOREIGN)]
    for number, (minutes, delta, origin) in enumerate(life, 2):
        at_ms = NOW + minutes * MINUTE
        one = change(number, state.head, {key(1): delta}, origin=origin, committed_at_ms=at_ms)
        applied = apply(state, partitions, one, HOURLY, at_ms)
        state, partitions = applied.state, dict(applied.partitions)

    assert partitions[key(1)].compacted_at_ms == rests_from_ms
    assert partitions[key(1)].last_write_at_ms == NOW + 60 * MINUTE


def lived(*steps):
    """The states of a table and of hour 1 after some steps: minutes, what came, and whose it was."""
    state, partitions = table_state(), {}
    for number, (minutes, delta, origin) in enumerate(steps, 2):
        at_ms = NOW + minutes * MINUTE
        one = change(number, state.head, {key(1): delta}, origin=origin, committed_at_ms=at_ms)
        applied = apply(state, partitions, one, HOURLY, at_ms)
        state, partitions = applied.state, {k: p for k, p in applied.partitions.items() if p is not None}
    return state, partitions.get(key(1)), applied.prior


JOB = PartitionDelta(data={**removed(3).data, **added(1, 3 * MIB, rows=300).data})
GONE = PartitionDelta(data=removed(1, 3 * MIB, rows=300).data, removed=FileStats(1, 300, 3 * MIB))


@pytest.mark.parametrize(("again_after", "rests"), [(61, True), (60 + 3 * DAY_MS // MINUTE, False)])
def test_what_is_emptied_and_filled_again_rests_as_what_is_overwritten(again_after, rests):
    life = [(0, added(3), Origin.FOREIGN), (20, JOB, Origin.MAINTENANCE), (60, GONE, Origin.FOREIGN)]
    emptied, _, prior = lived(*life)
    assert [*emptied.emptied] == [key(1)]
    assert prior.state.emptied == {}, "a snapshot that is taken back was none"

    others = (60 + 3 * DAY_MS // MINUTE - 1, PartitionDelta(), Origin.FOREIGN)
    state, partition, _ = lived(*life, *([] if rests else [others]), (again_after, added(2), Origin.FOREIGN))
    assert partition.compacted_at_ms == (NOW if rests else None)
    assert state.emptied == {}


def test_what_we_never_compacted_leaves_no_trace_and_of_very_many_the_latest_are_kept():
    never, _, _ = lived((0, added(3), Origin.FOREIGN), (60, removed(3), Origin.FOREIGN))
    assert never.emptied == {}

    gone = {key(number): Emptied(number, 0, None, ()) for number in range(150)}
    assert [*emptied_after({}, gone, (), 150)] == [key(number) for number in range(50, 150)]


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


def merge_on_read(count, size, sign=1):
    """What a commit does that writes position-delete files, or with -1 takes them away."""
    stats = FileStats(sign * count, sign * count, sign * count * size)
    kind, moved = FileKind.POSITION_DELETES, FileStats(count, count, count * size)
    came_and_left = {"added": moved} if sign > 0 else {"removed": moved}
    return PartitionDelta(deletes={kind: stats}, delete_sizes={size_bucket(size): stats}, **came_and_left)


def after_each(before, deltas):
    """A partition after some writes, one after another."""
    state, partitions = table_state(head=1), {key(): before}
    for number, delta in enumerate(deltas, 2):
        done = apply(state, partitions, change(number, number - 1, {key(): delta}), HOURLY, NOW)
        state, partitions = done.state, done.partitions
    return partitions[key()]


def test_the_sizes_of_position_deletes_are_kept():
    small, large = merge_on_read(3, 1000), merge_on_read(1, MIB)
    done = after_each(partition(2), [small, large, merge_on_read(2, 1000, -1)])

    assert done.delete_sizes == {
        size_bucket(1000): FileStats(1, 1, 1000),
        size_bucket(MIB): FileStats(1, 1, MIB),
    }
    assert done.position_deletes == done.delete_sizes


def test_a_merge_of_all_deletes_mends_what_was_stored_without_their_sizes():
    kind, mib = FileKind.POSITION_DELETES, size_bucket(MIB)
    before = replace(partition(2), deletes={kind: FileStats(10, 10, 10_000)})
    came = after_each(before, [merge_on_read(5, 1000)])
    sizes = {size_bucket(1000): FileStats(-15, -15, -15_000), mib: FileStats(1, 15, MIB)}
    merge = PartitionDelta(deletes={kind: FileStats(-14, 0, MIB - 15_000)}, delete_sizes=sizes)
    merged = after_each(came, [merge])

    assert sum(one.files for one in came.position_deletes.values()) == 15
    assert merged.position_deletes == {mib: FileStats(1, 15, MIB)}
    assert after_each(merged, [merge_on_read(1, 10)]).position_deletes == {
        mib: FileStats(1, 15, MIB),
        size_bucket(10): FileStats(1, 1, 10),
    }


def test_no_sizes_are_left_where_no_position_deletes_are():
    came = merge_on_read(3, 1000)
    left = {FileKind.POSITION_DELETES: FileStats() - total(came.deletes.values())}
    of_other_sizes = {size_bucket(MIB): FileStats(-3, -3, -3 * MIB)}

    assert (
        after_each(
            partition(2), [came, PartitionDelta(deletes=left, delete_sizes=of_other_sizes)]
        ).delete_sizes
        == {}
    )


@pytest.mark.parametrize(
    ("made", "rests"),
    [
        (PartitionDelta(deletes={FileKind.POSITION_DELETES: FileStats(-9, 0, 0)}), False),
        (PartitionDelta(deletes={FileKind.EQUALITY_DELETES: FileStats(-10, -10, -1000)}), True),
    ],
    ids=["position deletes are merged", "equality deletes become position deletes"],
)
def test_data_rests_from_a_job_that_has_read_it_and_not_from_one_that_only_merged_deletes(made, rests):
    deletes = {kind: FileStats(10, 10, 1000) for kind in made.deletes}
    ours = change(2, 1, {key(): made}, origin=Origin.MAINTENANCE)
    done = apply(table_state(head=1), {key(): replace(partition(2), deletes=deletes)}, ours, HOURLY, NOW)

    assert done.partitions[key()].compacted_at_ms == (ours.committed_at_ms if rests else None)


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
