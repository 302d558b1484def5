"""Where a file lies decides whether it may be deleted: in a folder of the table's own, and in none of another one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.contract.paths import folder
from isotherm.core.deletion import FOUND, Cause, Finding, Mark, Neighbours, named_folders, own_folders
from support.judged import HOME, OWN, PATH, SEEN, found


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


def test_where_another_table_claims_a_folder_what_is_found_waits_and_what_expired_goes():
    """Its owner may have pointed it at ours, so that nothing of ours is ever deleted; or it does write there."""
    neighbours = Neighbours(OWN, claims=frozenset({folder(f"{HOME}/data")}))

    assert found(Mark(PATH, "job", Cause.ORPHAN, SEEN), (), neighbours)[1] == "other_table"
    allowed = Neighbours(own_folders(HOME, (f"{HOME}/data/kafka",), ()), claims=neighbours.claims)
    other = Mark(f"{HOME}/data/kafka/a.parquet", "job", Cause.ORPHAN, SEEN)
    assert found(other, (), allowed)[1] == "other_table"
    assert found(neighbours=neighbours) == (Finding.GO, "unreached")


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
