"""Whether a file may be deleted: everything that the table shows against it, each by itself, with all else in order."""

import pytest

from isotherm.contract.paths import is_plain
from isotherm.core.deletion import (
    Cause,
    Finding,
    Mark,
    Neighbours,
    is_gc_enabled,
    may_go_at_once,
    own_folders,
    pause_ms,
)
from support.judged import HOME, PATH, SEEN, found


def test_a_file_that_nothing_reaches_goes():
    assert found() == (Finding.GO, "unreached")


@pytest.mark.parametrize(
    ("changes", "finding", "reason"),
    [
        ({"gc_enabled": False}, Finding.WAIT, "gc_disabled"),
        ({"snapshot_ids": {2, 7}}, Finding.WAIT, "snapshot_back"),
        ({"last_sequence_number": 9}, Finding.WAIT, "history_cut"),
        ({"seen_through": 13}, Finding.WAIT, "history_cut"),
        ({"reached": frozenset({PATH})}, Finding.KEEP, "reached"),
    ],
)
def test_each_thing_that_the_table_shows_keeps_a_file(changes, finding, reason):
    assert found(**changes) == (finding, reason)


VERSION = f"{HOME}/metadata/00003-6f4b.metadata.json"


@pytest.mark.parametrize(
    ("path", "cause", "names", "reason"),
    [
        (PATH, Cause.ORPHAN, (), "unreached"),
        (PATH, Cause.ORPHAN, ("a.parquet",), "reached"),
        (PATH, Cause.EXPIRED, ("a.parquet",), "unreached"),
        (f"{HOME}/elsewhere/a.parquet", Cause.ORPHAN, (), "elsewhere"),
        ("s3://lake/also/shop/orders/a.parquet", Cause.EXPIRED, (), "unreached"),
        ("s3://lake/also/shop/orders/a.parquet", Cause.ORPHAN, (), "elsewhere"),
        (VERSION, Cause.OLD_VERSION, (), "unreached"),
        (VERSION, Cause.OLD_VERSION, ("00003-6f4b.metadata.json",), "reached"),
        (VERSION, Cause.ORPHAN, (), "metadata"),
        (VERSION, Cause.EXPIRED, (), "metadata"),
        (f"{HOME}/metadata/00003-6f4b.gz.metadata.json", Cause.OLD_VERSION, (), "unreached"),
        (f"{HOME}/metadata/v3.metadata.json", Cause.OLD_VERSION, (), "metadata"),
        (f"{HOME}/metadata/v3.gz.metadata.json", Cause.OLD_VERSION, (), "metadata"),
        (f"{HOME}/metadata/version-hint.text", Cause.OLD_VERSION, (), "metadata"),
    ],
)
def test_what_was_found_by_listing_goes_by_its_name_and_its_place_too(path, cause, names, reason):
    """Where the operator lets us delete beside the table's location, others may write."""
    neighbours = Neighbours(own_folders(HOME, ("s3://lake/also/{namespace}/{name}",), ("shop", "orders")))

    assert found(Mark(path, "job", cause, SEEN), (), neighbours, names=names)[1] == reason


@pytest.mark.parametrize(
    ("mark", "changes", "reason"),
    [
        (Mark(VERSION, "job", Cause.OLD_VERSION, None), {}, "format_1"),
        (Mark(VERSION, "job", Cause.OLD_VERSION, SEEN), {"last_sequence_number": None}, "format_1"),
        (Mark(VERSION, "job", Cause.OLD_VERSION, SEEN), {"strange": {VERSION: "a view's"}}, "not_ours"),
        (Mark(PATH, "job", Cause.ORPHAN, SEEN), {"young": {PATH}}, "young"),
        (Mark(PATH, "job", Cause.ORPHAN, SEEN), {"seen_through": 13}, "history_cut"),
        (Mark(PATH, "job", Cause.ORPHAN, SEEN), {"known_through": 13}, "history_cut"),
        (Mark(PATH, "job", Cause.EXPIRED, SEEN), {"known_through": 13}, "unreached"),
    ],
)
def test_what_was_found_by_listing_stays_where_anything_is_against_it(mark, changes, reason):
    assert found(mark, (), **changes)[1] == reason


def test_a_file_is_reached_under_any_spelling():
    mark = Mark("s3a://lake/shop/orders/data/a.parquet", "job", Cause.LEFTOVER, SEEN)

    assert found(mark, reached=frozenset({PATH})) == (Finding.KEEP, "reached")


@pytest.mark.parametrize(
    ("said", "means"),
    [("true", True), ("TRUE ", False), ("false", False), ("no", False), ("0", False), ("", False)],
)
def test_gc_enabled_is_read_as_java_reads_it(said, means):
    assert is_gc_enabled({"gc.enabled": said}) is means
    assert is_gc_enabled({})


@pytest.mark.parametrize(
    "path",
    [
        f"{HOME}/data/../../items/a.parquet",
        f"{HOME}/data/./a.parquet",
        f"{HOME}/data//a.parquet",
        f"{HOME}/data/a.parquet#b",
        f"{HOME}/data/a.parquet?b=c",
        f"{HOME}/data/",
        f"{HOME}/data/a\n.parquet",
        "file:///wh/t/data/a.parquet#b",
        "/wh/t//data/a.parquet",
        " s3://lake/shop/orders/data/a.parquet",
        "shop/orders/data/a.parquet",
        "a.parquet",
        "shop/../orders://data/a.parquet",
        "/wh/t/../u://data/a.parquet",
        "1s3://lake/a.parquet",
        "s_3://lake/a.parquet",
        "\N{KELVIN SIGN}s://lake/a.parquet",
        "://lake/a.parquet",
        "file:wh/t/a.parquet",
        "file://wh/t/a.parquet",
    ],
)
def test_a_name_that_programs_may_read_in_two_ways_is_not_deleted(path):
    assert not is_plain(path)
    assert found(Mark(path, "job", Cause.EXPIRED, SEEN))[0] is not Finding.GO


@pytest.mark.parametrize(
    "path",
    [
        PATH,
        "/wh/t/data/ä b=c%2Fd/a.parquet",
        "file:/wh/t/a.parquet",
        "file:///wh/t/a",
        "hdfs://nn:8020/wh/a",
        "hdfs:/wh/a",
        "hdfs:///wh/a",
        "viewfs:/wh/a",
        "viewfs://c/wh/a",
        "FILE:/wh/a",
        "S3A://lake/a",
        "abfss://c@account.dfs.core.windows.net/t/a",
        "s3://lake/t/x=http:%2F%2Fy/a",
    ],
)
def test_an_ordinary_name_means_one_file(path):
    assert is_plain(path)


def test_at_once_goes_only_what_no_request_named_under_a_name_of_the_job():
    mine = f"{HOME}/data/isotherm-j1-00000.parquet"

    assert may_go_at_once(mine, "j1", was_sent=False)
    assert may_go_at_once(f"{HOME}/metadata/snap-1-0-isotherm-j1.avro", "j1", was_sent=False)
    assert not may_go_at_once(mine, "j1", was_sent=True)
    assert not may_go_at_once(mine, "j", was_sent=False)
    assert not may_go_at_once(mine, "j12", was_sent=False)
    assert not may_go_at_once(PATH, "j1", was_sent=False)
    assert not may_go_at_once(f"{HOME}/isotherm-j1-/../a.parquet", "j1", was_sent=False)
    assert not may_go_at_once(mine + "#", "j1", was_sent=False)


def test_a_file_that_waits_is_looked_at_ever_more_rarely_but_once_a_day():
    assert [pause_ms(looks) for looks in (0, 1, 2, 11, 500)] == [
        60_000,
        120_000,
        240_000,
        86_400_000,
        86_400_000,
    ]
