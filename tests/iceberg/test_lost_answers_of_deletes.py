"""A store deletes a file and its answer is lost: what was put under that name since is not deleted."""

from threading import Thread

import pytest

from isotherm.core.deletion import Cause, Mark, Neighbours, Seen, own_folders
from isotherm.core.quarantine import FOLDER
from isotherm.iceberg.remover import sweep
from isotherm.iceberg.restoring import restorable, restore
from isotherm.iceberg.stopping import never
from isotherm.iceberg.values import loaded_table
from isotherm.runtime.clock import now_ms
from isotherm.service.ports import Sweep
from support.lab import Lab, uuid_of
from support.object_store import Fault, object_store

OLD, NEW = b"the only copy", b"what a stream wrote since"


@pytest.fixture
def store():
    with object_store() as store:
        yield store


@pytest.fixture
def lab(tmp_path, store):
    lab = Lab(tmp_path, properties={**store.lake(tmp_path), "s3.request-timeout": "3"})
    yield lab
    lab.executor.stop()


def put(store, path, content):
    store.client().put_object(Bucket="lake", Key=path.removeprefix("s3://lake/"), Body=content)


def content(store, path):
    """None where there is none."""
    found = store.client().list_objects_v2(Bucket="lake", Prefix=path.removeprefix("s3://lake/"))
    if not found.get("KeyCount"):
        return None
    return store.client().get_object(Bucket="lake", Key=path.removeprefix("s3://lake/"))["Body"].read()


@pytest.mark.parametrize("to_quarantine", [True, False])
def test_what_was_written_under_the_name_since_stays(store, lab, to_quarantine):
    table = lab.create()
    lab.append(table, 1)
    home = table.refresh().metadata.location
    path = f"{home}/data/a.parquet"
    put(store, path, OLD)
    before_ms = now_ms() + 60_000
    wanted = Sweep(
        uuid_of(table),
        (Mark(path, "j1", Cause.ORPHAN, Seen(1, 1)),),
        {},
        Neighbours(own_folders(home, (), ("shop", "orders"))),
        {Cause.ORPHAN: before_ms, Cause.OLD_VERSION: before_ms},
        home=home,
        to_quarantine=to_quarantine,
    )
    fault, done = Fault("DELETE", "/data/a.parquet", 1, "held"), []
    store.faults.append(fault)
    sweeping = Thread(target=lambda: done.append(sweep(table, wanted, never)))
    sweeping.start()
    fault.wait()
    assert content(store, path) is None
    if to_quarantine:
        loaded = loaded_table(table, "shop.orders")
        result = restore(loaded, restorable(loaded, [home]))
        assert {*result.restored, *result.there} == {path}
    else:
        put(store, path, NEW)
    sweeping.join(60)

    (swept,) = done
    assert content(store, path) == (OLD if to_quarantine else NEW)
    assert list(swept.postponed) == [path]
    assert (not swept.gone, not swept.moved) == (True, True)


def test_of_two_files_of_one_name_a_person_gets_the_one_that_the_table_names(store, lab):
    """The other one would give its readers other rows, without a word."""
    table = lab.create()
    lab.append(table, 1)
    (task,) = table.refresh().scan().plan_files()
    path, home = task.file.file_path, table.metadata.location
    rows, named = table.scan().to_arrow().num_rows, content(store, path)
    places = [f"{home}/{FOLDER}/{job}/{path.removeprefix(home + '/')}" for job in ("j1", "j2")]
    put(store, places[0], named)
    put(store, places[1], named + b"more")  # the newer one
    store.client().delete_object(Bucket="lake", Key=path.removeprefix("s3://lake/"))
    loaded = loaded_table(table, "shop.orders")

    result = restore(loaded, restorable(loaded, [home]))

    assert set(result.restored) == {path}
    assert set(result.failed) == {places[1]}
    assert f"the table names one of {len(named)} bytes there" in result.failed[places[1]]
    assert table.scan().to_arrow().num_rows == rows
