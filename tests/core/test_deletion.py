"""Whether a file may be deleted: every layer by itself, with everything else in order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.contract.paths import folder, is_plain
from isotherm.core.deletion import (
    FOUND,
    Cause,
    Evidence,
    Finding,
    Mark,
    Neighbours,
    Seen,
    held_by,
    is_gc_enabled,
    judge,
    may_go_at_once,
    named_folders,
    own_folders,
    pause_ms,
)
from isotherm.core.deletion_obstacles import Standing, obstacle

HOME = "s3://lake/shop/orders"
PATH = f"{HOME}/data/a.parquet"
OWN = own_folders(HOME, (), ("shop", "orders"))
SEEN = Seen(7, 10)
MARK = Mark(PATH, "job", Cause.EXPIRED, SEEN)


def evidence(**changes):
    whole = {
        "gc_enabled": True,
        "last_sequence_number": 12,
        "snapshot_ids": {7, 8},
        "reached": frozenset(),
    }
    return Evidence(**(whole | changes))


def found(mark=MARK, expired=(1, 2), neighbours=None, **changes):
    verdict = judge(mark, expired, evidence(**changes), neighbours or Neighbours(OWN))
    return verdict.finding, verdict.reason


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


@pytest.mark.parametrize(
    ("home", "path", "goes"),
    [
        ("hdfs://dr/wh/t", "hdfs://dr/wh/t/data/a", True),
        ("hdfs://dr:8020/wh/t", "HDFS://DR/wh/t/data/a", True),
        ("hdfs:///wh/t", "hdfs:/wh/t/data/a", True),
        ("hdfs://dr/wh/t", "hdfs://prod/wh/t/data/a", False),
        ("hdfs://dr/wh/t", "hdfs://dr@prod:8020/wh/t/data/a", False),
        ("hdfs://dr/wh/t", "hdfs:///wh/t/data/a", False),
        ("hdfs:///wh/t", "hdfs://prod/wh/t/data/a", False),
    ],
)
@pytest.mark.parametrize("cause", [one for one in Cause if one is not Cause.QUARANTINED])
def test_two_clusters_with_the_same_folders_are_two_places(home, path, goes, cause):
    """Mirrored for a disaster, they differ by their names alone; to a proof that nothing is needed they are one."""
    for allowed, own in (((), home), ((home,), "s3://lake/orders")):
        neighbours = Neighbours(own_folders(own, allowed, ("shop", "t")))
        finding, reason = found(Mark(path, "job", cause, SEEN), (), neighbours)
        # What an operator allows is no right to what was found by listing.
        assert (finding is Finding.GO) == (goes and not (allowed and cause in FOUND)), reason
        assert finding is Finding.GO or reason in ("elsewhere", "metadata")


QUARANTINED = Mark(f"{HOME}/_isotherm_quarantine/j1/data/x/a.parquet", "j1", Cause.QUARANTINED, SEEN)


MEASURED = {"sizes": {QUARANTINED.path: {7}}, "in_quarantine": {QUARANTINED.path: 7}}


@pytest.mark.parametrize(
    ("changes", "finding", "reason"),
    [
        ({}, Finding.GO, "unreached"),
        ({"young": {QUARANTINED.path}}, Finding.WAIT, "not_over"),
        ({"names": {"a.parquet"}}, Finding.RESTORE, "needed_again"),
        ({"names": {"a.parquet"}, "young": {QUARANTINED.path}}, Finding.RESTORE, "needed_again"),
        # Somebody has added it where it lies now: it would be lost to him where it was.
        ({"names": {"a.parquet"}, "moved_names": {"a.parquet"}}, Finding.KEEP, "reached"),
        # That was another one of this name: this one is needed.
        (
            {
                "names": {"a.parquet"},
                "moved_names": {"a.parquet"},
                "named_at_origin": {QUARANTINED.path},
                **MEASURED,
            },
            Finding.RESTORE,
            "needed_again",
        ),
        # To put it back deletes nothing, so nothing that holds back deletions holds that back.
        ({"names": {"a.parquet"}, "gc_enabled": False}, Finding.RESTORE, "needed_again"),
        ({"names": {"a.parquet"}, "seen_through": 13}, Finding.RESTORE, "needed_again"),
        # By their sizes, what lies where it was is what the table names, or is not, or this one is not.
        ({"names": {"a.parquet"}, **MEASURED}, Finding.RESTORE, "needed_again"),
        ({"names": {"a.parquet"}, **MEASURED, "at_origin": {QUARANTINED.path: 7}}, Finding.GO, "unreached"),
        ({"names": {"a.parquet"}, "at_origin": {QUARANTINED.path: 7}}, Finding.GO, "unreached"),
        (
            {
                "names": {"a.parquet"},
                **MEASURED,
                "at_origin": {QUARANTINED.path: 7},
                "young": {QUARANTINED.path},
            },
            Finding.WAIT,
            "not_over",
        ),
        (
            {"names": {"a.parquet"}, **MEASURED, "at_origin": {QUARANTINED.path: 7}, "gc_enabled": False},
            Finding.WAIT,
            "gc_disabled",
        ),
        (
            {"names": {"a.parquet"}, **MEASURED, "at_origin": {QUARANTINED.path: 8}},
            Finding.WAIT,
            "needed_again",
        ),
        (
            {"names": {"a.parquet"}, **MEASURED, "in_quarantine": {QUARANTINED.path: 8}},
            Finding.WAIT,
            "needed_again",
        ),
        # The table has its files of this name in other places, whatever their sizes.
        ({"names": {"a.parquet"}, "elsewhere": {QUARANTINED.path}}, Finding.GO, "unreached"),
        (
            {
                "names": {"a.parquet"},
                "elsewhere": {QUARANTINED.path},
                **MEASURED,
                "at_origin": {QUARANTINED.path: 8},
            },
            Finding.GO,
            "unreached",
        ),
        (
            {"names": {"a.parquet"}, "elsewhere": {QUARANTINED.path}, "young": {QUARANTINED.path}},
            Finding.WAIT,
            "not_over",
        ),
        ({"known_through": 13}, Finding.WAIT, "history_cut"),
        ({"stays": "orphans.mode: report"}, Finding.WAIT, "policy"),
        ({"stays": "orphans.mode: report", "young": {QUARANTINED.path}}, Finding.WAIT, "not_over"),
        ({"stays": "orphans.mode: report", "names": {"a.parquet"}}, Finding.RESTORE, "needed_again"),
        ({"last_sequence_number": None}, Finding.KEEP, "format_1"),
        ({"beside": {Cause.QUARANTINED: "is another history"}}, Finding.WAIT, "other_history"),
    ],
)
def test_a_file_in_quarantine_goes_after_its_time_and_comes_back_where_it_is_needed(changes, finding, reason):
    assert found(QUARANTINED, (), **changes) == (finding, reason)


@pytest.mark.parametrize("names", [(), ("a.parquet",)])
@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (f"{HOME}/data/a.parquet", "elsewhere"),
        (f"{HOME}/_isotherm_quarantine/a.parquet", "elsewhere"),
        (f"{HOME}/_isotherm_quarantine/data/a.parquet", "elsewhere"),
        (f"{HOME}/_isotherm_quarantine/j1/other/a.parquet", "elsewhere"),
        (f"{HOME}/_isotherm_quarantine/j1/data/", "spelling"),
        (f"{HOME}/_isotherm_quarantine/j1/../../data/a.parquet", "spelling"),
        (f"{HOME}2/_isotherm_quarantine/j1/data/a.parquet", "elsewhere"),
        ("s3://lake/also/shop/orders/_isotherm_quarantine/j1/data/a.parquet", "elsewhere"),
        (f"{HOME}/_isotherm_quarantine/j1/metadata/00003-6f4b.metadata.json", "metadata"),
    ],
)
def test_only_what_was_moved_within_the_tables_own_location_goes_from_a_quarantine_or_back(
    path, reason, names
):
    neighbours = Neighbours(own_folders(HOME, ("s3://lake/also/{namespace}/{name}",), ("shop", "orders")))
    mark = Mark(path, "j1", Cause.QUARANTINED, SEEN)

    assert found(mark, (), neighbours, names=names) == (Finding.KEEP, reason)


@pytest.mark.parametrize("names", [(), ("a.parquet",)])
@pytest.mark.parametrize("others", ["others", "claims"])
@pytest.mark.parametrize("other", ["_isotherm_quarantine", "_isotherm_quarantine/j1", "data", "data/x", ""])
def test_where_another_table_lies_in_a_quarantine_or_where_its_files_were_they_wait(other, others, names):
    neighbours = Neighbours(OWN, **{others: frozenset({folder(f"{HOME}/{other}")})})

    assert found(QUARANTINED, (), neighbours, names=names) == (Finding.WAIT, "other_table")
    assert held_by(QUARANTINED.path, Neighbours(OWN), is_found=True) is None


def test_where_another_table_claims_a_folder_what_is_found_waits_and_what_expired_goes():
    """Its owner may have pointed it at ours, so that nothing of ours is ever deleted; or it does write there."""
    neighbours = Neighbours(OWN, claims=frozenset({folder(f"{HOME}/data")}))

    assert found(Mark(PATH, "job", Cause.ORPHAN, SEEN), (), neighbours)[1] == "other_table"
    allowed = Neighbours(own_folders(HOME, (f"{HOME}/data/kafka",), ()), claims=neighbours.claims)
    other = Mark(f"{HOME}/data/kafka/a.parquet", "job", Cause.ORPHAN, SEEN)
    assert found(other, (), allowed)[1] == "other_table"
    assert found(neighbours=neighbours) == (Finding.GO, "unreached")


@pytest.mark.parametrize(
    ("cause", "standing"),
    [
        (Cause.OLD_VERSION, Standing(may_trim=False)),
        (Cause.ORPHAN, Standing(may_remove_orphans=False)),
        (Cause.EXPIRED, Standing(may_expire=False)),
        # Nothing goes from the quarantine for good then (`stays`), but what is needed comes back from there.
        (Cause.QUARANTINED, Standing(may_look_for_orphans=False)),
    ],
)
def test_what_a_policy_no_longer_wants_deleted_stays_and_nothing_else_does(cause, standing):
    stay = {cause}
    assert {one for one in Cause if obstacle(standing, one) is not None} == stay


def test_a_file_is_reached_under_any_spelling():
    mark = Mark("s3a://lake/shop/orders/data/a.parquet", "job", Cause.LEFTOVER, SEEN)

    assert found(mark, reached=frozenset({PATH})) == (Finding.KEEP, "reached")


@pytest.mark.parametrize("part", ["data", "metadata"])
@pytest.mark.parametrize("other", ["{HOME}/{part}", "s3a://lake/shop/orders/{part}/", "{HOME}"])
def test_a_file_under_another_known_tables_location_waits(other, part):
    neighbours = Neighbours(OWN, frozenset({folder(other.format(HOME=HOME, part=part))}))
    mark = Mark(f"{HOME}/{part}/a", "job", Cause.EXPIRED, SEEN)

    assert found(mark, neighbours=neighbours) == (Finding.WAIT, "other_table")
    assert found(mark) == (Finding.GO, "unreached")


@pytest.mark.parametrize("other", [f"{HOME}/dat", "s3://lake/shop", "s3://lake", f"{HOME}2"])
def test_a_neighbour_beside_the_file_or_around_the_table_keeps_nothing(other):
    assert found(neighbours=Neighbours(OWN, frozenset({folder(other)}))) == (Finding.GO, "unreached")


@pytest.mark.parametrize(
    "path",
    [f"{HOME}/a.parquet", f"{HOME}/items/data/a.parquet", f"{HOME}2/data/a.parquet", "s3://lake/data/a"],
)
def test_only_the_two_folders_that_iceberg_makes_are_the_tables_own(path):
    """Its owner may point a table at a folder in which others lie."""
    neighbours = Neighbours(own_folders(HOME, (), ("shop", "orders")))

    assert found(Mark(path, "job", Cause.EXPIRED, SEEN), neighbours=neighbours) == (Finding.KEEP, "elsewhere")


@pytest.mark.parametrize("allowed", ["s3://files", "s3a://files/{namespace}/{name}/"])
def test_elsewhere_a_file_goes_only_where_the_operator_says_so(allowed):
    mark = Mark("s3://files/shop/orders/a.parquet", "job", Cause.EXPIRED, SEEN)

    assert found(mark) == (Finding.KEEP, "elsewhere")
    assert (
        found(mark, neighbours=Neighbours(own_folders(HOME, (allowed,), ("shop", "orders"))))[0] is Finding.GO
    )
    assert found(
        mark, neighbours=Neighbours(own_folders(HOME, ("s3://files/{name}",), ("shop", "items")))
    ) == (
        Finding.KEEP,
        "elsewhere",
    )


def test_while_nobody_knows_where_a_table_lies_its_files_wait():
    assert found(neighbours=Neighbours({})) == (Finding.WAIT, "no_place")


@pytest.mark.parametrize(
    "levels",
    [
        ("a", "b/c"),
        ("a/b", "c"),
        ("a", "b", "c/"),
        ("{name}", "c"),
        ("a", "{namespace}"),
        ("a", "}{"),
        ("a", "..", "b"),
        ("..", "c"),
        ("a", "."),
        ("a.b", "c"),
        ("a", ""),
        ("", "c"),
        ("c",),
        (),
    ],
)
def test_no_text_that_an_owner_chooses_leads_to_a_folder_of_other_levels(levels):
    """Whoever may create the namespace `a/b` would have the folder of `c` in `a.b`."""
    named = ["s3://files/{namespace}/{name}", "s3://files/{name}", "s3://{namespace}"]

    assert own_folders(HOME, named, levels) == own_folders(HOME, (), levels)
    # What does not name the table is allowed to all.
    assert own_folders(HOME, ["s3://all"], levels).keys() - OWN.keys() == {"s3://all/"}


_LEVELS = st.lists(st.text("ab/.{}name", max_size=6), min_size=2, max_size=4).map(tuple)


@given(_LEVELS, _LEVELS)
def test_no_two_tables_have_one_folder_that_is_named_for_them(one, other):
    ours, theirs = (named_folders(["s3://files/{namespace}/{name}"], levels) for levels in (one, other))

    assert one == other or not {*ours} & {*theirs}


def test_each_level_of_a_namespace_is_a_folder():
    allowed = named_folders(["s3://files/{namespace}/{name}/{name}", "s3://all"], ("a b", "c%2E", "it's"))

    assert allowed == ["s3://files/a b/c%2E/it's/it's", "s3://all"]


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
