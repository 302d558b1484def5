"""The only place that reads a clock.

Everything else takes `now` as an argument, so that a month of a table's life can be replayed in seconds.
Times are integers: milliseconds since the epoch in UTC, as Iceberg's own metadata has them.
"""

import time


def now_ms() -> int:
    """Wall clock, in milliseconds since the epoch (UTC)."""
    return time.time_ns() // 1_000_000


def monotonic_s() -> float:
    """Seconds that never go back, for time-outs and durations."""
    return time.monotonic()
