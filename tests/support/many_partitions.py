"""A table of eight partitions with five commits, each of which wrote every partition."""

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField

from isotherm.contract.identity import PartitionKey

NAME = "db.t"
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False), NestedField(2, "part", IntegerType(), required=False)
)
PARTS = 8


def catalog_of_eight(folder: Path) -> Any:
    catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}/w")
    catalog.create_namespace("db")
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))
    table = catalog.create_table(NAME, SCHEMA, partition_spec=spec, properties={"format-version": "2"})
    for number in range(5):
        append(table, range(PARTS), 100 * number)
    return catalog


def append(table: Table, parts: Any, first: int) -> None:
    ids = range(first, first + 2 * len(parts))
    table.append(
        pa.table(
            {
                "id": list(ids),
                "part": pa.array([parts[one // 2 % len(parts)] for one in range(len(ids))], pa.int32()),
            }
        )
    )


def key(part: int) -> PartitionKey:
    return PartitionKey(f'{{"1000":{part}}}')


def rows(table: Table) -> list[tuple[int, int]]:
    return sorted((row["id"], row["part"]) for row in table.refresh().scan().to_arrow().to_pylist())
