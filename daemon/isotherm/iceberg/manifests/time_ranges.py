"""The event time that the rows of a partition's data files cover, by the bounds of one column in their manifests."""

import struct
from dataclasses import dataclass

from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntryStatus
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from isotherm.clients.manifests.reading import entries, read_manifest_list
from isotherm.contract.identity import PartitionKey
from isotherm.core.units import DAY_MS
from isotherm.iceberg.manifests.fetching import fetched
from isotherm.iceberg.manifests.partition_values import entry_partition_key, may_hold
from isotherm.iceberg.stopping import IsStopped, Stopped, never


@dataclass(frozen=True, slots=True)
class TimeRange:
    """What a manifest tells of a column of time in one file."""

    first_ms: int | None
    last_ms: int | None
    """The least and the greatest value, in milliseconds. None where it does not tell."""
    may_lack: bool
    """Whether there may be rows without a value."""
    has_none: bool = False
    """Whether no row has one."""


def time_ranges(
    metadata: TableMetadata,
    io: FileIO,
    snapshot: Snapshot,
    partition: PartitionKey,
    field_id: int,
    is_stopped: IsStopped = never,
) -> dict[str, TimeRange]:
    """What is told of a column of each live data file of a partition, by path; of a file that is named twice once.

    Raises:
        Stopped: so it was wanted, between two manifests.
    """
    found: dict[str, TimeRange] = {}
    listed = [
        manifest
        for manifest in read_manifest_list(io, snapshot.manifest_list)
        if manifest.content == ManifestContent.DATA and may_hold(metadata, manifest, partition)
    ]
    for manifest, written in zip(listed, fetched(io, listed), strict=True):
        if is_stopped():
            raise Stopped
        for entry in entries(written, manifest):
            is_live = entry.status != ManifestEntryStatus.DELETED
            if is_live and entry_partition_key(metadata, manifest.partition_spec_id, entry) == partition:
                found[entry.data_file.file_path] = _range(entry.data_file, field_id)
    return found


def milliseconds(bound: bytes | None) -> int | None:
    """A bound of a date, or of microseconds, in milliseconds; None where it is neither."""
    match None if bound is None else len(bound):
        case 4:
            return int(struct.unpack("<i", bound or b"")[0]) * DAY_MS
        case 8:
            return int(struct.unpack("<q", bound or b"")[0]) // 1000
        case _:
            return None


def _range(file: DataFile, field_id: int) -> TimeRange:
    nulls = (file.null_value_counts or {}).get(field_id)
    first, last = (
        milliseconds((bounds or {}).get(field_id)) for bounds in (file.lower_bounds, file.upper_bounds)
    )
    return TimeRange(first, last, may_lack=nulls != 0, has_none=nulls == file.record_count)
