"""A policy that has every kind of job on, and all of them soon due; the rest of it is drawn."""

import random
from typing import Any

from isotherm.core.units import MINUTE_MS

KEEP_LAST, KEEP_FOR_MS = 3, 10 * MINUTE_MS
POLICY = """
tables: "*"
cold: {{after: 1, quiet_for: {quiet_for}, quiet_commits: 0, silent_for: 1h, late_write_risk: 1}}
compact:
  min_files: 2
  fill_files: 2
  rest: {rest}
  sort: {sort}
  minor_after: {minor_after}
  target_file_size: {target}
  max_delete_ratio: {ratio}
  max_position_deletes: {positions}
  max_equality_deletes: {equality}
  max_deletion_vectors: {vectors}
expire: {{keep_for: 10m, keep_last: 3, at_once: 1, every: 0s, at_latest: 1h, delete_after: 0s}}
manifests: {{min_count: 2, max_per_partition: 0.5}}
metadata: {{keep_last: 1, at_once: 1, older_than: 1h}}
orphans: {{mode: apply, older_than: 12h, every: 1d, max_share: 1}}
override:
  - compact.target_file_size
  - expire.keep_last
  - expire.delete_after
  - metadata.keep_last
  - metadata.older_than
  - orphans.older_than
"""
DRAWN: dict[str, tuple[Any, ...]] = {
    "quiet_for": ("0s", "5m"),
    "rest": ("0s", "1h"),
    "sort": ("table", "none", "'region, at DESC'", "'zorder(id, at)'"),
    "minor_after": ("null", "1h"),
    "target": ("64KiB", "2KiB"),
    "ratio": (0.05, 100, 100),
    "positions": (2, 2, "learned"),
    "equality": (1, 1, 3),
    "vectors": ("null", 1),
}
"""What a policy says, drawn for each history."""


def drawn(chance: random.Random) -> str:
    """One of them, as a file."""
    return POLICY.format(**{name: chance.choice(values) for name, values in DRAWN.items()})
