"""A table whose schema and spec have changed many times, and what must be true of it after schemas and specs are removed.

The judge is PyIceberg: it reads each snapshot by the schema that the snapshot names, and lists its manifests.
"""

from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.update import RemovePartitionSpecsUpdate, RemoveSchemasUpdate
from pyiceberg.transforms import BucketTransform, IdentityTransform, TruncateTransform
from pyiceberg.types import LongType, NestedField, StringType

from isotherm.iceberg.clean_metadata import with_cleaned
from isotherm.iceberg.expiry import expire, read
from isotherm.iceberg.unused_metadata import unused_specs
from isotherm.runtime.clock import now_ms
from isotherm.service.ports import Expired, UnusedSpecs

NAME = "db.evolved"
SCHEMA = Schema(
    *(
        NestedField(number, name, kind, required=False)
        for number, name, kind in ((1, "id", LongType()), (2, "old", StringType()), (3, "gone", StringType()))
    )
)


def created(catalog: Catalog, version: int = 2) -> Table:
    """Without a partition, then by bucket, then by a text, then by a column that came later.

    Specs 0 to 3, schemas 0 to 4; the last two snapshots have nothing of the others, and a column was dropped.
    """
    table = catalog.create_table(NAME, SCHEMA, properties={"format-version": str(version)})
    append(table, 1)
    with table.update_spec() as spec:
        spec.add_field("id", BucketTransform(2), "by_id")
    append(table, 2)
    with table.update_schema() as schema:
        schema.add_column("second", StringType())
    append(table, 3)
    with table.update_spec() as spec:
        spec.remove_field("by_id")
        spec.add_field("old", TruncateTransform(1), "by_old")
    append(table, 4)
    with table.update_schema() as schema:
        schema.add_column("third", LongType())
    with table.update_spec() as spec:
        spec.remove_field("by_old")
        spec.add_field("third", IdentityTransform(), "by_third")
    append(table, 5)
    with table.update_schema() as schema:
        schema.delete_column("gone")
    append(table, 6)
    with table.update_schema() as schema:
        schema.add_column("fourth", LongType())
    for number in (7, 8, 9):
        table.overwrite(rows(table, number))
    return table.refresh()


def rows(table: Table, number: int) -> pa.Table:
    """A row in the columns that there are."""
    names = [field.name for field in table.schema().fields]
    types = {
        field.name: pa.int64() for field in table.schema().fields if isinstance(field.field_type, LongType)
    }
    return pa.table(
        {
            name: pa.array([number if types.get(name) else f"{name} {number}"], types.get(name, pa.string()))
            for name in names
        }
    )


def append(table: Table, number: int, **more: Any) -> None:
    table.refresh().append(rows(table, number), **more)


def history(table: Table) -> list[int]:
    return [one.snapshot_id for one in table.refresh().metadata.snapshots]


def ids(table: Table) -> tuple[set[int], set[int]]:
    """The schemas and the specs."""
    metadata = table.refresh().metadata
    return {one.schema_id for one in metadata.schemas}, {one.spec_id for one in metadata.partition_specs}


def contents(table: Table) -> dict[int, Any]:
    """The rows of each snapshot, in the columns that it names."""
    return {
        one: sorted(table.refresh().scan(snapshot_id=one).to_arrow().to_pylist(), key=str)
        for one in history(table)
    }


def nothing_is_missing(table: Table) -> None:
    """Whatever a snapshot, a manifest or the table itself names is in the metadata."""
    schemas, specs = ids(table)
    metadata = table.metadata
    assert {one.schema_id for one in metadata.snapshots} | {metadata.current_schema_id} <= schemas
    named = {manifest.partition_spec_id for one in metadata.snapshots for manifest in one.manifests(table.io)}
    assert named | {metadata.default_spec_id} <= specs


def cleaned(
    catalog: Any, table: Table, going: list[int], *, between: Any = None, may_send: Any = lambda _: None
) -> Expired:
    """An expiry with what follows it; `between`: what happens before that."""
    name, uuid = ".".join(table.name()), str(table.metadata.table_uuid)
    reading = read(table.refresh(), going, now_ms())
    unused = unused_specs(table.metadata, table.io, reading.snapshots)
    done = expire(catalog, name, uuid, reading, "job", lambda _: None, now_ms(), pause=lambda _: None)
    if between is not None:
        between()
    return after(catalog, table, done, unused, may_send)


def after(
    catalog: Any, table: Table, done: Expired, unused: UnusedSpecs | None, may_send: Any = lambda _: None
) -> Expired:
    name, uuid = ".".join(table.name()), str(table.metadata.table_uuid)
    return with_cleaned(done, catalog, name, uuid, unused, may_send, pause=lambda _: None)


def append_by_spec(catalog: Any, spec_id: int, **more: Any) -> None:
    """As a writer that has kept a spec: PyIceberg itself writes by the default one."""
    writer = catalog.load_table(NAME)
    writer.metadata = writer.metadata.model_copy(update={"default_spec_id": spec_id})
    writer.append(rows(writer, 77), **more)


def is_cleaning(updates: Any) -> bool:
    return any(isinstance(one, RemoveSchemasUpdate | RemovePartitionSpecsUpdate) for one in updates)
