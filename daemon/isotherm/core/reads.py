"""How often a table is read, from the scans that engines report.

A count that fades: of a scan a week ago half is left. So one number for each table says how often it is read these
days, a busy Monday is still known on Sunday, and a table that nobody reads any more is forgotten by itself. Only what
was reported is known: a table without reports may be read all day long.
"""

import math
from dataclasses import dataclass
from typing import Final

from isotherm.core.units import DAY_MS

HALF_LIFE_MS: Final = 7 * DAY_MS
KNOWN_AFTER_MS: Final = DAY_MS
"""The first reports of a table count as those of a whole day: ten scans in its first minute are no ten a minute."""
MUCH_A_DAY: Final = 1000
"""Scans a day from which on a table counts as read as much as can be: one each minute and a half."""


@dataclass(frozen=True, slots=True)
class Reads:
    """The scans of one table, as far as they were reported."""

    scans: float = 0
    """Faded up to `at_ms`."""
    at_ms: int = 0
    """When the last one was counted."""
    since_ms: int = 0
    """When the first one was."""

    def counted(self, scans: int, now_ms: int) -> "Reads":
        """These, and some more scans."""
        if not self.scans:
            return Reads(scans, now_ms, now_ms)
        # A clock that was ahead and is set right does not keep them from fading until that time has come.
        return Reads(self._left(now_ms) + scans, now_ms, min(now_ms, self.since_ms))

    def per_day(self, now_ms: int) -> float:
        """How often the table is read in a day, these days."""
        watched_ms = max(now_ms - self.since_ms, KNOWN_AFTER_MS)
        # What a single scan a day would have come to since then.
        one_a_day = (1 - math.exp2(-watched_ms / HALF_LIFE_MS)) * HALF_LIFE_MS / DAY_MS / math.log(2)
        return self._left(now_ms) / one_a_day

    def _left(self, now_ms: int) -> float:
        return self.scans * math.exp2(-max(now_ms - self.at_ms, 0) / HALF_LIFE_MS)


def weight(per_day: float) -> float:
    """How much a table is read, from 0 (not that we know) to 1 (a thousand times a day): a third for each tenfold."""
    return min(math.log1p(max(per_day, 0)) / math.log1p(MUCH_A_DAY), 1.0)


def reads_text(per_day: float) -> str:
    """How often a table is read, in words: `read 412 times a day`."""
    for span, factor in (("day", 1), ("week", 7)):
        times = round(per_day * factor)
        if times >= 1:
            return f"read {'once' if times == 1 else f'{times:,} times'} a {span}"
    return "read less than once a week"
