"""What is done otherwise after a failure: one waits longer, and takes less.

Pauses are 1, 2, 4, … times the first one, up to the longest. What could not be read, or written, is tried in smaller
pieces: rows that are too large together may pass one after the other.
"""

MOST_DOUBLINGS = 30
"""Any pause is at its longest by then; a power that grows on with each failure of a day would be no number any more."""


def pause_s(failures: int, first_s: float = 2.0, longest_s: float = 120.0) -> float:
    """Seconds to wait after so many failures in a row, at least one."""
    return float(min(first_s * 2 ** min(failures - 1, MOST_DOUBLINGS), longest_s))


ANY = 1_000_000
"""Messages from which on a limit limits nothing."""


def less(tried: int) -> int:
    """How many messages to take after so many have failed."""
    return max(tried // 4, 1)


def more(at_most: int | None) -> int | None:
    """How many to take after so many have passed; None is as many as there are."""
    return None if at_most is None or 2 * at_most > ANY else 2 * at_most
