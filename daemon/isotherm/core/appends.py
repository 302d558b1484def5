"""What shows that a table's writers only append, and which files of a partition are old. Values only, no clock.

An append never conflicts with a rewrite of older files: it names none. So where nobody does anything else, old files
may be merged in a partition that is still written (`planner/minor.py`). The proof is what the commits did, not what
they are called: an append that takes a file away is none.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from isotherm.contract.summary import Origin
from isotherm.core.model.changes import Change, PartitionDelta
from isotherm.core.model.files import NO_FILES, FileStats, summed

ARRIVAL_MS = 15 * 60_000
"""What comes within so long counts as one arrival: the default of `cold.quiet_for`."""
ARRIVALS = 5
"""So many arrivals of a partition are kept apart: those of an hour at least."""


@dataclass(frozen=True, slots=True)
class Appends:
    """The appends of others since somebody did something else, or since the history that is known begins."""

    count: int = 0
    since_ms: int | None = None
    """When the first of them came, or None where there is none."""

    def after(self, change: Change, at_ms: int, *, is_believed: bool = True) -> "Appends":
        """The same after one more commit. Ours count for nothing, nor does one that touches no file, as a rewrite of
        manifests; a rewrite of files by somebody else is no append.

        With a time that is not believed, nothing can begin.
        """
        if change.origin is Origin.MAINTENANCE or (change.operation == "replace" and not change.partitions):
            return self
        if not is_append(change) or (self.since_ms is None and not is_believed):
            return Appends()
        return Appends(self.count + 1, at_ms if self.since_ms is None else self.since_ms)


NO_APPENDS = Appends()


@dataclass(frozen=True, slots=True)
class Arrival:
    """Data files that came to a partition within a while, and what tells older files from them."""

    began_ms: int
    before_ms: int
    """When the partition was last written before them."""
    before_number: int
    """The table's sequence number before them: every older file has at most this one."""
    data: Mapping[int, FileStats] = field(default_factory=dict)
    """By size bucket."""

    @classmethod
    def before_all(cls, at_ms: int) -> Self:
        """That somebody appended, where nothing tells which files: it makes none of them old, and none joins it."""
        return cls(at_ms - ARRIVAL_MS, at_ms, 0)


def is_append(change: Change) -> bool:
    """Whether a commit of somebody else added data files and did nothing else."""
    return change.operation == "append" and all(
        not delta.removed and not delta.deletes for delta in change.partitions.values()
    )


def arrivals_after(
    arrivals: tuple[Arrival, ...],
    delta: PartitionDelta,
    *,
    is_append: bool,
    number: int,
    written_before_ms: int | None,
    at_ms: int,
) -> tuple[Arrival, ...]:
    """The arrivals of a partition after a commit of somebody else; of what is no append nothing is kept.

    Args:
        arrivals: those before.
        delta: what the commit did to the partition.
        is_append: whether it added data files and did nothing else, anywhere.
        number: the table's sequence number before it.
        written_before_ms: when the partition was last written before it, or None where it was not.
        at_ms: when it came.
    """
    if not is_append:
        return ()
    last = arrivals[-1] if arrivals else None
    if last is not None and 0 <= at_ms - last.began_ms < ARRIVAL_MS:
        # Not by `replace`: each commit makes one of every partition.
        more = Arrival(last.began_ms, last.before_ms, last.before_number, summed(last.data, delta.data))
        return (*arrivals[:-1], more)
    before_ms = at_ms if written_before_ms is None else written_before_ms
    return (*arrivals, Arrival(at_ms, before_ms, number, dict(delta.data)))[-ARRIVALS:]


def without(data: Mapping[int, FileStats], arrivals: Iterable[Arrival]) -> dict[int, FileStats]:
    """The data files of a partition, but for those of some arrivals."""
    left = dict(data)
    for arrival in arrivals:
        for bucket, stats in arrival.data.items():
            rest = left.get(bucket, NO_FILES) - stats
            left[bucket] = rest if min(rest.files, rest.rows, rest.bytes) >= 0 else NO_FILES
    return {bucket: stats for bucket, stats in left.items() if stats.files > 0}
