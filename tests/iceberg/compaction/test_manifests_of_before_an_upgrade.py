"""Manifests of format version 1 are rewritten after an upgrade, and none of them is used in a list of version 2."""

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table

from isotherm.clients.manifests.reading import Manifest, entries
from isotherm.contract.identity import PartitionKey
from isotherm.core.model.jobs import OutcomeKind
from support.faults import FaultyCatalog
from support.head_files import live, manifests
from support.manifests_of_commits import append, ids, rewrite, three_parts
from support.rewriting import bound, commit, job_on, rewritten, swept

NAME, OURS = "db.t", PartitionKey('{"1000":1}')


def numbers_of(table: Table) -> list[int | None]:
    """The sequence number of each entry at the head, as a manifest or its list says it."""
    found = manifests(table)
    return [
        entry.sequence_number
        for one in found
        for entry in entries(Manifest.read(table.io, one.manifest_path), one)
    ]


@pytest.mark.parametrize("later", [0, 3])
def test_a_table_that_was_upgraded_has_its_manifests_rewritten(tmp_path: Path, later: int) -> None:
    """What version 1 does not say of an entry is the same as what version 2 says."""
    catalog = three_parts(tmp_path, **{"format-version": "1"})
    for number in range(6):
        append(catalog.load_table(NAME), number % 3, number)
    upgrade(catalog)
    for number in range(6, 6 + later):
        append(catalog.load_table(NAME), number % 3, number)
    table = catalog.load_table(NAME)
    before, read = live(table), ids(table)

    outcome = rewrite(catalog, job_on(table))

    assert (outcome.kind, len(manifests(table))) == (OutcomeKind.DONE, 1), outcome
    assert (live(table), ids(table)) == (before, read)


def upgrade(catalog: Any) -> None:
    with catalog.load_table(NAME).transaction() as transaction:
        transaction.upgrade_table_version(2)


@pytest.mark.parametrize("what", ["manifests", "files"])
@pytest.mark.parametrize("is_written_to", [False, True])
def test_what_was_written_before_an_upgrade_is_not_used_after_it(
    tmp_path: Path, what: str, *, is_written_to: bool
) -> None:
    """Manifests of version 1 name no numbers, and in a list of version 2 theirs would be missing: Spark reads no row then."""
    catalog = three_parts(tmp_path, **{"format-version": "1"})
    for number in range(6):
        append(catalog.load_table(NAME), number % 3, number)
    table, times = catalog.load_table(NAME), []
    job = job_on(table) if what == "manifests" else bound(table, OURS)
    written = None if what == "manifests" else rewritten(table, job)

    def racing(real: Any, *arguments: Any) -> Any:
        if not times:
            times.append(1)
            upgrade(catalog)
            if is_written_to:
                append(catalog.load_table(NAME), 2, 6)
        return real(*arguments)

    faulty = FaultyCatalog(catalog, racing)
    outcome = rewrite(faulty, job) if written is None else commit(faulty, job, written)

    assert outcome.kind is OutcomeKind.DONE
    assert None not in numbers_of(table.refresh())
    assert ids(table) == list(range(70 if is_written_to else 60))
    gone = swept(table.refresh(), job, outcome).gone
    assert set(gone) == set(outcome.leftovers) != set()
    assert ids(table) == list(range(70 if is_written_to else 60))
