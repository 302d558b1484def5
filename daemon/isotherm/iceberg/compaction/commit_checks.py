"""What must hold before files are swapped: of the table as it is now, and of the files that were written.

The committer asks for both before every attempt. It asks whether the partition is still cold last of all (`may_commit`).
"""

from collections.abc import Iterable

from pyiceberg.io import FileIO
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata

from isotherm.core.model.jobs import CompactionJob, Rewrite
from isotherm.core.model.refusals import Reason, RefusalError
from isotherm.core.model.tables import COMPACTED, WITH_ROW_IDS
from isotherm.iceberg.compaction.commit_outcome import strangers
from isotherm.iceberg.compaction.division import lies_elsewhere
from isotherm.iceberg.compaction.movable import deleted_by_key
from isotherm.iceberg.manifests.live import LiveEntry
from isotherm.iceberg.misplaced import misplaced_table
from isotherm.iceberg.other_rewriters import rewrite_of_others, rewriter_of
from isotherm.iceberg.partition_fields import partition_fields, upserted_by
from isotherm.iceberg.snapshots import summary_of
from isotherm.iceberg.unpublished import waits_to_be_published
from isotherm.iceberg.values import name_mapping_of


def check_table(
    job: CompactionJob, rewrite: Rewrite, metadata: TableMetadata, live: Iterable[LiveEntry], now_ms: int
) -> None:
    """Check that the table still is what the job was made for.

    Args:
        job: what was read.
        rewrite: what was written.
        metadata: the table's newest metadata.
        live: the files of the job's partition at its head.
        now_ms: the time.

    Raises:
        RefusalError: it is not.
    """
    check_main(job, metadata, now_ms)
    if rewrite.has_row_ids is not (metadata.format_version >= WITH_ROW_IDS):
        why = f"{job.table.name} has format version {metadata.format_version} by now: rows have ids from 3 on"
        raise RefusalError(Reason.FORMAT, why)
    if rewrite.schema_id is not None and metadata.current_schema_id != rewrite.schema_id:
        raise RefusalError(
            Reason.SCHEMA,
            f"the schema is {metadata.current_schema_id} by now, the files were written in "
            f"{rewrite.schema_id}",
        )
    if job.spec_id not in metadata.specs():
        raise RefusalError(Reason.CONFLICT, f"partition spec {job.spec_id} is gone")
    other = rewrite_of_others(metadata) if job.converts_equality else None
    if other is not None:
        # An open rewrite of theirs keeps its files' old sequence number, so that younger equality deletes still apply to
        # them. Java looks for new position deletes only where a commit says that it has changed rows, so it would go
        # through, and the rows that these deletes removed would be there again.
        who = rewriter_of(summary_of(other)) or "somebody else"
        why = (
            f"{who} rewrites its files (snapshot {other.snapshot_id}), so equality deletes stay what they are"
        )
        raise RefusalError(Reason.CONFLICT, why)
    came, left = strangers(job, live)
    if came or left:
        first = min(came or left, key=str)[0]
        raise RefusalError(
            Reason.CONFLICT,
            f"{job.partition_label} was written since snapshot {job.base_snapshot_id}: {len(came)} files came, "
            f"{len(left)} left, for instance {first}",
        )
    if name_mapping_of(metadata) != rewrite.name_mapping:
        # Files without field ids mean something else now, and what was written of them has ids.
        raise RefusalError(Reason.SCHEMA, f"{TableProperties.DEFAULT_NAME_MAPPING} is another by now")


def check_outputs(
    job: CompactionJob, rewrite: Rewrite, metadata: TableMetadata, live: Iterable[LiveEntry]
) -> None:
    """Check that what was moved into another partition spec may lie where it is to lie.

    New files have the starting sequence number, so no equality delete of before applies to them. One that comes later may, and
    it did not apply to the rows where they were: it is of another spec.

    Raises:
        RefusalError: it may not.
    """
    if job.output_spec_id is None:
        return
    if metadata.default_spec_id != job.output_spec_id:
        why = f"partition spec {metadata.default_spec_id} is the current one by now, not {job.output_spec_id}"
        raise RefusalError(Reason.SCHEMA, why)
    if (by := upserted_by(metadata)) is not None:
        raise RefusalError(Reason.OUTPUT_SPEC, f"rows of the table are replaced by key by now ({by})")
    outputs, fields = set(job.outputs), partition_fields(metadata)
    for file in rewrite.files:
        if file.partition not in outputs:
            why = f"{file.path} lies in {file.partition}, which is none of the job's partitions"
            raise RefusalError(Reason.MISMATCH, why)
        if (elsewhere := lies_elsewhere(file, fields)) is not None:
            raise RefusalError(Reason.MISMATCH, elsewhere)
    if by := deleted_by_key(live):
        raise RefusalError(Reason.OUTPUT_SPEC, by)


def check_main(job: CompactionJob, metadata: TableMetadata, now_ms: int) -> None:
    """Check what holds for each commit that moves `main`, and is all where no file comes or leaves.

    Raises:
        RefusalError: it may not be moved.
    """
    if metadata.format_version not in COMPACTED:
        raise RefusalError(
            Reason.FORMAT, f"{job.table.name} has format version {metadata.format_version} by now"
        )
    if why := misplaced_table(metadata):
        raise RefusalError(Reason.LOCATION, why)
    if why := waits_to_be_published(metadata, now_ms):
        raise RefusalError(Reason.STAGED, why)


def check_files(rewrite: Rewrite, io: FileIO) -> None:
    """Check that what was written is still there: a second process on our state may have taken it for a leftover.

    Raises:
        RefusalError: it is not, or its store does not answer.
    """
    for file in rewrite.all_files:
        try:
            size = len(io.new_input(file.path))
        except FileNotFoundError as err:
            raise RefusalError(
                Reason.MISSING_FILE, f"{file.path} was written and is not there any more"
            ) from err
        except OSError as err:
            raise RefusalError(Reason.STORAGE, f"looking for {file.path}: {err}") from err
        if size != file.size_bytes:
            why = f"{file.path} has {size} bytes, {file.size_bytes} were written"
            raise RefusalError(Reason.MISSING_FILE, why)
