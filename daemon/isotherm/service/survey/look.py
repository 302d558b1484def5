"""A look at names of the catalog, which goes on over many turns of the loop."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Look:
    """A look that is under way, piece by piece."""

    began_s: float
    ahead_ms: int
    """The least by which the wall clock was ahead of the monotonic one since then."""
    is_of_all: bool
    """Whether these are all names of the list."""
    hidden: str | None
    """What it does not show, and why. None where it shows everything."""
    listed_s: float
    """When that list was asked for."""
    behind: list[str]
    """The names of the pieces that follow."""
    asked_s: float | None = None
    """When the piece was begun that is under way. None where the catalog wants a pause."""
    again_s: float = 0.0
    """When the next piece may begin."""
    in_vain: int = 0
    """Pauses since the last answer."""
    lasted_s: float = 0.0
    """How long its pieces took, without pauses."""
    lost_s: float = 0.0
    """The same of those whose names gave no answer before: a dead store lets each wait for a time-out."""
    is_of_silent: bool = False
    """Whether the piece that is under way is one of those."""
    uuids: set[str] = field(default_factory=set)
    """The tables that were found."""
