"""Glue: a commit names what was written, whatever properties a table has, and leaves what people wrote into its entry."""

import boto3
import pyarrow as pa
import pyiceberg.catalog.glue
import pytest
from moto import mock_aws
from pyiceberg.exceptions import BadRequestError
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from isotherm.clients.catalog import open_catalog

SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "what", StringType(), doc="what the table itself says")
)


@pytest.fixture
def catalog(tmp_path, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with mock_aws():
        catalog = open_catalog(
            "lake", {"type": "glue", "glue.region": "us-east-1", "warehouse": f"file://{tmp_path}"}, 5
        )
        catalog.create_namespace("shop")
        yield catalog


def ids(catalog):
    return sorted(catalog.load_table("shop.orders").scan().to_arrow()["id"].to_pylist())


def append(catalog, number):
    rows = pa.table({"id": pa.array([number], pa.int64()), "what": pa.array(["x"], pa.string())})
    catalog.load_table("shop.orders").append(rows)


def entry():
    glue = boto3.client("glue", region_name="us-east-1")
    return glue.get_table(DatabaseName="shop", Name="orders")["Table"]


@pytest.mark.parametrize(
    "name", ["metadata_location", "previous_metadata_location", "table_type", "EXTERNAL"]
)
def test_a_property_that_has_the_name_of_glues_pointer_moves_nothing(catalog, name):
    """PyIceberg writes the properties of a table over the parameters that it has just set."""
    old = catalog.create_table("shop.orders", SCHEMA).metadata_location
    append(catalog, 1)
    with catalog.load_table("shop.orders").transaction() as change:
        change.set_properties({name: old, "color": "red"})
    before = catalog.load_table("shop.orders")
    append(catalog, 2)

    assert ids(catalog) == [1, 2]
    after = catalog.load_table("shop.orders")
    assert after.properties[name] == old
    parameters = entry()["Parameters"]
    assert parameters == {
        "metadata_location": after.metadata_location,
        "previous_metadata_location": before.metadata_location,
        "table_type": "ICEBERG",
        "color": "red",
    }


def test_an_entry_that_would_name_other_metadata_than_was_written_is_not_sent(catalog, monkeypatch):
    """However PyIceberg may put an entry together one day."""
    old = catalog.create_table("shop.orders", SCHEMA).metadata_location
    append(catalog, 1)
    made = pyiceberg.catalog.glue._construct_parameters  # noqa: SLF001 (a later version of it is played)
    monkeypatch.setattr(
        pyiceberg.catalog.glue,
        "_construct_parameters",
        lambda *given, **named: made(*given, **named) | {"metadata_location": old},
    )
    with pytest.raises(BadRequestError, match=r"nothing was sent: the entry of shop\.orders would name"):
        append(catalog, 2)

    assert ids(catalog) == [1]


def test_a_commit_leaves_in_an_entry_what_people_wrote_there(catalog):
    catalog.create_table("shop.orders", SCHEMA)
    written = {key: entry()[key] for key in ("Name", "TableType", "Parameters", "StorageDescriptor")}
    for column in written["StorageDescriptor"]["Columns"]:
        column["Comment"] = "curated"
    boto3.client("glue", region_name="us-east-1").update_table(
        DatabaseName="shop", TableInput=written | {"Description": "of the shop", "Owner": "billing"}
    )
    append(catalog, 1)

    kept = entry()
    assert (kept["Description"], kept["Owner"]) == ("of the shop", "billing")
    comments = [column["Comment"] for column in kept["StorageDescriptor"]["Columns"]]
    assert comments == ["curated", "what the table itself says"]
