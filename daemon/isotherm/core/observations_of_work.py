"""What happens in the course of work: jobs, expiries, searches, deletions. `observations` has everything else."""

from dataclasses import dataclass
from enum import StrEnum

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
class SnapshotsExpired:
    """Snapshots left a table; their files follow after the grace."""

    table: TableId
    snapshots: int
    files_marked: int


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
    """Files that nobody needs any more are gone."""

    table: TableId
    files: int
    kept: int
    """Files that a last look kept from being deleted."""
    postponed: int = 0
    """Files that are looked at again later, because they may be needed, or could not be deleted."""
    why: str = ""
    """Why the first of those that stay does."""


@dataclass(frozen=True, slots=True)
class WindowAsked:
    """The writers of a table are asked to leave it alone for a while."""

    table: TableId
    window_id: str
    partitions: int
    length_ms: int


class WindowEnd(StrEnum):
    """How it ended that writers were asked for a window; a metric's label."""

    DONE = "done"
    """What was due in it is done, or came to nothing."""
    OVER = "over"
    """Its time was up before that."""
    DISTURBED = "disturbed"
    """Somebody wrote, or meant to."""
    TAKEN_BACK = "taken_back"
    """A writer took it back."""
    LATE = "late"
    """It was granted when most of it was over."""
    OTHER_HEAD = "other_head"
    """The table has another head than the writer knows."""
    NOT_OURS = "not_ours"
    """The table is another daemon's by now, or nobody's."""
    UNANSWERED = "unanswered"
    """No writer granted it, or not all of them did, however often they were asked."""


@dataclass(frozen=True, slots=True)
class WindowEnded:
    """A window is over, or will not come."""

    table: TableId
    window_id: str
    end: WindowEnd
    seconds: float
    """From its request on."""
    jobs: int
    """That began in it."""


OfWork = JobStarted | JobEnded | SnapshotsExpired | FolderSearched | FilesDeleted | WindowAsked | WindowEnded
