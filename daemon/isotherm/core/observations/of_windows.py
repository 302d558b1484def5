"""What happens to the windows that writers grant: one frozen value each, as in `observations`."""

from dataclasses import dataclass
from enum import StrEnum

from isotherm.contract.identity import TableId


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
    NO_SLOT = "no_slot"
    """So many jobs ran that none began in it."""
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
    late_s: float = 0.0
    """So long after its writers went on by themselves its last job was over: a request of it was under way for longer than a window
    leaves to one."""


OfWindows = WindowAsked | WindowEnded
