"""Names of the files that a job writes: they follow from the job alone.

So whatever a crash leaves behind is found again without a list, and deleted once the job is certainly not committed.
"""

from pyiceberg.io import FileIO
from pyiceberg.table.metadata import TableMetadata

from isotherm.clients.locations import has_folders, is_scattered, location_provider
from isotherm.contract.identity import PartitionKey
from isotherm.core.model.jobs import CompactionJob, Destination
from isotherm.iceberg.manifests.live import partition_record

MISSING_IN_A_ROW = 8
"""So many numbers that are not there end the list: as many files may be deleted at once when a process dies."""
_CHOOSING = ("write.data.", "write.metadata.", "write.object-storage.", "write.folder-storage.")


def destination(metadata: TableMetadata, spec_id: int, partition: PartitionKey) -> Destination:
    """Where a job on this partition writes."""
    record = partition_record(metadata, spec_id, partition)
    folder = metadata.specs()[spec_id].partition_to_path(record, metadata.schema())
    chosen = {name: value for name, value in metadata.properties.items() if name.startswith(_CHOOSING)}
    return Destination(metadata.location, folder, chosen)


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
