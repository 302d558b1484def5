"""What is written beside `main`, and can be published only while that stays where it is."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate

from isotherm.core.model.tables import Unpublished
from isotherm.core.units import DAY_MS
from isotherm.iceberg.unpublished import MOST_KEPT, enough, unpublished, waits_to_be_published
from isotherm.runtime.clock import now_ms
from support.lab import Lab


@pytest.fixture
def table(tmp_path: Path) -> Any:
    lab = Lab(tmp_path)
    table = lab.create(**{"format-version": "2"})
    for _ in range(3):
        lab.append(table, 1, announce=False)
    return table


def branch(table: Any, at: int) -> None:
    table.manage_snapshots().create_branch(at, "audit").commit()
    table.refresh().append(table.scan().to_arrow(), branch="audit")
    table.refresh()


def staged(table: Any, operation: Operation, parent: int, **more: str) -> None:
    """A snapshot that no branch has, as Spark leaves it under `spark.wap.id`."""
    metadata = table.metadata
    snapshot = Snapshot(
        snapshot_id=metadata.new_snapshot_id(),
        parent_snapshot_id=parent,
        sequence_number=metadata.next_sequence_number(),
        timestamp_ms=max(now_ms(), metadata.last_updated_ms),
        manifest_list=metadata.current_snapshot().manifest_list,
        summary=Summary(operation, **{"wap.id": "w", **more}),
        schema_id=0,
    )
    table.catalog.commit_table(table, (), (AddSnapshotUpdate(snapshot=snapshot),))
    table.refresh()


def ids(table: Any) -> list[int]:
    return [one.snapshot_id for one in table.metadata.snapshots]


def test_a_branch_that_goes_on_from_the_head_waits_for_a_day(table: Any) -> None:
    branch(table, ids(table)[-1])
    now = now_ms()

    found = [
        bool(waits_to_be_published(table.metadata, at)) for at in (now, now + DAY_MS // 2, now + 2 * DAY_MS)
    ]

    assert found == [True, True, False]


def test_a_branch_beside_the_head_does_not_wait(table: Any) -> None:
    """At the head nobody has written yet; what goes on from an older one cannot be published by a fast-forward anyway."""
    table.manage_snapshots().create_branch(ids(table)[-1], "at_the_head").commit()
    table.manage_snapshots().create_tag(ids(table)[0], "tag").commit()
    branch(table.refresh(), ids(table)[1])

    assert not waits_to_be_published(table.metadata, now_ms())


@pytest.mark.parametrize(
    ("operation", "behind", "more", "waits"),
    [
        (Operation.OVERWRITE, 0, {}, True),
        (Operation.DELETE, 0, {}, True),
        (Operation.OVERWRITE, 1, {}, False),
        (Operation.OVERWRITE, 1, {"replace-partitions": "true"}, True),
        (Operation.APPEND, 0, {}, False),
    ],
    ids=["on the head", "a delete", "on an older one", "of whole partitions", "an append"],
)
def test_what_is_staged_waits_where_it_could_be_published(
    table: Any, operation: Operation, behind: int, more: dict[str, str], waits: bool
) -> None:
    staged(table, operation, ids(table)[-1 - behind], **more)

    found = [bool(waits_to_be_published(table.metadata, now_ms() + after)) for after in (0, 2 * DAY_MS)]

    assert found == [waits, False]


def test_what_was_published_waits_no_more(table: Any) -> None:
    staged(table, Operation.OVERWRITE, ids(table)[-1], **{"replace-partitions": "true"})
    picked = {"source-snapshot-id": str(ids(table)[-1])}
    table.append(table.scan().to_arrow(), snapshot_properties=picked)

    assert not waits_to_be_published(table.refresh().metadata, now_ms())


def test_of_branches_that_share_their_beginning_each_is_told(table: Any) -> None:
    """An old one keeps nobody waiting, and must not hide a young one that was made of it."""
    branch(table, ids(table)[-1])
    shared = table.metadata.refs["audit"].snapshot_id
    table.manage_snapshots().create_branch(shared, "second").commit()
    table.refresh().append(table.scan().to_arrow(), branch="second")

    found = unpublished(table.refresh().metadata)

    assert [one.why.split()[0] for one in found] == ["second", "audit"]
    assert found[0].written_at_ms >= found[1].written_at_ms


def test_the_name_of_a_branch_is_cut(table: Any) -> None:
    """Each of thousands of partitions that wait repeats it, and nothing bounds it but the metadata."""
    name = "x" * 5000
    table.manage_snapshots().create_branch(ids(table)[-1], name).commit()
    table.refresh().append(table.scan().to_arrow(), branch=name)

    (one,) = unpublished(table.refresh().metadata)

    assert one.why.startswith(name[:100])
    assert len(one.why) < 250


def test_a_tag_on_what_was_rolled_back_waits_for_nobody(table: Any) -> None:
    """Ingest tags each snapshot of its own, and a tag is no branch that somebody wants to publish."""
    table.manage_snapshots().create_tag(ids(table)[-1], "ingest-shop").commit()
    table.refresh().manage_snapshots().rollback_to_snapshot(ids(table)[0]).commit()

    assert not waits_to_be_published(table.refresh().metadata, now_ms())
    assert unpublished(table.metadata) == ()


def test_branches_of_a_clock_that_is_ahead_hide_none_that_waits_now(table: Any) -> None:
    head, now = table.metadata.current_snapshot_id, now_ms()
    base = next(one for one in table.metadata.snapshots if one.snapshot_id == head)
    ages = {"audit": 0} | {f"ahead{number}": 2 * DAY_MS + number for number in range(20)}
    refs = dict(table.metadata.refs)
    snapshots = list(table.metadata.snapshots)
    for number, (name, ahead_ms) in enumerate(ages.items()):
        written = {"snapshot_id": number + 1, "parent_snapshot_id": head, "timestamp_ms": now + ahead_ms}
        snapshots.append(base.model_copy(update=written))
        refs[name] = refs["main"].model_copy(update={"snapshot_id": number + 1})
    metadata = table.metadata.model_copy(update={"snapshots": snapshots, "refs": refs})

    found = unpublished(metadata)

    assert waits_to_be_published(metadata, now).startswith("audit ")
    assert [one.why.split()[0] for one in found if one.waits(now)] == ["audit"]
    assert len(found) <= MOST_KEPT


@given(st.lists(st.integers(0, 8 * DAY_MS), max_size=30), st.integers(0, 9 * DAY_MS))
def test_of_those_that_are_kept_one_waits_whenever_any_does(written: list[int], now: int) -> None:
    found = [Unpublished("", at) for at in written]

    assert any(one.waits(now) for one in enough(found)) == any(one.waits(now) for one in found)
