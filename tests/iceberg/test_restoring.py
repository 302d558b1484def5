"""A person has files put back from quarantine, found by listing alone."""

import io as streams

import pytest

from isotherm.clients.storage import RetryingFileIO
from isotherm.core.quarantine import FOLDER
from isotherm.iceberg.restoring import NAMED_THERE, restorable, restore
from isotherm.iceberg.values import loaded_table
from isotherm.runtime.clock import now_ms
from support.lab import Lab
from support.object_store import Fault, object_store

HOUR_MS = 3_600_000
CONTENT = b"nobody knows me"


def put(table, *names, content=CONTENT):
    for name in names:
        with table.io.new_output(f"{table.metadata.location}/{name}").create() as stream:
            stream.write(content)


def content(table, path):
    with table.io.new_input(path).open() as stream:
        return bytes(stream.read())


@pytest.fixture
def table(tmp_path):
    with object_store() as store:
        lab = Lab(tmp_path, properties=store.lake(tmp_path))
        yield lab.create()
        lab.executor.stop()


def test_all_comes_back_and_nothing_is_written_over(table):
    home = table.metadata.location
    put(table, "data/taken.parquet")
    put(table, f"{FOLDER}/j1/data/taken.parquet", content=b"another")
    put(
        table,
        f"{FOLDER}/j1/data/a.parquet",
        f"{FOLDER}/j1/metadata/x/m.avro",
        f"{FOLDER}/j1/not_ours.parquet",
    )
    loaded = loaded_table(table, "shop.orders")
    files = restorable(loaded, [home])
    assert {one.origin for one in files} == {
        f"{home}/data/taken.parquet",
        f"{home}/data/a.parquet",
        f"{home}/metadata/x/m.avro",
    }

    result = restore(loaded, files)

    assert set(result.restored) == {f"{home}/data/a.parquet", f"{home}/metadata/x/m.avro"}
    assert set(result.failed) == {f"{home}/{FOLDER}/j1/data/taken.parquet"}
    assert content(table, f"{home}/data/taken.parquet") == CONTENT
    assert all(at_ms > now_ms() - HOUR_MS for at_ms in result.restored.values())
    assert [one.origin for one in restorable(loaded, [home])] == [f"{home}/data/taken.parquet"]


@pytest.mark.parametrize("other", ["s3a://lake", "s3n://lake", "S3://lake"])
def test_a_place_that_has_two_spellings_is_listed_once(table, other):
    home = table.metadata.location
    put(table, f"{FOLDER}/j1/data/a.parquet", f"{FOLDER}/j1/data/b.parquet")
    homes = [home, home + "/", home.replace("s3://lake", other)]

    files = restorable(loaded_table(table, "shop.orders"), homes)
    assert len(files) == 2
    result = restore(loaded_table(table, "shop.orders"), files)
    assert (len(result.restored), result.there, result.failed) == (2, {}, {})


def test_what_is_there_already_is_not_said_to_be_restored(table):
    """The daemon may be about to take it away: it copies a file, and then takes the original."""
    home = table.metadata.location
    put(table, "data/a.parquet", f"{FOLDER}/j1/data/a.parquet")
    loaded = loaded_table(table, "shop.orders")

    result = restore(loaded, restorable(loaded, [home]))

    assert (result.restored, set(result.there), result.failed) == ({}, {f"{home}/data/a.parquet"}, {})
    assert content(table, f"{home}/{FOLDER}/j1/data/a.parquet") == CONTENT


class TakesAgain(RetryingFileIO):
    """A client beside whom the daemon takes a file away, while its copy is compared with it."""

    taken = ""

    def new_input(self, location):
        file = super().new_input(location)
        if location == self.taken and file.exists():
            whole, real = b"", file.open
            with real() as stream:
                whole = stream.read()
            file.open = lambda *_: self.delete(location) or streams.BytesIO(whole)
        return file


def test_what_the_daemon_takes_away_meanwhile_is_not_said_to_be_there(table):
    home = table.metadata.location
    put(table, "data/a.parquet", f"{FOLDER}/j1/data/a.parquet")
    files = restorable(loaded_table(table, "shop.orders"), [home])
    table.io = TakesAgain(table.io.properties)
    table.io.taken = f"{home}/data/a.parquet"

    result = restore(loaded_table(table, "shop.orders"), files)

    assert (result.restored, result.there) == ({}, {})
    assert "taken away again just now" in result.failed[f"{home}/{FOLDER}/j1/data/a.parquet"]
    assert content(table, f"{home}/{FOLDER}/j1/data/a.parquet") == CONTENT


def test_where_the_newest_cannot_be_moved_no_older_one_comes_in_its_place(tmp_path):
    with object_store() as store:
        lab = Lab(tmp_path, properties=store.lake(tmp_path))
        table = lab.create()
        home = table.metadata.location
        put(table, f"{FOLDER}/j1/data/a.parquet", content=b"older")
        put(table, f"{FOLDER}/j2/data/a.parquet", content=b"newer")
        store.faults.append(Fault("PUT", "/data/a.parquet", 1, "403"))
        loaded = loaded_table(table, "shop.orders")

        result = restore(loaded, restorable(loaded, [home]))

        assert (result.restored, len(result.failed)) == ({}, 2)
        assert not table.io.new_input(f"{home}/data/a.parquet").exists()
        assert set(restore(loaded, restorable(loaded, [home])).restored) == {f"{home}/data/a.parquet"}
        assert content(table, f"{home}/data/a.parquet") == b"newer"
        lab.executor.stop()


def test_what_the_table_names_where_it_lies_in_quarantine_stays_there(tmp_path):
    """Somebody has added the file by its place in quarantine: moved, it would be missing."""
    lab = Lab(tmp_path)
    table = lab.create()
    lab.append(table, 1)
    (task,) = table.refresh().scan().plan_files()
    home, name = table.metadata.location, task.file.file_path.rpartition("/")[2]
    with table.io.new_input(task.file.file_path).open() as stream:
        put(table, f"{FOLDER}/j1/data/{name}", content=bytes(stream.read()))
    place = f"{home}/{FOLDER}/j1/data/{name}"
    table.add_files([place])
    rows = len(table.refresh().scan().to_arrow())

    result = restore(
        loaded_table(table, "shop.orders"), restorable(loaded_table(table, "shop.orders"), [home])
    )

    assert (result.restored, result.failed) == ({}, {place: NAMED_THERE})
    assert len(table.refresh().scan().to_arrow()) == rows
    lab.executor.stop()
