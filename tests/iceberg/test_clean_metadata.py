"""Schemas and specs that nothing uses go after an expiry, and whatever a snapshot needs stays."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import BadRequestError, CommitFailedException, CommitStateUnknownException
from pyiceberg.table import Table
from pyiceberg.table.update import (
    RemovePartitionSpecsUpdate,
    RemoveSchemasUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSpecUpdate,
)
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType

from isotherm.contract.paths import normalised
from isotherm.core.model.jobs import Outcome, OutcomeKind
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg import clean_metadata
from isotherm.iceberg.clean_metadata import AssertStillUnused
from isotherm.iceberg.unused_metadata import replaced_specs, unused_schemas, unused_specs
from isotherm.service.ports import Expired, UnusedSpecs
from support.evolved import (
    NAME,
    after,
    append,
    cleaned,
    contents,
    created,
    history,
    ids,
    nothing_is_missing,
    rows,
)
from support.expiring import branch
from support.faults import FaultyCatalog, OnRest

DONE = Expired(Outcome("job", OutcomeKind.DONE, Reason.COMMITTED, "some snapshots expired"))


def append_by_spec(catalog: Any, spec_id: int, **more: Any) -> None:
    """As a writer that has kept a spec: PyIceberg itself writes by the default one."""
    writer = catalog.load_table(NAME)
    writer.metadata = writer.metadata.model_copy(update={"default_spec_id": spec_id})
    writer.append(rows(writer, 77), **more)


def is_cleaning(updates: Any) -> bool:
    return any(isinstance(one, RemoveSchemasUpdate | RemovePartitionSpecsUpdate) for one in updates)


@pytest.fixture(params=[1, 2])
def version(request: Any) -> int:
    found: int = request.param
    return found


@pytest.fixture
def table(empty_catalog: Any, version: int) -> Table:
    return created(empty_catalog, version)


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


def test_of_a_dropped_column_the_newest_schema_that_has_it_stays(table: Table) -> None:
    """An equality delete may name it, and a spec may be made from it."""
    alone = table.metadata.model_copy(update={"snapshots": table.metadata.snapshots[-1:]})

    assert unused_schemas(alone, 99) == {0, 1, 3}


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


def test_a_rest_catalog_is_asked_to_refuse_where_anything_has_moved(empty_catalog: Any, table: Table) -> None:
    """And is sent no requirement or update that the specification does not know."""
    branch(table, "audit", history(table)[-1])
    sent: list[Any] = []

    def keep(real: Any, now: Table, requirements: Any, updates: Any) -> Any:
        if is_cleaning(updates):
            sent.extend(json.loads(one.model_dump_json()) for one in (*requirements, *updates))
        return real(now, requirements, updates)

    cleaned(OnRest(empty_catalog, keep), table, history(table)[:-1])

    assert sorted(one.get("type") or one["action"] for one in sent) == [
        "assert-current-schema-id",
        "assert-default-spec-id",
        "assert-ref-snapshot-id",
        "assert-ref-snapshot-id",
        "assert-table-uuid",
        "remove-partition-specs",
        "remove-schemas",
    ]
    assert {"action": "remove-schemas", "schema-ids": [0, 1, 3]} in sent
    assert {"action": "remove-partition-specs", "spec-ids": [0, 1, 2]} in sent
    assert {one.get("ref") for one in sent} == {None, "main", "audit"}


def test_it_goes_by_the_tables_own_time(empty_catalog: Any, table: Table) -> None:
    """Java does not load a table in whose metadata times go back by more than a minute: the writer's clock may be ahead."""
    before_ms: list[int] = []

    def keep(real: Any, now: Table, requirements: Any, updates: Any) -> Any:
        if is_cleaning(updates):
            before_ms.append(now.metadata.last_updated_ms)
        return real(now, requirements, updates)

    cleaned(FaultyCatalog(empty_catalog, keep), table, history(table)[:-1])

    assert table.refresh().metadata.last_updated_ms == before_ms[0] + 2  # one for specs, one for schemas


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


@pytest.mark.parametrize(
    "error",
    [
        BadRequestError("Cannot convert metadata update action from json: remove-schemas"),
        CommitStateUnknownException("500"),
        RuntimeError("whatever"),
    ],
)
def test_a_catalog_that_does_not_know_the_request_fails_no_expiry(
    empty_catalog: Any, table: Table, error: Exception
) -> None:
    def refuse(real: Any, now: Table, requirements: Any, updates: Any) -> Any:
        if is_cleaning(updates):
            raise error
        return real(now, requirements, updates)

    done = cleaned(OnRest(empty_catalog, refuse), table, history(table)[:-1])

    assert (done.outcome.kind, done.schemas, done.specs) == (OutcomeKind.DONE, 0, 0)
    assert f"stay, as far as is known: {type(error).__name__}" in done.outcome.why
    assert len(history(table)) == 1
    assert ids(table) == ({0, 1, 2, 3, 4}, {0, 1, 2, 3})


def test_a_catalog_that_cannot_be_asked_any_more_fails_no_expiry(empty_catalog: Any, table: Table) -> None:
    unused = unused_specs(table.metadata, table.io, history(table)[:-1])

    def away(*_: Any) -> Any:
        raise ConnectionError("away")

    done = after(FaultyCatalog(empty_catalog, on_load=away), table, DONE, unused)

    assert (done.outcome.kind, done.schemas) == (OutcomeKind.DONE, 0)
    assert done.outcome.why.endswith("; schemas and partition specs stay: ConnectionError: away")


def test_a_lost_answer_is_looked_up(empty_catalog: Any, table: Table) -> None:
    def lose(real: Any, *arguments: Any) -> Any:
        answer = real(*arguments)
        if any(isinstance(one, RemoveSchemasUpdate) for one in arguments[2]):
            raise CommitStateUnknownException("no answer")
        return answer

    done = cleaned(FaultyCatalog(empty_catalog, lose), table, history(table)[:-1])

    assert (done.schemas, done.specs) == (3, 3)


def shortened(catalog: Any) -> tuple[Table, UnusedSpecs]:
    """A table of which an expiry has left one snapshot, and what was read for that."""
    table = created(catalog)
    going = history(table)[:-1]
    unused = unused_specs(table.metadata, table.io, going)
    table.maintenance.expire_snapshots().by_ids(going).commit()
    return table.refresh(), unused


def test_nothing_goes_that_it_is_not_asked_for(empty_catalog: Any) -> None:
    table, unused = shortened(empty_catalog)
    every = ids(table)
    unknown = replace(DONE, outcome=replace(DONE.outcome, kind=OutcomeKind.UNKNOWN))
    # A tag that was lost is made again from what was there: with the schema of its snapshot.
    lost, perhaps = replace(DONE, lost_refs=("q3",)), replace(DONE, lost_refs=None)

    assert after(empty_catalog, table, DONE, None) == DONE
    assert [after(empty_catalog, table, one, unused) for one in (unknown, lost)] == [unknown, lost]
    said = after(empty_catalog, table, perhaps, unused)
    assert (said.schemas, said.specs) == (0, 0)
    assert said.outcome.why.endswith("stay: nobody can say whether a tag came meanwhile")
    paused = after(empty_catalog, table, DONE, unused, lambda _: Refusal(Reason.POLICY, "it is paused"))
    assert (paused.schemas, paused.specs) == (0, 0)
    assert paused.outcome.why.endswith("stay: it is paused")
    assert ids(table) == every
    assert after(empty_catalog, table, DONE, unused).specs == 3


def test_another_table_of_that_name_is_left_alone(empty_catalog: Any) -> None:
    table, unused = shortened(empty_catalog)
    empty_catalog.drop_table(NAME)
    other, _ = shortened(empty_catalog)
    every = ids(other)

    done = after(empty_catalog, table, DONE, unused)

    assert (done.schemas, done.specs, ids(other)) == (0, 0, every)
