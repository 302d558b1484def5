"""What happens to the whole daemon: its rounds, its stores, its policies, and what is outside."""

from dataclasses import dataclass

from isotherm.core.model.outside import Outside


@dataclass(frozen=True, slots=True)
class RoundPlanned:
    """A planning round is over."""

    tables: int
    requests: int
    started: int
    seconds: float
    deletions_held: bool
    """Its ledger or its clock is not to be believed: this daemon only tells what it would delete."""
    away: tuple[Outside, ...] = ()
    """What the round could not do without, and had to."""
    hanging: int = 0
    """Threads in which something hangs that was given up."""
    overdue_s: float = 0.0
    """For how long the marked file that waits longest might have gone."""


@dataclass(frozen=True, slots=True)
class LedgerLost:
    """The ledger is new, and should not be: this daemon deletes nothing until a person says that it may."""

    why: str


@dataclass(frozen=True, slots=True)
class TrySoon:
    """Something outside did not answer; it is tried again."""

    what: str
    error: str
    kind: Outside


@dataclass(frozen=True, slots=True)
class PoliciesLoaded:
    """The folder of policies was read, and something was different from before; kept in the ledger too."""

    ok: bool
    files: int
    """Files in force, in their last good version."""
    complaints: str
    changes: str = ""
    """What became different: files that came and went, fields from → to."""
    tables: str = ""
    """Tables that have another policy now."""
    decisions_dropped: int = 0
    """Partitions of these tables; each is decided again."""


OfRounds = RoundPlanned | LedgerLost | TrySoon | PoliciesLoaded
