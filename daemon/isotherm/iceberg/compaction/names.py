"""Names of the files that a job writes: they follow from the job alone.

So whatever a crash leaves behind is found again without a list, and deleted once the job is certainly not committed.
"""

from urllib.parse import quote_plus

from pyiceberg.io import FileIO
from pyiceberg.table.metadata import TableMetadata

from isotherm.clients.locations import has_folders, is_scattered, location_provider
from isotherm.contract.identity import PartitionKey
from isotherm.core.model.jobs import CompactionJob, Destination
from isotherm.iceberg.manifests.partition_values import partition_record

MISSING_IN_A_ROW = 8
"""So many numbers that are not there end the list: as many files may be deleted at once when a process dies."""
_CHOOSING = ("write.data.", "write.metadata.", "write.object-storage.", "write.folder-storage.")


def destination(metadata: TableMetadata, spec_id: int, partition: PartitionKey) -> Destination:
    """Where a job on this partition writes."""
    folder = _folder(metadata, spec_id, partition)
    chosen = {name: value for name, value in metadata.properties.items() if name.startswith(_CHOOSING)}
    return Destination(metadata.location, folder, chosen)


def _folder(metadata: TableMetadata, spec_id: int, partition: PartitionKey) -> str:
    """The folder of a partition below the table's data, as writers name it.

    PyIceberg has no name for a time outside of the years 1 to 9999: there its number stands. No reader goes by the folder.
    """
    spec, record = metadata.specs()[spec_id], partition_record(metadata, spec_id, partition)
    parts: list[str] = []
    for place, kind in enumerate(spec.partition_type(metadata.schema()).fields):
        try:
            value = spec.fields[place].transform.to_human_string(kind.field_type, value=record[place])
        except OverflowError:
            value = str(record[place])
        parts.append(f"{quote_plus(spec.fields[place].name, safe='')}={quote_plus(value, safe='')}")
    return "/".join(parts)


def data_location(job: CompactionJob, metadata: TableMetadata, number: int) -> str:
    """Where the job's data file of this number lies, and nothing else does."""
    place = job.destination or destination(metadata, job.spec_id, job.partition)
    name = f"isotherm-{job.job_id}-{number:05d}.parquet"
    in_folder = place.folder and (not is_scattered(place.properties) or has_folders(place.properties))
    provider = location_provider(place.location, place.properties)
    return provider.new_data_location(f"{place.folder}/{name}" if in_folder else name)


def leftovers(io: FileIO, metadata: TableMetadata, job: CompactionJob) -> tuple[str, ...]:
    """The data files that a job has written so far and that are still there.

    They are written in the order of their numbers. Some may have been deleted by a process that died.
    """
    found: list[str] = []
    number = missing = 0
    while missing < MISSING_IN_A_ROW:
        location = data_location(job, metadata, number)
        is_there = io.new_input(location).exists()
        found.extend([location] if is_there else [])
        missing = 0 if is_there else missing + 1
        number += 1
    return tuple(found)
