"""Which schemas and specs nothing uses any more: whatever a snapshot needs stays, and so does what is needed to read its deletes."""

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform

from isotherm.contract.paths import normalised
from isotherm.core.model.jobs import OutcomeKind
from isotherm.iceberg.unused_metadata import replaced_specs, unused_schemas, unused_specs
from isotherm.service.ports import UnusedSpecs
from support.evolved import (
    append,
    append_by_spec,
    cleaned,
    contents,
    created,
    history,
    ids,
    nothing_is_missing,
    rows,
)
from support.faults import FaultyCatalog, OnRest


@pytest.fixture(params=[1, 2])
def table(empty_catalog: Any, request: Any) -> Table:
    return created(empty_catalog, request.param)


@pytest.mark.parametrize("of", [FaultyCatalog, OnRest])
def test_what_no_snapshot_needs_any_more_goes(empty_catalog: Any, table: Table, of: Any) -> None:
    assert ids(table) == ({0, 1, 2, 3, 4}, {0, 1, 2, 3})
    rows_before, updated_ms = contents(table), table.metadata.last_updated_ms

    done = cleaned(of(empty_catalog), table, history(table)[:-1])

    # Schema 2 is the newest that has the dropped column.
    assert ids(table) == ({2, 4}, {3})
    assert (done.schemas, done.specs) == (3, 3)
    assert done.outcome.why.endswith("; removed: 3 schemas and 3 partition specs that nothing used")
    assert contents(table).items() <= rows_before.items()
    assert table.metadata.last_updated_ms <= updated_ms + 10 or of is OnRest
    nothing_is_missing(table)
    append(table, 10)


def test_what_one_retained_snapshot_needs_stays(empty_catalog: Any, table: Table) -> None:
    """On whichever branch, or under a tag, or on none."""
    known = history(table)
    table.manage_snapshots().create_tag(known[1], "bucketed").commit()
    table.refresh().manage_snapshots().create_branch(known[3], "truncated").commit()
    rows_before = contents(table)

    cleaned(empty_catalog, table, [one for one in known[:-1] if one not in (known[0], known[1], known[3])])

    # The newest schema that has the dropped column stays too, and no snapshot names schema 3.
    assert ids(table) == ({0, 1, 2, 4}, {0, 1, 2, 3})
    assert contents(table).items() <= rows_before.items()
    nothing_is_missing(table)


def test_what_is_on_no_branch_keeps_its_schema_and_its_spec(empty_catalog: Any, table: Table) -> None:
    """It was staged, and its writer may publish it yet."""
    table.manage_snapshots().create_branch(history(table)[-1], "staging").commit()
    append_by_spec(empty_catalog, 2, branch="staging")
    table.refresh().manage_snapshots().remove_branch("staging").commit()
    *going, _, staged = history(table)
    assert staged not in {ref.snapshot_id for ref in table.metadata.refs.values()}

    cleaned(empty_catalog, table, going)

    assert ids(table)[1] == {2, 3}
    nothing_is_missing(table)


def test_the_highest_ids_stay_so_that_none_is_given_twice(empty_catalog: Any, table: Table) -> None:
    """A writer that holds a spec commits by its id: with another spec under it, its rows would be in other partitions."""
    with table.update_spec() as spec:
        spec.add_field("id", BucketTransform(4), "id_later")
    with table.update_schema() as schema:
        schema.rename_column("fourth", "later")  # which brings no column that it alone knows
    # As whoever takes both back: neither was ever written by.
    metadata = table.refresh().metadata.model_copy(update={"default_spec_id": 3, "current_schema_id": 4})

    assert replaced_specs(metadata) == {0, 1, 2}
    assert 5 not in unused_schemas(metadata, 99)


def test_of_a_dropped_column_the_newest_schema_that_has_it_stays(table: Table) -> None:
    """An equality delete may name it, and a spec may be made from it."""
    alone = table.metadata.model_copy(update={"snapshots": table.metadata.snapshots[-1:]})

    assert unused_schemas(alone, 99) == {0, 1, 3}


def test_where_nothing_behind_the_head_goes_nothing_is_removed(empty_catalog: Any, table: Table) -> None:
    """Only what no branch reaches goes. Somebody else has expired the rest a moment ago: a writer may have begun before that."""
    known = history(table)
    table.manage_snapshots().create_branch(known[-3], "dead").commit()
    append(table, 9, branch="dead")
    dead = table.refresh().metadata.refs["dead"].snapshot_id
    table.manage_snapshots().remove_branch("dead").commit()
    others = [one for one in known if one != table.metadata.current_snapshot_id]
    table.maintenance.expire_snapshots().by_ids(others).commit()
    before = ids(table.refresh())

    done = cleaned(empty_catalog, table, [dead])

    assert (done.outcome.kind, done.schemas, done.specs) == (OutcomeKind.DONE, 0, 0)
    assert ids(table) == before
    assert len(history(table)) == 1


def test_no_list_is_read_where_no_spec_was_replaced(empty_catalog: Any) -> None:
    made = empty_catalog.create_table("db.plain", created(empty_catalog).schema())
    made.append(rows(made, 1))
    Path(normalised(made.refresh().current_snapshot().manifest_list)).unlink()

    found = unused_specs(made.metadata, made.io, [])

    assert found == UnusedSpecs(snapshots=frozenset(history(made)))


def test_where_a_list_cannot_be_read_specs_stay_and_schemas_go(empty_catalog: Any, table: Table) -> None:
    known = history(table)
    table.manage_snapshots().create_tag(known[1], "broken").commit()
    list_path = table.refresh().snapshot_by_id(known[1]).manifest_list
    Path(normalised(list_path)).write_bytes(b"rubbish")

    done = cleaned(empty_catalog, table, known[2:-1])

    assert done.outcome.kind is OutcomeKind.DONE
    assert (done.specs, ids(table)[1]) == (0, {0, 1, 2, 3})
    assert done.schemas == 2
    assert "specs stay, because a manifest list cannot be read" in done.outcome.why
