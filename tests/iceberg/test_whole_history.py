"""Until when Flink's sink needs a table's history back to its first snapshot: tests/daemon/test_flink.py shows that it does."""

import pytest
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType

from isotherm.core.units import DAY_MS
from isotherm.iceberg.expiry import still_going
from isotherm.iceberg.values import loaded_table
from isotherm.iceberg.whole_history import whole_until_ms
from support.lab import Lab

PLACE = {"flink.job-id": "1", "flink.operator-id": "a7", "flink.max-committed-checkpoint-id": "9"}


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path)


def table_of(lab, summaries):
    table = lab.create()
    for said in summaries:
        lab.append(table, 1, announce=False, snapshot_properties=said)
    return table.refresh()


def until_ms(table, version=3, expired=0):
    """The answer, were the table of this format, and had Iceberg's Java expired so many of its snapshots."""
    left = table.metadata.snapshots[expired:]
    return whole_until_ms(table.metadata.model_copy(update={"format_version": version, "snapshots": left}))


@pytest.mark.parametrize("said", ["added-dvs", "added-equality-delete-files"])
def test_a_history_in_which_flink_upserts_is_needed_for_two_weeks_after_its_last_commit(lab, said):
    """A job in which nothing changes for weeks commits empty checkpoints, and the next change needs it."""
    table = table_of(lab, [{}, PLACE | {said: "1"}, PLACE | {said: "2"}, PLACE, {}])

    assert until_ms(table) == table.metadata.snapshots[3].timestamp_ms + 14 * DAY_MS


@pytest.mark.parametrize("how", ["identifier fields", "upserts are enabled"])
def test_a_sink_that_knows_its_rows_by_keys_and_has_only_inserted_may_upsert_next(lab, how):
    table = table_of(lab, [PLACE, {}])
    metadata = table.metadata
    if how == "identifier fields":
        schema = metadata.schema().model_copy(update={"identifier_field_ids": [1]})
        table.metadata = metadata.model_copy(update={"schemas": [schema]})
    else:
        table.metadata = metadata.model_copy(update={"properties": {"write.upsert.enabled": "TRUE"}})

    assert until_ms(table) == metadata.snapshots[0].timestamp_ms + 14 * DAY_MS


def test_a_sink_that_upserts_into_a_branch_needs_what_main_shares_with_it(lab):
    table = table_of(lab, [{}, {}, PLACE | {"added-dvs": "1"}])
    _, second, third = table.metadata.snapshots
    refs = {
        name: SnapshotRef(snapshot_id=one.snapshot_id, snapshot_ref_type=SnapshotRefType.BRANCH)
        for name, one in (("main", second), ("b", third))
    }
    table.metadata = table.metadata.model_copy(
        update={"refs": refs, "current_snapshot_id": second.snapshot_id}
    )

    assert until_ms(table) == third.timestamp_ms + 14 * DAY_MS


def test_an_upsert_that_came_after_the_plan_keeps_what_was_to_go(lab):
    table = table_of(lab, [{}, {}, PLACE | {"added-dvs": "1"}])
    metadata = table.metadata.model_copy(update={"format_version": 3})
    going = [one.snapshot_id for one in metadata.snapshots[:2]]
    until = metadata.snapshots[2].timestamp_ms + 14 * DAY_MS

    assert still_going(metadata, going, until - 1) == ()
    assert still_going(metadata, going, until) == tuple(going)


@pytest.mark.parametrize(
    ("summaries", "version"),
    [
        ([], 3),
        ([{}, PLACE | {"added-dvs": "1"}], 2),
        ([{}, PLACE], 3),
        ([{}, PLACE | {"added-dvs": "0"}], 3),
        ([{}, {"added-dvs": "1"}], 3),
    ],
    ids=["empty", "format 2", "Flink appends", "it deletes nothing", "another upserts"],
)
def test_nobody_needs_the_whole_history(lab, summaries, version):
    assert until_ms(table_of(lab, summaries), version) == 0


def test_the_facts_of_a_table_say_it(lab):
    table = table_of(lab, [PLACE | {"added-dvs": "1"}])
    table.metadata = table.metadata.model_copy(update={"format_version": 3})

    assert loaded_table(table, "shop.orders").facts.whole_until_ms == until_ms(table)


def test_a_history_that_was_cut_before_need_not_be_kept(lab):
    table = table_of(lab, [PLACE | {"added-dvs": "1"}] * 3)

    assert until_ms(table, expired=1) == 0
