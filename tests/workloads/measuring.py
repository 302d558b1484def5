"""What a policy makes of a history, in the figures that a person would judge it by.

A partition has *settled* where its time is over and nobody has written to it for a day. That is said of the history, not
of the policy, so that policies can be compared.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from isotherm.core.partitions import time_span
from isotherm.core.policy.policy import Policy
from isotherm.core.policy.precedence import PolicyFile
from isotherm.core.replay.assumed import Assumed
from isotherm.core.replay.replay import replay
from isotherm.runtime.yaml_reader import parse_yaml
from support.builders import DAY, SECOND

EXAMPLES = Path(__file__).parents[2] / "policies" / "examples"
ASSUMED = Assumed(plan_every_ms=10 * SECOND)
POINTS = 300
"""Points of time at which partitions are looked at."""
FIRST = 0.3
"""This part of a history is left out of what is averaged: it begins with an empty table, or a clean one."""


@dataclass(frozen=True)
class Measured:
    """The figures of one replay. A file is a data or a delete file; partitions are those that the history writes to."""

    write_amplification: float
    files_mean: float
    """Files of a partition, over time and over partitions."""
    files_p95: int
    spare_mean: float
    """The same less the files that the bytes of a partition fill, but for the last: 1 is perfect."""
    settled_mean: float
    """Spare files of partitions that have settled."""
    settled_p95: int
    jobs: int
    repeats: float
    """Part of the jobs that rewrite data of a partition which was compacted less than a day before, and written since: the
    parts of a large job are none."""
    thrown_away: int
    wasted_bytes: int
    in_a_row: int
    """The most jobs for one partition that were thrown away one after another."""
    delay_mean_ms: float | None
    """From a partition's last write (or its end, where that is later) to the end of its first compaction."""
    delay_longest_ms: int | None
    longest_wait_ms: int | None
    """From due to done."""
    still_due: int


def policy_of(example):
    """The built-in default, or one of policies/examples by its name."""
    if example is None:
        return Policy()
    path = EXAMPLES / f"{example}.yaml"
    file = parse_yaml(path.read_text(), path.name, PolicyFile)
    return Policy(**{section: getattr(file, section) for section in Policy.model_fields})


def measured(history, policy):
    """Replay a history under a policy, with one job at a time, a round each ten seconds, as by default, and 20 MiB a second."""
    seen = _Seen(history, int(policy.compact.target_file_size))
    replayed = replay(history, policy, ASSUMED, samples=POINTS, show=seen.look)
    totals, jobs = replayed.totals, replayed.jobs
    done = [job for job in jobs if not job.is_conflict]
    delays_ms = _delays(done, history)
    return Measured(
        write_amplification=totals.write_amplification or 1.0,
        files_mean=_mean(seen.files),
        files_p95=_quantile(seen.files, 0.95),
        spare_mean=_mean(seen.spare),
        settled_mean=_mean(seen.settled),
        settled_p95=_quantile(seen.settled, 0.95),
        jobs=len(done),
        repeats=_repeats(done, history) / max(len(done), 1),
        thrown_away=totals.conflicts,
        wasted_bytes=totals.wasted_bytes,
        in_a_row=_most_in_a_row(jobs),
        delay_mean_ms=mean(delays_ms) if delays_ms else None,
        delay_longest_ms=max(delays_ms, default=None),
        longest_wait_ms=totals.longest_lag_ms,
        still_due=totals.still_due,
    )


class _Seen:
    """How often a partition of so many files was met."""

    def __init__(self, history, target):
        self.files = Counter()
        self.spare = Counter()
        self.settled = Counter()
        self._written = dict.fromkeys(key for one in history.recorded for key in one.change.partitions)
        fields = history.facts.fields
        self._ends = {key: span.end_ms if (span := time_span(key, fields)) else 0 for key in self._written}
        self._from_ms = history.starts_at_ms + FIRST * (history.ends_at_ms - history.starts_at_ms)
        self._target = target

    def look(self, at_ms, partitions):
        """The partitions at one point of time."""
        if at_ms < self._from_ms:
            return
        for key, end_ms in self._ends.items():
            if (partition := partitions.get(key)) is None:
                continue
            data = partition.data.values()
            files = sum(s.files for s in data) + sum(s.files for s in partition.deletes.values())
            spare = files - max(sum(s.bytes for s in data) - 1, 0) // self._target
            self.files[files] += 1
            self.spare[spare] += 1
            if at_ms - max(end_ms, partition.last_write_at_ms or 0) >= DAY:
                self.settled[spare] += 1


def _mean(counts):
    return sum(value * count for value, count in counts.items()) / max(counts.total(), 1)


def _quantile(counts, part):
    left = part * counts.total()
    for value in sorted(counts):
        left -= counts[value]
        if left <= 0:
            return value
    return 0


def _repeats(done, history):
    before, repeats, writes_ms = {}, 0, _writes_ms(history)
    for job in done:
        ended_ms = before.get(job.partition, -DAY)
        times = writes_ms[job.partition]
        if not job.take.rewrites_data:
            continue
        is_written = bisect_right(times, job.started_at_ms) > bisect_right(times, ended_ms)
        repeats += is_written and job.started_at_ms - ended_ms < DAY
        before[job.partition] = job.ended_at_ms
    return repeats


def _writes_ms(history):
    """When each partition was written to."""
    writes_ms = defaultdict(list)
    for one in history.recorded:
        for key in one.change.partitions:
            writes_ms[key].append(one.received_at_ms)
    return writes_ms


def _most_in_a_row(jobs):
    most, row = 0, Counter()
    for job in jobs:
        row[job.partition] = row[job.partition] + 1 if job.is_conflict else 0
        most = max(most, row[job.partition])
    return most


def _delays(done, history):
    """From where a partition was left to the end of its first compaction, for each that had one."""
    writes_ms = _writes_ms(history)
    delays, seen = [], set()
    for job in done:
        if job.partition in seen or job.partition not in writes_ms:
            continue
        seen.add(job.partition)
        times = writes_ms[job.partition]
        place = bisect_right(times, job.started_at_ms)
        if place == 0:
            continue  # it was due from the beginning
        span = time_span(job.partition, history.facts.fields)
        left_ms = max(times[place - 1], span.end_ms if span else 0)
        delays.append(job.ended_at_ms - left_ms)
    return delays
