"""Whether a file may be deleted: every layer by itself, with everything else in order."""

import pytest

from isotherm.deletion import (
    Cause,
    Evidence,
    Finding,
    Mark,
    Neighbours,
    Standing,
    judge,
    may_go_at_once,
    obstacle,
    pause_ms,
)
from isotherm.paths import folder, is_plain, lies_under, normalised

HOME = "s3://lake/shop/orders"
PATH = f"{HOME}/data/a.parquet"
MARK = Mark(PATH, "job", Cause.EXPIRED, seen_through=10)


def evidence(**changes):
    whole = {
        "location": HOME,
        "gc_enabled": True,
        "last_sequence_number": 12,
        "snapshot_ids": {7, 8},
        "reached": frozenset(),
    }
    return Evidence(**(whole | changes))


def found(mark=MARK, expired=(1, 2), neighbours=None, **changes):
    verdict = judge(mark, expired, evidence(**changes), neighbours or Neighbours())
    return verdict.finding, verdict.reason


def test_a_file_that_nothing_reaches_goes():
    assert found() == (Finding.GO, "unreached")


@pytest.mark.parametrize(
    ("changes", "finding", "reason"),
    [
        ({"gc_enabled": False}, Finding.WAIT, "gc_disabled"),
        ({"snapshot_ids": {2, 7}}, Finding.WAIT, "snapshot_back"),
        ({"last_sequence_number": 9}, Finding.WAIT, "history_cut"),
        ({"reached": frozenset({PATH})}, Finding.KEEP, "reached"),
        ({"location": "s3://lake/shop/items"}, Finding.KEEP, "elsewhere"),
        ({"location": "s3://lake/shop/order"}, Finding.KEEP, "elsewhere"),
    ],
)
def test_each_thing_that_the_table_shows_keeps_a_file(changes, finding, reason):
    assert found(**changes) == (finding, reason)


def test_a_file_is_reached_under_any_spelling():
    mark = Mark("s3a://lake/shop/orders/data/a.parquet", "job", Cause.LEFTOVER, 10)

    assert found(mark, reached=frozenset({PATH})) == (Finding.KEEP, "reached")


@pytest.mark.parametrize("other", [f"{HOME}/data", "s3a://lake/shop/orders/data/", HOME])
def test_a_file_under_another_known_tables_location_waits(other):
    assert found(neighbours=Neighbours(frozenset({folder(other)}))) == (Finding.WAIT, "other_table")


def test_a_neighbour_beside_the_file_keeps_nothing():
    assert found(neighbours=Neighbours(frozenset({folder(f"{HOME}/dat")}))) == (Finding.GO, "unreached")


def test_outside_of_its_location_a_file_goes_only_where_the_operator_says_so():
    mark = Mark("s3://files/orders/a.parquet", "job", Cause.EXPIRED, 10)

    assert found(mark) == (Finding.KEEP, "elsewhere")
    allowed = Neighbours(also_under=frozenset({folder("s3://files")}))
    assert found(mark, neighbours=allowed) == (Finding.GO, "unreached")


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
    ],
)
def test_a_name_that_programs_may_read_in_two_ways_is_not_deleted(path):
    assert not is_plain(path)
    assert found(Mark(path, "job", Cause.EXPIRED, 10))[0] is not Finding.GO


@pytest.mark.parametrize(
    "path",
    [
        PATH,
        "/wh/t/data/ä b=c%2Fd/a.parquet",
        "file:/wh/t/a.parquet",
        "file:///wh/t/a",
        "hdfs://nn:8020/wh/a",
        "abfss://c@account.dfs.core.windows.net/t/a",
        "s3://lake/t/x=http:%2F%2Fy/a",
    ],
)
def test_an_ordinary_name_means_one_file(path):
    assert is_plain(path)


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
    ],
)
def test_one_file_has_one_normalised_name(one, other):
    assert normalised(one) == normalised(other)


def test_a_folder_holds_what_lies_in_it_at_any_depth_and_nothing_beside_it():
    folders = {folder("s3://lake/t/")}

    assert lies_under("s3a://lake/t/a/b/c", folders)
    assert not lies_under("s3://lake/t2/a", folders)
    assert not lies_under("s3://lake/t", folders)


@pytest.mark.parametrize(
    "against", [{"ledger": "new"}, {"clock": "ahead"}, {"owner": "another"}, {"held": "halted: x"}]
)
@pytest.mark.parametrize("cause", Cause)
def test_each_thing_that_the_daemon_knows_keeps_every_file(against, cause):
    assert obstacle(Standing(), cause) is None
    assert obstacle(Standing(**against), cause) == next(iter(against.values()))


def test_a_policy_that_stops_expiry_keeps_what_an_expiry_left_but_not_what_jobs_left():
    standing = Standing(may_expire=False)

    assert obstacle(standing, Cause.EXPIRED) is not None
    assert obstacle(standing, Cause.LEFTOVER) is None
    assert obstacle(Standing(has_policy=False), Cause.LEFTOVER) is not None


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
