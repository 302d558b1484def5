"""What a job takes: crumbs wait for company, a part never reads more than it may, and the parts come to an end."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.core.model.files import NO_FILES, FileKind, FileStats, size_bucket
from isotherm.core.model.job_limits import MAX_JOB_BYTES, MAX_JOB_FILES
from isotherm.core.model.jobs import Take
from isotherm.core.partition_state import PartitionState
from isotherm.core.planner.debt import debt
from isotherm.core.planner.file_selection import rewritten, saved_bytes, taken, tier
from isotherm.core.policy.policy import Compact
from support.builders import GIB, KIB, MIB, TARGET, files, of_sizes, partition


@pytest.mark.parametrize(
    ("sizes", "joined"),
    [
        ([MIB] * 60, 60),
        ([MIB] * 3 + [60 * MIB], 3),
        ([MIB] * 60 + [60 * MIB], 61),
        ([20 * KIB] * 19 + [400 * KIB] * 2, 21),
        ([KIB, 50 * MIB, 50 * MIB], 3),
        ([KIB, 60 * MIB], 1),
        ([128 * MIB] * 5, 0),
        ([], 0),
    ],
)
def test_a_file_joins_once_all_that_is_smaller_has_its_size(sizes, joined):
    below_bytes, found = tier(of_sizes(sizes).data, TARGET)

    assert found.files == joined
    assert sum(size < below_bytes for size in sizes) == joined


@given(st.lists(st.integers(1, 2 * TARGET), max_size=40), st.integers(1024, 2 * TARGET))
def test_the_files_by_name_are_those_that_were_counted(sizes, target):
    """Whoever binds a job has only the size below which files are taken."""
    below_bytes, found = tier(of_sizes(sizes).data, target)
    named = [size for size in sizes if size < below_bytes]

    assert (len(named), sum(named)) == (found.files, found.bytes)
    assert all(size < 0.75 * target for size in named)


@given(st.integers(2, 30), st.integers(1, 600), st.integers(KIB, MIB))
def test_a_row_is_rewritten_about_once_for_each_doubling_of_its_file(min_files, crumbs, size):
    """However many crumbs come one after another, each job is paid by what came since the last one."""
    state, rewritten_bytes = PartitionState(), 0
    for _ in range(crumbs):
        state = plus(state, size)
        owed = debt(state, Compact(min_files=min_files))
        if owed.has_gain and owed.score >= 1:
            take = owed.take(1.0, None)
            rewritten_bytes += taken(state, take).bytes
            state = rewritten(state, take, TARGET)

    # A bucket is half an octave, and a file joins already where what is below it is in the same one.
    assert rewritten_bytes <= crumbs * size * 2 * (math.log2(crumbs) + 1)


def plus(state, size):
    bucket = size_bucket(size)
    return replace(
        state, data={**state.data, bucket: state.data.get(bucket, NO_FILES) + FileStats(1, 1, size)}
    )


PARTS = st.builds(
    lambda few, many, large, deletes: PartitionState(
        data={**files(few, 90 * KIB), **files(many, MIB), **files(large, 128 * MIB)},
        deletes={FileKind.POSITION_DELETES: FileStats(deletes, 10 * deletes, KIB * deletes)}
        if deletes
        else {},
    ),
    st.integers(0, 50),
    st.integers(0, 50),
    st.integers(0, 20),
    st.integers(0, 200),
)


@given(PARTS, st.integers(1, 4 * GIB), st.booleans())
def test_a_part_reads_no_more_than_it_may(state, at_most, with_deletes):
    take = Take(96 * MIB, with_deletes=with_deletes, at_most_bytes=at_most)
    least = taken(state, replace(take, at_most_bytes=1))

    # One file of any kind is the least; what is above is one file at most for each kind.
    assert taken(state, take).bytes <= max(at_most, least.bytes) + 128 * MIB
    assert taken(state, take).files <= taken(state, replace(take, at_most_bytes=None)).files


def test_a_part_is_priced_as_what_it_may_read_where_each_file_has_a_size_of_its_own():
    """At most 561 MiB were said to be rewritten, and a GiB was."""
    state = of_sizes([MIB * 3**step // 2**step for step in range(14)])
    state = replace(state, deletes={FileKind.POSITION_DELETES: FileStats(20, 10**6, MIB)})
    take = Take(with_deletes=True, at_most_bytes=400 * MIB)

    assert 350 * MIB < taken(state, take).bytes <= 400 * MIB
    # Each delete file may apply to the part, and is read with it.
    assert taken(state, take).files > 20


@given(PARTS, st.integers(64 * MIB, 4 * GIB))
def test_parts_come_to_an_end_and_lose_no_row(state, at_most):
    policy = Compact(min_files=2, max_delete_ratio=0.01)
    for _ in range(2000):
        owed = debt(state, policy)
        if owed.score < 1 or not owed.has_gain:
            break
        take = owed.take(1.0, at_most)
        before, state = state, rewritten(state, take, TARGET)
        gone = before.deletes_total.rows - state.deletes_total.rows
        assert state != before
        assert before.data_total.rows - gone <= state.data_total.rows <= before.data_total.rows
    else:
        pytest.fail(f"still due after 2,000 parts: {owed.why}")


@pytest.mark.parametrize(
    ("take", "files"),
    [
        (Take(96 * MIB), MAX_JOB_FILES),
        (Take(merges_deletes=True), MAX_JOB_FILES),
        (Take(with_deletes=True), MAX_JOB_FILES + 50_000),
    ],
)
def test_a_job_opens_no_more_files_than_it_can_in_some_minutes(take, files):
    """They were a million of a kilobyte, which by their bytes is a job of a minute."""
    deletes = {FileKind.POSITION_DELETES: FileStats(50_000, 50_000, 50 * MIB)}
    state = replace(partition(1_000_000, KIB), deletes=deletes)

    assert taken(state, replace(take, at_most_bytes=MAX_JOB_BYTES)).files == files


@pytest.mark.parametrize(("files", "converts"), [(90_000, True), (100_000, False)])
def test_keys_are_looked_for_in_no_more_files_than_a_job_can_open(files, converts):
    """Twenty deletes in a partition of a hundred thousand small files: each job ended by its deadline, and began again."""
    deletes = {FileKind.EQUALITY_DELETES: FileStats(20, 1000, 20 * KIB)}
    take = debt(replace(partition(files, 20 * KIB), deletes=deletes), Compact()).take(1.0, MAX_JOB_BYTES)

    assert (take.converts_equality, take.with_deletes) == (converts, not converts)


def test_one_delete_row_does_not_make_the_whole_partition_part_of_the_small_files():
    state = replace(
        partition(100, 100 * KIB),
        data={**files(100, 100 * KIB), **files(800, 128 * MIB)},
        deletes={FileKind.POSITION_DELETES: FileStats(1, 1, KIB)},
    )
    owed = debt(state, Compact(min_files=20))
    take = owed.take(1.0, None)

    assert owed.score == 5
    assert take.with_deletes is False
    assert taken(state, take) == FileStats(100, 10_000, 100 * 100 * KIB)


@pytest.mark.parametrize(
    ("deletes", "options", "spared"),
    [
        ({FileKind.DELETION_VECTORS: FileStats(8, 400, KIB)}, {}, 0.165),
        ({FileKind.POSITION_DELETES: FileStats(8, 400, KIB)}, {"max_delete_ratio": 0.5}, 0.25),
        ({FileKind.DELETION_VECTORS: FileStats(8, 400, KIB)}, {"max_deletion_vectors": 4}, 0.0),
        (
            {
                FileKind.POSITION_DELETES: FileStats(8, 400, KIB),
                FileKind.EQUALITY_DELETES: FileStats(50, 800, KIB),
            },
            {},
            0.0,
        ),
    ],
    ids=["vectors", "a limit of one's own", "the vectors themselves", "equality deletes"],
)
def test_files_of_few_deleted_rows_stay_where_deleted_rows_are_what_is_due(deletes, options, spared):
    state = PartitionState(data=files(8, 128 * MIB), deletes=deletes)
    version = 3 if FileKind.DELETION_VECTORS in deletes else 2
    take = debt(state, Compact(**options), format_version=version).take(1.0, None)

    assert take.with_deletes
    assert take.spared_ratio == pytest.approx(spared)


def test_under_a_schedule_fewer_rows_are_due_and_fewer_stay():
    state = PartitionState(
        data=files(8, 128 * MIB), deletes={FileKind.DELETION_VECTORS: FileStats(8, 100, KIB)}
    )

    assert debt(state, Compact(), format_version=3).take(0.1, None).spared_ratio == pytest.approx(0.0165)


def test_of_what_is_due_in_spite_of_its_rest_no_more_stays_than_of_anything_else():
    """A score of 20 is needed then. What stays must be less than what is due."""
    state = PartitionState(
        data=files(8, 128 * MIB), deletes={FileKind.DELETION_VECTORS: FileStats(8, 400, KIB)}
    )
    owed = debt(state, Compact(max_delete_ratio=0.02), format_version=3)

    assert owed.score > 20
    assert owed.take(20.0, None).spared_ratio == pytest.approx(0.01)


def test_delete_files_alone_do_not_take_the_small_files():
    state = replace(partition(5, MIB), deletes={FileKind.POSITION_DELETES: FileStats(250, 250, KIB)})
    owed = debt(state, Compact(min_files=20, max_delete_ratio=1000))

    assert owed.why == "250 of 20 position-delete files"
    assert owed.take(1.0, None) == Take(0, with_deletes=True)


def test_many_delete_files_of_few_rows_are_merged_and_their_data_is_left_alone():
    state = replace(
        partition(4, 128 * MIB),
        deletes={FileKind.POSITION_DELETES: FileStats(250, 300, MIB)},
    )
    policy = Compact(max_delete_ratio=1)
    take = debt(state, policy).take(1.0, None)
    after = rewritten(state, take, TARGET)

    assert take == Take(merges_deletes=True)
    assert taken(state, take) == FileStats(250, 300, MIB)
    assert saved_bytes(state, take, TARGET) == 249 * 4 * MIB
    assert after.deletes == {FileKind.POSITION_DELETES: FileStats(1, 300, MIB)}
    assert after.data == state.data
    assert debt(after, policy).score < 1


@pytest.mark.parametrize(
    ("data", "deletes", "options"),
    [
        (partition(4, 128 * MIB), FileStats(250, 300, MIB), {"max_delete_ratio": 0.1}),
        (partition(5, MIB), FileStats(250, 300, MIB), {}),
        (partition(4, 128 * MIB), FileStats(250, 300, MIB), {"max_position_deletes": 1}),
    ],
    ids=["too many rows", "data that is rewritten as soon", "a limit that one file reaches"],
)
def test_deletes_are_applied_where_merging_them_is_no_way(data, deletes, options):
    state = replace(data, deletes={FileKind.POSITION_DELETES: deletes})

    assert replace(
        debt(state, Compact(**{"max_delete_ratio": 1, **options})).take(1.0, None), spared_ratio=0.0
    ) == Take(with_deletes=True)


def test_small_files_and_many_deletes_on_large_ones_are_one_job():
    state = replace(
        partition(100, 100 * KIB),
        data={**files(100, 100 * KIB), **files(8, 128 * MIB)},
        deletes={FileKind.POSITION_DELETES: FileStats(250, 250, KIB)},
    )
    take = debt(state, Compact(min_files=20, max_delete_ratio=1)).take(1.0, None)

    assert take.merges_deletes
    assert take.below_bytes > 0
    assert taken(state, take).files == 350
    assert debt(rewritten(state, take, TARGET), Compact(min_files=20, max_delete_ratio=1)).score < 1


UPSERTED = replace(
    partition(4, 128 * MIB),
    deletes={
        FileKind.EQUALITY_DELETES: FileStats(12, 300, MIB),
        FileKind.POSITION_DELETES: FileStats(2, 5, KIB),
    },
)


def test_equality_deletes_of_few_rows_become_position_deletes_and_their_data_is_left_alone():
    policy = Compact(max_delete_ratio=1)
    take = debt(UPSERTED, policy).take(1.0, GIB)
    after = rewritten(UPSERTED, take, TARGET)

    assert take == Take(merges_deletes=True, converts_equality=True, at_most_bytes=GIB)
    # Keys are looked for in all of the data, sixteen bytes a row, and it is not written.
    keys = replace(UPSERTED.data_total, bytes=16 * UPSERTED.data_total.rows)
    assert taken(UPSERTED, take) == keys + UPSERTED.deletes_total
    assert after.data == UPSERTED.data
    assert after.deletes == {FileKind.POSITION_DELETES: FileStats(1, 305, MIB + KIB)}
    assert debt(after, policy).score < 1


@pytest.mark.parametrize(
    ("state", "options", "at_most"),
    [
        (UPSERTED, {"max_delete_ratio": 0.1}, GIB),
        (UPSERTED, {}, MIB),
        (UPSERTED, {}, 0),
        (UPSERTED, {"max_position_deletes": 1}, GIB),
        (replace(partition(5, MIB), deletes=UPSERTED.deletes), {}, GIB),
    ],
    ids=[
        "so many that positions would be due",
        "keys that one job cannot read",
        "no room at all",
        "a limit that one file reaches",
        "data that is rewritten as soon",
    ],
)
def test_equality_deletes_are_applied_where_positions_are_no_way(state, options, at_most):
    take = debt(state, Compact(**{"max_delete_ratio": 1, **options})).take(1.0, at_most)

    assert take == Take(with_deletes=True, at_most_bytes=at_most)


def test_equality_deletes_of_few_rows_become_position_deletes_however_large_their_partition_is():
    """Above ten GiB all of it was rewritten, again and again: 243 GiB in three days for 7,200 deleted rows."""
    rows = 400 * 10**6
    state = replace(UPSERTED, data=files(288, 128 * MIB, rows=rows // 288))
    take = debt(state, Compact()).take(1.0, MAX_JOB_BYTES)

    assert state.data_total.bytes > 3 * MAX_JOB_BYTES
    assert take.converts_equality
    assert not take.rewrites_data
    assert taken(state, take).bytes < MAX_JOB_BYTES


@given(PARTS, st.integers(1, 5000), st.integers(0, 8 * GIB), st.sampled_from([1, 100_000, 10**7]))
def test_what_is_made_of_equality_deletes_fits_into_a_job_with_all_that_is_done_beside_it(
    state, deleted, at_most, rows
):
    data = {size: replace(stats, rows=stats.files * rows) for size, stats in state.data.items()}
    keys = FileStats(10 + deleted % 40, deleted, 20 * KIB * (10 + deleted % 40))
    state = replace(state, data=data, deletes={**state.deletes, FileKind.EQUALITY_DELETES: keys})
    take = debt(state, Compact(min_files=2)).take(1.0, at_most)

    assert not take.converts_equality or taken(state, take).bytes <= at_most


def test_many_position_delete_files_are_due_however_few_their_rows():
    state = replace(
        partition(40, 128 * MIB), deletes={FileKind.POSITION_DELETES: FileStats(50_000, 50_000, GIB)}
    )

    assert debt(state, Compact()).score == 250


def test_nearly_full_files_are_left_alone():
    """Twelve files of 70 MiB would become seven: that is six files less for each GiB."""
    few = debt(partition(12, 70 * MIB), Compact(min_files=20))
    many = debt(partition(19, 30 * MIB), Compact(min_files=20))

    assert few.score < 1 <= many.score


def test_what_is_saved_grows_with_what_is_removed():
    take = Take(96 * MIB, with_deletes=True)
    small = partition(100, MIB)
    laden = replace(small, deletes={FileKind.POSITION_DELETES: FileStats(10, 100, KIB)})

    assert saved_bytes(small, take, TARGET) == 99 * 4 * MIB
    assert saved_bytes(laden, take, TARGET) > saved_bytes(small, take, TARGET) + 40 * MIB


@pytest.mark.parametrize("deletes_bytes", [200 * MIB, 3 * GIB])
def test_small_files_and_the_deletes_that_are_merged_along_are_no_more_than_one_job_may_read(deletes_bytes):
    """Whatever is more than a budget ever allows waits for ever."""
    state = replace(
        partition(),
        data={**files(200, 50 * MIB), **files(8, 128 * MIB)},
        deletes={FileKind.POSITION_DELETES: FileStats(150, 300, deletes_bytes)},
    )
    policy, jobs = Compact(min_files=4, max_delete_ratio=1), 0
    while (owed := debt(state, policy)).score >= 1:
        take = owed.take(1.0, GIB)
        assert taken(state, take).bytes <= GIB
        state, jobs = rewritten(state, take, TARGET), jobs + 1

    assert 10 < jobs < 40
