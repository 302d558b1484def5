"""What is damaged of one table keeps no other, and no other partition of it, from being maintained."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record
from pyiceberg.utils import datetime

from isotherm.contract.identity import TableId
from isotherm.contract.paths import normalised
from isotherm.core import observations as seen
from isotherm.core.model.jobs import Action, OutcomeKind
from isotherm.core.model.refusals import Reason
from isotherm.service.ports import Unreadable
from isotherm.store.ledger import Operation
from support.lab import (
    Lab,
    believed,
    counted,
    event_of,
    of,
    settle,
    started,
    three_tables,
    uuid_of,
    wait_for_children,
)


def failing(service, name, error, method="load"):
    """The catalog fails for one table, as long as the list is not empty."""
    real, faults = getattr(service.catalog, method), [error]

    def load(asked, *more):
        asked_name = asked if isinstance(asked, str) else asked.table.name
        if faults and asked_name == name:
            raise faults[0]
        return real(asked, *more)

    setattr(service.catalog, method, load)
    return faults


@pytest.mark.parametrize(
    "error", [Unreadable("damaged"), RuntimeError("a mistake of ours"), RecursionError()]
)
@pytest.mark.parametrize("method", ["load", "scan"])
def test_one_table_that_fails_keeps_no_other_from_being_maintained(lab, error, method):
    tables = [lab.create(f"shop.{name}") for name in ("aaa", "bbb")]
    for table in tables:
        for hour in (1, 1, 1, 2, 3, 4):
            lab.append(table, hour)
    service = started(lab)
    failing(service, "shop.aaa", error, method)
    for _ in range(60):
        service.step(0)
        wait_for_children(service)
        if [one for one in of(lab, seen.JobEnded) if one.table.name == "shop.bbb"]:
            break

    ended = [one for one in of(lab, seen.JobEnded) if one.table.name == "shop.bbb"]
    assert [one.outcome for one in ended] == [OutcomeKind.DONE]
    assert {one.name for one in of(lab, seen.TableFailed)} == {"shop.aaa"}
    service.stop()


def test_a_partition_whose_manifests_cannot_be_read_keeps_no_other_table_from_being_maintained(lab):
    tables = [lab.create(f"shop.{name}") for name in ("aaa", "bbb")]
    for table in tables:
        for hour in (1, 1, 2, 3, 4):
            lab.append(table, hour)
    service = started(lab)
    settle(service)
    oldest = tables[0].refresh().metadata.snapshots[0]
    (manifest,) = oldest.manifests(tables[0].io)
    Path(normalised(manifest.manifest_path)).write_bytes(b"Obj?")
    for table in tables:
        lab.append(table, 1)
        for hour in (5, 6):
            lab.append(table, hour)
    for _ in range(60):
        service.step(0)
        wait_for_children(service)
        if [one for one in of(lab, seen.JobEnded) if one.table.name == "shop.bbb"]:
            break

    ended = {(one.table.name, one.outcome) for one in of(lab, seen.JobEnded)}
    assert ended == {("shop.aaa", OutcomeKind.FAILED), ("shop.bbb", OutcomeKind.DONE)}
    (failed,) = {one.why for one in of(lab, seen.JobEnded) if one.table.name == "shop.aaa"}
    assert manifest.manifest_path in failed
    assert not of(lab, seen.TableFailed)
    service.stop()


def test_a_partition_that_cannot_be_bound_keeps_no_other_of_its_table_from_being_compacted(lab):
    table = lab.create()
    for hour in (1, 1, 2, 2, 2, 2, 3, 4):
        lab.append(table, hour)
    oldest = table.refresh().metadata.snapshots[0]
    (manifest,) = oldest.manifests(table.io)
    service = started(lab)
    settle(service)
    Path(normalised(manifest.manifest_path)).write_bytes(b"Obj?")
    for hour in (1, 1, 1, 5, 6):  # more to save there than in hour 2, so it comes first
        lab.append(table, hour)
    for _ in range(60):
        service.step(0)
        wait_for_children(service)

    ended = {(one.label, one.outcome, one.reason) for one in of(lab, seen.JobEnded)}
    assert ("at_hour=2026-01-01-01", OutcomeKind.FAILED, Reason.CORRUPT_FILE) in ended
    assert ("at_hour=2026-01-01-02", OutcomeKind.DONE, Reason.COMMITTED) in ended
    (quarantine,) = service.ledger.quarantined(uuid_of(table)).values()
    assert manifest.manifest_path in quarantine.why
    service.stop()


def test_a_partition_beyond_the_year_9999_is_compacted_as_any_other(lab):
    """PostgreSQL's infinity, which Spark writes."""
    table = lab.create()
    for hour in (1, 1, 1, 1):
        lab.append(table, hour)
    for number in range(4):
        append_far(lab, table, number)
    for hour in (2, 3, 4):
        lab.append(table, hour)
    had = sorted(table.refresh().scan(selected_fields=("id",)).to_arrow()["id"].to_pylist())
    service = started(lab)
    lab.ahead_ms += 2 * 86_400_000  # nobody writes there any more
    for _ in range(60):
        service.step(0)
        wait_for_children(service)

    done = {one.label for one in of(lab, seen.JobEnded) if one.outcome is OutcomeKind.DONE}
    assert done == {"at_hour=2026-01-01-01", f"at_hour={FAR_HOUR}"}
    assert sorted(table.refresh().scan(selected_fields=("id",)).to_arrow()["id"].to_pylist()) == had
    service.stop()


FAR_HOUR = 70_392_300


def append_far(lab, table, number):
    """A row of the year 10000, as PyIceberg itself cannot write one."""
    path = lab.root / f"far-{number}.parquet"
    rows = {
        "id": pa.array([1000 + number], pa.int64()),
        "at": pa.array([FAR_HOUR * 3_600_000_000], pa.int64()).cast(pa.timestamp("us", "UTC")),
        "what": pa.array(["far"], pa.string()),
    }
    schema = schema_to_pyarrow(table.schema())
    pq.write_table(pa.table(rows).cast(schema), path)
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file://{path}",
        file_format=FileFormat.PARQUET,
        partition=Record(FAR_HOUR),
        record_count=1,
        file_size_in_bytes=path.stat().st_size,
    )
    file.spec_id = table.spec().spec_id
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datetime, "to_human_hour", str)  # it has no name for that folder
        with table.refresh().transaction() as begun, begun.update_snapshot().fast_append() as commit:
            commit.append_data_file(file)
    lab.announce(event_of(table.refresh()))


def test_a_table_that_is_mended_is_maintained_again(lab):
    tables = three_tables(lab)
    service = started(lab)
    faults = failing(service, "shop.bbb", RuntimeError("a mistake of ours"))
    settle(service)
    assert set(service.fold.names().values()) == {"shop.aaa", "shop.ccc"}
    faults.clear()
    lab.ahead_ms += 11_000
    settle(service)

    assert set(service.fold.names().values()) == {"shop.aaa", "shop.bbb", "shop.ccc"}
    assert [one.name for one in of(lab, seen.TableRecovered)] == ["shop.bbb"]
    assert believed(service, uuid_of(tables[1])) == counted(lab.scan("shop.bbb"))
    service.stop()


def test_operations_of_tables_that_are_gone_keep_no_other_from_being_settled(lab):
    table = lab.create()
    lab.append(table, 1)
    service = started(lab)
    settle(service)
    for number in range(30):
        gone = Operation(
            f"gone{number}",
            TableId(f"u{number}", f"shop.gone{number}"),
            Action.EXPIRE,
            None,
            "",
            "",
            "",
            0,
            number,
        )
        service.ledger.save(gone)
    live = Operation(
        "live", TableId(uuid_of(table), "shop.orders"), Action.EXPIRE, None, "", "", "", 0, 10**6
    )
    service.ledger.save(live)
    for _ in range(6):
        service.round()
        lab.ahead_ms += 1000
    assert "live" not in {one.job_id for one, _ in service.ledger.unfinished()}

    # They are given up after a week, and nothing is deleted for it.
    lab.ahead_ms += 8 * 86_400_000
    for _ in range(4):
        service.round()
    assert not [one for one, _ in service.ledger.unfinished() if one.action is Action.EXPIRE]
    assert {one.reason for one in service.ledger.operations() if one.job_id.startswith("gone")} == {"gone"}
    service.stop()


@pytest.mark.parametrize("value", [b"{", b'{"job_id": "\xf1"}'], ids=["no JSON", "no text"])
def test_an_operation_that_cannot_be_read_keeps_no_other_from_being_settled(lab, value):
    table = lab.create()
    lab.append(table, 1)
    service = started(lab)
    settle(service)
    for number, job_id in enumerate(("damaged", "live")):
        shop = TableId(uuid_of(table), f"shop.{job_id}")
        service.ledger.save(Operation(job_id, shop, Action.EXPIRE, None, "", "", "", 0, number))
    with closing(sqlite3.connect(lab.root / "state" / "ledger.db")) as db, db:
        assert db.execute(
            "UPDATE operations SET value = CAST(? AS TEXT) WHERE job_id = 'damaged'", (value,)
        ).rowcount
    for _ in range(3):
        service.round()
        lab.ahead_ms += 1000

    assert list(service.ledger.open_jobs()) == ["damaged"]
    (failed,) = of(lab, seen.TableFailed)
    assert (failed.name, failed.doing) == ("shop.damaged", "looking for the fate of job damaged")
    assert "a stored Operation cannot be read" in failed.error
    service.stop()


def test_a_table_that_is_made_again_is_found_though_another_daemon_had_the_old_one(lab):
    table = lab.create()
    lab.append(table, 1)
    old = uuid_of(table)
    service = started(lab)
    service.events.elsewhere.add(old)
    settle(service)
    assert service.fold.names() == {}
    lab.catalog.drop_table("shop.orders")
    again = lab.create()
    lab.append(again, 5)
    settle(service)

    assert list(service.fold.names()) == [uuid_of(again)]
    service.stop()


def test_the_default_lab_is_quiet(tmp_path):
    """The barrier says nothing where nothing is wrong."""
    lab = Lab(tmp_path)
    three_tables(lab)
    lab.settled().stop()

    assert of(lab, seen.TableFailed) == []


def test_a_value_that_fits_into_no_row_is_the_trouble_of_its_table(lab):
    """SQLite refuses a text of a gigabyte, and the stores are well all the same."""
    large, small = (lab.create(f"shop.{name}") for name in ("aaa", "bbb"))
    service = started(lab)
    settle(service)
    for db in (service.fold.db, service.ledger.db):
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 20_000)
    lab.append(large, *range(100))
    for hour in (1, 1, 1, 2, 3, 4):
        lab.append(small, hour)
    for _ in range(60):
        service.step(0)
        wait_for_children(service)
        if of(lab, seen.JobEnded):
            break

    assert [(one.table.name, one.outcome) for one in of(lab, seen.JobEnded)] == [
        ("shop.bbb", OutcomeKind.DONE)
    ]
    (failed,) = of(lab, seen.TableFailed)
    assert failed.name == "shop.aaa"
    assert "fits into no row of a store: string or blob too big" in failed.error
    service.stop()


def test_a_table_that_is_left_out_of_the_policies_is_reported_as_failing_no_more(tmp_path):
    lab = Lab(tmp_path)
    table = lab.create()
    lab.append(lab.create("shop.other"), 1)
    service = started(lab)
    settle(service)
    Path(normalised(table.metadata_location)).write_text("{")

    def hours(count):
        for _ in range(count):
            lab.ahead_ms += 3_600_000
            service.follower.suspects.add("shop.orders")
            service.step(0)

    hours(3)
    assert set(service.barrier.failing) == {"shop.orders"}
    policy = lab.root / "policies" / "all.yaml"
    policy.write_text(policy.read_text().replace('"*"', "shop.other"))
    hours(3)

    assert not service.policies.has_policy("shop.orders")
    assert set(service.barrier.failing) == set()
    assert [one.name for one in of(lab, seen.TableRecovered)] == ["shop.orders"]
    service.stop()
