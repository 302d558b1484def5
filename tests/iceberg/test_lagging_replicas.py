"""A replica of the catalog that lags says nothing of an expiry, and a writer's clock makes no version one of a replica."""

from typing import Any

import pytest
from pyiceberg.exceptions import CommitFailedException, ForbiddenError
from pyiceberg.table import Table
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate

from isotherm.core.model.jobs import OutcomeKind
from isotherm.iceberg.expiry import is_before, read
from isotherm.runtime.clock import now_ms
from support.expiring import append, expired, ids, load
from support.faults import FaultyCatalog


@pytest.mark.parametrize("error", [ForbiddenError("no"), CommitFailedException("409")])
def test_a_refusal_of_a_second_copy_is_looked_into(catalog: Any, table: Table, error: Exception) -> None:
    reading = read(table, ids(table)[:3], now_ms())

    def doubled(real: Any, *arguments: Any) -> Any:
        real(*arguments)
        raise error

    assert OutcomeKind.DONE is expired(FaultyCatalog(catalog, doubled), reading).outcome.kind
    assert not set(reading.snapshots) & set(ids(table))


@pytest.mark.parametrize("error", [ForbiddenError("no"), CommitFailedException("409")])
def test_a_replica_that_lags_says_nothing_of_a_refused_second_copy(
    catalog: Any, table: Table, error: Exception
) -> None:
    old = load(catalog)
    table.transaction().set_properties({"a": "b"}).commit_transaction()
    reading = read(load(catalog), ids(load(catalog))[:3], now_ms())
    landed = []

    def doubled(real: Any, *arguments: Any) -> Any:
        landed.append(real(*arguments))
        raise error

    def lagging(real: Any, *arguments: Any) -> Any:
        return old if landed else real(*arguments)

    outcome = expired(FaultyCatalog(catalog, doubled, lagging), reading).outcome

    assert OutcomeKind.UNKNOWN is outcome.kind, outcome
    assert not set(reading.snapshots) & set(ids(load(catalog)))


def test_a_writer_whose_clock_is_behind_is_no_replica_that_lags(catalog: Any, table: Table) -> None:
    """The head is stamped by a clock that is half a minute ahead. Then another writer is faster than we are."""
    head = table.metadata.snapshots[-1]
    ahead = head.model_copy(
        update={
            "snapshot_id": head.snapshot_id + 1,
            "parent_snapshot_id": head.snapshot_id,
            "sequence_number": table.metadata.last_sequence_number + 1,
            "timestamp_ms": now_ms() + 30_000,
        }
    )
    moved = SetSnapshotRefUpdate(
        **{"ref-name": "main", "type": "branch", "snapshot-id": ahead.snapshot_id},
    )
    catalog.commit_table(table, (), (AddSnapshotUpdate(snapshot=ahead), moved))
    reading = read(load(catalog), ids(table)[:3], now_ms())
    lost = []

    def slower(real: Any, *arguments: Any) -> Any:
        if not lost:
            append(table, 20)
            lost.append(load(catalog).metadata.last_updated_ms)
            raise CommitFailedException("409")
        return real(*arguments)

    outcome = expired(FaultyCatalog(catalog, slower), reading).outcome

    assert lost[0] < ahead.timestamp_ms
    assert OutcomeKind.DONE is outcome.kind, outcome


def stamped(table: Table, by_ms: int) -> Table:
    """The same version, with another time of its last change."""
    late = table.metadata.model_copy(update={"last_updated_ms": table.metadata.last_updated_ms + by_ms})
    return Table(table.name(), late, table.metadata_location, table.io, table.catalog)


def test_a_property_that_a_slow_clock_has_set_is_no_replica_that_lags(catalog: Any, table: Table) -> None:
    reading = read(load(catalog), ids(table)[:3], now_ms())
    lost = []

    def slower(real: Any, *arguments: Any) -> Any:
        if not lost:
            lost.append(load(catalog).transaction().set_properties({"a": "b"}).commit_transaction())
            raise CommitFailedException("409")
        return real(*arguments)

    def by_a_slow_clock(real: Any, *arguments: Any) -> Any:
        return stamped(real(*arguments), -60_000) if lost else real(*arguments)

    outcome = expired(FaultyCatalog(catalog, slower, by_a_slow_clock), reading).outcome

    assert OutcomeKind.DONE is outcome.kind, outcome


def test_a_replica_that_lags_is_one_though_its_writers_clock_was_ahead(catalog: Any, table: Table) -> None:
    """Its version would say that the snapshots are there: the marks would be dropped, and the request has landed."""
    old = stamped(load(catalog), 60_000)
    table.transaction().set_properties({"a": "b"}).commit_transaction()
    reading = read(load(catalog), ids(load(catalog))[:3], now_ms())
    landed = []

    def doubled(real: Any, *arguments: Any) -> Any:
        landed.append(real(*arguments))
        raise ForbiddenError("no")

    def lagging(real: Any, *arguments: Any) -> Any:
        return old if landed else real(*arguments)

    outcome = expired(FaultyCatalog(catalog, doubled, lagging), reading).outcome

    assert OutcomeKind.UNKNOWN is outcome.kind, outcome


def test_of_two_versions_the_later_one_has_the_higher_sequence_number(catalog: Any, table: Table) -> None:
    """Also where the log of versions reaches from neither to the other."""
    old = stamped(load(catalog), 60_000)
    append(table, 20)
    new = load(catalog)
    new.metadata = new.metadata.model_copy(update={"metadata_log": []})

    assert (is_before(old, new), is_before(new, old), is_before(new, new)) == (True, False, False)
