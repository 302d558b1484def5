"""What the catalog lends to workers, and what a table's own properties must not choose for them."""

from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from isotherm_ingest.tables.lake import Lake


def test_a_table_s_properties_choose_no_host_and_no_key_for_its_files(tmp_path):
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/warehouse",
        "s3.access-key-id": "ours",
    }
    catalog = load_catalog("lake", **properties)
    catalog.create_namespace("shop")
    theirs = {"s3.endpoint": "http://elsewhere", "s3.access-key-id": "theirs", "s3.region": "there"}
    catalog.create_table("shop.orders", Schema(NestedField(1, "id", LongType())), properties=theirs)
    lake = Lake("lake", properties)
    now = lake.load("shop.orders")
    assert now is not None
    assert now.table.io.properties["s3.endpoint"] == "http://elsewhere"  # PyIceberg mixes them in

    found = lake.io_properties(now)
    assert found["s3.access-key-id"] == "ours"
    assert not {"s3.endpoint", "s3.region"} & found.keys()
