"""What the audit reads of a table: rows are compared where PyIceberg can read them, and nothing else ends it."""

import datetime as dt
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent, ManifestEntry
from pyiceberg.manifest import ManifestEntryStatus as Status
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.name_mapping import MappedField, NameMapping
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import BinaryType, DoubleType, LongType, NestedField, PrimitiveType, TimestampType

from isotherm.audit.evidence import RowsCompared
from isotherm.audit.evidence_reader import (
    Kept,
    commits_of,
    compared,
    files_checked,
    kept_in_ledger,
    rules_in_force,
)
from isotherm.audit.intents import ancestors
from isotherm.audit.missing_files import removed_in_ledger
from isotherm.clients.catalog import open_catalog
from isotherm.clients.manifests.reading import read_manifest_list
from isotherm.contract.identity import UNPARTITIONED, PartitionKey
from isotherm.contract.summary import INGEST_VALID_THROUGH
from isotherm.core.deletion import Cause, Mark
from isotherm.core.model.jobs import OutcomeKind
from isotherm.iceberg.manifests.partition_values import partition_record
from isotherm.iceberg.manifests.writing import write_manifest, write_manifest_list
from isotherm.store.ledger import Account, Ledger
from support.lab import Lab
from support.rewriting import compacted

NAME = "db.t"
ONE, TWO = (PartitionKey(f'{{"1000":{number}}}') for number in (1, 2))


@pytest.fixture
def catalog(tmp_path: Path) -> Any:
    """A table of two partitions with three files each."""
    found = load_catalog(
        "lake", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w"
    )
    found.create_namespace("db")
    fields = (NestedField(number, name, LongType(), required=False) for number, name in ((1, "id"), (2, "p")))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "p"))
    table = found.create_table(NAME, Schema(*fields), partition_spec=spec, properties={"format-version": "2"})
    for start in (0, 10, 20):
        ids = list(range(start, start + 10))
        table.append(pa.table({"id": ids + ids, "p": [1] * 10 + [2] * 10}))
    return found


def delete_by_equality(catalog: Any, partition: PartitionKey) -> None:
    """A commit as Flink makes them; nobody here reads its file."""
    table = catalog.load_table(NAME)
    metadata, head, folder = table.metadata, table.current_snapshot(), f"{table.location()}/metadata"
    snapshot_id, number = metadata.new_snapshot_id(), metadata.next_sequence_number()
    file = DataFile.from_args(
        3,
        content=DataFileContent.EQUALITY_DELETES,
        file_path=f"{table.location()}/data/equality.parquet",
        file_format=FileFormat.PARQUET,
        partition=partition_record(metadata, 0, partition),
        record_count=1,
        file_size_in_bytes=1,
        equality_ids=[1],
    )
    entry = ManifestEntry.from_args(
        3, status=Status.ADDED, snapshot_id=snapshot_id, sequence_number=None, data_file=file
    )
    manifest = write_manifest(
        table.io, metadata, f"{folder}/e{number}.avro", 0, ManifestContent.DELETES, snapshot_id, [entry]
    )
    location = f"{folder}/list{number}.avro"
    manifests = [manifest, *read_manifest_list(table.io, head.manifest_list)]
    write_manifest_list(table.io, metadata, location, snapshot_id, head.snapshot_id, number, manifests)
    snapshot = Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=head.snapshot_id,
        sequence_number=number,
        timestamp_ms=metadata.last_updated_ms + 1,
        manifest_list=location,
        summary=Summary(Operation.DELETE),
        schema_id=0,
    )
    ref = SetSnapshotRefUpdate(ref_name=MAIN_BRANCH, type=SnapshotRefType.BRANCH, snapshot_id=snapshot_id)
    catalog.commit_table(table, (), (AddSnapshotUpdate(snapshot=snapshot), ref))


def read(table: Table) -> list[RowsCompared]:
    return [one for commit in commits_of(table) if commit.is_ours for one in compared(table, commit)]


def test_rows_of_a_rewrite_are_compared_though_other_partitions_have_equality_deletes(catalog: Any) -> None:
    delete_by_equality(catalog, TWO)
    assert OutcomeKind.DONE is compacted(catalog, NAME, ONE).kind

    (found,) = read(catalog.load_table(NAME))

    assert found.before == found.after
    assert found.before[0] == 30


@pytest.mark.parametrize(
    ("kind", "values", "key"),
    [
        (DoubleType(), pa.array([0.1] * 10), PartitionKey('{"1000":0.1}')),
        (BinaryType(), pa.array([b"\x00\xff"] * 10, pa.large_binary()), PartitionKey('{"1000":"00ff"}')),
    ],
    ids=["double", "binary"],
)
def test_a_partition_has_the_name_in_the_audit_that_intents_and_the_daemon_give_it(
    tmp_path: Path, kind: PrimitiveType, values: pa.Array, key: PartitionKey
) -> None:
    """Under another one, no intent of a writer names it, and no rule about hot partitions is held against it."""
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
    catalog = open_catalog("lake", properties, 60)
    catalog.create_namespace("db")
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "p"))
    schema = Schema(NestedField(1, "p", kind, required=False))
    table = catalog.create_table(NAME, schema, partition_spec=spec, properties={"format-version": "2"})
    for _ in range(3):
        table.append(pa.table({"p": values}))
    assert OutcomeKind.DONE is compacted(catalog, NAME, key).kind

    table = catalog.load_table(NAME)
    assert {touch.partition for commit in commits_of(table) for touch in commit.touches} == {key}
    assert [one.after[0] for one in read(table)] == [30]


def test_nothing_is_said_of_rows_to_which_equality_deletes_may_apply(catalog: Any) -> None:
    assert OutcomeKind.DONE is compacted(catalog, NAME, ONE).kind
    delete_by_equality(catalog, ONE)
    table = catalog.load_table(NAME)
    ours = next(commit for commit in commits_of(table) if commit.is_ours)
    last = table.current_snapshot()

    assert (
        list(
            compared(
                table,
                type(ours)(last.snapshot_id, ours.snapshot_id, 0, "replace", "job", touches=ours.touches),
            )
        )
        == []
    )


def test_nothing_is_said_of_timestamps_that_pyiceberg_cannot_read(catalog: Any, tmp_path: Path) -> None:
    """Those of 96 bits, as old versions of Spark write them: it would find other rows after a rewrite that left them alone."""
    schema = Schema(NestedField(1, "at", TimestampType(), required=False))
    table = catalog.create_table("db.old", schema, properties={"format-version": "2"})
    for number, day in enumerate([dt.datetime(1, 1, 1), dt.datetime(2999, 12, 31)]):  # noqa: DTZ001 (without a zone)
        path = tmp_path / f"{number}.parquet"
        rows = pa.table({"at": pa.array([day], pa.timestamp("us"))})
        pq.write_table(rows, path, use_deprecated_int96_timestamps=True)
        file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=f"file://{path}",
            file_format=FileFormat.PARQUET,
            partition=Record(),
            record_count=1,
            file_size_in_bytes=path.stat().st_size,
        )
        file.spec_id = 0
        with table.transaction() as begun, begun.update_snapshot().fast_append() as commit:
            commit.append_data_file(file)
    names = NameMapping([MappedField(field_id=1, names=["at"])])
    table.transaction().set_properties(
        {"schema.name-mapping.default": names.model_dump_json()}
    ).commit_transaction()
    assert OutcomeKind.DONE is compacted(catalog, "db.old", UNPARTITIONED).kind

    assert read(catalog.load_table("db.old")) == []


def test_a_row_that_changed_is_seen(catalog: Any) -> None:
    """Held against the snapshot before the one that came before."""
    assert OutcomeKind.DONE is compacted(catalog, NAME, ONE).kind
    table = catalog.load_table(NAME)
    history = list(commits_of(table))
    ours = history[-1]

    (found,) = compared(
        table,
        type(ours)(ours.snapshot_id, history[-3].snapshot_id, 0, "replace", "job", touches=ours.touches),
    )

    assert (20, 30) == (found.before[0], found.after[0])


def test_it_is_judged_by_the_policy_that_a_file_said_before_it_broke(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.append(lab.create(), 1)
    service = lab.settled()
    file = lab.root / "policies" / "all.yaml"
    before = rules_in_force(lab.config, "shop.orders", {})
    file.write_text(file.read_text() + "foo: 1\n")
    service.stop()
    lab.executor.stop()

    after = rules_in_force(lab.config, "shop.orders", {})

    assert list(before) == [service.policies.resolve("shop.orders", {}).policy.hash] == list(after)
    assert [(one.quiet_for_ms, one.after_ms(1000)) for one in (*before.values(), *after.values())] == [
        (0, 1000)
    ] * 2


def test_a_writer_that_vouches_for_a_number_without_end_vouches_for_nothing(catalog: Any) -> None:
    catalog.load_table(NAME).append(
        pa.table({"id": [1], "p": [1]}), snapshot_properties={INGEST_VALID_THROUGH: "9" * 5000}
    )

    assert [one.valid_through_ms for one in commits_of(catalog.load_table(NAME))] == [None] * 4


@pytest.mark.parametrize(
    "broken",
    [
        OSError("503: slow down"),
        EOFError("read 0 bytes"),
        SystemError("negative size"),
        TypeError("Type not recognized: decimal_9_2"),
    ],
)
@pytest.mark.parametrize("what", ["a manifest list", "a manifest", "a look"])
def test_what_cannot_be_read_is_not_looked_at(
    catalog: Any, monkeypatch: pytest.MonkeyPatch, what: str, broken: Exception
) -> None:
    """A store that did not answer made a proof: what was not read had nothing missing."""
    table = catalog.load_table(NAME)
    whole = files_checked(table, {})
    assert (whole.missing, whole.unread) == ((), ())
    real = table.io.new_input

    class Away:
        def __init__(self, location: str) -> None:
            self.location = location

        def __len__(self) -> int:
            raise broken

        def exists(self) -> bool:
            if what == "a look":
                raise broken
            return True

        def open(self, **_: Any) -> Any:
            raise broken

    head = table.current_snapshot()
    paths = {
        "a manifest list": head.manifest_list,
        "a manifest": head.manifests(table.io)[0].manifest_path,
        "a look": next(iter(table.scan().plan_files())).file.file_path,
    }
    monkeypatch.setattr(
        table.io, "new_input", lambda path: Away(path) if path == paths[what] else real(path), raising=False
    )
    found = files_checked(table, {})

    assert found.missing == ()
    assert [one.partition(": ")[0] for one in found.unread] == [paths[what]]


def test_only_what_the_ledger_says_is_laid_at_the_daemons_door(tmp_path: Path) -> None:
    """The same file: removed by hand, then written down as marked, then as deleted."""
    lab = Lab(tmp_path)
    table = lab.create()
    for hour in (1, 2):
        lab.append(table, hour)
    lab.settled().stop()
    live = next(iter(table.refresh().scan().plan_files())).file.file_path
    Path(live.removeprefix("file://")).unlink()
    uuid, path = str(table.metadata.table_uuid), tmp_path / "state" / "ledger.db"
    by_hand = files_checked(table, removed_in_ledger(path, uuid))
    ledger = Ledger(path)
    ledger.mark(
        uuid,
        "job",
        [Mark(live.replace("file:///", "file:/"), "job", Cause.EXPIRED, None)],
        1000,
        due_at_ms=2000,
    )
    marked = files_checked(table, removed_in_ledger(path, uuid))
    ledger.kept(uuid, {live.replace("file:///", "file:/"): "a snapshot needs it"}, 3000)
    kept = files_checked(table, removed_in_ledger(path, uuid))
    ledger.deleted(uuid, [live.replace("file:///", "file:/")], 3000)
    ledger.close()
    deleted = files_checked(table, removed_in_ledger(path, uuid))

    for found in (by_hand, kept):
        assert (found.missing, len(found.missing_by_others)) == ((), 1)
        assert found.missing_by_others[0].startswith(f"{live} (needed by snapshot ")
    assert [one.missing_by_others for one in (marked, deleted)] == [(), ()]
    assert marked.missing[0].endswith(", which this daemon had marked to be deleted")
    assert deleted.missing[0].endswith(", which this daemon deleted at 1970-01-01 00:00:03")
    assert removed_in_ledger(tmp_path / "none.db", uuid) == {}


def test_a_history_that_goes_in_a_circle_is_read_once(catalog: Any) -> None:
    table = catalog.load_table(NAME)
    snapshots = table.metadata.snapshots
    head = table.metadata.current_snapshot_id
    snapshots[0] = snapshots[0].model_copy(update={"parent_snapshot_id": head})

    commits = list(islice(commits_of(table), 100))

    assert [one.snapshot_id for one in commits] == [one.snapshot_id for one in snapshots]
    assert [one.snapshot_id for one in islice(ancestors(commits, commits[0]), 100)] == [
        one.snapshot_id for one in reversed(commits)
    ]


def test_a_ledger_says_which_snapshots_were_announced_and_nothing_of_tables_that_it_does_not_know(
    tmp_path: Path,
) -> None:
    announced = Account(1, 1, "maintenance", 1_000, 2_000, None, announced=True)
    found = Account(2, 2, "found", 3_000, 4_000, None, announced=False)
    ledger = Ledger(tmp_path / "ledger.db")
    with ledger.transaction():
        ledger.account("u", [announced, found])
    ledger.close()

    kept = kept_in_ledger(tmp_path / "ledger.db", "u", ())

    assert (kept.accounted, kept.heard, kept.since_ms) == (frozenset({1, 2}), frozenset({1}), 2_000)
    assert kept_in_ledger(tmp_path / "ledger.db", "other", ()) == Kept()
    assert kept_in_ledger(tmp_path / "nowhere.db", "u", ()) == Kept()
