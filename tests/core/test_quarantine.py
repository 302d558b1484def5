"""Where a file lies in quarantine says where it was, and nothing else does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.core.orphan_findings import is_orphan_by_name
from isotherm.core.quarantine import fits, folder_in, is_too_long, origin_of, place_for

HOMES = ("s3://lake/shop/orders", "s3://lake/shop/orders/", "file:///wh/orders", "/wh/orders", "hdfs://nn/o")
_PARTS = st.lists(st.text("ab=1_.", min_size=1, max_size=4), min_size=1, max_size=4)


@given(st.sampled_from(HOMES), st.sampled_from(["data", "metadata"]), _PARTS, st.uuids().map(str))
def test_a_file_comes_back_to_where_it_was(home, part, parts, job_id):
    path = "/".join((home.rstrip("/"), part, *parts))
    place = place_for(path, home, job_id)

    assert place is not None
    assert place.startswith(folder_in(home))
    assert origin_of(place, home) == path


@given(st.sampled_from(HOMES), _PARTS, _PARTS)
def test_two_files_never_have_one_place(home, one, other):
    places = {place_for(f"{home.rstrip('/')}/data/{'/'.join(parts)}", home, "job") for parts in (one, other)}

    assert len(places) == (1 if one == other else 2)


def test_a_file_that_is_moved_twice_has_two_places():
    """A stream that plays an epoch again gives its files the names of before."""
    path = "s3://lake/t/data/a"

    assert place_for(path, "s3://lake/t", "one") != place_for(path, "s3://lake/t", "two")


@pytest.mark.parametrize(
    "path",
    ["s3://lake/t/a", "s3://lake/t/other/a", "s3://lake/t2/data/a", "s3://lake/t/data", "s3://lake/t/data/"],
)
def test_only_from_the_two_folders_of_the_table_is_anything_moved(path):
    assert place_for(path, "s3://lake/t", "job") is None


@pytest.mark.parametrize(
    "place",
    [
        "s3://lake/t/data/a",
        "s3://lake/t/_isotherm_quarantine/a",
        "s3://lake/t/_isotherm_quarantine/data/a",
        "s3://lake/t/_isotherm_quarantine//data/a",
        "s3://lake/t/_isotherm_quarantine/job/other/a",
        "s3://lake/t/_isotherm_quarantine/job/data/",
        "s3://lake/t2/_isotherm_quarantine/job/data/a",
    ],
)
def test_what_nothing_of_ours_has_moved_goes_nowhere(place):
    assert origin_of(place, "s3://lake/t") is None


def test_no_search_takes_it_for_the_tables():
    assert not is_orphan_by_name(folder_in("")[1:] + "job/data/a.parquet")


def test_a_file_fits_that_may_be_the_one_which_a_table_names():
    assert [fits(7, sizes) for sizes in ((), {7}, {6, 7}, {6})] == [True, True, True, False]


@pytest.mark.parametrize("scheme", ["s3", "s3a", "gs", "abfss"])
def test_a_name_that_an_object_store_does_not_allow_is_too_long(scheme):
    assert not is_too_long(f"{scheme}://lake/" + "a" * 1024)
    assert is_too_long(f"{scheme}://lake/" + "a" * 1025)
    assert is_too_long(f"{scheme}://lake/" + "ü" * 513)


@pytest.mark.parametrize("home", ["file:///wh", "/wh", "hdfs://nn/wh"])
def test_a_disk_and_hdfs_allow_long_names(home):
    assert not is_too_long(f"{home}/" + "a/" * 1000)
