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


def test_where_a_server_keeps_no_metadata_log_nobody_can_say_which_tags_it_dropped(
    catalog: Any, table: Table
) -> None:
    reading = read(table, ids(table)[:3], now_ms())

    def without_log(real: Any, *arguments: Any) -> Any:
        answer = real(*arguments)
        return answer.model_copy(update={"metadata": answer.metadata.model_copy(update={"metadata_log": []})})

    found = expired(OnRest(catalog, without_log), reading)

    assert (found.outcome.kind, found.lost_refs) == (OutcomeKind.DONE, None)
    assert not set(reading.snapshots) & set(ids(table))


def test_versions_that_lead_in_a_circle_show_nothing(catalog: Any, table: Table) -> None:
    """Who may write a table's metadata may have it name itself as the version before."""
    log = load(catalog).metadata.metadata_log
    oldest = Path(normalised(log[0].metadata_file))
    forged = {"metadata-log": [{"metadata-file": log[0].metadata_file, "timestamp-ms": 1}]}
    oldest.write_text(json.dumps(json.loads(oldest.read_text()) | forged))

    assert (
        lost_refs(OnRest(catalog, None), table.io, load(catalog).metadata, "unknown", ids(table)[:1]) is None
    )


class Noting:
    """A FileIO that notes which files are opened."""

    def __init__(self, real: Any) -> None:
        self.real = real
        self.opened: list[str] = []

    def new_input(self, location: str) -> Any:
        self.opened.append(location)
        return self.real.new_input(location)


@pytest.mark.parametrize("name", ["anything.bin", "anything.bin#.metadata.json"])
@pytest.mark.parametrize("is_before", [False, True])
def test_a_version_that_names_another_file_as_one_of_before_has_it_not_opened(
    catalog: Any, table: Table, name: str, is_before: bool
) -> None:
    """Whoever may write a table's folder could have a file of any size read whole."""
    landed, io = load(catalog).metadata, Noting(table.io)
    first = landed.metadata_log[0]
    forged = first.model_copy(update={"metadata_file": f"{table.location()}/data/{name}"})
    log = [forged] if is_before else [first, forged]
    base = "unknown" if is_before else first.metadata_file

    found = lost_refs(
        OnRest(catalog, None),
        io,  # type: ignore[arg-type]
        landed.model_copy(update={"metadata_log": log}),
        base,
        ids(table)[:1],
    )

    assert (found, io.opened) == (None, [])
