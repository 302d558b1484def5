"""Of what is wrong in metadata a thousand times, once is told; what is right is read as PyIceberg reads it."""

import json

import pydantic
import pyiceberg.exceptions
import pytest
from pyiceberg.catalog.rest import ListNamespaceResponse, ListTablesResponse, TableResponse
from pyiceberg.table import CommitTableResponse
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.table.name_mapping import parse_mapping_from_json

from isotherm.clients.catalog import open_catalog

MANY = 1000


@pytest.fixture(autouse=True)
def _opened():
    """Whoever has opened a catalog reads so."""
    open_catalog("any", {"type": "in-memory", "warehouse": "memory://"}, 1)


def column(number, kind="long", name="c{}"):
    return {"id": number, "name": name.format(number), "required": False, "type": kind}


def struct(*fields):
    return {"type": "struct", "fields": list(fields)}


def metadata(version=2, columns=(), **more):
    """Metadata of a table that may have all that a table has, but for what is said here."""
    schema = {**struct(column(1), *columns), "schema-id": 0}
    return {
        "format-version": version, "table-uuid": "621b8003-3781-42b7-b5e0-9ee392a59d19", "location": "s3://lake/a",
        "last-sequence-number": 1, "last-updated-ms": 1, "last-column-id": 1, "schemas": [schema], "schema": schema,
        "current-schema-id": 0, "partition-specs": [{"spec-id": 0, "fields": []}], "default-spec-id": 0,
        "last-partition-id": 999, "sort-orders": [{"order-id": 0, "fields": []}], "default-sort-order-id": 0,
        **{name.replace("_", "-"): value for name, value in more.items()},
    }  # fmt: skip


STATISTICS = {
    "snapshot-id": 1,
    "statistics-path": "s3://lake/a",
    "file-size-in-bytes": 1,
    "file-footer-size-in-bytes": 1,
}
BLOB = {"type": "deletion-vector-v1", "snapshot-id": 1, "sequence-number": 1, "fields": [1]}
NOTHING = [0] * MANY
NAMED_NOTHING = {str(number): 0 for number in range(MANY)}

WRONG = {
    "snapshots": metadata(snapshots=[{}] * MANY),
    "numbers that are none": metadata(snapshot_log=[{"snapshot-id": "a", "timestamp-ms": []}] * MANY),
    "snapshot log": metadata(snapshot_log=NOTHING),
    "metadata log": metadata(metadata_log=NOTHING),
    "refs": metadata(refs=NAMED_NOTHING),
    "statistics": metadata(statistics=[{}] * MANY),
    "statistics of partitions": metadata(partition_statistics=NOTHING),
    "blobs": metadata(statistics=[{**STATISTICS, "blob-metadata": NOTHING}]),
    "fields of a blob": metadata(statistics=[{**STATISTICS, "blob-metadata": [{**BLOB, "fields": [""] * MANY}]}]),
    "properties of a blob": metadata(
        statistics=[{**STATISTICS, "blob-metadata": [{**BLOB, "properties": NAMED_NOTHING}]}]
    ),
    "schemas": metadata(schemas=NOTHING),
    "schemas of format 1": metadata(1, schemas=NOTHING),
    "schemas of format 3": metadata(3, schemas=NOTHING),
    "columns": metadata(columns=NOTHING),
    "columns of a struct": metadata(columns=[column(2, struct(*NOTHING))]),
    "columns of a struct of a map": metadata(
        columns=[
            column(2, {"type": "map", "key-id": 3, "key": "int", "value-id": 4, "value": struct(*NOTHING), "value-required": True})
        ]
    ),
    "key columns": metadata(schemas=[{**struct(column(1)), "schema-id": 0, "identifier-field-ids": ["a"] * MANY}]),
    "partition specs": metadata(partition_specs=NOTHING),
    "partition fields": metadata(partition_specs=[{"spec-id": 0, "fields": NOTHING}]),
    "sort orders": metadata(sort_orders=NOTHING),
    "sort fields": metadata(sort_orders=[{"order-id": 1, "fields": [{}] * MANY}]),
}  # fmt: skip


def complaint(read, what):
    with pytest.raises((pydantic.ValidationError, pyiceberg.exceptions.ValidationError)) as raised:
        read(json.dumps(what))
    return raised.value if isinstance(raised.value, pydantic.ValidationError) else raised.value.__cause__


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_thousand_faults_of_one_kind_are_told_as_those_of_the_first(wrong):
    answer = {"metadata": wrong, "metadata-location": "s3://lake/a/metadata/1.metadata.json"}
    for read, what in (
        (TableMetadataUtil.parse_raw, wrong),
        (TableResponse.model_validate_json, answer),
        (CommitTableResponse.model_validate_json, answer),
    ):
        error = complaint(read, what)
        assert error.error_count() <= 8
        assert len(str(error)) < 3000


def test_the_first_of_many_wrong_refs_is_named():
    refs = {
        "main": {"snapshot-id": 1, "type": "branch"},
        "t": {"snapshot-id": "a", "type": "tag"},
        **NAMED_NOTHING,
    }

    assert "t.snapshot-id: Input should be a valid integer" in str(complaint(TableMetadataUtil.parse_raw, metadata(refs=refs)))  # fmt: skip


@pytest.mark.parametrize(
    ("read", "wrong"),
    [
        (ListTablesResponse.model_validate_json, {"identifiers": NOTHING}),
        (ListNamespaceResponse.model_validate_json, {"namespaces": [NOTHING]}),
        (parse_mapping_from_json, [{"field-id": 1, "names": NOTHING}]),
    ],
)
def test_so_are_those_of_names(read, wrong):
    assert complaint(read, wrong).error_count() <= 3


def test_what_is_right_is_read():
    full = metadata(
        columns=[column(2, struct(column(3), column(4, {"type": "list", "element-id": 5, "element": "int", "element-required": True})))],
        properties={"a": "b", "number": 7, "yes": True},
        refs={"main": {"snapshot-id": 1, "type": "branch"}, "t": {"snapshot-id": 1, "type": "tag", "max-ref-age-ms": 9}},
        snapshots=[{"snapshot-id": 1, "timestamp-ms": 1, "manifest-list": "s3://lake/a/1", "summary": {"operation": "append", "x": "y"}}],
        current_snapshot_id=1,
        statistics=[{**STATISTICS, "blob-metadata": [{**BLOB, "properties": {"a": "b"}}, BLOB]}],
    )  # fmt: skip
    read = TableMetadataUtil.parse_raw(json.dumps(full))

    assert read.properties == {"a": "b", "number": "7", "yes": "true"}
    assert {name: ref.snapshot_id for name, ref in read.refs.items()} == {"main": 1, "t": 1}
    assert read.schema().find_field("c2.c4.element").field_id == 5
    assert [blob.properties for blob in read.statistics[0].blob_metadata] == [{"a": "b"}, None]
    assert read.snapshots[0].summary["x"] == "y"


def chain(depth, name):
    """A struct in a struct in a struct …, with one column in the last."""
    return column(depth, struct(chain(depth - 1, name)), name) if depth > 2 else column(2, name=name)


@pytest.mark.parametrize(
    "columns",
    [
        [column(2, struct(*(column(number) for number in range(3, MANY))), name="x" * 100_000)],
        [chain(60, name="{}" + "x" * 1000)],
        [
            column(2, {"type": "map", "key-id": 3, "key": "int", "value-id": 4, "value-required": True,
                       "value": struct(*(column(number) for number in range(5, MANY)))}, name="x" * 1000)
        ],
    ],
    ids=["one name", "a chain", "a map"],
)  # fmt: skip
def test_full_names_of_columns_do_not_multiply(columns):
    error = complaint(TableMetadataUtil.parse_raw, metadata(columns=columns))

    assert "characters of the structs around them" in str(error)


def test_structs_in_structs_and_long_names_are_read():
    columns = [chain(30, name="{}a_rather_long_name_of_a_column"), column(99, name="x" * 100_000)]

    assert len(TableMetadataUtil.parse_raw(json.dumps(metadata(columns=columns))).schema().columns) == 3
