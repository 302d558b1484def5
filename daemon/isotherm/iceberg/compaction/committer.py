"""The one committer: swaps the files of a job for those that an executor wrote, in a snapshot that replaces.

Files in, same rows out, and nothing else touched. A commit is refused unless the partition holds, at the head, exactly
the files that the job knew, and it is Iceberg's own compare-and-swap that decides. A lost race is tried again on
metadata alone. There are three ends: *done*; *failed*, when a look at the table's history does not show the job; and
*unknown*, when a request was sent and nobody could look since.

Nothing is deleted here. The outcome says whether a request was sent, and which manifests it leaves behind; what
becomes of them is decided by `deletion`. More about all this is in docs/designs/replace-commit.md.
"""

import contextlib
import random
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NoSuchNamespaceError,
    NoSuchTableError,
    UnauthorizedError,
)
from pyiceberg.manifest import ManifestContent, ManifestEntry, ManifestEntryStatus, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.locations import SimpleLocationProvider
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary, UpdateMetrics
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertCurrentSchemaId,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
    ValidatableTableRequirement,
)
from tenacity import retry, retry_if_not_exception_type, stop_after_attempt, wait_exponential_jitter
from tenacity.nap import sleep

from isotherm.contract.summary import JOB_ID, POLICY_HASH
from isotherm.core.model.files import FileKind
from isotherm.core.model.jobs import CompactionJob, Outcome, OutcomeKind, Rewrite
from isotherm.iceberg.compaction.binding import may_apply
from isotherm.iceberg.manifests.live import LiveEntry, identity, live_files, may_hold, partition_record
from isotherm.iceberg.manifests.reading import read_manifest, read_manifest_list
from isotherm.iceberg.manifests.writing import added, deleted, existing, write_manifest, write_manifest_list

ATTEMPTS = 10
"""Races that a commit may lose before it gives way: a stream that commits every 100 ms leaves room for one."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.01, 1.0
"""Between two attempts, at most: twice as long each time."""
SENDS = 3
"""Times that one and the same request is sent when its answer is lost. The catalog lets in one of them at most."""

MayCommit = Callable[[Table], str | None]
"""Asked last, with the newest metadata: None, or a reason to refuse such as `hot: quiet for 5m of 15m`."""

_TOTALS = (
    ("total-data-files", "added-data-files", "deleted-data-files"),
    ("total-delete-files", "added-delete-files", "removed-delete-files"),
    ("total-records", "added-records", "deleted-records"),
    ("total-files-size", "added-files-size", "removed-files-size"),
    ("total-position-deletes", "added-position-deletes", "removed-position-deletes"),
    ("total-equality-deletes", "added-equality-deletes", "removed-equality-deletes"),
)
"""Counters of a summary: the total, what adds to it, what takes from it."""

_REASON = re.compile(r"([a-z][a-z_]*)\b")


class AssertUnmoved(ValidatableTableRequirement):
    """For catalogs that PyIceberg itself updates: no commit on any branch came in between.

    Their update would else be applied to newer metadata: an error, or on version 3 the same sequence number twice.
    A REST catalog assigns for itself and knows no such requirement.
    """

    type: Literal["assert-unmoved"] = "assert-unmoved"
    next_sequence_number: int

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]
        """Compare with the metadata that is about to be replaced."""
        found = base_metadata.next_sequence_number() if base_metadata is not None else None
        if found != self.next_sequence_number:
            raise CommitFailedException(
                f"the next sequence number is {found}, no longer {self.next_sequence_number}"
            )


def commit_compaction(
    catalog: Catalog,
    job: CompactionJob,
    rewrite: Rewrite,
    may_commit: MayCommit,
    now_ms: int,
    pause: Callable[[float], None] = sleep,
) -> Outcome:
    """Put what a job wrote in the place of what it read; never raises for what the world may do.

    Args:
        catalog: PyIceberg's catalog.
        job: what was read.
        rewrite: what was written.
        may_commit: asked before each request.
        now_ms: the time, for the snapshot.
        pause: waits so many seconds between two attempts.
    """
    if problem := mismatch(job, rewrite):
        return Outcome(job.job_id, OutcomeKind.FAILED, "mismatch", problem)
    return _Commit(catalog, job, rewrite, may_commit, now_ms, pause).run()


def mismatch(job: CompactionJob, rewrite: Rewrite) -> str | None:
    """Why the written files do not hold the rows that were read, if they do not."""
    if rewrite.job_id != job.job_id:
        return f"the files belong to job {rewrite.job_id}, not to {job.job_id}"
    known = sum(file.rows for file in job.data_files)
    if rewrite.rows_read != known:
        return f"{rewrite.rows_read} rows were read, the manifests say {known}"
    expected = rewrite.rows_read - rewrite.rows_deleted
    listed = sum(file.rows for file in rewrite.files)
    if not expected == rewrite.rows_written == listed:
        return (
            f"{rewrite.rows_read} rows less {rewrite.rows_deleted} deleted ones are {expected}; "
            f"{rewrite.rows_written} were read back, and the new files say {listed}"
        )
    if rewrite.hash_read != rewrite.hash_written:
        return (
            f"the {expected} rows read back differ from those that were read: "
            f"sum of hashes {rewrite.hash_written:x}, not {rewrite.hash_read:x}"
        )
    return None


def settled(
    catalog: Catalog, names: Iterable[str], job: CompactionJob, asserted_head_id: int | None
) -> Outcome | None:
    """What became of a job whose end is unknown, by a look at its table, or None where nobody can say yet.

    A name that the catalog does not know, or that belongs to another table, says nothing about the job: its table may
    have been renamed, and a catalog that is restarted answers so for a moment.

    Args:
        catalog: PyIceberg's catalog.
        names: the names under which the job's table may be found.
        job: the job.
        asserted_head_id: the head that its last request asserted, as far as the ledger knows. None: the ledger knows
            of no request. That is a hint only, because the ledger may be older than the table.
    """
    table = _found(catalog, names, job.table.uuid)
    if table is None:
        return None
    try:
        return _settled(table, job, asserted_head_id)
    except (OSError, ValueError):
        return None


def _found(catalog: Catalog, names: Iterable[str], uuid: str) -> Table | None:
    """The table with this uuid, or None where it is not found or the catalog does not answer."""
    for name in dict.fromkeys(names):
        try:
            table = catalog.load_table(name)
        except Exception:  # noqa: BLE001, S112 (whatever keeps us from looking, we have not looked)
            continue
        if str(table.metadata.table_uuid) == uuid:
            return table
    return None


def _settled(table: Table, job: CompactionJob, asserted_head_id: int | None) -> Outcome | None:
    metadata = table.metadata
    if done := _landed(metadata, job):
        return done
    head = metadata.current_snapshot()
    live = live_files(metadata, table.io, head, job.partition) if head is not None else []
    if any(f"/isotherm-{job.job_id}-" in entry.file.file_path for entry in live):
        why = "its files are live; its snapshot is expired"
        return Outcome(job.job_id, OutcomeKind.DONE, "committed", why, was_sent=True)
    head_id = head.snapshot_id if head is not None else None
    if asserted_head_id is None:
        why = "the daemon ended while it ran, and the table's history does not show it"
        return Outcome(job.job_id, OutcomeKind.FAILED, "crashed", why, was_sent=True)
    if head_id != asserted_head_id or {entry.identity for entry in live} != _known(job):
        why = f"the head is {head_id} by now, and the table's history does not show the job"
        return Outcome(job.job_id, OutcomeKind.FAILED, "lost", why, was_sent=True)
    return None


def _known(job: CompactionJob) -> set[tuple[str, int | None]]:
    """Every live file of the partition that the job knew."""
    return {file.identity for file in (*job.data_files, *job.delete_files)} | job.bystanders


def _is_live(entry: ManifestEntry) -> bool:
    return entry.status != ManifestEntryStatus.DELETED


@retry(stop=stop_after_attempt(4), wait=wait_exponential_jitter(initial=0.2, max=2, jitter=0.2), reraise=True)
def _loaded(catalog: Catalog, name: str) -> Table:
    """The table now; a catalog that is away for two seconds is no reason to throw a compaction away."""
    return catalog.load_table(name)


@retry(
    stop=stop_after_attempt(4),
    wait=wait_exponential_jitter(initial=0.2, max=2, jitter=0.2),
    retry=retry_if_not_exception_type((NoSuchTableError, NoSuchNamespaceError)),
    reraise=True,
)
def _loaded_if_there(catalog: Catalog, name: str) -> Table:
    """The same, but "not found" is believed at once."""
    return catalog.load_table(name)


def _landed(metadata: TableMetadata, job: CompactionJob) -> Outcome | None:
    """DONE where the history has a snapshot of this job, whatever became of it afterwards."""
    for snapshot in reversed(metadata.snapshots):
        if snapshot.summary is not None and snapshot.summary.get(JOB_ID) == job.job_id:
            return Outcome(
                job.job_id,
                OutcomeKind.DONE,
                "committed",
                f"snapshot {snapshot.snapshot_id} of {job.table.name}",
                snapshot_id=snapshot.snapshot_id,
                was_sent=True,
            )
    return None


# --- one commit ----------------------------------------------------------------------------------------------


class _Refused(Exception):  # noqa: N818 (it is an answer)
    """A commit that must not be; nothing of this attempt was sent."""

    def __init__(self, reason: str, why: str) -> None:
        super().__init__(why)
        self.reason, self.why = reason, why


@dataclass
class _Commit:
    """The attempts of one commit, and what they share."""

    catalog: Catalog
    job: CompactionJob
    rewrite: Rewrite
    may_commit: MayCommit
    now_ms: int
    pause: Callable[[float], None]
    snapshot_id: int = 0
    """The same in every attempt, so that manifests that were written for a lost one can be used again."""
    known: dict[str, list[ManifestEntry]] = field(default_factory=dict)
    """Entries by manifest; they never change."""
    restated: dict[str, ManifestFile] = field(default_factory=dict)
    """What was written in the place of a manifest, by the manifest's path."""
    new: ManifestFile | None = None
    written: list[str] = field(default_factory=list)
    """Every manifest and list that this commit wrote."""
    asserted_head_id: int | None = None
    """The head that a request asserts whose end is not known. None: every request that was sent has been looked up."""
    asserted_schema_id: int | None = None
    was_sent: bool = False

    def run(self) -> Outcome:
        """Try until it is done, refused, or in doubt."""
        try:
            return self._attempts()
        except _Refused as refusal:
            reason, why = refusal.reason, refusal.why
        except Exception as err:  # noqa: BLE001 (whatever the world, or a mistake of ours, may do)
            reason, why = "unexpected", f"{type(err).__name__}: {err}"
        if self.asserted_head_id is not None:
            return self._unknown(why)
        return self._outcome(OutcomeKind.FAILED, reason, why)

    def _attempts(self) -> Outcome:
        for attempt in range(ATTEMPTS):
            if attempt:
                # Another commit was faster, or a replica of the catalog is behind: a moment later it may be seen.
                self.pause(random.uniform(0, min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**attempt)))  # noqa: S311 (jitter)
            table = self._load()
            if done := self._already(table):
                return done
            live = self._live(table)
            if done := self._live_already(live):
                return done
            self._check(table.metadata, live)
            self._check_files(table)
            requirements, updates = self._request(table, live, attempt)
            if done := self._send(table, requirements, updates):
                return done
        if done := self._already(self._load()):
            return done
        raise _Refused("contention", f"lost {ATTEMPTS} races in a row; the table is committed to too often")

    # --- looking

    def _load(self) -> Table:
        name = self.job.table.name
        try:
            # After a request "not found" is trouble like any other: it may come from a proxy, or a rename.
            table = _loaded(self.catalog, name) if self.was_sent else _loaded_if_there(self.catalog, name)
        except (NoSuchTableError, NoSuchNamespaceError) as err:
            raise _Refused("gone", f"the catalog has no table {name}") from err
        except Exception as err:
            raise _Refused("catalog", f"{name} cannot be loaded: {err}") from err
        if str(table.metadata.table_uuid) != self.job.table.uuid:
            raise _Refused("gone", f"{name} is another table now: its uuid is {table.metadata.table_uuid}")
        return table

    def _already(self, table: Table) -> Outcome | None:
        """DONE if a request of this job has landed; else what is known of a request whose answer was lost."""
        if done := _landed(table.metadata, self.job):
            return self._done(table, done)
        metadata = table.metadata
        if (self.asserted_head_id, self.asserted_schema_id) != (
            metadata.current_snapshot_id,
            metadata.current_schema_id,
        ):
            # The table has moved on without us. What was sent can land only if it comes back to where it was, by a
            # rollback; that is why what a request named is never deleted at once.
            self.asserted_head_id = None
        return None

    def _live(self, table: Table) -> list[LiveEntry]:
        metadata = table.metadata
        head = metadata.current_snapshot()
        if head is None:
            raise _Refused("conflict", f"{self.job.table.name} has no current snapshot any more")
        try:
            return live_files(metadata, table.io, head, self.job.partition, self.known)
        except OSError as err:
            raise _Refused("storage", f"reading the manifests of snapshot {head.snapshot_id}: {err}") from err

    def _live_already(self, live: list[LiveEntry]) -> Outcome | None:
        """The snapshot of a commit may have been expired before anyone looked; its files are live all the same."""
        ours = {file.path for file in self.rewrite.files}
        if not any(entry.file.file_path in ours for entry in live):
            return None
        return self._outcome(
            OutcomeKind.DONE, "committed", "its files are live; its snapshot is expired", leftovers=()
        )

    def _check(self, metadata: TableMetadata, live: list[LiveEntry]) -> None:
        """Whether the table still is what the job was made for."""
        job = self.job
        if metadata.format_version != 2:
            raise _Refused("format", f"{job.table.name} has format version {metadata.format_version} by now")
        if self.rewrite.schema_id is not None and metadata.current_schema_id != self.rewrite.schema_id:
            raise _Refused(
                "schema",
                f"the schema is {metadata.current_schema_id} by now, the files were written in "
                f"{self.rewrite.schema_id}",
            )
        if job.spec_id not in metadata.specs():
            raise _Refused("conflict", f"partition spec {job.spec_id} is gone")
        found, expected = {entry.identity for entry in live}, _known(job)
        if found != expected:
            came, left = sorted(found - expected, key=str), sorted(expected - found, key=str)
            first = (came or left)[0][0]
            raise _Refused(
                "conflict",
                f"{job.partition_label} was written since snapshot {job.base_snapshot_id}: {len(came)} files came, "
                f"{len(left)} left, for instance {first}",
            )

    def _check_files(self, table: Table) -> None:
        """Whether what was written is still there: a second process on our state may have taken it for a leftover."""
        for file in self.rewrite.files:
            try:
                size = len(table.io.new_input(file.path))
            except FileNotFoundError as err:
                raise _Refused("missing_file", f"{file.path} was written and is not there any more") from err
            except OSError as err:
                raise _Refused("storage", f"looking for {file.path}: {err}") from err
            if size != file.size_bytes:
                why = f"{file.path} has {size} bytes, {file.size_bytes} were written"
                raise _Refused("missing_file", why)

    # --- writing

    def _request(
        self, table: Table, live: list[LiveEntry], attempt: int
    ) -> tuple[tuple[TableRequirement, ...], tuple[TableUpdate, ...]]:
        """The snapshot, its manifests written, and what must hold for it."""
        metadata = table.metadata
        head = metadata.current_snapshot()
        if head is None:
            raise _Refused("conflict", f"{self.job.table.name} has no current snapshot any more")
        if not self.snapshot_id:
            self.snapshot_id = metadata.new_snapshot_id()
        leaving = self._leaving(live)
        sequence_number = metadata.next_sequence_number()
        location = self._location(
            metadata, f"snap-{self.snapshot_id}-{attempt}-isotherm-{self.job.job_id}.avro"
        )
        try:
            manifests = self._manifests(table, head, {entry.identity for entry in leaving})
            self.written.append(location)
            write_manifest_list(
                table.io, metadata, location, self.snapshot_id, head.snapshot_id, sequence_number, manifests
            )
        except OSError as err:
            raise _Refused("storage", f"writing the manifests: {err}") from err
        snapshot = Snapshot(
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=head.snapshot_id,
            sequence_number=sequence_number,
            # A writer's clock may be ahead of ours; history must not run backwards.
            timestamp_ms=max(self.now_ms, head.timestamp_ms, metadata.last_updated_ms),
            manifest_list=location,
            summary=_summary(self.job, self.rewrite, leaving, head.summary),
            schema_id=metadata.current_schema_id,
        )
        return self._requirements(metadata, head), (AddSnapshotUpdate(snapshot=snapshot), self._ref(metadata))

    def _leaving(self, live: list[LiveEntry]) -> list[LiveEntry]:
        """The job's data files, and every position-delete file that applies to nothing that stays."""
        replaced = {file.identity for file in self.job.data_files}
        staying = [entry for entry in live if entry.kind is FileKind.DATA and entry.identity not in replaced]
        return [
            entry
            for entry in live
            if entry.identity in replaced
            or (
                entry.kind is FileKind.POSITION_DELETES
                and not any(may_apply(entry, data) for data in staying)
            )
        ]

    def _manifests(
        self, table: Table, head: Snapshot, leaving: set[tuple[str, int | None]]
    ) -> list[ManifestFile]:
        """The new list: our manifest, restated ones where files leave, and the rest as it is."""
        found: list[ManifestFile] = []
        if self.rewrite.files:
            found.append(self._new_manifest(table))
        kept: list[ManifestFile] = []
        for manifest in read_manifest_list(table.io, head.manifest_list):
            if not manifest.has_added_files() and not manifest.has_existing_files():
                continue
            if may_hold(table.metadata, manifest, self.job.partition):
                entries = self._entries(table, manifest)
                if any(_is_live(entry) and identity(entry) in leaving for entry in entries):
                    found.append(self._restated(table, manifest, entries, leaving))
                    continue
            kept.append(manifest)
        return found + kept

    def _new_manifest(self, table: Table) -> ManifestFile:
        if self.new is None:
            job, metadata = self.job, table.metadata
            partition = partition_record(metadata, job.spec_id, job.partition)
            entries = [
                added(file, partition, self.snapshot_id, job.base_sequence_number)
                for file in self.rewrite.files
            ]
            self.new = self._write(table, job.spec_id, ManifestContent.DATA, entries)
        return self.new

    def _restated(
        self,
        table: Table,
        manifest: ManifestFile,
        entries: Iterable[ManifestEntry],
        leaving: set[tuple[str, int | None]],
    ) -> ManifestFile:
        path = manifest.manifest_path
        if path not in self.restated:
            # Entries that were deleted by an earlier snapshot are that snapshot's news, not ours.
            said = [
                deleted(entry, self.snapshot_id) if identity(entry) in leaving else existing(entry)
                for entry in entries
                if _is_live(entry)
            ]
            self.restated[path] = self._write(table, manifest.partition_spec_id, manifest.content, said)
        return self.restated[path]

    def _entries(self, table: Table, manifest: ManifestFile) -> list[ManifestEntry]:
        path = manifest.manifest_path
        if path not in self.known:
            self.known[path] = read_manifest(table.io, manifest)
        return self.known[path]

    def _write(
        self, table: Table, spec_id: int, content: ManifestContent, entries: list[ManifestEntry]
    ) -> ManifestFile:
        location = self._location(table.metadata, f"isotherm-{self.job.job_id}-m{len(self.written)}.avro")
        self.written.append(location)
        return write_manifest(table.io, table.metadata, location, spec_id, content, self.snapshot_id, entries)

    def _location(self, metadata: TableMetadata, name: str) -> str:
        return SimpleLocationProvider(metadata.location, metadata.properties).new_metadata_location(name)

    # --- sending

    def _requirements(self, metadata: TableMetadata, head: Snapshot) -> tuple[TableRequirement, ...]:
        requirements: list[ValidatableTableRequirement] = [
            AssertTableUUID(uuid=metadata.table_uuid),
            AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=head.snapshot_id),
            AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),
        ]
        if isinstance(self.catalog, MetastoreCatalog):
            requirements.append(AssertUnmoved(next_sequence_number=metadata.next_sequence_number()))
        return tuple(requirements)  # type: ignore[arg-type]  # PyIceberg's union is closed, its check is not

    def _ref(self, metadata: TableMetadata) -> SetSnapshotRefUpdate:
        """`main` at the new snapshot. What it says of retention is said again, or it would be wiped."""
        ref = metadata.refs.get(MAIN_BRANCH)
        return SetSnapshotRefUpdate(
            ref_name=MAIN_BRANCH,
            type=SnapshotRefType.BRANCH,
            snapshot_id=self.snapshot_id,
            max_ref_age_ms=ref.max_ref_age_ms if ref else None,
            max_snapshot_age_ms=ref.max_snapshot_age_ms if ref else None,
            min_snapshots_to_keep=ref.min_snapshots_to_keep if ref else None,
        )

    def _send(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> Outcome | None:
        """Swap, and find out what came of it; None: another commit was faster, begin again.

        When an answer is lost and the history does not have us, the request may still be on its way. The very
        same request is sent again: it asserts the same head, so the catalog lets in one of the two at most.
        """
        error: Exception | None = None
        for _ in range(SENDS):
            self._ask(table)
            # From here on the request may land, whatever is answered and whenever.
            self.asserted_head_id, self.was_sent = table.metadata.current_snapshot_id, True
            self.asserted_schema_id = table.metadata.current_schema_id
            try:
                answer = self.catalog.commit_table(table, requirements, updates)
            except (CommitFailedException, ValueError) as err:
                # Another commit was faster, or a proxy has sent the request twice and this answers the second copy.
                error = err
                is_refused = True
            except (BadRequestError, ForbiddenError, UnauthorizedError, AuthorizationExpiredError) as err:
                return self._after_refusal(err)
            except Exception as err:  # noqa: BLE001 (whatever it was, the request may have been heard)
                error = err
                is_refused = False
            else:
                # What answers may be a proxy: done is what the answer's own metadata shows.
                if all(one.snapshot_id != self.snapshot_id for one in answer.metadata.snapshots):
                    error = ValueError(
                        "the catalog said that it is done, and its answer does not show the snapshot"
                    )
                    table = self._load()
                    if done := self._already(table):
                        return done
                    continue
                why = f"snapshot {self.snapshot_id} of {self.job.table.name}"
                return self._done(
                    table, self._outcome(OutcomeKind.DONE, "committed", why, snapshot_id=self.snapshot_id)
                )
            table = self._load()
            if done := self._already(table):
                return done
            if self.asserted_head_id is None or is_refused:
                return None
        return self._unknown(f"sent {SENDS} times; the last error was {type(error).__name__}: {error}")

    def _after_refusal(self, refused: Exception) -> Outcome:
        """The catalog says that it has not done it. A look shows whether an earlier copy was let in."""
        if done := self._already(self._load()):
            return done
        self.asserted_head_id = None
        raise _Refused("refused", f"the catalog refused the request: {refused}") from refused

    def _ask(self, table: Table) -> None:
        """The last question before the swap."""
        try:
            answer = self.may_commit(table)
        except Exception as err:
            raise _Refused("unavailable", f"whether it may be committed cannot be told now: {err}") from err
        if answer is not None:
            word = _REASON.match(answer)
            raise _Refused(word.group(1) if word else "refused", answer)

    # --- ends

    def _done(self, table: Table, outcome: Outcome) -> Outcome:
        """The outcome, with what lost attempts wrote and the snapshot does not use."""
        with contextlib.suppress(Exception):
            metadata = self.catalog.load_table(self.job.table.name).metadata
            snapshot = metadata.snapshot_by_id(outcome.snapshot_id) if outcome.snapshot_id else None
            if snapshot is not None:
                used = {one.manifest_path for one in read_manifest_list(table.io, snapshot.manifest_list)}
                used.add(snapshot.manifest_list)
                unused = tuple(path for path in self.written if path not in used)
                return replace(outcome, was_sent=True, leftovers=unused)
        return replace(outcome, was_sent=True, leftovers=())

    def _unknown(self, why: str) -> Outcome:
        return replace(
            self._outcome(
                OutcomeKind.UNKNOWN,
                "unknown",
                f"a request to commit on top of snapshot {self.asserted_head_id} was sent and its end is not known: "
                f"{why}",
                snapshot_id=self.snapshot_id,
            ),
            asserted_head_id=self.asserted_head_id,
        )

    def _outcome(
        self,
        kind: OutcomeKind,
        reason: str,
        why: str,
        snapshot_id: int | None = None,
        leftovers: tuple[str, ...] | None = None,
    ) -> Outcome:
        return Outcome(
            self.job.job_id,
            kind,
            reason,
            why,
            snapshot_id=snapshot_id,
            was_sent=self.was_sent,
            leftovers=tuple(self.written) if leftovers is None else leftovers,
        )


def _summary(
    job: CompactionJob, rewrite: Rewrite, leaving: Iterable[LiveEntry], before: Summary | None
) -> Summary:
    """The counters that Spark's own rewrite writes, and whose work it is.

    Totals are the parent's, plus and minus; one that the parent does not tell cannot be told.
    """
    counts = UpdateMetrics()
    for file in rewrite.files:
        counts.added_data_files += 1
        counts.added_records += file.rows
        counts.added_file_size += file.size_bytes
    for entry in leaving:
        counts.remove_file(entry.file)
    said = counts.to_dict()
    totals = {}
    for total, plus, minus in _TOTALS:
        known = before.get(total) if before is not None else None
        if known is not None and known.isdigit():
            totals[total] = str(int(known) + int(said.get(plus, 0)) - int(said.get(minus, 0)))
    ours = {JOB_ID: job.job_id, POLICY_HASH: job.policy_hash}
    return Summary(operation=Operation.REPLACE, **said, **{"changed-partition-count": "1"}, **totals, **ours)
