"""Expiry and deletion, layer by layer: real catalog, real files, and somebody who comes in between."""

import json
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException, ForbiddenError
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.statistics import BlobMetadata, PartitionStatisticsFile, StatisticsFile
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    SetPartitionStatisticsUpdate,
    SetSnapshotRefUpdate,
)
from pyiceberg.types import LongType, NestedField

from isotherm.contract.paths import normalised
from isotherm.contract.summary import taken_at
from isotherm.core.deletion import Cause, Mark, Neighbours, own_folders
from isotherm.core.model.jobs import OutcomeKind
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.expiry import expire, is_before, newest_tokens, read, still_going
from isotherm.iceberg.lost_refs import lost_refs
from isotherm.iceberg.manifests.reachability import Stopped, left_behind, never, reached
from isotherm.iceberg.manifests.reading import Manifest, read_manifest_list
from isotherm.iceberg.remover import sweep
from isotherm.runtime.clock import now_ms
from isotherm.service.ports import Expired, ExpiryReading, Sweep, Swept
from support.faults import FaultyCatalog, OnRest

NAME = "db.t"
SCHEMA = Schema(NestedField(1, "id", LongType(), required=False))


@pytest.fixture
def catalog(tmp_path: Path) -> Any:
    found = load_catalog(
        "lake", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w"
    )
    found.create_namespace("db")
    return found


@pytest.fixture
def table(catalog: Any) -> Table:
    """Six snapshots: three appends, an overwrite of everything, two more appends."""
    made: Table = catalog.create_table(NAME, SCHEMA)
    for number in range(3):
        append(made, number)
    made.overwrite(rows(10, 11))
    append(made, 12)
    append(made, 13)
    return made.refresh()


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def append(table: Table, *ids: int, **more: Any) -> None:
    table.refresh().append(rows(*ids), **more)


def ids(table: Table) -> list[int]:
    """The history of `main`, oldest first."""
    return [snapshot.snapshot_id for snapshot in table.refresh().metadata.snapshots]


def contents(table: Table, snapshot_id: int | None = None) -> list[int]:
    found = table.refresh().scan(snapshot_id=snapshot_id).to_arrow()
    return sorted(found["id"].to_pylist())


def expired(catalog: Any, reading: ExpiryReading, may_send: Any = lambda _: None) -> Expired:
    uuid = str(load(catalog).metadata.table_uuid)
    return expire(catalog, NAME, uuid, reading, "job", may_send, now_ms(), pause=lambda _: None)


def load(catalog: Any) -> Table:
    found: Table = catalog.load_table(NAME)
    return found


def swept(table: Table, reading: ExpiryReading, **changes: Any) -> Swept:
    return swept_as_loaded(table.refresh(), reading, **changes)


def swept_as_loaded(table: Table, reading: ExpiryReading, **changes: Any) -> Swept:
    marks = tuple(Mark(path, "job", Cause.EXPIRED, reading.seen) for path in reading.files)
    own = own_folders(table.metadata.location, (), "db", "t")
    wanted = {"marks": marks, "expired": {"job": reading.snapshots}, "neighbours": Neighbours(own)}
    return sweep(table, Sweep(str(table.metadata.table_uuid), **(wanted | changes)), never)


def on_disk(table: Table) -> set[str]:
    home = Path(normalised(table.metadata.location))
    return {str(path) for path in home.rglob("*") if path.is_file() and path.suffix != ".json"}


def every_snapshot_reads(table: Table) -> None:
    for snapshot in table.refresh().metadata.snapshots:
        contents(table, snapshot.snapshot_id)


# --- the ordinary way


def test_what_only_old_snapshots_reach_goes_and_nothing_else(catalog: Any, table: Table) -> None:
    going = ids(table)[:4]
    before = {one: contents(table, one) for one in ids(table)[4:]}

    reading = read(table, going, now_ms())
    outcome = expired(catalog, reading).outcome
    gone = swept(table, reading)

    assert OutcomeKind.DONE is outcome.kind
    assert ids(table) == list(before)
    assert before == {one: contents(table, one) for one in before}
    assert set(gone.gone) == set(reading.files)
    assert (dict(gone.kept), dict(gone.postponed)) == ({}, {})
    # A plain walk over what is left reaches everything that is on disk.
    assert on_disk(table) == {normalised(path) for path in reach_of(table)}


def reach_of(table: Table) -> set[str]:
    """By PyIceberg's own readers."""
    found = set()
    for snapshot in table.metadata.snapshots:
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            found.add(manifest.manifest_path)
            found |= {e.data_file.file_path for e in manifest.fetch_manifest_entry(table.io)}
    return found


def test_the_head_what_is_named_and_what_is_on_no_way_to_main_do_not_go(table: Table) -> None:
    known = ids(table)
    table.manage_snapshots().create_tag(known[1], "q3").commit()
    table.refresh().manage_snapshots().create_branch(known[2], "b").commit()
    table.refresh().append(rows(98), branch="b")
    table.refresh().append(rows(99), branch="b")

    everything = [one.snapshot_id for one in table.refresh().metadata.snapshots]

    assert still_going(table.metadata, everything, now_ms()) == (known[0], *known[2:-1])


def test_statistics_of_snapshots_that_stay_stay(catalog: Any, table: Table) -> None:
    known = ids(table)
    home = normalised(table.metadata.location)
    for name, snapshot_id in (("old", known[0]), ("new", known[-1])):
        path = Path(home, "metadata", f"{name}.puffin")
        path.write_bytes(b"sketch")
        blob = BlobMetadata(
            type="apache-datasketches-theta-v1", snapshot_id=snapshot_id, sequence_number=1, fields=[1]
        )
        statistics = StatisticsFile(
            snapshot_id=snapshot_id,
            statistics_path=f"file://{path}",
            file_size_in_bytes=6,
            file_footer_size_in_bytes=6,
            blob_metadata=[blob],
        )
        with table.refresh().update_statistics() as update:
            update.set_statistics(statistics)

    found = left_behind(table.refresh().metadata, table.io, [known[0]])

    assert f"file://{home}/metadata/old.puffin" in found
    assert f"file://{home}/metadata/new.puffin" not in found
    assert reached(table.metadata, table.io, [f"file:{home}/metadata/new.puffin"], None) == {
        f"{home}/metadata/new.puffin"
    }


def test_statistics_of_partitions_go_with_their_snapshot(catalog: Any, table: Table) -> None:
    known = ids(table)
    home = normalised(table.metadata.location)
    updates = []
    for name, snapshot_id in (("old", known[0]), ("new", known[-1])):
        path = Path(home, "metadata", f"partition-stats-{name}.parquet")
        path.write_bytes(b"counts")
        statistics = PartitionStatisticsFile(
            **{"snapshot-id": snapshot_id, "statistics-path": f"file://{path}", "file-size-in-bytes": 6}
        )
        updates.append(SetPartitionStatisticsUpdate(**{"partition-statistics": statistics}))
    catalog.commit_table(table.refresh(), (), tuple(updates))

    reading = read(table.refresh(), known[:1], now_ms())
    assert OutcomeKind.DONE is expired(catalog, reading).outcome.kind
    found = swept(table, reading)

    (left,) = load(catalog).metadata.partition_statistics
    assert left.snapshot_id == known[-1]
    assert f"file://{home}/metadata/partition-stats-old.parquet" in found.gone
    assert Path(home, "metadata", "partition-stats-new.parquet").exists()


# --- somebody comes in between


def test_a_tag_that_comes_in_between_is_not_dropped(catalog: Any, table: Table) -> None:
    going = ids(table)[:3]
    reading = read(table, going, now_ms())

    def tagging(real: Any, *arguments: Any) -> Any:
        if len(load(catalog).metadata.refs) == 1:
            load(catalog).manage_snapshots().create_tag(going[1], "q3").commit()
        return real(*arguments)

    outcome = expired(FaultyCatalog(catalog, tagging), reading).outcome

    assert (outcome.kind, outcome.reason) == (OutcomeKind.FAILED, "stale")
    assert set(going) < set(ids(table))
    assert "q3" in table.metadata.refs
    assert contents(table, going[1]) == [0, 1]


def test_a_rollback_to_a_snapshot_that_goes_wins(catalog: Any, table: Table) -> None:
    going = ids(table)[:3]
    reading = read(table, going, now_ms())

    def rolling_back(real: Any, *arguments: Any) -> Any:
        load(catalog).manage_snapshots().set_current_snapshot(going[1]).commit()
        return real(*arguments)

    outcome = expired(FaultyCatalog(catalog, rolling_back), reading).outcome

    assert OutcomeKind.FAILED is outcome.kind
    assert contents(table) == [0, 1]
    every_snapshot_reads(table)


def test_a_rollback_behind_the_head_that_was_seen_wins(catalog: Any, table: Table) -> None:
    """All that goes is still behind the new head; whether it may go is asked again of the table as it is now."""
    known = ids(table)
    reading, asked = read(table, known[:3], now_ms()), []

    def rolling_back(real: Any, *arguments: Any) -> Any:
        if len(asked) == 1:
            load(catalog).manage_snapshots().set_current_snapshot(known[-2]).commit()
        return real(*arguments)

    outcome = expired(
        FaultyCatalog(catalog, rolling_back),
        reading,
        lambda now: asked.append(now.metadata.current_snapshot_id),
    ).outcome

    assert OutcomeKind.DONE is outcome.kind
    assert asked == [known[-1], known[-2]]


def test_a_stream_that_commits_before_each_request_stops_no_expiry(catalog: Any, table: Table) -> None:
    reading = read(table, ids(table)[:3], now_ms())
    sent = []

    def streaming(real: Any, *arguments: Any) -> Any:
        sent.append(1)
        append(load(catalog), 100 + len(sent))
        return real(*arguments)

    outcome = expired(FaultyCatalog(catalog, streaming), reading).outcome

    assert (OutcomeKind.DONE, 1) == (outcome.kind, len(sent))
    assert swept(table, reading).kept == {}
    every_snapshot_reads(table)


@pytest.mark.parametrize("lands", [True, False])
@pytest.mark.parametrize("error", [ConnectionError("cut"), ValueError("garbage"), KeyError("?")])
def test_after_a_lost_answer_a_look_says_what_came_of_it(
    catalog: Any, table: Table, error: Exception, lands: bool
) -> None:
    reading = read(table, ids(table)[:3], now_ms())

    def cut(real: Any, *arguments: Any) -> Any:
        if lands:
            real(*arguments)
        raise error

    outcome = expired(FaultyCatalog(catalog, cut), reading).outcome

    assert (OutcomeKind.DONE if lands else OutcomeKind.UNKNOWN) is outcome.kind
    assert outcome.was_sent


def test_a_refusal_is_told_in_the_catalogs_words(catalog: Any, table: Table) -> None:
    def forbidding(*_: Any) -> Any:
        raise ForbiddenError("Principal 'isotherm' is not authorized for op UPDATE_TABLE")

    outcome = expired(FaultyCatalog(catalog, forbidding), read(table, ids(table)[:3], now_ms())).outcome

    assert (outcome.kind, outcome.reason) == (OutcomeKind.FAILED, "refused")
    assert "not authorized for op UPDATE_TABLE" in outcome.why


def test_nothing_expires_from_another_table_of_that_name_or_under_gc_disabled(
    catalog: Any, table: Table
) -> None:
    reading = read(table, ids(table)[:3], now_ms())
    with table.transaction() as change:
        change.set_properties({"gc.enabled": "false"})

    assert expired(catalog, reading).outcome.reason == "gc_disabled"

    catalog.drop_table(NAME)
    catalog.create_table(NAME, SCHEMA)
    found = expire(catalog, NAME, str(table.metadata.table_uuid), reading, "job", lambda _: None, now_ms())
    assert (found.outcome.reason, found.outcome.was_sent) == ("gone", False)


def test_who_may_not_mark_sends_nothing(catalog: Any, table: Table) -> None:
    before = ids(table)

    outcome = expired(
        catalog, read(table, before[:3], now_ms()), lambda _: Refusal(Reason.OWNER, "another daemon has it")
    ).outcome

    assert (outcome.reason, outcome.why, outcome.was_sent) == ("owner", "another daemon has it", False)
    assert ids(table) == before


def test_the_newest_token_of_each_pipeline_is_kept_as_a_property(catalog: Any, table: Table) -> None:
    for place, pipeline in ((1, "a"), (2, "b"), (3, "a")):
        summary = {"ingest.source": f"{pipeline}{place}", "ingest.pipeline": pipeline}
        append(table, place, snapshot_properties=summary)
    append(table, 77)
    going = ids(table)[:-1]

    assert newest_tokens(table.metadata) == {"ingest.a.source": "a3", "ingest.b.source": "b2"}
    assert OutcomeKind.DONE is expired(catalog, read(table, going, now_ms())).outcome.kind
    said = load(catalog).metadata.properties
    assert (said["ingest.a.source"], said["ingest.b.source"]) == ("a3", "b2")


def test_a_kept_token_says_how_new_its_snapshot_was(table: Table) -> None:
    """The property stays when the table is rolled back; ingest must see that it is newer than the head."""
    append(table, 1, snapshot_properties={"ingest.source": '{"topics":{}}', "ingest.pipeline": "a"})
    newest = load(table.catalog).current_snapshot()
    append(table, 2)

    (kept,) = newest_tokens(table.metadata).values()
    assert taken_at(kept) == newest.sequence_number > 0


# --- what cannot be read


def test_a_going_snapshot_that_cannot_be_read_goes_and_its_files_stay(catalog: Any, table: Table) -> None:
    going = ids(table)[:4]
    damaged = table.metadata.snapshots[2]
    Path(normalised(damaged.manifest_list)).write_bytes(b"nothing")

    reading = read(table, going, now_ms())

    assert reading.damage == ""
    assert OutcomeKind.DONE is expired(catalog, reading).outcome.kind
    swept(table, reading)
    every_snapshot_reads(table)


def test_where_the_next_snapshot_cannot_be_read_snapshots_go_and_no_file(catalog: Any, table: Table) -> None:
    going = ids(table)[:3]
    Path(normalised(table.metadata.snapshots[3].manifest_list)).unlink()

    reading = read(table, going, now_ms())

    assert (reading.snapshots, reading.files) == (tuple(going), ())
    assert "cannot be read" in reading.damage
    assert OutcomeKind.DONE is expired(catalog, reading).outcome.kind


def test_a_proof_that_cannot_be_read_postpones_everything(catalog: Any, table: Table) -> None:
    reading = read(table, ids(table)[:3], now_ms())
    expired(catalog, reading)
    append(table, 55)
    Path(normalised(table.refresh().metadata.snapshots[-1].manifest_list)).unlink()

    found = swept(table, reading)

    assert (found.gone, set(found.postponed)) == ((), set(reading.files))


# --- during the grace


def waiting(catalog: Any, table: Table) -> tuple[ExpiryReading, str]:
    """An expiry that is committed, and one of the data files that wait for their grace."""
    reading = read(table, ids(table)[:4], now_ms())
    assert OutcomeKind.DONE is expired(catalog, reading).outcome.kind
    return reading, next(path for path in reading.files if path.endswith(".parquet"))


@pytest.mark.parametrize("spelling", ["file://{}", "file:{}", "{}"])
def test_a_file_that_is_registered_again_stays(catalog: Any, table: Table, spelling: str) -> None:
    reading, path = waiting(catalog, table)
    table.refresh().add_files([spelling.format(normalised(path))])

    found = swept(table, reading)

    assert {path: verdict.reason for path, verdict in found.kept.items()} == {path: "reached"}
    assert set(found.gone) == set(reading.files) - {path}
    every_snapshot_reads(table)


@pytest.mark.parametrize(
    ("plain", "other"),
    [("/data/", "/data//"), ("/data/", "/data/./"), ("/data/", "/metadata/../data/")]
    + [(".parquet", f".parquet{end}") for end in ("#x", "?x", "\n")],
)
def test_a_file_that_is_registered_again_under_a_name_that_means_it_stays(
    catalog: Any, table: Table, plain: str, other: str
) -> None:
    """Hadoop, a disk or PyArrow opens the very same file."""
    reading, path = waiting(catalog, table)
    table.refresh().add_files([path.replace(plain, other)])

    found = swept(table, reading)

    assert {path: verdict.reason for path, verdict in found.kept.items()} == {path: "reached"}
    every_snapshot_reads(table)


def test_a_manifest_that_is_shorter_than_its_list_says_proves_nothing(catalog: Any, table: Table) -> None:
    """Cut off between two of its blocks it reads as a whole one, which names fewer files."""
    reading, path = waiting(catalog, table)
    table.refresh().add_files([path])
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    manifest = Path(normalised(read_manifest_list(table.io, snapshot.manifest_list)[0].manifest_path))
    whole = manifest.read_bytes()
    sync = whole[-16:]
    manifest.write_bytes(whole[: whole.index(sync) + len(sync)])
    assert list(Manifest.read(table.io, str(manifest))) == []

    found = swept(table, reading)

    assert (found.gone, set(found.postponed)) == ((), set(reading.files))
    assert "and should have" in found.postponed[path]


def test_a_file_that_is_registered_again_and_deleted_again_stays_while_a_snapshot_has_it(
    catalog: Any, table: Table
) -> None:
    reading, path = waiting(catalog, table)
    table.refresh().add_files([path])
    table.refresh().overwrite(rows(1))
    assert path not in {task.file.file_path for task in table.refresh().scan().plan_files()}

    assert set(swept(table, reading).kept) == {path}
    every_snapshot_reads(table)


def test_a_file_on_a_branch_stays(catalog: Any, table: Table) -> None:
    reading, path = waiting(catalog, table)
    table.refresh().manage_snapshots().create_branch(ids(table)[-1], "b").commit()
    table.refresh().add_files([path], branch="b")

    assert set(swept(table, reading).kept) == {path}


def test_gc_disabled_in_the_grace_keeps_everything(catalog: Any, table: Table) -> None:
    reading, _ = waiting(catalog, table)
    with table.refresh().transaction() as change:
        change.set_properties({"gc.enabled": "False"})

    found = swept(table, reading)

    assert (found.gone, set(found.postponed)) == ((), set(reading.files))


def test_a_catalog_that_was_restored_keeps_everything(catalog: Any, table: Table) -> None:
    before = catalog.load_table(NAME).metadata_location
    reading, _ = waiting(catalog, table)
    catalog.drop_table(NAME)
    restored = catalog.register_table(NAME, before)

    found = swept(restored, reading)

    assert (found.gone, set(found.postponed)) == ((), set(reading.files))
    every_snapshot_reads(restored)


def test_files_of_another_table_stay_whoever_names_them(catalog: Any, table: Table) -> None:
    """Its owner may point a table at any folder, and take any file into a snapshot."""
    victim = catalog.create_table("db.victim", SCHEMA)
    victim.append(rows(1, 2, 3))
    (task,) = victim.scan().plan_files()
    with table.transaction() as change:
        change.set_properties({"write.data.path": str(Path(normalised(table.metadata.location)).parent)})
    table.refresh().add_files([task.file.file_path])
    table.refresh().overwrite(rows(1))
    reading = read(table.refresh(), ids(table)[:-1], now_ms())
    assert task.file.file_path in reading.files
    expired(catalog, reading)

    found = swept(table, reading)

    assert found.kept[task.file.file_path].reason == "elsewhere"
    assert contents(victim) == [1, 2, 3]


def test_a_file_that_cannot_be_deleted_waits_alone(catalog: Any, table: Table) -> None:
    reading, path = waiting(catalog, table)
    real = table.io.delete

    class Locked(PyArrowFileIO):
        def delete(self, location: Any) -> None:
            if location == path:
                raise PermissionError("object lock")
            real(location)

    def with_lock(load_table: Any, *arguments: Any) -> Table:
        loaded: Table = load_table(*arguments)
        loaded.io = Locked()
        return loaded

    table.catalog = FaultyCatalog(catalog, on_load=with_lock)  # type: ignore[assignment]
    found = swept(table, reading)

    assert dict(found.postponed) == {path: "PermissionError: object lock"}
    assert set(found.gone) == set(reading.files) - {path}


def test_a_proof_reads_lists_and_manifests_together(table: Table) -> None:
    begun: dict[str, list[str]] = {"list": [], "manifest": []}
    has_company = {kind: Event() for kind in begun}

    class Patient(PyArrowFileIO):
        """Gives the second file of each kind when another one was asked for: the first list is read alone."""

        def new_input(self, location: str) -> PyArrowFile:
            kind = "list" if "/snap-" in location else "manifest"
            begun[kind].append(location)
            if len(begun[kind]) > 2:
                has_company[kind].set()
            assert location == begun[kind][0] or has_company[kind].wait(10), f"a {kind} is read alone"
            return super().new_input(location)

    head = table.current_snapshot()
    assert head is not None
    (newest, *_) = head.manifests(table.io)
    (entry, *_) = newest.fetch_manifest_entry(table.io)
    path = entry.data_file.file_path

    found = reached(table.metadata, Patient(), [path, f"{path}.other"], None)

    assert found == {normalised(path)}


def test_files_are_deleted_with_the_keys_of_the_last_look(catalog: Any, table: Table) -> None:
    reading, _ = waiting(catalog, table)

    class Over(PyArrowFileIO):
        """Keys that were good for as long as the proof took."""

        def delete(self, location: Any) -> None:
            raise PermissionError(f"ExpiredToken: {location}")

    table.refresh().io = Over()
    found = swept_as_loaded(table, reading)

    assert not found.postponed
    assert set(found.gone) == set(reading.files)


def test_a_stop_ends_between_two_files(catalog: Any, table: Table) -> None:
    reading, _ = waiting(catalog, table)
    asked = []

    def stop() -> bool:
        asked.append(1)
        return len(asked) > 3

    with pytest.raises(Stopped):
        left_behind(table.metadata, table.io, reading.snapshots, stop)
    asked.clear()
    marks = tuple(Mark(path, "job", Cause.EXPIRED, reading.seen) for path in reading.files)
    found = sweep(
        table.refresh(),
        Sweep(
            str(table.metadata.table_uuid),
            marks,
            {},
            Neighbours(own_folders(table.metadata.location, (), "", "")),
        ),
        stop,
    )
    assert len(found.gone) < len(reading.files)
    assert not found.kept


def test_of_what_stays_an_expiry_reads_only_the_next_snapshot(catalog: Any, table: Table) -> None:
    """It costs what goes: damage in younger snapshots is not even met, and the proof before the deletion meets it."""
    for number in range(20, 30):
        append(table, number)
    going = ids(table)[:4]
    for snapshot in table.metadata.snapshots[5:-1]:
        Path(normalised(snapshot.manifest_list)).write_bytes(b"nobody reads this")

    reading = read(table, going, now_ms())
    assert OutcomeKind.DONE is expired(catalog, reading).outcome.kind
    found = swept(table, reading)

    assert reading.damage == ""
    assert len([path for path in reading.files if path.endswith(".parquet")]) == 3
    assert (found.gone, set(found.postponed)) == ((), set(reading.files))


def test_a_conflict_is_given_up_after_a_while(catalog: Any, table: Table) -> None:
    def losing(*_: Any) -> Any:
        raise CommitFailedException("Requirement failed: branch main has changed")

    outcome = expired(FaultyCatalog(catalog, losing), read(table, ids(table)[:3], now_ms())).outcome

    assert (outcome.kind, outcome.reason) == (OutcomeKind.FAILED, "conflict")


def test_done_is_what_the_answer_shows(catalog: Any, table: Table) -> None:
    reading = read(table, ids(table)[:3], now_ms())

    def pretends(*_: Any) -> Any:
        now = load(catalog)
        return CommitTableResponse(metadata=now.metadata, metadata_location=now.metadata_location)

    outcome = expired(FaultyCatalog(catalog, pretends), reading).outcome

    assert (outcome.kind, outcome.reason) == (OutcomeKind.FAILED, "refused")
    assert set(reading.snapshots) <= set(ids(table))


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


def test_a_look_that_takes_long_is_taken_again_and_then_given_up(catalog: Any, table: Table) -> None:
    reading, _ = waiting(catalog, table)
    marks = tuple(Mark(path, "job", Cause.EXPIRED, reading.seen) for path in reading.files)
    own = own_folders(table.metadata.location, (), "db", "t")
    wanted = Sweep(str(table.metadata.table_uuid), marks, {}, Neighbours(own))
    slow = iter(range(0, 1000 * 31, 31))  # whoever asks for ever comes to its end

    found = sweep(load(catalog), wanted, never, lambda: next(slow))

    assert found.gone == ()
    assert set(found.postponed) == set(reading.files)
    assert "quickly enough" in next(iter(found.postponed.values()))


# --- what branches and tags keep


def branch(table: Table, name: str, snapshot_id: int, **keeps: int) -> None:
    table.refresh().manage_snapshots().create_branch(snapshot_id, name, **keeps).commit()


@pytest.mark.parametrize(
    ("keeps", "left"),
    [
        ({}, [4]),
        ({"min_snapshots_to_keep": 3}, [2, 3, 4]),
        ({"max_snapshot_age_ms": 3_600_000}, [0, 1, 2, 3, 4]),
        ({"max_snapshot_age_ms": 1}, [4]),
    ],
)
def test_a_branch_keeps_of_its_history_what_it_states(
    catalog: Any, table: Table, keeps: Any, left: Any
) -> None:
    known = ids(table)
    branch(table, "audit", known[4], **keeps)
    reading = read(table.refresh(), known[:-1], now_ms() + 60_000)

    assert [place for place, one in enumerate(known[:5]) if one not in reading.snapshots] == left
    assert OutcomeKind.DONE is expired(catalog, reading).outcome.kind
    swept(table, reading)
    every_snapshot_reads(table)


def test_what_mains_own_ref_states_is_kept_too(catalog: Any, table: Table) -> None:
    known = ids(table)
    ref = SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=known[-1], min_snapshots_to_keep=4)
    catalog.commit_table(table, (), (ref,))

    assert still_going(load(catalog).metadata, known, now_ms()) == tuple(known[:-4])


def test_the_tables_properties_speak_for_a_branch_that_states_nothing(catalog: Any, table: Table) -> None:
    known = ids(table)
    branch(table, "audit", known[4])
    with table.refresh().transaction() as change:
        change.set_properties({"history.expire.min-snapshots-to-keep": "2"})

    going = still_going(load(catalog).metadata, known, now_ms())

    assert [place for place, one in enumerate(known[:5]) if one not in going] == [3, 4]


# --- REST catalogs, which drop refs and know no requirement of ours


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
