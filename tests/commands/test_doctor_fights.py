"""What a table says of itself that its policy, or the daemon, cannot work with."""

from dataclasses import dataclass, field

import pytest

from isotherm.commands.doctor.checks import Mark
from isotherm.commands.doctor.fights import fights
from isotherm.core.model.tables import Snapshot, TableFacts
from isotherm.core.policy.precedence import PolicyFile, resolve

NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000


@dataclass
class Loaded:
    """As much of a loaded table as is looked at."""

    facts: TableFacts
    snapshots: dict = field(default_factory=dict)


def found(properties=(), also_under=(), policy="shop.*", snapshots=(), **facts):
    properties = dict(properties)
    loaded = Loaded(
        TableFacts("s3://lake/shop/orders", 2, (), properties=properties, **facts),
        {one.snapshot_id: one for one in snapshots},
    )
    resolved = resolve("shop.orders", properties, [("all.yaml", PolicyFile(tables=[policy]))])
    return [(one.mark, one.found) for one in fights(loaded, resolved, also_under, NOW_MS)]


def test_a_table_that_says_nothing_fights_nothing_and_neither_does_one_without_a_policy():
    assert found() == []
    assert found(
        {"write.target-file-size-bytes": "1000000000", "history.expire.max-snapshot-age-ms": "1"}
    ) != [None]
    assert found({"commit.retry.num-retries": "0", "gc.enabled": "false"}, policy="other.*") == []


@pytest.mark.parametrize(
    ("properties", "mark", "said"),
    [
        ({"commit.retry.num-retries": "0"}, Mark.WRONG, "deletes files of a commit that has landed"),
        ({"gc.enabled": "false"}, Mark.UNKNOWN, "gc.enabled=false: nothing of it expires"),
        ({"write.metadata.delete-after-commit.enabled": "true"}, Mark.UNKNOWN, "its writers remove old metadata"),
        ({"history.expire.max-snapshot-age-ms": "soon"}, Mark.WRONG, "history.expire.max-snapshot-age-ms is no number"),
        ({"write.data.path": "s3://other/x"}, Mark.WRONG, "write.data.path is s3://other/x, outside of its location"),
        ({"write.data.path": "s3://lake/shop/orders2"}, Mark.WRONG, "outside of its location"),
    ],
)  # fmt: skip
def test_what_a_property_does(properties, mark, said):
    [(marked, told)] = found(properties)

    assert (marked, said in told) == (mark, True)


@pytest.mark.parametrize(
    ("place", "also_under"),
    [
        ("s3a://lake/shop/orders/elsewhere", ()),
        ("s3://other/x", ("s3://other",)),
        ("s3a://other/x/", ("s3://other/x/",)),
        ("s3://other/shop/orders", ("s3://other/{namespace}/{name}",)),
    ],
)
def test_a_folder_that_is_its_own_or_allowed_is_no_fight(place, also_under):
    assert found({"write.data.path": place}, also_under) == []


def test_a_property_that_keeps_more_than_a_pattern_says_is_told():
    policy = PolicyFile.model_validate({"tables": "shop.*", "expire": {"keep_for": "3d"}})
    properties = {"history.expire.max-snapshot-age-ms": str(30 * DAY_MS)}
    resolved = resolve("shop.orders", properties, [("all.yaml", policy)])
    loaded = Loaded(TableFacts("s3://lake/shop/orders", 2, (), properties=properties))

    [told] = fights(loaded, resolved, (), NOW_MS)
    assert told.mark is Mark.UNKNOWN
    assert told.found.startswith("expire.keep_for: all.yaml says 3d, but the table property keeps more")


@pytest.mark.parametrize(("days", "mark"), [(1, Mark.WRONG), (8, Mark.UNKNOWN)])
def test_somebody_else_who_rewrites_its_files_is_told_and_lately_for_a_person(days, mark):
    snapshot = Snapshot(7, 1, NOW_MS - days * DAY_MS)
    [(marked, told)] = found(snapshots=[snapshot], rewritten_in=7, rewritten_by="Trino")

    assert marked is mark
    assert told.startswith("Trino ")
    assert found(rewritten_in=8)[0] == (
        Mark.UNKNOWN,
        "somebody else has rewritten its files too, though not in the last days",
    )


def test_what_this_version_cannot_compact_is_told():
    assert found(unsupported="format version 4 is followed, not yet rewritten") == [
        (
            Mark.UNKNOWN,
            "nothing of it can be compacted by this version: format version 4 is followed, not yet rewritten",
        )
    ]
