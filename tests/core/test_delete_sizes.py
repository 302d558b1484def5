"""The sizes of a partition's position deletes are kept, whatever was stored before they were."""

from dataclasses import replace

from isotherm.core.model.changes import PartitionDelta
from isotherm.core.model.files import FileKind, FileStats, size_bucket, total
from isotherm.core.state import apply
from support.builders import HOURLY, MIB, NOW, change, key, partition, table_state


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
