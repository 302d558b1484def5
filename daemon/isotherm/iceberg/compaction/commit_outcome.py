"""What became of a job: a look at its table's history, whatever the ledger or an answer says."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from isotherm.contract.summary import jobs_of
from isotherm.core.deletion import is_of_job
from isotherm.core.model.files import FileKind, LiveFile
from isotherm.core.model.jobs import CompactionJob, Outcome, OutcomeKind
from isotherm.core.model.refusals import Reason
from isotherm.iceberg.manifests.live import LiveEntry, live_files_of
from isotherm.iceberg.snapshots import summary_of
from isotherm.service.ports import GoOn, LoadedTable, TableMissing, Unavailable, without_end


def settled(
    load: Callable[[str], LoadedTable],
    names: Iterable[str],
    job: CompactionJob,
    asserted_head_id: int | None,
    *,
    may_land: bool = False,
    go_on: GoOn = without_end,
) -> Outcome | None:
    """What became of a job whose end is unknown, by a look at its table, or None where nobody can say yet.

    A name that the catalog does not know, or that belongs to another table, says nothing about the job: its table may
    have been renamed, and a catalog that is restarted answers so for a moment.

    Args:
        load: loads a table, or raises Unavailable or TableMissing.
        names: the names under which the job's table may be found.
        job: the job.
        asserted_head_id: the head that its last request asserted, as far as the ledger knows, or None where it
            knows of no request. That is a hint only, because the ledger may be older than the table.
        may_land: whether that request may still be on its way.
        go_on: called between two manifests.

    Raises:
        TooLong: so it was wanted.
    """
    table = _found(load, names, job.table.uuid)
    if table is None:
        return None
    try:
        return _settled(table, job, asserted_head_id, go_on, may_land=may_land)
    except (OSError, ValueError):
        return None


def _found(load: Callable[[str], LoadedTable], names: Iterable[str], uuid: str) -> Table | None:
    """The table with this uuid, or None where it is not found or the catalog does not answer."""
    for name in dict.fromkeys(names):
        try:
            loaded = load(name)
        except (TableMissing, Unavailable):
            continue  # whatever keeps us from looking, we have not looked
        if loaded.table.uuid == uuid:
            table: Table = loaded.handle
            return table
    return None


def _settled(
    table: Table, job: CompactionJob, asserted_head_id: int | None, go_on: GoOn, *, may_land: bool
) -> Outcome | None:
    def is_stopped() -> bool:
        go_on()
        return False

    metadata = table.metadata
    if done := landed(metadata, job):
        return done
    head = metadata.current_snapshot()
    live = []
    if head is not None and not job.is_on_manifests:  # which writes no file that could be live
        live = live_files_of(metadata, table.io, head, job.touched, is_stopped=is_stopped)
    if any(is_of_job(entry.path, job.job_id) for entry in live):
        why = "its files are live; its snapshot is expired"
        return Outcome(job.job_id, OutcomeKind.DONE, Reason.COMMITTED, why, was_sent=True)
    head_id = head.snapshot_id if head is not None else None
    if asserted_head_id is None:
        why = "the daemon ended while it ran, and the table's history does not show it"
        return Outcome(job.job_id, OutcomeKind.FAILED, Reason.CRASHED, why, was_sent=True)
    if may_land and all(snapshot.snapshot_id != asserted_head_id for snapshot in metadata.snapshots):
        return None  # a replica that lags shows the table from before that head; or that head has expired
    if head_id != asserted_head_id:
        why = f"the head is {head_id} by now, and the table's history does not show the job"
        return Outcome(job.job_id, OutcomeKind.FAILED, Reason.LOST, why, was_sent=True)
    if may_land:
        return None
    # On a table that rests nothing else would ever end it. Should it land all the same, the proof before a deletion
    # finds its files live.
    why = f"its request got no answer, and the head is {head_id} still: so late nobody waits for it"
    return Outcome(job.job_id, OutcomeKind.FAILED, Reason.NO_ANSWER, why, was_sent=True)


def known_files(job: CompactionJob) -> set[tuple[str, int | None]]:
    """Every live file of the partition that the job knew."""
    return {file.identity for file in (*job.data_files, *job.delete_files)} | job.bystanders


def strangers(
    job: CompactionJob, live: Iterable[LiveEntry]
) -> tuple[set[tuple[str, int | None]], set[tuple[str, int | None]]]:
    """The partition's files that came since a job was bound, and those that left; without what may stand beside it.

    Deletes apply by age. So a file that the job has read, and that left and was added again, has come, and so has another
    copy of one; of two copies one has left where a rollback took it back.
    """
    entries = list(live)
    known = known_files(job)
    read = Counter(_aged(file) for file in (*job.data_files, *job.delete_files, *job.staying))
    identities = {identity for identity, *_ in read}
    here = Counter(_aged(entry) for entry in entries if entry.identity in identities)
    came = {entry.identity for entry in entries if _is_new(job, entry, known)}
    left = known - {entry.identity for entry in entries}
    came |= {identity for identity, *_ in here - read}
    left |= {identity for identity, *_ in read - here}
    return came, left


def _aged(file: LiveFile | LiveEntry) -> tuple[tuple[str, int | None], int, int | None]:
    """What deletes apply by, and what the ids of its rows follow from."""
    return file.identity, file.sequence_number, file.first_row_id


def _is_new(job: CompactionJob, entry: LiveEntry, known: Collection[tuple[str, int | None]]) -> bool:
    """Whether a file was not there when the job was bound; a delete file also where it was added again since."""
    if entry.identity in known:
        return entry.kind is not FileKind.DATA and entry.sequence_number > job.base_sequence_number
    return not _is_beside(job, entry)


def _is_beside(job: CompactionJob, entry: LiveEntry) -> bool:
    """Whether a file was appended after the job had been bound, and the job allows that."""
    return (
        job.beside_appends
        and entry.kind is FileKind.DATA
        and entry.sequence_number > job.base_sequence_number
    )


def landed(metadata: TableMetadata, job: CompactionJob) -> Outcome | None:
    """DONE where the history has a snapshot of this job, whatever became of it afterwards."""
    for snapshot in reversed(metadata.snapshots):
        if job.job_id in jobs_of(summary_of(snapshot)):
            return Outcome(
                job.job_id,
                OutcomeKind.DONE,
                Reason.COMMITTED,
                f"snapshot {snapshot.snapshot_id} of {job.table.name}",
                snapshot_id=snapshot.snapshot_id,
                was_sent=True,
            )
    return None
