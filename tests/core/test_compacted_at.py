"""From when a partition rests: from its last job, or from its last load where that left nothing of what was compacted."""

from dataclasses import replace

import pytest

from isotherm.contract.summary import Origin
from isotherm.core.emptied import Emptied, emptied_after
from isotherm.core.model.changes import PartitionDelta
from isotherm.core.model.files import FileKind, FileStats
from isotherm.core.state import apply
from isotherm.core.units import DAY_MS
from support.builders import (
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
