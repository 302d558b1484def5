"""Rows that have a value by their column's default alone keep it: nobody here writes it, so they stay where they are."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, ListType, LongType, NestedField, StringType, StructType

from isotherm.contract.identity import UNPARTITIONED
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.initial_defaults import column_with_default
from isotherm.iceberg.values import loaded_table
from support.rewriting import try_to_bind


@pytest.fixture
def table(tmp_path: Path) -> Any:
    uri, root = f"sqlite:///{tmp_path}/c.db", f"file://{tmp_path}/w"
    catalog = load_catalog("lake", type="sql", uri=uri, warehouse=root)
    catalog.create_namespace("db")
    point = StructType(NestedField(3, "x", IntegerType(), required=False))
    schema = Schema(
        NestedField(1, "id", LongType(), required=False),
        NestedField(2, "points", ListType(4, point, element_required=False), required=False),
    )
    made = catalog.create_table("db.t", schema, properties={"format-version": "2"})
    for number in range(3):
        made.append(pa.table({"id": [number]}, schema=pa.schema([("id", pa.int64())])))
    return made


@pytest.mark.parametrize(
    ("path", "named"),
    [("country", "country"), (("points", "element", "y"), "points")],
    ids=["itself", "within"],
)
def test_a_table_with_a_default_is_not_rewritten(table: Any, path: Any, named: str) -> None:
    """Each row had DE and was NULL afterwards, to Spark as to PyIceberg, and both of our engines agreed."""
    assert column_with_default(table.metadata) == ""
    assert not isinstance(try_to_bind(table, UNPARTITIONED), Refusal)
    with table.update_schema() as change:
        change.add_column(path, StringType(), default_value="DE")
    table.refresh()

    assert f"column {named} has" in loaded_table(table, "db.t").facts.unsupported
    refusal = try_to_bind(table, UNPARTITIONED)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.UNSUPPORTED
    assert f"column {named} has an initial default" in refusal.why


def test_a_default_of_a_column_that_was_dropped_counts_too(table: Any) -> None:
    """Equality deletes may name rows by it."""
    with table.update_schema() as change:
        change.add_column("country", StringType(), default_value="DE")
    with table.update_schema() as change:
        change.delete_column("country")

    assert column_with_default(table.refresh().metadata) == "country"
