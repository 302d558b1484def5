"""Decides whether this machine's clock can be trusted, because a file that is deleted too early cannot be had back.

Ages and graces are counted by the clock of this machine. To find a jump, it is compared with the machine's monotonic
clock. To find a wrong time, it is compared with the clocks of the store and of the catalog. While they disagree, nothing
expires and nothing is deleted.

Values in, values out; the readings come from the edges.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime

from isotherm.core.units import span_text

POINT_EVERY_S = 300.0
POINT_IS_GOOD_FOR_S = 3600.0
"""How often a reading of both clocks is kept, and for how long: small jumps add up."""
CALM_S = 3600.0
"""For so long after a jump nothing is deleted, because nobody knows which of the two times was right."""
SKEW_MS = 45_000
"""How far apart two clocks may be. Iceberg's Java refuses a table in whose metadata a time goes back by more than a
minute. So a daemon whose clock is a minute ahead would keep others from committing. This stays below a minute, because
an answer may be some seconds old."""
COMPARE_EVERY_S = 3600.0
JUMP_MS = 60_000 - SKEW_MS
"""The least change that counts as a jump, from one look to the next or within an hour. A smaller jump and the largest
allowed skew are a minute together at most, until clocks are compared again. A clock that is corrected step by step stays
far below."""


def apart_ms(before_ms: int, told: datetime, after_ms: int) -> int:
    """How far this machine's clock is ahead of another one.

    Args:
        before_ms: this machine's time when it asked.
        told: the time in the answer.
        after_ms: this machine's time when the answer came. A slow answer counts as no difference.
    """
    told_ms = int(told.timestamp() * 1000)
    return after_ms - told_ms if told_ms > after_ms else max(before_ms - told_ms, 0)


@dataclass(frozen=True, slots=True)
class ClockCheck:
    """What is known of this machine's clock."""

    readings: tuple[tuple[int, float], ...] = ()
    """Times of this machine's two clocks, read together: wall clock in milliseconds, monotonic clock in seconds.

    Some from the last hour, the oldest first, and always the newest."""
    jumped_at_s: float | None = None
    jump_ms: int = 0
    skews: dict[str, tuple[float, int]] = field(default_factory=dict)
    """By the name of another clock: the monotonic time at which it was read, and how many milliseconds ours was ahead."""

    def turned(self, wall_ms: int, monotonic_s: float) -> "ClockCheck":
        """The check after another reading of this machine's own two clocks."""
        if not self.readings:
            return replace(self, readings=((wall_ms, monotonic_s),))
        jumps = [wall_ms - then_ms - int((monotonic_s - then_s) * 1000) for then_ms, then_s in self.readings]
        jump_ms = max(jumps, key=abs)
        if abs(jump_ms) < JUMP_MS:
            kept = tuple(one for one in self.readings if monotonic_s - one[1] < POINT_IS_GOOD_FOR_S)
            if len(kept) > 1 and kept[-1][1] - kept[-2][1] < POINT_EVERY_S:
                kept = kept[:-1]
            return replace(self, readings=(*kept, (wall_ms, monotonic_s)))
        # Comparisons from before the jump say nothing any more.
        return ClockCheck(((wall_ms, monotonic_s),), monotonic_s, jump_ms)

    def compared(self, name: str, skew_ms: int, monotonic_s: float) -> "ClockCheck":
        """The check after a reading of another clock. Ours was `skew_ms` ahead of it."""
        return replace(self, skews={**self.skews, name: (monotonic_s, skew_ms)})

    def settled(self, monotonic_s: float) -> "ClockCheck":
        """Drop differences that are older than an hour, if another clock agreed with ours within the last hour."""
        fresh = {
            name: known for name, known in self.skews.items() if monotonic_s - known[0] < COMPARE_EVERY_S
        }
        if all(abs(skew_ms) > SKEW_MS for _, skew_ms in fresh.values()):
            return self
        kept = {
            name: known for name, known in self.skews.items() if name in fresh or abs(known[1]) <= SKEW_MS
        }
        return replace(self, skews=kept)

    def wants(self, name: str, monotonic_s: float) -> bool:
        """Whether it is time to read another clock."""
        known = self.skews.get(name)
        return known is None or abs(known[1]) > SKEW_MS or monotonic_s - known[0] >= COMPARE_EVERY_S

    def trouble(self, monotonic_s: float) -> str | None:
        """Returns why this machine's clock cannot be trusted, or None if it can."""
        for name, (_, skew_ms) in sorted(self.skews.items()):
            if abs(skew_ms) > SKEW_MS:
                side = "ahead of" if skew_ms > 0 else "behind"
                return f"this machine's clock is {span_text(abs(skew_ms))} {side} that of {name}"
        if self.jumped_at_s is not None and monotonic_s - self.jumped_at_s < CALM_S:
            side = "ahead" if self.jump_ms > 0 else "back"
            return f"this machine's clock jumped {span_text(abs(self.jump_ms))} {side}, less than an hour ago"
        return None
