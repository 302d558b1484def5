"""Names of the files that a job writes: they follow from the job alone.

So whatever a crash leaves behind is found again without a list, and deleted once the job is certainly not committed.
"""

from pyiceberg.io import FileIO
from pyiceberg.table import TableProperties
from pyiceberg.table.locations import ObjectStoreLocationProvider, SimpleLocationProvider
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.utils.properties import property_as_bool

from isotherm.core.model.jobs import CompactionJob
from isotherm.iceberg.manifests.live import partition_record


def data_location(job: CompactionJob, metadata: TableMetadata, number: int) -> str:
    """Where the job's data file of this number lies, and nothing else does."""
    spec = metadata.specs()[job.spec_id]
    name = f"isotherm-{job.job_id}-{number:05d}.parquet"
    folder = spec.partition_to_path(partition_record(metadata, job.spec_id, job.partition), metadata.schema())
    properties = metadata.properties
    if not property_as_bool(properties, "write.object-storage.enabled", False):
        provider = SimpleLocationProvider(metadata.location, properties)
        return provider.new_data_location(f"{folder}/{name}" if folder else name)
    scattered = ObjectStoreLocationProvider(metadata.location, properties)
    in_folders = property_as_bool(properties, TableProperties.WRITE_OBJECT_STORE_PARTITIONED_PATHS, True)
    return scattered.new_data_location(f"{folder}/{name}" if folder and in_folders else name)


def leftovers(io: FileIO, metadata: TableMetadata, job: CompactionJob) -> tuple[str, ...]:
    """The data files that a job has written so far.

    They are written in the order of their numbers: the first number that is not there ends the list.
    """
    found: list[str] = []
    while io.new_input(location := data_location(job, metadata, len(found))).exists():
        found.append(location)
    return tuple(found)
