"""Who wins when a compaction meets others (PyIceberg, here). Real catalog, real files."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from isotherm.core.model.jobs import OutcomeKind
from isotherm.iceberg.compaction.one_commit import ATTEMPTS
from support.faults import FaultyCatalog
from support.rewriting import commit, compacted, swept
from support.two_partitions import (
    NAME,
    OTHER,
    OURS,
    append,
    assert_done,
    assert_failed,
    branch,
    contents,
    metadata_files,
    old,
    ready,
    schema_change,
    some,
)


@pytest.fixture
def catalog(two_partitions: Any) -> Any:
    return two_partitions


def test_nothing_in_between(catalog: Any) -> None:
    job, rewrite = ready(catalog)
    before = contents(catalog)

    outcome = commit(catalog, job, rewrite)

    assert_done(catalog, outcome, before)


def name_mapping_change(table: Table) -> None:
    with table.transaction() as change:
        change.set_properties({"schema.name-mapping.default": table.schema().name_mapping.model_dump_json()})


def rows_deleted(table: Table) -> None:
    table.delete("part == 1 and id < 5")


def another_compaction(table: Table) -> None:
    assert OutcomeKind.DONE is compacted(table.catalog, NAME, OURS).kind


REFUSED: dict[str, tuple[str, Callable[[Table], Any]]] = {
    "append": ("conflict", lambda table: append(table, 1)),
    "append to both": (
        "conflict",
        lambda table: table.append(pa.concat_tables([some(1, 500), some(2, 500)])),
    ),
    "delete of rows": ("conflict", rows_deleted),
    "delete of the partition": ("conflict", lambda table: table.delete("part == 1")),
    "overwrite": ("conflict", lambda table: table.overwrite(some(1, 0), overwrite_filter="part == 1")),
    "another compaction": ("conflict", another_compaction),
    "schema change": ("schema", schema_change),
    "rollback": (
        "conflict",
        lambda table: (
            table.manage_snapshots().rollback_to_snapshot(table.metadata.snapshots[1].snapshot_id).commit()
        ),
    ),
}


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize("when", ["before the commit", "in the race"])
def test_whoever_was_faster_in_our_partition_wins(catalog: Any, what: str, when: str) -> None:
    reason, happens = REFUSED[what]
    job, rewrite = ready(catalog)
    heads = []

    def foreign() -> None:
        if not heads:
            table = catalog.load_table(NAME)
            happens(table)
            heads.append(catalog.load_table(NAME).metadata.current_snapshot_id)

    def racing(real: Any, *arguments: Any) -> Any:
        foreign()
        return real(*arguments)

    if when == "before the commit":
        foreign()
        outcome = commit(catalog, job, rewrite)
    else:
        outcome = commit(FaultyCatalog(catalog, racing), job, rewrite)

    assert_failed(catalog, outcome, reason, job, heads[0])


@pytest.mark.parametrize("when", ["before the commit", "in the race"])
def test_what_was_read_by_another_name_mapping_is_not_committed(catalog: Any, when: str) -> None:
    """Whoever mends an import mends what files without field ids mean."""
    job, rewrite = ready(catalog)
    table = catalog.load_table(NAME)
    head = table.metadata.current_snapshot_id

    def racing(real: Any, *arguments: Any) -> Any:
        name_mapping_change(table.refresh())
        return real(*arguments)

    if when == "before the commit":
        name_mapping_change(table)
        assert_failed(catalog, commit(catalog, job, rewrite), "schema", job, head)
    else:
        # Nothing that it asserted has moved as far as a look shows: the fate of the request is looked up later.
        assert commit(FaultyCatalog(catalog, racing), job, rewrite).kind is OutcomeKind.UNKNOWN
        assert catalog.load_table(NAME).metadata.current_snapshot_id == head


PASSED: dict[str, Callable[[Table], Any]] = {
    "append elsewhere": lambda table: append(table, 2),
    "delete elsewhere": lambda table: table.delete("part == 2 and id < 5"),
    "compaction elsewhere": lambda table: compacted(table.catalog, NAME, OTHER),
    "new partition": lambda table: append(table, 3),
    "expiry of the base": lambda table: (
        append(table, 2),
        table.refresh().maintenance.expire_snapshots().by_ids(old(table)).commit(),
    ),
    "tag": lambda table: (
        table.manage_snapshots().create_tag(table.metadata.current_snapshot_id, "t").commit()
    ),
    "property": lambda table: table.transaction().set_properties({"a": "b"}).commit_transaction(),
    "branch": branch,
}


@pytest.mark.parametrize("what", PASSED)
@pytest.mark.parametrize("when", ["before the commit", "in the race"])
def test_what_happens_elsewhere_does_not_stop_us(catalog: Any, what: str, when: str) -> None:
    job, rewrite = ready(catalog)
    seen: list[list[Any]] = []

    def foreign() -> None:
        if not seen:
            PASSED[what](catalog.load_table(NAME))
            seen.append(contents(catalog))

    def racing(real: Any, *arguments: Any) -> Any:
        foreign()
        return real(*arguments)

    if when == "before the commit":
        foreign()
        outcome = commit(catalog, job, rewrite)
    else:
        outcome = commit(FaultyCatalog(catalog, racing), job, rewrite)

    assert_done(catalog, outcome, seen[0])


def test_manifests_of_a_lost_attempt_are_used_again(catalog: Any) -> None:
    job, rewrite = ready(catalog)
    times = []

    def racing(real: Any, *arguments: Any) -> Any:
        times.append(len(metadata_files(catalog, job)))
        if len(times) < 4:
            append(catalog.load_table(NAME), 2)
        return real(*arguments)

    outcome = commit(FaultyCatalog(catalog, racing), job, rewrite)

    assert OutcomeKind.DONE is outcome.kind
    # Each attempt adds one list, and no manifest.
    assert [times[0], times[0] + 1, times[0] + 2, times[0] + 3] == times
    # The lists of the lost ones are reported, for their grace begins now.
    assert len(outcome.leftovers) == 3
    assert len(swept(catalog.load_table(NAME), job, outcome).gone) == 3
    assert times[0] == len(metadata_files(catalog, job))


def test_it_gives_way_when_it_loses_every_race(catalog: Any) -> None:
    job, rewrite = ready(catalog)
    lost = []

    def racing(real: Any, *arguments: Any) -> Any:
        append(catalog.load_table(NAME), 2)
        lost.append(1)
        return real(*arguments)

    outcome = commit(FaultyCatalog(catalog, racing), job, rewrite)

    assert len(lost) == ATTEMPTS
    assert_failed(catalog, outcome, "contention", job, catalog.load_table(NAME).metadata.current_snapshot_id)
