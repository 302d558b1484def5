"""A table that is partitioned by one column, of any type and transform."""

from collections.abc import Callable
from typing import Any

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import Transform
from pyiceberg.types import IcebergType, LongType, NestedField


@pytest.fixture
def make(empty_catalog: Any) -> Callable[..., Table]:
    def table(source: IcebergType, transform: Transform[Any, Any]) -> Table:
        schema = Schema(
            NestedField(1, "v", source, required=False), NestedField(2, "id", LongType(), required=False)
        )
        spec = PartitionSpec(PartitionField(1, 1000, transform, "p"))
        return empty_catalog.create_table(
            "db.t", schema, partition_spec=spec, properties={"format-version": "2"}
        )

    return table
