"""Which position deletes apply to which data files: a search must answer what holding each against each does."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.manifest import FileFormat

from isotherm.contract.identity import PartitionKey
from isotherm.contract.paths import normalised
from isotherm.core.model.files import FileKind
from isotherm.iceberg.manifests.live import LiveEntry
from isotherm.iceberg.manifests.position_deletes import DataFiles


def entry(path: str, kind: FileKind = FileKind.DATA, number: int = 1, **more: Any) -> LiveEntry:
    values: dict[str, Any] = {"spec_id": 0, "partition": PartitionKey("{}"), **more}
    return LiveEntry(
        path,
        None,
        kind,
        sequence_number=number,
        size_bytes=1,
        rows=1,
        file_format=FileFormat.PARQUET,
        is_encrypted=False,
        **values,
    )


def delete(path: str = "d", number: int = 1, **more: Any) -> LiveEntry:
    return entry(path, FileKind.POSITION_DELETES, number, **more)


def applies(delete: LiveEntry, data: LiveEntry) -> bool:
    """The specification, for one of each; the files of these tests are all spelled in one way."""
    if delete.sequence_number < data.sequence_number:
        return False
    if delete.referenced_data_file is not None:
        return normalised(delete.referenced_data_file) == normalised(data.path)
    if (delete.spec_id, delete.partition) != (data.spec_id, data.partition):
        return False
    low, high = delete.path_bounds
    return low is None or high is None or low <= data.path <= high


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
delete_files = st.lists(
    st.builds(
        lambda number, more, bound: delete(number=number, **more, **bound),
        st.integers(0, 5),
        st.fixed_dictionaries(places),
        bounds,
    ),
    max_size=12,
)


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
