"""What a policy makes of a history, in the figures by which policies are compared.

Readers and writers are priced in the planner's own unit, bytes: opening a file costs as much as reading 4 MiB, rows
that deletes take away are read in vain, a compaction reads and writes what it takes, and a commit costs as much as
64 MiB (`file_selection`, `model.decisions`). How often a table is read is not in its history: the caller has to say it.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from isotherm.contract.identity import PartitionKey
from isotherm.contract.summary import Origin
from isotherm.core.model.decisions import COMMIT_BYTES
from isotherm.core.model.jobs import Take
from isotherm.core.partition_state import PartitionState
from isotherm.core.partitions import time_span, with_epochs
from isotherm.core.planner.file_selection import saved_bytes
from isotherm.core.policy.policy import Policy
from isotherm.core.replay.account import Replayed, SimulatedJob
from isotherm.core.replay.assumed import Assumed
from isotherm.core.replay.candidates import Candidate
from isotherm.core.replay.history import History
from isotherm.core.replay.replay import replay
from isotherm.core.units import DAY_MS

POINTS = 200
"""Points of time at which partitions are looked at."""

EVERYTHING = Take(with_deletes=True)


@dataclass(frozen=True, slots=True)
class Watched:
    """A history, and the partitions in it that policies are compared on."""

    history: History
    target_bytes: int
    """The size of file that readers are priced by, whatever a policy says."""
    partitions: frozenset[PartitionKey]
    """Those that somebody writes to, and those in which a job could have gained something at the beginning."""
    writes_ms: Mapping[PartitionKey, Sequence[int]]
    """When each was written to, in order."""
    ends_ms: Mapping[PartitionKey, int]
    """When the time of a partition is over; 0 where it is not about time."""

    @property
    def days(self) -> float:
        """How long it is."""
        return max(self.history.ends_at_ms - self.history.starts_at_ms, 1) / DAY_MS


@dataclass(frozen=True, slots=True)
class Figures:
    """What one policy makes of a history. Files are data and delete files."""

    files_mean: float
    """Of a partition, over time and over partitions."""
    files_p95: int
    write_amplification: float | None
    """(ingested + rewritten) / ingested, or None where nothing was ingested."""
    jobs: int
    """Compactions that ended well."""
    in_vain: int
    """Compactions that a writer ended."""
    delay_ms: int | None
    """From where a partition was left to the end of its first compaction, on the average; None without any."""
    has_cold_debt: bool
    """Whether any partition that was not hot ever had small files or deletes."""
    read_bytes: float
    """What a reader of all partitions pays beyond what they would cost well kept, averaged over time."""
    rewritten_bytes_a_day: float
    """What compaction pays in a day: bytes read, bytes written, commits, and what was read in vain."""

    def price(self, reads_a_day: float) -> float:
        """What a day costs, in bytes, where the table is read so often."""
        return reads_a_day * self.read_bytes + self.rewritten_bytes_a_day


@dataclass(frozen=True, slots=True)
class Trial:
    """One policy that was tried."""

    candidate: Candidate
    figures: Figures


def watched(history: History, policy: Policy) -> Watched:
    """What is compared in a history, given the policy that is in force."""
    target_bytes = int(policy.compact.target_file_size)
    writes_ms: dict[PartitionKey, list[int]] = defaultdict(list)
    for recorded in history.recorded:
        if recorded.change.origin is not Origin.MAINTENANCE:
            for key in recorded.change.partitions:
                writes_ms[key].append(recorded.received_at_ms)
    owing = {key for key, one in history.partitions.items() if saved_bytes(one, EVERYTHING, target_bytes)}
    fields = with_epochs(history.facts.fields, policy.cold.epochs)
    spans = {key: time_span(key, fields) for key in writes_ms}
    return Watched(
        history=history,
        target_bytes=target_bytes,
        partitions=frozenset(owing | writes_ms.keys()),
        writes_ms=writes_ms,
        ends_ms={key: 0 if span is None else span.end_ms for key, span in spans.items()},
    )


def tried(
    on: Watched, candidate: Candidate, assumed: Assumed, tell: Callable[[float], None] = lambda _: None
) -> Trial:
    """Replay a history under a policy; `tell` is told how much of it is done."""
    readers = _Readers(on)
    replayed = replay(on.history, candidate.policy, assumed, samples=POINTS, tell=tell, show=readers.look)
    return Trial(candidate, _figures(on, replayed, readers))


class _Readers:
    """What readers meet at points of time."""

    def __init__(self, on: Watched) -> None:
        self.files: Counter[int] = Counter()
        """How often a partition of so many files was met."""
        self.bytes = 0
        self.looks = 0
        self._on = on
        self._met: dict[PartitionKey, tuple[PartitionState, int, int]] = {}
        """Files and price by partition: few of them change between two looks."""

    def look(self, _at_ms: int, partitions: Mapping[PartitionKey, PartitionState]) -> None:
        """All partitions at one point of time."""
        self.looks += 1
        for key in self._on.partitions:
            if (partition := partitions.get(key)) is None:
                continue
            met = self._met.get(key)
            if met is None or met[0] is not partition:
                files = partition.data_total.files + partition.deletes_total.files
                price = saved_bytes(partition, EVERYTHING, self._on.target_bytes)
                met = self._met[key] = (partition, files, price)
            self.files[met[1]] += 1
            self.bytes += met[2]


def _figures(on: Watched, replayed: Replayed, readers: _Readers) -> Figures:
    totals, met = replayed.totals, readers.files.total()
    delays_ms = _delays_ms(on, replayed.jobs)
    paid = 2 * totals.rewritten_bytes + totals.wasted_bytes + totals.jobs * COMMIT_BYTES
    return Figures(
        files_mean=sum(files * count for files, count in readers.files.items()) / max(met, 1),
        files_p95=_quantile(readers.files, 0.95),
        write_amplification=totals.write_amplification,
        jobs=totals.jobs,
        in_vain=totals.conflicts,
        delay_ms=round(sum(delays_ms) / len(delays_ms)) if delays_ms else None,
        has_cold_debt=any(sample.score > 0 for sample in replayed.samples),
        read_bytes=readers.bytes / max(readers.looks, 1),
        rewritten_bytes_a_day=paid / on.days,
    )


def _quantile(counts: Mapping[int, int], part: float) -> int:
    """The smallest value that at least this part of all does not exceed."""
    left = part * sum(counts.values())
    for value in sorted(counts):
        left -= counts[value]
        if left <= 0:
            return value
    return 0


def _delays_ms(on: Watched, jobs: Sequence[SimulatedJob]) -> list[int]:
    """From the last write before a partition's first compaction, or its end where that is later, to its done."""
    first: dict[PartitionKey, SimulatedJob] = {}
    for job in jobs:
        if not job.is_conflict:
            first.setdefault(job.partition, job)
    delays = []
    for key, job in first.items():
        before = bisect_right(on.writes_ms.get(key, ()), job.started_at_ms)
        if before:  # else it was due from the beginning
            left_ms = max(on.writes_ms[key][before - 1], on.ends_ms[key])
            delays.append(job.ended_at_ms - left_ms)
    return delays
