"""A table by `part`, with a manifest for each commit: nobody merges them by itself."""

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from isotherm.core.model.jobs import CompactionJob, Outcome
from isotherm.iceberg.compaction.committer import commit_manifests
from support.rewriting import NOW_MS, always, of_each

NAME = "db.t"
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "part", IntegerType(), required=False),
    NestedField(3, "text", StringType(), required=False),
)


def three_parts(folder: Path, **properties: str) -> Any:
    """A catalog with this table, which is empty."""
    catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}/w")
    catalog.create_namespace("db")
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))
    catalog.create_table(NAME, SCHEMA, partition_spec=spec, properties={"format-version": "2", **properties})
    return catalog


def append(table: Table, part: int, number: int) -> None:
    """Ten rows in one partition; their ids follow from the number."""
    ids = list(range(10 * number, 10 * number + 10))
    table.append(
        pa.table({"id": ids, "part": pa.array([part] * 10, pa.int32()), "text": [f"{one}" for one in ids]})
    )


def rewrite(catalog: Any, job: CompactionJob, may_commit: Any = always) -> Outcome:
    return commit_manifests(catalog, job, of_each(may_commit), NOW_MS, pause=lambda _: None)


def ids(table: Table) -> list[int]:
    found: list[int] = table.refresh().scan().to_arrow()["id"].to_pylist()
    return sorted(found)
