"""How long one waits after failures in a row: 1, 2, 4, … times the first pause, up to the longest."""

MOST_DOUBLINGS = 30
"""Any pause is at its longest by then; a power that grows on with each failure of a day would be no number any more."""


def pause_s(failures: int, first_s: float = 2.0, longest_s: float = 120.0) -> float:
    """Seconds to wait after so many failures in a row, at least one."""
    return float(min(first_s * 2 ** min(failures - 1, MOST_DOUBLINGS), longest_s))
