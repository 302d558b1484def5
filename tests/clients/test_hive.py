"""A Hive metastore is asked on a connection for each use: threads do not get one another's answers."""

from threading import Barrier, Event, Lock, Thread

import pytest

from isotherm.clients.hive import CONNECTIONS
from isotherm.iceberg.catalog import IcebergCatalog, connect
from isotherm.runtime.config import CatalogConfig
from support.lab import SCHEMA
from support.metastore import Metastore, properties_of


@pytest.fixture
def metastore(tmp_path):
    """A metastore with two tables, and a catalog on it."""
    metastore = Metastore()
    with properties_of(metastore, tmp_path) as properties:
        catalog = connect(CatalogConfig(properties=properties))
        catalog.create_namespace("shop", {"location": f"file://{tmp_path}/shop"})
        uuids = {
            name: str(catalog.create_table(name, SCHEMA).metadata.table_uuid)
            for name in ("shop.orders", "shop.items")
        }
        yield metastore, IcebergCatalog(catalog), uuids


def test_a_thread_is_answered_what_it_has_asked_whoever_asks_beside_it(metastore):
    """The one that asked first has its answer, and leaves, while the other waits for its own."""
    metastore, catalog, uuids = metastore
    first_asked, second_asked, first_left = Event(), Event(), Event()

    def while_reading(name):
        if name == "orders":
            first_asked.set()
            assert second_asked.wait(30)
        else:
            second_asked.set()
            assert first_left.wait(30)

    metastore.while_reading = while_reading
    found = {}

    def first():
        found["shop.orders"] = catalog.lies("shop.orders").uuid
        first_left.set()

    thread = Thread(target=first)
    thread.start()
    assert first_asked.wait(30)
    found["shop.items"] = catalog.lies("shop.items").uuid
    thread.join()

    assert uuids == found
    assert metastore.wait_until_nobody_is_connected()


def test_no_more_connections_than_so_many_are_open_at_once(metastore):
    metastore, catalog, uuids = metastore
    crowded, lock, asking, found = Event(), Lock(), [0, 0], []
    # All of them wait for their answers, and for as long as this nobody else may come.
    full = Barrier(CONNECTIONS, action=lambda: crowded.wait(0.1), timeout=30)

    def while_reading(_):
        with lock:
            asking[0] += 1
            asking[1] = max(asking)
            if asking[0] > CONNECTIONS:
                crowded.set()
        full.wait()
        with lock:
            asking[0] -= 1

    metastore.while_reading = while_reading
    threads = [
        Thread(target=lambda: found.append(catalog.lies("shop.orders").uuid)) for _ in range(2 * CONNECTIONS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [uuids["shop.orders"]] * len(threads)
    assert asking == [0, CONNECTIONS]
    assert metastore.wait_until_nobody_is_connected()


def test_what_is_refused_or_missing_leaves_no_connection_open(metastore):
    metastore, catalog, _ = metastore
    for _ in range(2 * CONNECTIONS):
        with pytest.raises(Exception, match="does not have it"):
            catalog.lies("shop.nothing")

    assert metastore.wait_until_nobody_is_connected()
