"""How far a stream has come, as both halves estimate it: the same quantile, the same limit.

If they parted, a writer's boundary and the one that the daemon derives for silent writers would contradict.
"""

MAX_AHEAD_MS = 3_600_000
"""A boundary may run at most this far ahead of the commit that moved it: rows from 2099 exist, and clocks differ."""

BOUNDARY_QUANTILE = 0.95
"""For writers that vouch for nothing: this part of a commit's rows must lie before the boundary it gives."""
