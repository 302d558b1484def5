"""Which files leave a table when the files of a job are swapped."""

from collections.abc import Iterable, Sequence

from pyiceberg.manifest import ManifestFile

from isotherm.core.model.files import NAMED_BY_PATH, FileKind
from isotherm.core.model.jobs import CompactionJob
from isotherm.iceberg.manifests.deletes import DataFiles, is_over, oldest_data
from isotherm.iceberg.manifests.live import LiveEntry


def leaving_files(
    job: CompactionJob, live: Sequence[LiveEntry], manifests: Iterable[ManifestFile]
) -> list[LiveEntry]:
    """The job's data files, the deletes that it merged, and those that apply to nothing that stays.

    Args:
        job: what was read.
        live: what concerns its partition, at the head.
        manifests: those of the head.
    """
    replaced, read = ({file.identity for file in files} for files in (job.data_files, job.delete_files))
    data = [entry for entry in live if entry.kind is FileKind.DATA and entry.identity not in replaced]
    # Of these it is written what the job's deletes say of them.
    said = {file.identity for file in job.staying} if job.merges_deletes else set()
    staying, unsaid = DataFiles(data), DataFiles(one for one in data if one.identity not in said)
    oldest = oldest_data(manifests)

    def leaves(entry: LiveEntry) -> bool:
        is_said = entry.identity in read
        if entry.kind in NAMED_BY_PATH:
            return not (unsaid if is_said else staying).may_be_named_by(entry)
        if entry.kind is FileKind.EQUALITY_DELETES:
            rest = unsaid if is_said and job.converts_equality else staying
            return is_over(entry, rest, job.partition, job.spec_id, oldest)
        return entry.identity in replaced

    return [entry for entry in live if leaves(entry)]
