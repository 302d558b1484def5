"""What a stream says of the tables that are made for it: what is refused before anything is read."""

import pytest

from isotherm.runtime.strict_model import ConfigError
from isotherm.runtime.yaml_reader import parse_yaml
from isotherm_ingest.failures import TableRefused
from isotherm_ingest.sort_field import sort_field
from isotherm_ingest.streams import Stream, StreamsConfig
from isotherm_ingest.tables.template import template_of

FILE = """\
pipeline: shop
catalog: {name: lake, properties: {type: sql, uri: "sqlite:////tmp/c.db", warehouse: "file:///tmp/w"}}
kafka: {properties: {bootstrap.servers: "localhost:9092"}}
streams:
  - topics: 'shop.*'
    table: "shop.{table}"
"""
DECLARED = "format: json, columns: {id: BIGINT, at: TIMESTAMP, x: DOUBLE, tags: ARRAY<STRING>}"


def refused(options: str) -> str:
    said = "".join(f"    {option}\n" for option in options.splitlines())
    with pytest.raises(ConfigError) as told:
        parse_yaml(FILE + said, "streams.yaml", StreamsConfig)
    return str(told.value)


def stream(**options):
    return Stream(topics="shop.*", table="shop.{table}", **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("sort_by: [id, ID desc]", "has the column 'id' twice"),
        ("sort_by: [hours(at)]", "'hours(at)' is no field of a sort order"),
        ("sort_by: [at up]", "'at up' is no field of a sort order"),
        ("sort_by: [at nulls]", "'at nulls' is no field of a sort order"),
        ("partition_by: [days(at), hours(AT)]", "'days(at)' and 'hours(AT)' cannot stand in one spec"),
        ("partition_by: [region, region]", "'region' and 'region' cannot stand in one spec"),
        ("partition_by: ['bucket(4, id)', 'bucket(8, id)']", "cannot stand in one spec"),
        ("partition_by: [hours(at), at_hour]", "'hours(at)' and 'at_hour' cannot stand in one spec"),
        ("format_version: 1", "format_version"),
        ("format_version: 3\nproperties: {format-version: '2'}", "say it once"),
        ("properties: {format-version: '1'}", "ingest makes tables of 2 and 3"),
        ("properties: {write.format.default: orc}", "ingest writes Parquet"),
        ("properties: {write.location-provider.impl: java.util.Timer}", "names code that is to run here"),
        ("properties: {commit.retry.num-retries: many}", "has no number where one is due"),
        ("mode: changelog\nidentifier_fields: true", "`identifier_fields` is of a mirror"),
        ("names: {total: [amount]}\nsort_by: [amount]", "`sort_by` names 'amount', which `names` has"),
        ("names: {seen: [at]}\npartition_by: [days(at)]", "`partition_by` names 'at', which `names` has"),
    ],
)
def test_a_bad_template_is_refused_before_anything_is_read(options, words):
    assert words in refused(options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sort_by": ["nothing"]}, "`sort_by` names 'nothing', which is none of `columns`"),
        ({"sort_by": ["_ts"]}, "`sort_by` names '_ts', which is none of `columns`"),
        ({"sort_by": ["Tags"]}, "`sort_by` cannot have 'Tags', which is ARRAY<STRING>"),
        ({"key": ["x"], "identifier_fields": True}, "`identifier_fields` cannot have 'x', which is DOUBLE"),
        ({"names": {"labels": ["tags"]}, "sort_by": ["labels"]}, "`sort_by` cannot have 'labels', which is"),
    ],
)
def test_of_declared_columns_more_is_known(options, words):
    declared = {"id": "BIGINT", "at": "TIMESTAMP", "x": "DOUBLE", "tags": "ARRAY<STRING>"}
    with pytest.raises(ValueError, match=r"sort_by|identifier_fields") as told:
        stream(format="json", columns=declared, **options)

    assert words in str(told.value)


@pytest.mark.parametrize(
    "options",
    [
        {"partition_by": ["days(at)", "days(seen)", "bucket(4, id)", "truncate(4, name)", "region", "id"]},
        {"sort_by": ["region", "at desc", "id nulls last"], "partition_by": ["region"]},
        {"format_version": 3, "properties": {"format-version": "3"}},
        {"properties": {"format-version": "3", "commit.retry.num-retries": "4"}},
        {"names": {"amount": ["amount", "total"]}, "sort_by": ["amount"]},
        {"mode": "changelog", "sort_by": ["_TS", "_offset"], "format": "json", "columns": {"id": "INT"}},
        {"key": ["x"], "sort_by": ["x"], "format": "json", "columns": {"x": "DOUBLE"}},
    ],
)
def test_a_good_one_is_not(options):
    assert stream(**options).table == "shop.{table}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("region", ("region", "ASC", "FIRST")),
        ("at DESC", ("at", "DESC", "LAST")),
        (" at  desc  Nulls first ", ("at", "DESC", "FIRST")),
        ("at nulls last", ("at", "ASC", "LAST")),
    ],
)
def test_a_field_of_a_sort_order_is_what_iceberg_takes_it_for(text, expected):
    field = sort_field(text)

    assert expected == (field.column, field.direction, field.nulls)


def test_what_a_stream_says_of_a_property_comes_before_what_ingest_says():
    trims = "write.metadata.delete-after-commit.enabled"
    own = stream().table_properties

    assert own["format-version"] == "2"
    assert own[trims] == "true"
    assert own["write.target-file-size-bytes"] == "134217728"
    assert own["write.merge.mode"] == "merge-on-read"
    assert {**own, trims: "false"} == stream(properties={trims: "false"}).table_properties
    assert {**own, "format-version": "3"} == stream(format_version=3).table_properties
    assert {"write.merge.mode"} & stream(mode="changelog").table_properties.keys() == set()


COLUMNS = {"id": "BIGINT", "At": "TIMESTAMP", "x": "DOUBLE", "tags": "ARRAY<STRING>"}


def test_columns_are_named_as_the_table_writes_them_and_a_key_is_required():
    made_of = template_of(
        "shop.orders", stream(sort_by=["at desc", "ID"], identifier_fields=True), ["ID"], COLUMNS
    )

    assert made_of.order == ["`At` DESC NULLS LAST", "`id` ASC NULLS FIRST"]
    assert made_of.columns == {**COLUMNS, "id": "BIGINT NOT NULL"}
    assert made_of.identifiers == ["id"]
    assert template_of("shop.orders", stream(), ["id"], COLUMNS).columns == COLUMNS


@pytest.mark.parametrize(
    ("options", "key", "words"),
    [
        ({"sort_by": ["gone"]}, ["id"], "sort_by of shop.orders names 'gone', which the table does not have"),
        ({"sort_by": ["tags"]}, ["id"], "sort_by of shop.orders names 'tags', which is ARRAY<STRING>"),
        ({"identifier_fields": True}, ["x"], "identifier_fields of shop.orders names 'x', which is DOUBLE"),
    ],
)
def test_what_only_the_first_message_tells_refuses_the_table_before_it_is_made(options, key, words):
    with pytest.raises(TableRefused, match=words):
        template_of("shop.orders", stream(**options), key, COLUMNS)
