"""Expiry on REST catalogs, which drop refs with their snapshots and know no requirement of ours."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table
from pyiceberg.table.update import AssertRefSnapshotId

from isotherm.contract.paths import normalised
from isotherm.core.model.jobs import OutcomeKind
from isotherm.iceberg.expiry import read
from isotherm.iceberg.lost_refs import lost_refs
from isotherm.runtime.clock import now_ms
from support.expiring import branch, expired, ids, load
from support.faults import OnRest


def test_a_rest_catalog_is_asked_to_refuse_where_a_ref_that_we_saw_has_moved(
    catalog: Any, table: Table
) -> None:
    branch(table, "audit", ids(table)[-1])
    asked: list[str] = []

    def keep(real: Any, now: Table, requirements: Any, updates: Any) -> Any:
        asked.extend(one.ref for one in requirements if isinstance(one, AssertRefSnapshotId))
        return real(now, requirements, updates)

    outcome = expired(OnRest(catalog, keep), read(table.refresh(), ids(table)[:3], now_ms())).outcome

    assert OutcomeKind.DONE is outcome.kind
    assert sorted(asked) == ["audit", "main"]


def test_a_rest_catalog_is_sent_one_snapshot_an_update(catalog: Any, table: Table) -> None:
    """Servers on Iceberg's Java library before 1.9 take no more than one id in each."""
    sent: list[dict[str, Any]] = []

    def keep(real: Any, now: Table, requirements: Any, updates: Any) -> Any:
        sent.extend(json.loads(one.model_dump_json()) for one in updates)
        return real(now, requirements, updates)

    going = ids(table)[:3]
    outcome = expired(OnRest(catalog, keep), read(table, going, now_ms())).outcome

    assert OutcomeKind.DONE is outcome.kind
    assert [{"action": "remove-snapshots", "snapshot-ids": [one]} for one in going] == sent


@pytest.mark.parametrize("is_readable", [True, False])
def test_a_tag_that_a_rest_catalog_dropped_with_its_snapshot_is_named(
    catalog: Any, table: Table, is_readable: bool
) -> None:
    going, base = ids(table)[:3], table.metadata_location
    table.manage_snapshots().create_tag(going[1], "q3").commit()
    tagged = table.refresh().metadata_location
    table.manage_snapshots().remove_tag("q3").commit()
    table.refresh().maintenance.expire_snapshots().by_ids(going).commit()
    if not is_readable:
        Path(normalised(tagged)).unlink()

    found = lost_refs(OnRest(catalog, None), table.io, load(catalog).metadata, base, going)

    assert (found is not None) is is_readable
    assert found is None or ["q3" in one for one in found] == [True]


def test_versions_that_lead_in_a_circle_show_nothing(catalog: Any, table: Table) -> None:
    """Who may write a table's metadata may have it name itself as the version before."""
    log = load(catalog).metadata.metadata_log
    oldest = Path(normalised(log[0].metadata_file))
    forged = {"metadata-log": [{"metadata-file": log[0].metadata_file, "timestamp-ms": 1}]}
    oldest.write_text(json.dumps(json.loads(oldest.read_text()) | forged))

    assert (
        lost_refs(OnRest(catalog, None), table.io, load(catalog).metadata, "unknown", ids(table)[:1]) is None
    )
