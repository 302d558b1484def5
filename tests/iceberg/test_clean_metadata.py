"""Unused schemas and specs are removed after an expiry by what the specification knows, and no trouble with that fails the expiry."""

import json
from dataclasses import replace
from typing import Any

import pytest
from pyiceberg.exceptions import BadRequestError, CommitStateUnknownException
from pyiceberg.table import Table
from pyiceberg.table.update import RemoveSchemasUpdate

from isotherm.core.model.jobs import Outcome, OutcomeKind
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.unused_metadata import unused_specs
from isotherm.service.ports import Expired, UnusedSpecs
from support.evolved import NAME, after, cleaned, created, history, ids, is_cleaning
from support.expiring import branch
from support.faults import FaultyCatalog, OnRest

DONE = Expired(Outcome("job", OutcomeKind.DONE, Reason.COMMITTED, "some snapshots expired"))


@pytest.fixture(params=[1, 2])
def table(empty_catalog: Any, request: Any) -> Table:
    return created(empty_catalog, request.param)


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
