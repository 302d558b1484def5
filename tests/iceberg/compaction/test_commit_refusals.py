"""Answers to a commit that say that it was not taken, whichever catalog gives them, and those that only may say so."""

from collections.abc import Callable
from typing import Any

import pytest

from isotherm.core.model.jobs import OutcomeKind
from isotherm.iceberg.compaction.one_commit import SENDS
from support.faults import FaultyCatalog
from support.refusals import BUSY, REFUSED, UNCLEAR, in_short
from support.rewriting import commit
from support.two_partitions import NAME, assert_done, assert_failed, contents, ready


@pytest.fixture
def catalog(two_partitions: Any) -> Any:
    return two_partitions


def failing(error: Exception, lands: Callable[[int], bool]) -> tuple[list[int], Callable[..., Any]]:
    """A catalog whose answers are `error`; the request number n takes effect where `lands(n)`."""
    sent: list[int] = []

    def hook(real: Any, *arguments: Any) -> Any:
        sent.append(len(sent) + 1)
        if lands(sent[-1]):
            real(*arguments)
        raise error

    return sent, hook


@pytest.mark.parametrize("error", REFUSED, ids=in_short)
def test_a_clear_refusal_is_one_whichever_catalog_it_comes_from(catalog: Any, error: Exception) -> None:
    """It is not sent again, and another job may begin; what was written stays until its grace is over."""
    job, rewrite = ready(catalog)
    head = catalog.load_table(NAME).metadata.current_snapshot_id
    sent, hook = failing(error, lands=lambda _: False)

    outcome = commit(FaultyCatalog(catalog, hook), job, rewrite)

    assert (sent, outcome.was_sent) == ([1], True)
    assert_failed(catalog, outcome, "refused", job, head)


@pytest.mark.parametrize("error", REFUSED, ids=in_short)
def test_a_clear_refusal_of_a_second_copy_is_none(catalog: Any, error: Exception) -> None:
    job, rewrite = ready(catalog)
    before = contents(catalog)
    _, hook = failing(error, lands=lambda number: number == 1)

    assert_done(catalog, commit(FaultyCatalog(catalog, hook), job, rewrite), before)


@pytest.mark.parametrize("error", UNCLEAR, ids=in_short)
def test_what_only_may_be_a_refusal_is_none(catalog: Any, error: Exception) -> None:
    job, rewrite = ready(catalog)
    sent, hook = failing(error, lands=lambda _: False)

    outcome = commit(FaultyCatalog(catalog, hook), job, rewrite)

    assert (len(sent), outcome.kind) == (SENDS, OutcomeKind.UNKNOWN)


@pytest.mark.parametrize("error", BUSY, ids=in_short)
@pytest.mark.parametrize("free_after", [1, SENDS])
def test_a_catalog_that_is_busy_is_asked_again_and_has_taken_nothing(
    catalog: Any, free_after: int, error: Exception
) -> None:
    job, rewrite = ready(catalog)
    before, head = contents(catalog), catalog.load_table(NAME).metadata.current_snapshot_id
    sent: list[int] = []

    def hook(real: Any, *arguments: Any) -> Any:
        if len(sent) == free_after:
            return real(*arguments)
        sent.append(1)
        raise error

    outcome = commit(FaultyCatalog(catalog, hook), job, rewrite)

    assert len(sent) == free_after
    if free_after < SENDS:
        assert_done(catalog, outcome, before)
    else:
        assert_failed(catalog, outcome, "refused", job, head)
