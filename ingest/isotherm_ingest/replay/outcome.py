"""What is asked of a replay, and what came of it."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from isotherm_ingest.replay.choosing import Fate, Told
from isotherm_ingest.replay.letters import Letter
from isotherm_ingest.workers.late import At


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be replayed."""

    table: str
    reason: str = ""
    """Only letters with this reason."""
    since_ms: int | None = None
    """Only letters that were sent since."""
    dry_run: bool = False
    take_over: bool = False
    """Whether a driver that may be running is ended."""

    def takes(self, letter: Letter) -> bool:
        """Whether a letter is asked for."""
        return self.reason in {"", letter.reason} and letter.sent_ms >= (self.since_ms or 0)


@dataclass
class Replayed:
    """What came of it."""

    table: str
    is_mirror: bool
    letters: dict[At, Letter] = field(default_factory=dict)
    """Those that were asked for, and newer ones that came in their place."""
    told: dict[At, Told] = field(default_factory=dict)
    to_try: int = 0
    """Letters of which only decoding tells more."""
    commits: int = 0
    is_dry: bool = False

    @property
    def is_open(self) -> bool:
        """Whether a letter is left that a person must see to."""
        return any(fate in {Fate.BAD, Fate.UNDECIDED} for fate, _ in self.told.values())

    def tell(self, letters: Iterable[At], fate: Fate, why: str = "") -> None:
        """Keep what came of letters."""
        self.told |= dict.fromkeys(letters, (fate, why))
