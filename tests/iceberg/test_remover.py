"""Deletion of what an expiry left: the last proof, what was registered again in the grace, and what is in the way."""

from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from pyiceberg.table import Table

from isotherm.clients.manifests.reading import Manifest, read_manifest_list
from isotherm.contract.paths import normalised
from isotherm.core.deletion import Cause, Mark, Neighbours, own_folders
from isotherm.core.model.jobs import OutcomeKind
from isotherm.iceberg.expiry import read
from isotherm.iceberg.manifests.reachability import left_behind, reached
from isotherm.iceberg.remover import deleted, sweep
from isotherm.iceberg.stopping import Stopped, never
from isotherm.runtime.clock import now_ms
from isotherm.service.ports import ExpiryReading, Sweep
from support.expiring import (
    NAME,
    SCHEMA,
    append,
    contents,
    every_snapshot_reads,
    expired,
    ids,
    load,
    rows,
    swept,
    swept_as_loaded,
)
from support.faults import FaultyCatalog


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


def test_of_an_orphan_that_is_not_there_nothing_is_asked_because_somebody_may_put_it_back_just_now(
    table: Table,
) -> None:
    path, taken = f"{table.metadata.location}/data/a.parquet", list[str]()

    def take(_io: Any, path: str, _is_stopped: Any) -> None:
        taken.append(path)

    assert deleted(table.io, [path], before_ms={path: now_ms()}, take=take) == ([path], {})
    assert taken == []
    # One that goes into quarantine may lie there already, and nobody has written that down.
    assert deleted(table.io, [path], before_ms={path: now_ms()}, take=take, moves={path}) == ([path], {})
    assert taken == [path]


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
            Neighbours(own_folders(table.metadata.location, (), ())),
        ),
        stop,
    )
    assert len(found.gone) < len(reading.files)
    assert not found.kept


def test_a_look_that_takes_long_is_taken_again_and_then_given_up(catalog: Any, table: Table) -> None:
    reading, _ = waiting(catalog, table)
    marks = tuple(Mark(path, "job", Cause.EXPIRED, reading.seen) for path in reading.files)
    own = own_folders(table.metadata.location, (), ("db", "t"))
    wanted = Sweep(str(table.metadata.table_uuid), marks, {}, Neighbours(own))
    slow = iter(range(0, 1000 * 31, 31))  # whoever asks for ever comes to its end

    found = sweep(load(catalog), wanted, never, lambda: next(slow))

    assert found.gone == ()
    assert set(found.postponed) == set(reading.files)
    assert "quickly enough" in next(iter(found.postponed.values()))


def test_a_proof_that_cannot_be_read_postpones_everything(catalog: Any, table: Table) -> None:
    reading = read(table, ids(table)[:3], now_ms())
    expired(catalog, reading)
    append(table, 55)
    Path(normalised(table.refresh().metadata.snapshots[-1].manifest_list)).unlink()

    found = swept(table, reading)

    assert (found.gone, set(found.postponed)) == ((), set(reading.files))
