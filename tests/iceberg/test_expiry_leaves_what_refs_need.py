"""Expiry leaves what branches and tags need, also one that comes in between."""

from typing import Any

import pytest
from pyiceberg.table import Table
from pyiceberg.table.update import SetSnapshotRefUpdate

from isotherm.core.model.jobs import OutcomeKind
from isotherm.iceberg.expiry import read, still_going
from isotherm.runtime.clock import now_ms
from support.expiring import (
    branch,
    contents,
    every_snapshot_reads,
    expired,
    ids,
    load,
    rows,
    swept,
)
from support.faults import FaultyCatalog


def test_the_head_what_is_named_and_what_is_on_no_way_to_main_do_not_go(table: Table) -> None:
    known = ids(table)
    table.manage_snapshots().create_tag(known[1], "q3").commit()
    table.refresh().manage_snapshots().create_branch(known[2], "b").commit()
    table.refresh().append(rows(98), branch="b")
    table.refresh().append(rows(99), branch="b")

    everything = [one.snapshot_id for one in table.refresh().metadata.snapshots]

    assert still_going(table.metadata, everything, now_ms()) == (known[0], *known[2:-1])


def test_a_tag_that_comes_in_between_is_not_dropped(catalog: Any, table: Table) -> None:
    going = ids(table)[:3]
    reading = read(table, going, now_ms())

    def tagging(real: Any, *arguments: Any) -> Any:
        if len(load(catalog).metadata.refs) == 1:
            load(catalog).manage_snapshots().create_tag(going[1], "q3").commit()
        return real(*arguments)

    outcome = expired(FaultyCatalog(catalog, tagging), reading).outcome

    assert (outcome.kind, outcome.reason) == (OutcomeKind.FAILED, "stale")
    assert set(going) < set(ids(table))
    assert "q3" in table.metadata.refs
    assert contents(table, going[1]) == [0, 1]


@pytest.mark.parametrize(
    ("keeps", "left"),
    [
        ({}, [4]),
        ({"min_snapshots_to_keep": 3}, [2, 3, 4]),
        ({"max_snapshot_age_ms": 3_600_000}, [0, 1, 2, 3, 4]),
        ({"max_snapshot_age_ms": 1}, [4]),
    ],
)
def test_a_branch_keeps_of_its_history_what_it_states(
    catalog: Any, table: Table, keeps: Any, left: Any
) -> None:
    known = ids(table)
    branch(table, "audit", known[4], **keeps)
    reading = read(table.refresh(), known[:-1], now_ms() + 60_000)

    assert [place for place, one in enumerate(known[:5]) if one not in reading.snapshots] == left
    assert OutcomeKind.DONE is expired(catalog, reading).outcome.kind
    swept(table, reading)
    every_snapshot_reads(table)


def test_what_mains_own_ref_states_is_kept_too(catalog: Any, table: Table) -> None:
    known = ids(table)
    ref = SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=known[-1], min_snapshots_to_keep=4)
    catalog.commit_table(table, (), (ref,))

    assert still_going(load(catalog).metadata, known, now_ms()) == tuple(known[:-4])


def test_the_tables_properties_speak_for_a_branch_that_states_nothing(catalog: Any, table: Table) -> None:
    known = ids(table)
    branch(table, "audit", known[4])
    with table.refresh().transaction() as change:
        change.set_properties({"history.expire.min-snapshots-to-keep": "2"})

    going = still_going(load(catalog).metadata, known, now_ms())

    assert [place for place, one in enumerate(known[:5]) if one not in going] == [3, 4]
