"""A table for a process that writes files of it: schemas, specs and properties as text, without the history.

A busy table drops its old metadata files within seconds (`write.metadata.delete-after-commit.enabled`), so such a process
takes along what it needs, some kilobytes.
"""

from functools import lru_cache
from typing import Any

from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.typedef import IcebergBaseModel

_HISTORY: dict[str, Any] = {
    "current_snapshot_id": None,
    "last_sequence_number": 0,
    "last_updated_ms": 0,
    "snapshots": [],
    "snapshot_log": [],
    "metadata_log": [],
    "refs": {},
    "statistics": [],
    "partition_statistics": [],
}


def described(metadata: TableMetadata) -> str:
    """What a writer of files must know of a table; the same until somebody changes how it looks."""
    # Not the metadata's own method, which refuses format 3: it fears that somebody would commit what it gives.
    return IcebergBaseModel.model_dump_json(metadata.model_copy(update=_HISTORY))


@lru_cache(maxsize=1000)
def table_of(description: str) -> TableMetadata:
    """The table again."""
    return TableMetadataUtil.parse_raw(description)
