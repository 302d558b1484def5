"""What messages would do to a table, told before any driver does it."""

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, IntegerType, NestedField, StringType

from isotherm.runtime.yaml_reader import parse_yaml
from isotherm_ingest.commands.table_fit import GroupFit, table_fit
from isotherm_ingest.decode.debezium_schema import ChangeSchema, Column
from isotherm_ingest.decode.declared_types import declared
from isotherm_ingest.streams import StreamsConfig
from isotherm_ingest.tables.definition import KEY_PROPERTY, MODE_PROPERTY, SOURCE_PROPERTY
from isotherm_ingest.tables.lake import Lake
from isotherm_ingest.tables.portion import Group
from isotherm_ingest.tables.source_names import COLUMNS_PROPERTY

TOPIC = "shop.orders"


def stream(more=""):
    text = f"""
pipeline: shop
catalog: {{name: lake}}
kafka: {{properties: {{bootstrap.servers: unused}}}}
streams: [{{topics: "shop.*", table: "shop.{{table}}"{more}}}]
"""
    return parse_yaml(text, "streams.yaml", StreamsConfig).streams[0]


def group(number, topic=TOPIC, key=("id",), **columns):
    made = tuple(Column(name, declared(kind)[0]) for name, kind in columns.items())
    return Group(topic, number, ChangeSchema(made, key, "", "orders", frozenset(), ("after",)))


@pytest.fixture
def now(tmp_path):
    """A mirror with a row, and columns id, name, price."""
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
    lake = Lake("lake", properties)
    lake.catalog.create_namespace("shop")
    schema = Schema(
        NestedField(1, "id", IntegerType()),
        NestedField(2, "Name", StringType()),
        NestedField(3, "price", DoubleType()),
    )
    said = {MODE_PROPERTY: "mirror", KEY_PROPERTY: '["id"]', SOURCE_PROPERTY: TOPIC}
    table = lake.catalog.create_table("shop.orders", schema, properties=said)
    table.append(pa.table({"id": pa.array([1], pa.int32()), "Name": ["a"], "price": [1.0]}))

    def loaded(change=lambda _: None):
        with lake.catalog.load_table("shop.orders").update_schema() as update:
            change(update)
        return lake.load("shop.orders")

    return loaded


def fit(now, *groups, more=""):
    return table_fit("shop.orders", now, stream(more), groups, "shop")


def test_what_would_be_added_widened_and_refused_is_told_in_the_order_in_which_it_comes(now):
    found = fit(
        now(),
        group(1, id="INT", name="STRING", price="FLOAT"),
        group(2, id="BIGINT", city="INT"),
        group(3, id="BIGINT", city="BIGINT"),
        group(4, id="INT", city="STRING"),
        group(5, id="INT", price="STRING"),
    )

    assert (found.name, found.mode, found.is_there, found.key, found.refused) == (
        "shop.orders",
        "mirror",
        True,
        ("id",),
        "",
    )
    assert found.columns is None
    assert found.groups == (
        GroupFit(TOPIC),
        GroupFit(TOPIC, ("ADD COLUMNS (`city` INT)", "ALTER COLUMN `id` TYPE BIGINT")),
        GroupFit(TOPIC, ("ALTER COLUMN `city` TYPE BIGINT",)),
        GroupFit(TOPIC, refused="column city is BIGINT in the table and STRING in the message"),
        GroupFit(TOPIC, refused="column price is DOUBLE in the table and STRING in the message"),
    )


def test_a_refused_schema_brings_nothing(now):
    found = fit(now(), group(1, id="INT", price="STRING", city="INT"), group(2, id="INT", city="STRING"))

    assert bool(found.groups[0].refused)
    assert found.groups[1] == GroupFit(TOPIC, ("ADD COLUMNS (`city` STRING)",))


def test_a_column_that_a_stream_gives_another_name_is_renamed_first_and_known_by_both(now):
    found = fit(
        now(),
        group(1, id="INT", name="STRING"),
        group(2, id="INT", name="INT"),
        more=", names: {title: [name]}",
    )

    assert found.groups == (
        GroupFit(TOPIC, ("RENAME COLUMN `Name` TO `title`",)),
        GroupFit(TOPIC, refused="column title is STRING in the table and INT in the message"),
    )


def test_where_a_stream_says_so_misfits_get_a_column_beside(now):
    found = fit(
        now(), *[group(number, id="INT", price="STRING") for number in (1, 2)], more=", misfits: column"
    )
    doc = "ingest: of column 3, what does not fit into it"
    added = f"ADD COLUMNS (`price__string` STRING COMMENT '{doc}')"

    assert found.groups == (GroupFit(TOPIC, (added,)), GroupFit(TOPIC))
    renamed = now(lambda one: one.add_column("x", StringType(), doc=doc).rename_column("price", "cost"))
    again = fit(renamed, group(1, id="INT", cost="STRING"), more=", misfits: column")
    assert again.groups == (GroupFit(TOPIC),)


def test_columns_are_found_by_the_ids_that_the_table_keeps(now):
    """Names are swapped in the lake: a number still goes where the price is."""
    with now().table.transaction() as change:
        change.set_properties({COLUMNS_PROPERTY: '{"id":1,"name":2,"price":3}'})
    for old, new in (("Name", "tmp"), ("price", "Name"), ("tmp", "price")):
        there = now(lambda one, old=old, new=new: one.rename_column(old, new))
    found = fit(there, group(1, id="INT", name="STRING", price="DOUBLE"), group(2, id="INT", name="INT"))

    assert found.groups == (
        GroupFit(TOPIC),
        GroupFit(TOPIC, refused="column price is STRING in the table and INT in the message"),
    )


@pytest.mark.parametrize(
    ("change", "groups", "more", "why"),
    [
        (lambda one: one.delete_column("id"), [group(1, id="INT")], "", "no column 'id' any more"),
        (lambda _: None, [group(1, id="INT", name="STRING", key=("id", "name"))], "", "is kept by"),
        (lambda _: None, [group(1, id="INT")], ", mode: changelog", "is a mirror"),
        (lambda _: None, [group(1, id="INT", key=())], ", key: [no]", "key column 'no'"),
        (lambda _: None, [group(1, id="INT")], ", event_time: at", "event_time 'at'"),
    ],
    ids=["key dropped", "another key", "another mode", "no such key", "no such time"],
)
def test_a_table_that_a_driver_would_refuse_is_refused(now, change, groups, more, why):
    found = fit(now(change), *groups, more=more)

    assert why in found.refused
    assert found.groups == ()


def test_messages_of_another_topic_than_a_mirror_s_are_refused(now):
    found = fit(now(), group(1, id="INT"), group(2, "shop.other", id="INT"))
    (other,) = (one for one in found.groups if one.topic == "shop.other")

    assert "other_table" in other.refused
    assert GroupFit(TOPIC) in found.groups


def test_a_table_that_is_not_there_has_the_columns_of_all_that_comes(now):
    found = fit(None, group(1, id="INT", name="STRING"), group(2, id="INT", NAME="STRING", city="INT"))

    assert (found.is_there, found.columns) == (False, {"id": "INT", "name": "STRING", "city": "INT"})
    assert found.groups == (GroupFit(TOPIC), GroupFit(TOPIC))
    log = fit(None, group(1, id="INT"), more=", mode: changelog")
    assert set(log.columns or ()) == {"id", "_op", "_ts", "_lsn", "_topic", "_topic_partition", "_offset"}


@pytest.mark.parametrize(
    ("more", "columns", "why"),
    [
        (', partition_by: ["days(at)"]', {"id": "INT"}, "partition_by names 'at'"),
        (", sort_by: [at]", {"id": "INT"}, "names 'at', which the table does not have"),
        ("", {"id": "INT", "_pos": "INT"}, "one of Iceberg's own"),
        (", mode: changelog", {"_op": "STRING"}, "a changelog's own"),
    ],
)
def test_a_table_that_cannot_be_made_is_refused(more, columns, why):
    assert why in fit(None, group(1, **columns), more=more).refused
