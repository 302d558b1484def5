"""Branches and tags with an age of their own: dropped once they are past it, and what they kept goes by the rules of all."""

from typing import Any

import pytest
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH

from isotherm.clients.catalog import open_catalog
from isotherm.core.model.jobs import OutcomeKind
from isotherm.core.model.refusals import Reason
from isotherm.core.units import DAY_MS
from isotherm.iceberg.expiry import expire, read
from isotherm.iceberg.refs import ref_ends
from isotherm.runtime.clock import now_ms
from support.expiring import append, branch, contents, expired, ids, load
from support.faults import FaultyCatalog, OnRest
from support.rewriting import fresh
from support.spark import CATALOG


def tag(table: Table, name: str, snapshot_id: int, age_ms: int | None = None) -> None:
    table.refresh().manage_snapshots().create_tag(snapshot_id, name, max_ref_age_ms=age_ms).commit()


def over(table: Table, at_ms: int) -> list[str]:
    return [end.name for end in ref_ends(table.refresh().metadata) if end.over_at_ms <= at_ms]


def refs(table: Table) -> set[str]:
    return set(table.refresh().metadata.refs)


def test_an_age_counts_from_the_time_of_the_snapshot(table: Table) -> None:
    one = table.metadata.snapshots[1]
    tag(table, "hour", one.snapshot_id, 3_600_000)
    tag(table, "ever", one.snapshot_id)

    assert over(table, one.timestamp_ms + 3_600_000) == []
    assert over(table, one.timestamp_ms + 3_600_001) == ["hour"]


@pytest.mark.parametrize(
    ("said", "expected"),
    [("1", ["b", "t"]), ("0", []), ("-1", []), ("a lot", []), ("9" * 40, []), (None, [])],
)
def test_what_one_does_not_state_the_table_may_and_main_never_goes(
    table: Table, said: str | None, expected: list[str]
) -> None:
    known = ids(table)
    tag(table, "t", known[1])
    branch(table, "b", known[2])
    tag(table, "own", known[1], DAY_MS)
    if said is not None:
        with table.refresh().transaction() as transaction:
            transaction.set_properties({"history.expire.max-ref-age-ms": said})

    found = over(table, now_ms() + 10_000)

    assert sorted(found) == expected
    assert MAIN_BRANCH not in found


@pytest.mark.parametrize("of", [FaultyCatalog, OnRest])
def test_they_are_dropped_and_nothing_else_goes_with_them(catalog: Any, table: Table, of: Any) -> None:
    known, before = ids(table), contents(table)
    tag(table, "over", known[1], 1)
    tag(table, "young", known[1], DAY_MS)
    branch(table, "old branch", known[2], max_ref_age_ms=1)
    branch(table, "branch", known[2])
    everything = [one.snapshot_id for one in table.refresh().metadata.snapshots]

    reading = read(table, [], now_ms() + 10)
    outcome = expire(of(catalog), "db.t", uuid(table), reading, "job", lambda _: None, now_ms() + 10).outcome

    assert outcome.kind is OutcomeKind.DONE
    assert "past their age, and dropped: over, old branch" in outcome.why
    assert refs(table) == {"main", "young", "branch"}
    assert [one.snapshot_id for one in table.metadata.snapshots] == everything
    assert contents(table) == before
    assert table.metadata.current_snapshot_id == known[-1]


def test_they_go_together_with_snapshots_that_may_go(catalog: Any, table: Table) -> None:
    known = ids(table)
    tag(table, "over", known[3], 1)

    reading = read(table, known[:3], now_ms() + 10)
    outcome = expired_at(catalog, table, reading).outcome

    assert outcome.kind is OutcomeKind.DONE
    assert (refs(table), ids(table)) == ({"main"}, known[3:])


def test_what_one_that_goes_has_kept_stays_for_now(table: Table) -> None:
    """Others' rules are asked about it first: how long it is kept from now on."""
    known = ids(table)
    tag(table, "over", known[1], 1)

    assert read(table, known[:3], now_ms() + 10).snapshots == (known[0], known[2])


def test_one_that_is_used_again_meanwhile_is_not_dropped(catalog: Any, table: Table) -> None:
    """Somebody writes to the branch between our look and our request."""
    known = ids(table)
    branch(table, "b", known[2], max_ref_age_ms=1)
    reading, times = read(table, [], now_ms() + 10), []

    def racing(real: Any, *arguments: Any) -> Any:
        if not times:
            times.append(1)
            append(load(catalog), 98, branch="b")
        return real(*arguments)

    done = expired_at(FaultyCatalog(catalog, racing), table, reading)

    assert (done.outcome.kind, done.outcome.reason) == (OutcomeKind.FAILED, Reason.STALE)
    assert refs(table) == {"main", "b"}


@pytest.mark.parametrize(
    ("of", "when"),
    [
        (FaultyCatalog, "at the last look"),
        (FaultyCatalog, "in the race"),
        # A REST catalog cannot be asked about an age: it compares the snapshot of each ref alone.
        (OnRest, "at the last look"),
    ],
)
def test_one_whose_owner_makes_its_age_longer_meanwhile_is_not_dropped(
    catalog: Any, table: Table, of: Any, when: str
) -> None:
    known = ids(table)
    tag(table, "over", known[1], 1)
    reading, times = read(table, [known[3]], now_ms() + 10), list[int]()

    def extend() -> None:
        if not times:
            times.append(1)
            with load(catalog).manage_snapshots() as refs:
                refs.remove_tag("over")
            tag(table, "over", known[1], DAY_MS)

    def racing(real: Any, *arguments: Any) -> Any:
        if when == "in the race":
            extend()
        return real(*arguments)

    def may_send(_: Table) -> None:
        if when == "at the last look":
            extend()

    done = expire(of(catalog, racing), "db.t", uuid(table), reading, "job", may_send, now_ms() + 10)

    assert done.outcome.kind is OutcomeKind.DONE
    assert "dropped" not in done.outcome.why
    assert refs(table) == {"main", "over"}
    assert known[3] not in ids(table)


def test_what_another_has_made_again_meanwhile_is_not_said_to_be_dropped(catalog: Any, table: Table) -> None:
    """An answer was lost, and somebody else has expired the same snapshots: that the tag went nobody can say."""
    known = ids(table)
    tag(table, "over", known[1], 1)
    reading = read(table, [known[3]], now_ms() + 10)

    def cut(*_: Any) -> None:
        table.refresh().maintenance.expire_snapshots().by_ids([known[3]]).commit()
        raise ConnectionError("cut")

    outcome = expired_at(FaultyCatalog(catalog, cut), table, reading).outcome

    assert outcome.kind is OutcomeKind.DONE
    assert "dropped" not in outcome.why
    assert refs(table) == {"main", "over"}


def test_an_age_that_is_for_ever_is_a_time_that_the_stores_can_keep(table: Table) -> None:
    tag(table, "ever", ids(table)[1], 2**63 - 1)

    (end,) = ref_ends(table.refresh().metadata)

    assert now_ms() < end.over_at_ms < 2**63


def test_one_that_others_have_dropped_meanwhile_is_no_trouble(catalog: Any, table: Table) -> None:
    tag(table, "over", ids(table)[1], 1)
    reading = read(table, [], now_ms() + 10)
    table.refresh().manage_snapshots().remove_tag("over").commit()
    location = table.refresh().metadata_location

    done = expired(catalog, reading)

    assert (done.outcome.kind, done.outcome.reason, done.outcome.was_sent) == (
        OutcomeKind.FAILED,
        Reason.STALE,
        False,
    )
    assert table.refresh().metadata_location == location


@pytest.mark.parametrize("has_landed", [True, False])
def test_a_lost_answer_is_looked_up(catalog: Any, table: Table, *, has_landed: bool) -> None:
    tag(table, "over", ids(table)[1], 1)
    reading = read(table, [], now_ms() + 10)

    def cut(real: Any, *arguments: Any) -> Any:
        if has_landed:
            real(*arguments)
        raise ConnectionError("cut")

    outcome = expired_at(FaultyCatalog(catalog, cut), table, reading).outcome

    assert outcome.kind is (OutcomeKind.DONE if has_landed else OutcomeKind.UNKNOWN)
    assert refs(table) == ({"main"} if has_landed else {"main", "over"})


def expired_at(catalog: Any, table: Table, reading: Any) -> Any:
    at_ms = now_ms() + 10
    return expire(catalog, "db.t", uuid(table), reading, "job", lambda _: None, at_ms, pause=lambda _: None)


def uuid(table: Table) -> str:
    return str(table.metadata.table_uuid)


@pytest.mark.spark
def test_those_go_that_icebergs_own_expiry_drops(spark: Any, lake_folder: Any) -> None:
    """Two tables alike; Spark's procedure on one of them, ours on the other."""
    left = []
    for who in ("java", "isotherm"):
        with fresh(spark, f"db.refs_{who}", "id BIGINT", "") as name:
            for number in range(4):
                spark.sql(f"INSERT INTO lake.{name} VALUES ({number})")
            spark.sql(f"ALTER TABLE lake.{name} CREATE BRANCH kept")
            spark.sql(f"ALTER TABLE lake.{name} CREATE BRANCH aged RETAIN 1 DAYS")
            spark.sql(f"ALTER TABLE lake.{name} CREATE TAG young RETAIN 30 DAYS")
            spark.sql(f"ALTER TABLE lake.{name} CREATE TAG old RETAIN 1 HOURS")
            later_ms = now_ms() + 3 * DAY_MS
            if who == "java":
                jvm = spark._jvm.org.apache.iceberg.spark
                java = jvm.Spark3Util.loadIcebergTable(spark._jsparkSession, f"lake.{name}")
                spark.sql(
                    f"ALTER TABLE lake.{name} SET TBLPROPERTIES ('history.expire.max-snapshot-age-ms'='9999999999')"
                )
                java.refresh()
                # Java has no other clock than the machine's: what was a day is an instant there.
                for ref, age_ms in (("aged", 1), ("old", 1)):
                    java.manageSnapshots().setMaxRefAgeMs(ref, age_ms).commit()
                java.expireSnapshots().commit()
            else:
                catalog = open_catalog(CATALOG, lake_folder.pyiceberg_properties, 60)
                table = catalog.load_table(name)
                reading = read(table, [], later_ms)
                done = expire(catalog, name, uuid(table), reading, "job", lambda _: None, later_ms)
                assert done.outcome.kind is OutcomeKind.DONE, done
                spark.sql(f"REFRESH TABLE lake.{name}")
            rows = spark.sql(f"SELECT name FROM lake.{name}.refs ORDER BY name").collect()
            left.append([row[0] for row in rows])
            assert spark.sql(f"SELECT count(*) FROM lake.{name}.snapshots").collect()[0][0] == 4

    assert left == [["kept", "main", "young"]] * 2
