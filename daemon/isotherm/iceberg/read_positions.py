"""Up to where somebody has read a table, by its own snapshots."""

from pyiceberg.table import Table
from pyiceberg.table.snapshots import ancestors_of

from isotherm.contract.readers import ReadPosition
from isotherm.iceberg.spark_checkpoint import snapshots_read
from isotherm.service.ports import LoadedTable


def position_in(
    loaded: LoadedTable, reader: str, at_ms: int, snapshot_id: int | None, checkpoint: str | None
) -> ReadPosition:
    """That a reader has read up to a snapshot: the head, one that is named, or what a checkpoint of Spark says.

    Raises:
        ValueError: `main` has no such snapshot, or none, or there is no such checkpoint.
        Unavailable: the checkpoint cannot be read.
    """
    table: Table = loaded.handle
    history = list(ancestors_of(table.current_snapshot(), table.metadata))
    numbers = {one.snapshot_id: -place for place, one in enumerate(history)}
    if checkpoint is not None:
        wanted = snapshots_read(table.io, checkpoint)
    else:
        named = loaded.head if snapshot_id is None else snapshot_id
        wanted = frozenset(() if named is None else (named,))
    there = wanted & numbers.keys()
    if not there:
        told = ", ".join(map(str, sorted(wanted)))
        raise ValueError(f"main of {loaded.table.name} has no snapshot {told or 'yet'}")
    return ReadPosition(
        table_uuid=loaded.table.uuid,
        table=loaded.table.name,
        reader=reader,
        # A query may read a table twice, each time at its own pace.
        snapshot_id=min(there, key=lambda one: numbers[one]),
        at_ms=at_ms,
    )
