"""Which deletes apply to which data files: a search must answer what holding each against each does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.manifest import ManifestContent, ManifestFile

from isotherm.contract.identity import PartitionKey
from isotherm.contract.paths import normalised
from isotherm.core.model.files import FileKind
from isotherm.core.model.jobs import Take
from isotherm.iceberg.manifests.deletes import DataFiles, is_over, mergeable, oldest_data
from isotherm.iceberg.manifests.live import LiveEntry
from support.live_entries import delete, entry, equality


def applies(delete: LiveEntry, data: LiveEntry) -> bool:
    """The specification, for one of each; the files of these tests are all spelled in one way."""
    if delete.kind is FileKind.EQUALITY_DELETES:
        same = (delete.spec_id, delete.partition) == (data.spec_id, data.partition)
        return delete.sequence_number > data.sequence_number and (delete.is_global or same)
    if delete.sequence_number < data.sequence_number:
        return False
    if delete.referenced_data_file is not None:
        return normalised(delete.referenced_data_file) == normalised(data.path)
    if (delete.spec_id, delete.partition) != (data.spec_id, data.partition):
        return False
    low, high = delete.path_bounds
    return low is None or high is None or low <= data.path <= high


WHOLE = PartitionKey("{}")
places = {
    "spec_id": st.integers(0, 1),
    "partition": st.sampled_from([PartitionKey("{}"), PartitionKey('{"1000":1}')]),
}
names = st.integers(0, 12).map(lambda number: f"s3://b/{number:02}")
data_files = st.lists(
    st.builds(
        lambda path, number, more: entry(path, number=number, **more),
        names,
        st.integers(0, 5),
        st.fixed_dictionaries(places),
    ),
    max_size=12,
    unique_by=lambda found: found.path,
)
bounds = st.one_of(
    st.just({}),
    names.map(lambda name: {"referenced_data_file": name}),
    st.tuples(names, names).map(lambda two: {"path_bounds": tuple(sorted(two))}),
    names.map(lambda name: {"path_bounds": (name, None)}),
)
by_position = st.builds(
    lambda number, more, bound: delete(number=number, **more, **bound),
    st.integers(0, 5),
    st.fixed_dictionaries(places),
    bounds,
)
by_values = st.builds(
    lambda number, more, is_global: equality(number, is_global=is_global, **more),
    st.integers(0, 5),
    st.fixed_dictionaries(places),
    st.booleans(),
)
delete_files = st.lists(st.one_of(by_position, by_values), max_size=12)


@given(data_files, delete_files)
def test_a_search_finds_what_holding_each_against_each_finds(
    data: list[LiveEntry], deletes: list[LiveEntry]
) -> None:
    files = DataFiles(data)

    named = files.named_by(deletes)
    useful = [files.may_be_named_by(one) for one in deletes]

    assert {one.identity for one in data if any(applies(two, one) for two in deletes)} == named
    assert [any(applies(one, two) for two in data) for one in deletes] == useful


def test_a_bound_that_is_cut_within_the_scheme_or_spelled_in_another_way_tells_nothing() -> None:
    """A writer may cut bounds to a few characters; `s3a` and `s3b` then enclose `s3a://b/x`, which is `s3://b/x` here."""
    data = [entry("s3a://b/x"), entry("file:/w/x")]
    told = [
        ("s3a", "s3b"),
        ("s3a:", "s3a;"),
        ("fil", "fim"),
        ("file:", "file;"),
        ("file:/", "file:0"),
        ("s3://b/y", "s3a://b/a"),
    ]
    for low, high in told:
        wide = delete(path_bounds=(low, high))

        named = DataFiles(data).named_by([wide])

        assert {one.identity for one in data} == named, (low, high)


def test_as_many_deletes_as_data_files_are_no_matter_of_minutes() -> None:
    """Fifty thousand of both would be 2.5 thousand million pairs. The least that any comparison takes is in the limit."""
    data = [entry(f"s3://b/{number:05}") for number in range(50_000)]
    deletes = [
        delete(path_bounds=(f"s3://b/{number:05}", f"s3://b/{number:05}x")) for number in range(50_000)
    ]
    files = DataFiles(data)

    named = files.named_by(deletes)
    useful = sum(map(files.may_be_named_by, deletes))

    assert (len(data), len(deletes)) == (len(named), useful)


def test_what_names_data_of_another_spec_is_not_merged() -> None:
    """What is made of them would belong to one spec, and the row that one of them deletes would come back."""
    ours, theirs = entry("s3://b/1"), entry("s3://b/2", spec_id=1)
    deletes = [
        delete("a", 3, referenced_data_file="s3://b/1"),
        delete("b", 2),
        delete("c", 1, referenced_data_file="s3://b/2"),
        delete("d", 1, referenced_data_file="s3://b/gone"),
        delete("e", 1, spec_id=1),
    ]

    found = mergeable(deletes, [ours, theirs, *deletes], 0, Take())

    assert [one.path for one in found] == ["d", "b", "a"]
    assert mergeable(deletes[:1], [ours], 0, Take()) == []
    assert [one.path for one in mergeable(deletes, [ours, theirs], 0, Take(at_most_bytes=1))] == ["d", "b"]


@pytest.mark.parametrize(
    ("below_bytes", "merged"), [(None, "abcd"), (1000, "abcd"), (999, "acd"), (20, "ac"), (10, "abcd")]
)
def test_large_delete_files_stay_but_where_fewer_than_two_are_small(
    below_bytes: int | None, merged: str
) -> None:
    sizes = {"a": 10, "b": 999, "c": 11, "d": 20}
    deletes = [delete(path, size_bytes=size) for path, size in sizes.items()]
    take = Take(merges_deletes=True, deletes_below_bytes=below_bytes)

    found = mergeable([*deletes, delete("e", spec_id=1)], [entry("s3://b/1"), *deletes], 0, take)

    assert "".join(one.path for one in found) == merged


DATA, DELETES = ManifestContent.DATA, ManifestContent.DELETES


def manifest(
    content: ManifestContent, spec_id: int, number: int, files: tuple[int, int] = (1, 0)
) -> ManifestFile:
    """A manifest with so many added and existing files, the oldest of this sequence number."""
    added, existing = files
    return ManifestFile.from_args(
        manifest_path="m",
        manifest_length=1,
        partition_spec_id=spec_id,
        content=content,
        sequence_number=9,
        min_sequence_number=number,
        added_snapshot_id=1,
        added_files_count=added,
        existing_files_count=existing,
        deleted_files_count=5,
        added_rows_count=1,
        existing_rows_count=1,
        deleted_rows_count=1,
    )


def test_the_oldest_data_of_each_spec_is_that_of_live_files() -> None:
    manifests = [
        manifest(DATA, 0, 7),
        manifest(DATA, 0, 5, files=(0, 2)),
        manifest(DATA, 0, 1, files=(0, 0)),
        manifest(DATA, 1, 3),
        manifest(DELETES, 1, 1),
        manifest(DELETES, 2, 1),
    ]

    assert oldest_data(manifests) == {0: 5, 1: 3}


@given(st.integers(1, 5), data_files)
def test_equality_deletes_are_over_once_no_older_data_of_their_partition_is_left(
    number: int, data: list[LiveEntry]
) -> None:
    for deletes in (equality(number, spec_id=0), equality(number, spec_id=0, is_global=True)):
        over = is_over(deletes, DataFiles(data), WHOLE, 0, {0: 1})
        assert over is not any(applies(deletes, one) for one in data)
    # Of another spec than the job's nothing is known.
    assert not is_over(equality(number, spec_id=1), DataFiles([]), WHOLE, 0, {})
    # Nor of another partition than the job's: with each come the deletes that apply everywhere.
    everywhere = equality(number, spec_id=0, is_global=True)
    assert not is_over(everywhere, DataFiles([]), PartitionKey('{"1000":1}'), 0, {})


def test_deletes_that_apply_everywhere_stay_while_any_spec_has_older_data() -> None:
    everywhere, here = equality(5, is_global=True), equality(5)

    for oldest, over in (({0: 1}, True), ({0: 1, 1: 5}, True), ({0: 9, 1: 4}, False)):
        assert is_over(everywhere, DataFiles([]), WHOLE, 0, oldest) is over
        assert is_over(here, DataFiles([]), WHOLE, 0, oldest)
