"""What a catalog has refused to expire is known, whichever catalog it is: the next one waits, and nothing stays open."""

from typing import Any

import pytest
from pyiceberg.table import Table

from isotherm.core.model.jobs import OutcomeKind
from isotherm.iceberg.expiry import read
from isotherm.runtime.clock import now_ms
from support.expiring import expired, ids
from support.faults import FaultyCatalog, OnRest
from support.refusals import BUSY, REFUSED, UNCLEAR, in_short


def answering(error: Exception, sent: list[int], *, lands: bool = False) -> Any:
    def hook(real: Any, *arguments: Any) -> Any:
        sent.append(1)
        if lands:
            real(*arguments)
        raise error

    return hook


@pytest.mark.parametrize("error", [*REFUSED, *BUSY], ids=in_short)
def test_an_expiry_that_a_catalog_refuses_has_failed_whichever_catalog_it_is(
    catalog: Any, table: Table, error: Exception
) -> None:
    before, sent = ids(table), list[int]()

    outcome = expired(OnRest(catalog, answering(error, sent)), read(table, before[:3], now_ms())).outcome

    assert (outcome.kind, outcome.reason, outcome.was_sent) == (OutcomeKind.FAILED, "refused", True)
    assert outcome.why == f"the catalog refused the request: {error}"
    assert (len(sent), ids(table)) == (1, before)


def test_where_pyiceberg_writes_the_metadata_its_own_no_is_told_as_that(catalog: Any, table: Table) -> None:
    hook = answering(NotImplementedError("v3"), [])

    outcome = expired(FaultyCatalog(catalog, hook), read(table, ids(table)[:3], now_ms())).outcome

    assert (outcome.kind, outcome.reason) == (OutcomeKind.FAILED, "unsupported")
    assert outcome.why == "snapshots of this table cannot be expired yet: v3"


@pytest.mark.parametrize("error", [*REFUSED, *BUSY], ids=in_short)
def test_a_refusal_of_the_second_copy_of_an_expiry_is_none(
    catalog: Any, table: Table, error: Exception
) -> None:
    going = ids(table)[:3]

    outcome = expired(
        FaultyCatalog(catalog, answering(error, [], lands=True)), read(table, going, now_ms())
    ).outcome

    assert OutcomeKind.DONE is outcome.kind
    assert not set(going) & set(ids(table))


@pytest.mark.parametrize("error", UNCLEAR, ids=in_short)
def test_what_only_may_be_a_refusal_of_an_expiry_is_none(
    catalog: Any, table: Table, error: Exception
) -> None:
    outcome = expired(
        FaultyCatalog(catalog, answering(error, [])), read(table, ids(table)[:3], now_ms())
    ).outcome

    assert (outcome.kind, outcome.was_sent) == (OutcomeKind.UNKNOWN, True)
