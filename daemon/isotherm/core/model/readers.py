"""Who reads a table bit by bit."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class ReaderLag:
    """How far a reader of a table is behind, and whether what it needs is kept. In the order of what they need."""

    needs_from: int
    """The number of its snapshot among those of `main`, oldest first; -1 where it is none of them."""
    name: str
    behind_ms: int
    """For how long there has been something that it has not read."""
    is_kept: bool
