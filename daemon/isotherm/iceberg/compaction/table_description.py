"""A table for a process that rewrites some of its files: schemas, specs and properties as text, without the history.

A busy table drops its old metadata files within seconds (`write.metadata.delete-after-commit.enabled`), so a job takes
along what it needs, some kilobytes.
"""

from collections.abc import Mapping
from typing import Any

from pyiceberg.io import FileIO, load_file_io
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil

from isotherm.clients.storage import properties_with_retries

_HISTORY: dict[str, Any] = {
    "current_snapshot_id": None,
    "snapshots": [],
    "snapshot_log": [],
    "metadata_log": [],
    "refs": {},
    "statistics": [],
    "partition_statistics": [],
}


def described(metadata: TableMetadata) -> str:
    """What a rewrite must know of a table."""
    return metadata.model_copy(update=_HISTORY).model_dump_json()


def table_of(description: str, io_properties: Mapping[str, str]) -> tuple[TableMetadata, FileIO]:
    """The table again, and its files; its own properties choose neither code nor hosts nor keys."""
    metadata = TableMetadataUtil.parse_raw(description)
    return metadata, load_file_io(properties_with_retries(io_properties), metadata.location)
