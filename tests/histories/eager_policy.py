"""A policy that has every kind of job on, and all of them soon due; the rest of it is drawn."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from isotherm.core.units import DAY_MS, HOUR_MS, MINUTE_MS

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
expire:
  {{keep_for: 10m, keep_last: 3, at_once: 1, every: 0s, at_latest: 1h, delete_after: {delete_after},
    clean_expired_metadata: true}}
manifests: {{min_count: {manifests}, max_per_partition: 0.5}}
metadata: {{keep_last: 1, at_once: 1, older_than: 1h}}
orphans: {{mode: apply, older_than: {orphans}, every: 1d, max_share: 1}}
override:
  - compact.target_file_size
  - expire.keep_last
  - metadata.keep_last
  - metadata.older_than
{override}"""
DRAWN: dict[str, tuple[Any, ...]] = {
    "quiet_for": ("0s", "5m"),
    "rest": ("0s", "1h"),
    "sort": ("table", "none", "'region, at DESC'", "'zorder(id, at)'"),
    "minor_after": ("null", "1h"),
    "target": ("64KiB", "2KiB", "2KiB"),
    "ratio": (0.05, 100, 100),
    "positions": (2, 2, "learned"),
    "equality": (1, 3, 100),
    "vectors": ("null", 1),
    "manifests": (2, 100, 100),
    "orphans": ("12h", "2d"),
    "delete_after": ("0s", "0s", "4h"),
}
"""What a policy says, drawn for each history."""


SPANS_MS = {
    "null": None,
    "0s": 0,
    "5m": 5 * MINUTE_MS,
    "1h": HOUR_MS,
    "4h": 4 * HOUR_MS,
    "12h": 12 * HOUR_MS,
    "2d": 2 * DAY_MS,
}


@dataclass(frozen=True)
class Eager:
    """One such policy."""

    said: Mapping[str, Any]

    @property
    def text(self) -> str:
        """As a file. It may not say that it overrides what it does not."""
        short = {
            "orphans.older_than": self.said["orphans"] == "12h",
            "expire.delete_after": self.said["delete_after"] == "0s",
        }
        return POLICY.format(
            **self.said, override="".join(f"  - {name}\n" for name, is_so in short.items() if is_so)
        )

    def span_ms(self, name: str) -> int | None:
        """What it says of a time."""
        return SPANS_MS[self.said[name]]


def drawn(chance: random.Random) -> Eager:
    """One of them."""
    return Eager({name: chance.choice(values) for name, values in DRAWN.items()})
