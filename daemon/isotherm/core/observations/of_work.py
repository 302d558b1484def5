"""What happens in the course of work: jobs, expiries, searches, deletions. `observations` has everything else."""

from dataclasses import dataclass, field

from isotherm.contract.identity import TableId
from isotherm.core.model.jobs import Action, OutcomeKind
from isotherm.core.model.refusals import Reason


@dataclass(frozen=True, slots=True)
class JobStarted:
    """A job began."""

    table: TableId
    action: Action
    job_id: str
    label: str
    files: int
    bytes: int
    why: str


@dataclass(frozen=True, slots=True)
class JobEnded:
    """A job is over, one way or another."""

    table: TableId
    action: Action
    job_id: str
    label: str
    outcome: OutcomeKind
    reason: Reason
    why: str
    snapshot_id: int | None
    files_before: int
    files_after: int
    bytes_read: int
    bytes_written: int
    seconds: float
    peak_memory_bytes: int
    still_running: int | None = None
    """Compactions that run on, or None where it was none that had begun: its end does not change how many do."""


@dataclass(frozen=True, slots=True)
class JobGoesOn:
    """A rewrite that takes longer than a minute, once a minute: how far it is."""

    table: TableId
    action: Action
    job_id: str
    label: str
    seconds: int
    """Since it began."""
    rows_read: int
    rows: int
    """That are to be read."""
    bytes_read: int
    bytes: int
    """The same of bytes."""
    rows_written: int
    bytes_written: int
    share: float | None
    """The part of its bytes that was read, or None where nobody can say."""
    seconds_left: int | None
    """Until all is read, at this pace. What was written is read back after that. None where nobody can say."""
    why: str = ""
    """Why nobody can say, or empty."""


@dataclass(frozen=True, slots=True)
class RewritesRun:
    """How far the rewrites of a table are together, every few seconds, and once more when none runs."""

    table: TableId
    jobs: int
    """That say how far they are."""
    rows: int = 0
    bytes: int = 0
    rows_read: int = 0
    bytes_read: int = 0
    rows_written: int = 0
    bytes_written: int = 0
    each: tuple[JobGoesOn, ...] = field(default=(), compare=False)
    """Each of them."""


@dataclass(frozen=True, slots=True)
class SnapshotsExpired:
    """Snapshots left a table; their files follow after the grace."""

    table: TableId
    snapshots: int
    files_marked: int
    schemas_removed: int = 0
    """That nothing used any more (`expire.clean_expired_metadata`)."""
    specs_removed: int = 0
    """The same of partition specs."""


@dataclass(frozen=True, slots=True)
class FolderSearched:
    """A table's folders were listed, and what nothing needs in them was found."""

    table: TableId
    action: Action
    listed: int
    files: int
    """That nothing needs."""
    bytes: int
    marked: int
    """Of these, those that will be deleted once their grace is over and they are looked at again."""
    first: str
    """The oldest of them, or empty."""


@dataclass(frozen=True, slots=True)
class FilesDeleted:
    """Files that nobody needs any more are gone, or in quarantine."""

    table: TableId
    files: int
    """That were deleted."""
    kept: int
    """Files that a last look kept from being deleted."""
    postponed: int = 0
    """Files that are looked at again later, because they may be needed, or could not be deleted."""
    why: str = ""
    """Why the first of those that stay does."""
    moved: int = 0
    """Into quarantine."""
    purged: int = 0
    """Of those that were deleted, the ones that were in quarantine."""


@dataclass(frozen=True, slots=True)
class FilesRestored:
    """Files were moved back from quarantine, because the table needs them: until then whoever read them has failed."""

    table: TableId
    files: int
    first: str
    """Where one of them lay in quarantine."""


@dataclass(frozen=True, slots=True)
class QuarantineCounted:
    """What a table has in quarantine."""

    table: TableId
    files: int
    bytes: int


OfWork = (
    JobStarted
    | JobEnded
    | JobGoesOn
    | RewritesRun
    | SnapshotsExpired
    | FolderSearched
    | FilesDeleted
    | FilesRestored
    | QuarantineCounted
)
