"""Whoever writes while unused schemas and specs are removed keeps what he uses."""

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.update import SetCurrentSchemaUpdate, SetDefaultSpecUpdate
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType

from isotherm.contract.paths import normalised
from isotherm.iceberg import clean_metadata
from isotherm.iceberg.clean_metadata import AssertStillUnused
from support.evolved import (
    NAME,
    append,
    append_by_spec,
    cleaned,
    contents,
    created,
    history,
    ids,
    is_cleaning,
    nothing_is_missing,
)
from support.faults import FaultyCatalog, OnRest


@pytest.fixture(params=[1, 2])
def table(empty_catalog: Any, request: Any) -> Table:
    return created(empty_catalog, request.param)


@pytest.mark.parametrize("of", [FaultyCatalog, OnRest])
def test_a_writer_that_began_between_two_changes_goes_on(empty_catalog: Any, table: Table, of: Any) -> None:
    """No snapshot names the schema and the spec that it holds, and its commit asserts neither."""
    going = history(table)
    with table.update_schema() as schema:
        schema.add_column("fifth", LongType())
    with table.update_spec() as spec:
        spec.add_field("fourth", BucketTransform(4), "by_fourth")
    writer = empty_catalog.load_table(NAME)
    with table.refresh().update_schema() as schema:
        schema.add_column("sixth", LongType())
    with table.update_spec() as spec:
        spec.add_field("second", BucketTransform(8), "by_second")
    append(table, 10)
    held = {writer.metadata.current_schema_id}, {writer.metadata.default_spec_id}

    cleaned(of(empty_catalog), table, going)

    assert ids(table) == ({2, 4, 6} | held[0], {3, 5} | held[1])
    append_by_spec(empty_catalog, *held[1])
    nothing_is_missing(table)
    contents(table)


@pytest.mark.parametrize("of", [FaultyCatalog, OnRest])
def test_a_snapshot_that_came_since_keeps_its_spec(empty_catalog: Any, table: Table, of: Any) -> None:
    """It was read for before: a writer with an older spec commits in between."""
    known = history(table)

    def commit() -> None:
        append_by_spec(empty_catalog, 2)

    done = cleaned(of(empty_catalog), table, known[:-1], between=commit)

    assert ids(table)[1] == {2, 3}
    assert done.specs == 2
    nothing_is_missing(table)


def test_a_snapshot_that_came_since_and_cannot_be_read_keeps_all_specs(
    empty_catalog: Any, table: Table
) -> None:
    def commit() -> None:
        append(table, 66)
        Path(normalised(table.refresh().current_snapshot().manifest_list)).write_bytes(b"rubbish")

    done = cleaned(empty_catalog, table, history(table)[:-1], between=commit)

    assert (done.schemas, done.specs, ids(table)[1]) == (3, 0, {0, 1, 2, 3})
    assert "specs stay, because a manifest list cannot be read" in done.outcome.why


def test_of_too_many_snapshots_that_came_since_all_specs_stay(
    empty_catalog: Any, table: Table, monkeypatch: Any
) -> None:
    """The lists of some were read; whether the others use a spec nobody knows."""
    monkeypatch.setattr(clean_metadata, "MOST_NEW", 1)

    def commit() -> None:
        for number in (66, 67, 68):
            append(table, number)

    done = cleaned(empty_catalog, table, history(table)[:-1], between=commit)

    assert (done.schemas, done.specs, ids(table)[1]) == (3, 0, {0, 1, 2, 3})
    assert "specs stay, because more than 1 snapshots came meanwhile" in done.outcome.why


@pytest.mark.parametrize("of", [FaultyCatalog, OnRest])
def test_a_snapshot_that_comes_in_the_race_by_an_older_spec_keeps_it(
    empty_catalog: Any, table: Table, of: Any
) -> None:
    raced: list[int] = []

    def race(real: Any, now: Table, requirements: Any, updates: Any) -> Any:
        if is_cleaning(updates) and not raced:
            raced.append(1)
            append_by_spec(empty_catalog, 2)
        return real(now, requirements, updates)

    done = cleaned(of(empty_catalog, race), table, history(table)[:-1])

    assert (done.schemas, done.specs, ids(table)[1]) == (3, 2, {2, 3})
    nothing_is_missing(table)


def test_a_metastore_refuses_what_is_in_use_by_then(table: Table) -> None:
    metadata = table.metadata
    every = [one.snapshot_id for one in metadata.snapshots]
    alone = metadata.model_copy(update={"snapshots": metadata.snapshots[-1:]})

    def refuses(found: Any, schemas: list[int], specs: list[int]) -> bool:
        asserted = AssertStillUnused(snapshot_ids=every, schema_ids=schemas, spec_ids=specs)
        try:
            asserted.validate(found)
        except CommitFailedException:
            return True
        return False

    assert not refuses(alone, [0, 1, 3], [0, 1, 2])
    assert refuses(alone.model_copy(update={"current_schema_id": 1}), [1], [])
    assert refuses(metadata, [1], [])
    assert refuses(alone.model_copy(update={"default_spec_id": 1}), [], [1])
    assert refuses(alone, [9], [])
    assert refuses(alone, [], [9])
    assert refuses(None, [], [])


@pytest.mark.parametrize("of", [FaultyCatalog, OnRest])
def test_a_snapshot_that_comes_in_the_race_is_looked_at(empty_catalog: Any, table: Table, of: Any) -> None:
    raced: list[int] = []

    def race(real: Any, now: Table, requirements: Any, updates: Any) -> Any:
        if is_cleaning(updates) and not raced:
            append(empty_catalog.load_table(NAME), 55)
            raced.append(55)
        return real(now, requirements, updates)

    done = cleaned(of(empty_catalog, race), table, history(table)[:-1])

    assert (raced, done.schemas, done.specs) == ([55], 3, 3)
    nothing_is_missing(table)


@pytest.mark.parametrize("of", [FaultyCatalog, OnRest])
def test_who_makes_an_older_spec_and_schema_the_present_ones_in_the_race_wins(
    empty_catalog: Any, table: Table, of: Any
) -> None:
    raced: list[int] = []

    def race(real: Any, now: Table, requirements: Any, updates: Any) -> Any:
        if is_cleaning(updates) and not raced:
            raced.append(1)
            back = SetCurrentSchemaUpdate(schema_id=1), SetDefaultSpecUpdate(spec_id=1)
            empty_catalog.commit_table(empty_catalog.load_table(NAME), (), back)
        return real(now, requirements, updates)

    done = cleaned(of(empty_catalog, race), table, history(table)[:-1])

    assert ids(table) == ({1, 4}, {1, 3})
    assert (done.schemas, done.specs) == (3, 2)
    nothing_is_missing(table)
    append(table, 10)
