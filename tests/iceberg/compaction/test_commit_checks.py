"""What is looked at before a commit is sent: the table, the files that were written, and whoever may forbid it."""

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table

from isotherm.core.model.jobs import OutcomeKind
from isotherm.core.model.refusals import Reason, Refusal
from support.faults import FaultyCatalog
from support.rewriting import commit
from support.two_partitions import NAME, append, assert_failed, ready


@pytest.fixture
def catalog(two_partitions: Any) -> Any:
    return two_partitions


def test_a_table_that_is_gone_or_another_one(catalog: Any) -> None:
    job, rewrite = ready(catalog)
    table = catalog.load_table(NAME)
    catalog.drop_table(NAME)

    outcome = commit(catalog, job, rewrite)

    assert (outcome.kind, outcome.reason) == (OutcomeKind.FAILED, "gone")
    catalog.create_table(NAME, table.schema())
    outcome = commit(catalog, job, rewrite)
    assert (outcome.kind, outcome.reason) == (OutcomeKind.FAILED, "gone")
    assert "another table" in outcome.why


def test_a_partition_that_turned_hot_is_left_alone(catalog: Any) -> None:
    job, rewrite = ready(catalog)
    head = catalog.load_table(NAME).metadata.current_snapshot_id
    asked = []

    def hot(table: Table) -> Refusal:
        asked.append(table.metadata.current_snapshot_id)
        return Refusal(Reason.HOT, "quiet for 5m of 15m")

    outcome = commit(catalog, job, rewrite, hot)

    assert [head] == asked
    assert outcome.why == "quiet for 5m of 15m"
    assert_failed(catalog, outcome, "hot", job, head)


def test_it_is_asked_again_after_every_lost_race(catalog: Any) -> None:
    job, rewrite = ready(catalog)
    asked: list[int] = []

    def racing(real: Any, *arguments: Any) -> Any:
        append(catalog.load_table(NAME), 2)
        return real(*arguments)

    def hot_the_second_time(table: Table) -> Refusal | None:
        asked.append(table.metadata.current_snapshot_id)
        return Refusal(Reason.HOT, "an intent names it") if len(asked) == 2 else None

    outcome = commit(FaultyCatalog(catalog, racing), job, rewrite, hot_the_second_time)

    head = catalog.load_table(NAME).metadata.current_snapshot_id
    assert [job.base_snapshot_id, head] == asked
    assert_failed(catalog, outcome, "hot", job, head)


def test_who_cannot_say_does_not_allow(catalog: Any) -> None:
    job, rewrite = ready(catalog)
    head = catalog.load_table(NAME).metadata.current_snapshot_id

    def broken(_: Table) -> None:
        raise TimeoutError("the broker is away")

    outcome = commit(catalog, job, rewrite, broken)

    assert_failed(catalog, outcome, "unavailable", job, head)


@pytest.mark.parametrize("damage", ["gone", "cut"])
def test_what_was_written_and_is_gone_or_cut_is_not_committed(catalog: Any, damage: str) -> None:
    job, rewrite = ready(catalog)
    file = Path(rewrite.files[0].path.removeprefix("file://"))
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-1])
    head = catalog.load_table(NAME).metadata.current_snapshot_id

    outcome = commit(catalog, job, rewrite)

    assert_failed(catalog, outcome, "missing_file", job, head)
