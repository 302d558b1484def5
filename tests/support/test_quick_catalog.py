"""What the quick catalog answers is what PyIceberg's own would answer."""

import sqlite3

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType

from support.any_case import any_case
from support.quick_catalog import OF_PYICEBERG, QUESTIONS

PLACES = [
    (),
    "shop",
    ("shop",),
    "shop.eu",
    ("shop", "eu"),
    "s_op",
    "sh%",
    "shop.e",
    "empty",
    "nowhere",
    "a_b",
    " ",
]
NAMES = [
    "shop.orders",
    ("shop", "orders"),
    "shop.eu.orders",
    "shop.seen",
    "shop.nothing",
    "SHOP.Orders",
    "nowhere.orders",
    "orders",
]


@pytest.fixture(params=["tables and views", "tables alone", "names in any case"])
def catalog(request, tmp_path):
    """With namespaces in each other, one that is empty, names with wildcards of SQL, and a view where there can be."""
    place = {"uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
    catalog = load_catalog("lake", type="sql", **place)
    for namespace in ("shop", "shop.eu.north", "a_b", "a%c.d", "empty"):
        catalog.create_namespace(namespace)
    for name in ("shop.orders", "shop.events", "shop.eu.orders", "a_b.t", "a%c.d.t"):
        if not catalog.namespace_exists(name.rpartition(".")[0]):
            catalog.create_namespace(name.rpartition(".")[0])
        catalog.create_table(name, Schema())
    db = sqlite3.connect(tmp_path / "c.db")
    row = "SELECT {}, table_namespace, 'seen', metadata_location, NULL, {} FROM iceberg_tables WHERE table_name = 'events'"
    db.execute("INSERT INTO iceberg_tables " + row.format("catalog_name", "'VIEW'"))
    db.execute("INSERT INTO iceberg_tables " + row.format("'another lake'", "NULL"))
    if request.param == "tables alone":
        db.execute("DELETE FROM iceberg_tables WHERE iceberg_type = 'VIEW'")
        db.execute("ALTER TABLE iceberg_tables DROP COLUMN iceberg_type")
    db.commit()
    db.close()
    if request.param == "names in any case":
        any_case(tmp_path / "c.db")
    return load_catalog("lake", type="sql", **place)


def answer(question, catalog, *asked):
    """What a question is answered, whichever way that is."""
    try:
        found = question(catalog, *asked)
    except Exception as err:  # noqa: BLE001 (each of its errors is compared)
        return type(err), str(err)
    if isinstance(found, Table):
        return found.name(), found.metadata.model_dump_json(), found.metadata_location
    return sorted(found) if isinstance(found, list) else found


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda one: one.__name__)
def test_the_quick_catalog_answers_as_pyicebergs_own(catalog, question):
    asked = NAMES if question.__name__ == "load_table" else PLACES
    own = [answer(OF_PYICEBERG[question.__name__], catalog, one) for one in asked]
    quick = [answer(question, catalog, one) for one in asked]

    assert quick == own
    assert len({str(one) for one in own}) > 1


def test_an_update_leaves_metadata_that_somebody_has_as_it_was(catalog):
    table = catalog.load_table("shop.orders")
    had = table.metadata
    before = had.model_dump_json()
    with table.update_schema() as update:
        update.add_column("id", LongType())
    with table.transaction() as transaction:
        transaction.set_properties(owner="me")
    table.append(pa.table({"id": [1]}))
    with table.transaction() as transaction:
        transaction.remove_properties("owner")
    table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, "first").commit()

    assert had.model_dump_json() == before
    assert table.metadata.refs.keys() == {"main", "first"}
