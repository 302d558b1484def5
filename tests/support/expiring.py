"""A table whose snapshots expire, and whose files go after them.

The fixtures `catalog` and `table` of tests/iceberg make it.
"""

from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField

from isotherm.core.deletion import Cause, Mark, Neighbours, own_folders
from isotherm.iceberg.expiry import expire
from isotherm.iceberg.remover import sweep
from isotherm.iceberg.stopping import never
from isotherm.runtime.clock import now_ms
from isotherm.service.ports import Expired, ExpiryReading, Sweep, Swept

NAME = "db.t"
SCHEMA = Schema(NestedField(1, "id", LongType(), required=False))


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def append(table: Table, *ids: int, **more: Any) -> None:
    table.refresh().append(rows(*ids), **more)


def ids(table: Table) -> list[int]:
    """The history of `main`, oldest first."""
    return [snapshot.snapshot_id for snapshot in table.refresh().metadata.snapshots]


def contents(table: Table, snapshot_id: int | None = None) -> list[int]:
    found = table.refresh().scan(snapshot_id=snapshot_id).to_arrow()
    return sorted(found["id"].to_pylist())


def expired(catalog: Any, reading: ExpiryReading, may_send: Any = lambda _: None) -> Expired:
    uuid = str(load(catalog).metadata.table_uuid)
    return expire(catalog, NAME, uuid, reading, "job", may_send, now_ms(), pause=lambda _: None)


def load(catalog: Any) -> Table:
    found: Table = catalog.load_table(NAME)
    return found


def swept(table: Table, reading: ExpiryReading, **changes: Any) -> Swept:
    return swept_as_loaded(table.refresh(), reading, **changes)


def swept_as_loaded(table: Table, reading: ExpiryReading, **changes: Any) -> Swept:
    marks = tuple(Mark(path, "job", Cause.EXPIRED, reading.seen) for path in reading.files)
    own = own_folders(table.metadata.location, (), ("db", "t"))
    wanted = {"marks": marks, "expired": {"job": reading.snapshots}, "neighbours": Neighbours(own)}
    return sweep(table, Sweep(str(table.metadata.table_uuid), **(wanted | changes)), never)


def every_snapshot_reads(table: Table) -> None:
    for snapshot in table.refresh().metadata.snapshots:
        contents(table, snapshot.snapshot_id)


def branch(table: Table, name: str, snapshot_id: int, **keeps: int) -> None:
    table.refresh().manage_snapshots().create_branch(snapshot_id, name, **keeps).commit()
