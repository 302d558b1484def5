"""What a file's name means: one name for each file, the folder in which it lies, and places that no table may choose."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.contract.paths import (
    MOST_PLACE_CHARS,
    PLACES,
    deepest,
    folder,
    in_all_spellings,
    misplaced,
    normalised,
    taken_for,
    too_long,
)


@pytest.mark.parametrize(
    ("location", "file"),
    [
        ("/wh//t/x://../a", "/wh/t/a"),
        ("/wh/t/x://a", "/wh/t/x:/a"),
        ("s3a://lake//a", "s3://lake/a"),
        ("hdfs://nn/wh//a", "hdfs:///wh/a"),
        ("viewfs:/wh//a", "viewfs:/wh/a"),
    ],
)
def test_a_name_that_is_not_plain_is_taken_for_the_file_that_is_left_of_it(location, file):
    assert taken_for(location) == (normalised(location), file)


@pytest.mark.parametrize("name", ["write.data.path", "write.metadata.path", "write.object-storage.path"])
@pytest.mark.parametrize(
    ("location", "place", "why"),
    [
        ("s3://lake/t", "s3://other/t", ""),
        ("s3://lake/t", "gs://other/t/", ""),
        ("file:///wh/t", "/elsewhere/t", ""),
        ("s3://lake/t", "lake/t/data", "may name another place"),
        ("/wh/t", "zstd", "may name another place"),
        ("s3://lake/t", "s3://lake/t/../u", "may name another place"),
        ("s3://lake/t", "../../var/lib://isotherm", "may name another place"),
        ("/wh/t", "/wh/../var/lib://isotherm", "may name another place"),
        ("s3://lake/t", "/var/lib/isotherm", "is on a disk of this machine"),
        ("s3://lake/t", "file:/var/lib/isotherm", "is on a disk of this machine"),
    ],
)
def test_a_table_chooses_no_folder_of_this_machine_and_none_that_depends_on_it(name, location, place, why):
    said = misplaced(
        location, {name: place, "write.format.default": "parquet"}, f"{location}/metadata/a.avro"
    )

    assert why in said
    assert bool(said) is bool(why)


@pytest.mark.parametrize(
    ("location", "lies", "why"),
    [
        ("/var/lib/isotherm", "s3://lake/t/metadata/a.avro", "its location '/var/lib/isotherm' is on a disk"),
        ("/wh/t", "file:/wh/other/a.avro", ""),
        ("s3://lake/t", "/wh/t/metadata/a.avro", ""),
    ],
)
def test_a_table_is_not_moved_to_a_disk_of_this_machine(location, lies, why):
    said = misplaced(location, {}, lies)

    assert why in said
    assert bool(said) is bool(why)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("file:/wh/a", "file:///wh/a"),
        ("/wh/a", "file:/wh/a"),
        ("FILE:///wh/a", "/wh/a"),
        ("s3a://b/a", "s3://b/a"),
        ("S3://b/a", "s3n://b/a"),
        ("hdfs://nn:8020/a", "hdfs:///a"),
        ("hdfs:/a", "hdfs://other/a"),
        ("abfss://c@x/a", "abfs://c@x/a"),
        ("gs://b/a", "gcs://b/a"),
        ("oss://b/a", "s3://b/a"),
        ("wasbs://c@x.blob.core.windows.net/a", "abfss://c@x.dfs.core.windows.net/a"),
        ("file://localhost/wh/a", "/wh/a"),
    ],
)
def test_one_file_has_one_normalised_name(one, other):
    assert normalised(one) == normalised(other)


def test_a_folder_holds_what_lies_in_it_at_any_depth_and_nothing_beside_it():
    folders = {folder("s3://lake/t/")}

    assert deepest("s3a://lake/t/a/b/c", folders | {folder("s3://lake")}) == "s3://lake/t/"
    assert deepest("/a/b", {"/"}) == "/"
    assert deepest("s3://lake/t2/a", folders) is None
    assert deepest("s3://lake/t", folders) is None


BEGINNINGS = [
    *("s3://lake/", "s3a://lake/", "S3://lake/", "gs://lake/", "gcs://lake/", "", "/", "file:/", "file:///"),
    *("file://localhost/", "hdfs:/", "hdfs://name:8020/", "hdfs:///", "odd:"),
    *("abfss://lake@Acme.dfs.core.windows.net/", "wasb://lake@acme.blob.core.windows.net/"),
]
FOLDERS = st.lists(st.sampled_from(["shop", "orders", "Orders", "a:b", "ä", ""]), max_size=4)


@given(st.sampled_from(BEGINNINGS), st.sampled_from(BEGINNINGS), FOLDERS, FOLDERS, st.sampled_from(["", "/"]))
def test_whatever_lies_in_a_folder_shares_its_path_in_all_spellings(here, there, path, below, end):
    """By it the ledger finds the places that may hold files of a table back: none of them may be missing."""
    home, other = here + "/".join(path), there + "/".join([*path, *below]) + end

    if folder(other).startswith(folder(home)):
        assert in_all_spellings(home) in other
        assert in_all_spellings(folder(home)) in other


@pytest.mark.parametrize("name", ["location", *PLACES])
def test_a_folder_that_is_longer_than_any_path_is_named(name):
    said = {"location": "s3://lake/t"} | dict.fromkeys(PLACES, "s3://lake/data")
    long = "s3://lake/" + "x" * (MOST_PLACE_CHARS - len("s3://lake/"))

    def why(folders):
        return too_long(folders["location"], {one: folders[one] for one in PLACES})

    assert not why(said)
    assert not why(said | {name: long})
    assert why(said | {name: f"{long}x"}).startswith(f"its {name} has more than 8192 characters")
    assert not too_long("s3://lake/t", {"comment": f"{long}x"})
