"""A person has files put back from quarantine, found by listing alone."""

import pytest

from isotherm.core.quarantine import FOLDER
from isotherm.iceberg.restoring import restorable, restore
from isotherm.iceberg.values import loaded_table
from isotherm.runtime.clock import now_ms
from support.lab import Lab
from support.object_store import object_store

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

    restored, failed = restore(loaded, files)

    assert set(restored) == {f"{home}/data/a.parquet", f"{home}/metadata/x/m.avro"}
    assert set(failed) == {f"{home}/{FOLDER}/j1/data/taken.parquet"}
    assert content(table, f"{home}/data/taken.parquet") == CONTENT
    assert all(at_ms > now_ms() - HOUR_MS for at_ms in restored.values())
    assert [one.origin for one in restorable(loaded, [home])] == [f"{home}/data/taken.parquet"]


@pytest.mark.parametrize("other", ["s3a://lake", "s3n://lake", "S3://lake"])
def test_a_place_that_has_two_spellings_is_listed_once(table, other):
    home = table.metadata.location
    put(table, f"{FOLDER}/j1/data/a.parquet", f"{FOLDER}/j1/data/b.parquet")
    homes = [home, home + "/", home.replace("s3://lake", other)]

    files = restorable(loaded_table(table, "shop.orders"), homes)
    assert len(files) == 2
    restored, failed = restore(loaded_table(table, "shop.orders"), files)
    assert (len(restored), failed) == (2, {})
