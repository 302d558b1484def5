"""When the totals of a summary differ from what was counted: what is an alarm, and what is none."""

import pytest

from isotherm.core.model.changes import PartitionDelta
from isotherm.core.model.files import FileKind, FileStats
from isotherm.core.partition_state import PartitionState
from isotherm.core.state import apply, built
from support.builders import HOURLY, NOW, TABLE, added, change, files, key, removed, table_state


def test_a_difference_to_the_summary_that_stays_is_no_alarm_and_one_that_changes_is():
    state = table_state(head=1, summary_gap={"total-data-files": 5})
    same = apply(state, {}, change(2, 1, {key(): added()}, totals={"total-data-files": 6}), HOURLY, NOW)
    other = apply(state, {}, change(2, 1, {key(): added()}, totals={"total-data-files": 1}), HOURLY, NOW)

    assert not same.drifted
    assert other.drifted


@pytest.mark.parametrize(
    ("said", "duplicates", "drifted"),
    [
        (2, 1, False),  # of two entries of one file, and another file, Java takes two away
        (2, 0, True),
        (2, 2, True),
        (3, 1, False),  # a writer that takes each entry away
        (0, 1, True),
    ],
)
def test_a_duplicate_that_left_is_no_drift(said, duplicates, drifted):
    """A file that an append and its cherry-pick both added, and that Spark rewrote."""
    three = apply(table_state(head=1), {}, change(2, 1, {key(): added(3)}), HOURLY, NOW)
    totals = {
        "total-data-files": 3 - said,
        "total-records": 100 * (3 - said),
        "deleted-duplicate-files": duplicates,
    }
    gone = change(3, 2, {key(): removed(3)}, operation="replace", totals=totals)

    after = apply(three.state, three.partitions, gone, HOURLY, NOW)
    more = change(4, 3, {key(): added(1)}, totals={"total-data-files": 4 - said})
    later = apply(after.state, {}, more, HOURLY, NOW)

    assert drifted == after.drifted
    assert not later.drifted or drifted


def test_the_two_sizes_of_a_deletion_vector_are_no_drift():
    """Iceberg's Java counts its blob in the summary, and the whole Puffin file in the manifest."""
    state = table_state(head=1)
    vector = FileStats(1, 3, 500)
    delta = PartitionDelta(deletes={FileKind.DELETION_VECTORS: vector}, added=vector)
    totals = {"total-delete-files": 1, "total-position-deletes": 3, "total-files-size": 40}

    assert not apply(state, {}, change(2, 1, {key(): delta}, totals=totals), HOURLY, NOW).drifted
    assert apply(
        state, {}, change(2, 1, {key(): delta}, totals={**totals, "total-delete-files": 2}), HOURLY, NOW
    ).drifted


def rebuilt(before, head_totals, snapshot_id=2):
    one = {key(): PartitionState(data=files(1))}
    head = change(snapshot_id, snapshot_id - 1, totals=head_totals)
    return built(TABLE, one, head, boundary_ms=None, foreign_commits=0, before=before)


def test_a_counter_that_moved_while_we_were_right_alarms_no_more():
    state = table_state(head=1)
    drifted = apply(state, {}, change(2, 1, {key(): added()}, totals={"total-data-files": 7}), HOURLY, NOW)
    assert drifted.drifted

    after = rebuilt(drifted.state, {"total-data-files": 7})
    again = apply(after, {}, change(3, 2, {key(2): added()}, totals={"total-data-files": 99}), HOURLY, NOW)
    other = apply(after, {}, change(3, 2, {key(2): added()}, totals={"total-records": 99}), HOURLY, NOW)

    assert not again.drifted
    assert other.drifted


def test_a_counter_that_moved_while_we_were_wrong_alarms_again():
    state = table_state(head=1)
    forged = apply(state, {}, change(2, 1, {}, totals={"total-data-files": 1}), HOURLY, NOW)
    after = rebuilt(forged.state, {"total-data-files": 1})

    assert apply(after, {}, change(3, 2, {}, totals={"total-data-files": 2}), HOURLY, NOW).drifted


def test_equal_totals_at_another_head_do_not_say_that_we_were_right():
    state = table_state(head=1)
    drifted = apply(state, {}, change(2, 1, {key(): added()}, totals={"total-data-files": 7}), HOURLY, NOW)
    after = rebuilt(drifted.state, {"total-data-files": 7}, snapshot_id=3)

    assert apply(
        after, {}, change(4, 3, {key(2): added()}, totals={"total-data-files": 99}), HOURLY, NOW
    ).drifted
