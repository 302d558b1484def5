"""A recorded change on partitions that our own jobs have changed meanwhile."""

from dataclasses import replace

import pytest

from isotherm.contract.summary import Origin
from isotherm.core.model.changes import Change, PartitionDelta
from isotherm.core.model.files import FileKind, FileStats, size_bucket, summed
from isotherm.core.partition_state import PartitionState, StateError
from isotherm.core.replay.history import History, Recorded, as_remembered, carried_over, counted_back, others
from support.builders import DAY, HOURLY, MIB, NOW, TABLE, added, change, facts, files, key, removed


def carried(here, **delta):
    """A recorded removal, on a partition as it is here."""
    recorded = PartitionDelta(**delta, removed=FileStats(1, 1, 1))
    one = Change(1, None, 1, NOW, "overwrite", Origin.FOREIGN, {key(): recorded})
    return carried_over(Recorded(one, NOW), {key(): here}).partitions[key()]


def test_a_writer_that_applies_deletes_which_our_job_has_applied_already_takes_no_row_twice():
    """Its file keeps the size that it had, so that the difference is rows alone."""
    recorded = PartitionDelta(
        {size_bucket(MIB): FileStats(0, -1, 0)}, {FileKind.POSITION_DELETES: FileStats(-1, -1, -10)},
        added=FileStats(1, 3, MIB), removed=FileStats(2, 5, MIB + 10),
    )  # fmt: skip
    here = PartitionState({size_bucket(MIB): FileStats(1, 3, MIB)})
    after = carried_over(Recorded(change(2, 1, {key(1): recorded}), NOW), {key(1): here}).partitions[key(1)]

    assert (after.data, after.deletes) == ({}, {})


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


@pytest.mark.parametrize(("left", "stays"), [(2, 0), (1, 1)])
def test_what_takes_the_place_of_all_files_takes_the_place_of_all_that_is_here(left, stays):
    """Files of the same sizes: the difference is nothing, and here they were merged. It is so for all of them alone."""
    load = PartitionDelta(added=added(left).added, removed=added(left).added)
    one = Recorded(change(1, None, {key(): load}, operation="overwrite"), NOW)
    past = History(TABLE, facts(), {key(): PartitionState(files(2))}, (), frozenset(), (one,), NOW, NOW)
    (recorded,) = others(past)
    here = PartitionState(files(1, 2 * MIB, 200), {FileKind.POSITION_DELETES: FileStats(1, 1, 1)})
    delta = carried_over(recorded, {key(): here}).partitions[key()]

    assert summed(here.data, delta.data) == (files(1, 2 * MIB, 200) if stays else files(2))
    assert bool(delta.deletes) is not bool(stays)
    assert delta.removed == (load.removed if stays else here.data_total)


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


def test_when_a_partition_was_compacted_before_what_is_known_of_it_the_ledger_tells():
    """Here the daemon compacted it once more since: its state tells only that."""
    there = PartitionState(files(1, 3 * MIB, 300), last_write_at_ms=NOW, compacted_at_ms=NOW)
    merged = PartitionDelta(
        {**removed(3).data, **added(1, 3 * MIB, 300).data}, {}, added(1).added, removed(3).removed
    )
    ours = change(2, 1, {key(): merged}, origin=Origin.MAINTENANCE)
    before = counted_back({key(): there}, [ours], NOW)
    done_ms = {key(): NOW - DAY, key(2): NOW - DAY}
    known = as_remembered(before, [], done_ms, TABLE, HOURLY)

    assert before[key()].compacted_at_ms is None
    assert {where: (one.compacted_at_ms, one.data_total.files) for where, one in known.items()} == {
        key(): (NOW - DAY, 3)
    }
    assert known[key()].arrivals


def test_what_older_changes_say_of_the_pauses_of_writers_is_known_from_the_beginning():
    """Without them the first nights of a replay are decided otherwise than the daemon decides them."""
    nights = [NOW - number * DAY for number in range(4, 0, -1)]
    older = [
        Recorded(replace(change(number, number - 1, {key(): added(1)}), committed_at_ms=at_ms), at_ms)
        for number, at_ms in enumerate(nights, 1)
    ]
    before = {key(): PartitionState(files(4), last_write_at_ms=nights[-1])}
    known = as_remembered(before, older, {}, TABLE, HOURLY)

    assert known[key()].pauses_ms == (DAY, DAY, DAY)
