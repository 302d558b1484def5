"""How far a rewrite is, in rows and bytes."""

from dataclasses import dataclass

LEAST_SHARE = 0.01
"""Of which anything can be said of what is left: before, a job has mostly begun."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What a rewrite has read and written until now."""

    rows_read: int = 0
    bytes_read: int = 0
    rows_written: int = 0
    bytes_written: int = 0
    unknown: str = ""
    """Why nobody can say, in words; empty where the numbers tell."""


def share_of(bytes_read: int, all_bytes: int) -> float:
    """The part of its bytes that a rewrite has read. Sizes in manifests may be wrong, so there is never more than all."""
    return min(bytes_read / all_bytes, 1.0) if all_bytes > 0 else 0.0


def left_s(share: float, seconds: float) -> float | None:
    """How long the rest is read at this pace, or None where that cannot be said."""
    return seconds * (1 - share) / share if share >= LEAST_SHARE else None
