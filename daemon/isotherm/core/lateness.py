"""How often a stream comes back to partitions that it had left behind, learned from the table's own commits.

For each age of a partition (how many of its intervals it lies behind the boundary, in octaves) it is counted for how
long partitions of that age were watched, and how often the stream wrote into one of them. That is all: some twenty
short records for a table, whatever its size and history. What is long ago counts less and less.

One outlier does not count. A backfill of last year, or a writer that caught up after a weekend, writes into old
partitions all day long and says nothing about the days to come: of every age the busiest day counts no more than all
others together.

How late the files of a table come is counted beside it, by the time that the stream was past the end of their partition:
in octaves of minutes, whatever the partitions' length. From it follows when a partition is over (`over_after_ms`).

Rates are those of a Poisson process, pooled over all partitions of an age. Where a partition spec has more fields than
the time, a return counts as the part of an interval's partitions that it wrote to: one bucket of a day's sixteen is a
sixteenth. How many an interval has is learned from those that the stream began under our eyes. Until an interval has
passed, and wherever partitions come later than their interval, it counts as more, which errs on the side of waiting.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from isotherm.core.partitions import TimeSpan
from isotherm.core.units import DAY_MS, HOUR_MS, MINUTE_MS

AGES: Final = 20
"""Ages that are told apart: 0 to 1 intervals, 1 to 2, 2 to 4, … what is older than the last is not watched."""
HALF_LIFE_MS: Final = 14 * DAY_MS
RETURN_MS: Final = 10 * 60_000
"""A write to a partition that was written less than this before is no return: a micro-batch after another is no
independent event, and a partition that was just written is not quiet anyway."""
PAUSE_MS: Final = HOUR_MS
"""The time between two commits counts as watched up to here: a stream that stands still teaches nothing."""
OVER: Final = 0.98
"""A partition is over when this part of its files has come, as the table's others show."""
ENOUGH_FILES: Final = 50.0
"""So many files, before anything is said of how late they come."""
ENOUGH_RETURNS: Final = 2.0
"""So many returns, before anything is called hot for them."""
OUTLIER: Final = 2.0
"""The busiest day counts as far as all returns are at most so many times those of the other days."""
NEWEST: Final = 4
"""So many intervals are the newest, about which event time is: one before the boundary, and some ahead of it, because a
boundary that a writer says may lie hours behind its newest rows."""


@dataclass(frozen=True, slots=True)
class Age:
    """What is known of the partitions of one age."""

    watched_ms: float = 0
    """Partition-time: how long, times how many partitions of that age there were."""
    returns: float = 0
    busiest: float = 0
    """Returns of the busiest day."""
    day_from_ms: int = 0
    """When the present day began: with the first return after the one before was over."""
    on_day: float = 0
    """Returns of that day so far."""


NOTHING: Final = Age()


HALF_LIFE_INTERVALS: Final = 8
"""Of what is known of their partitions: a fortnight is half a month, and would never have seen one pass."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a commit wrote into the partitions of one time span."""

    files: int
    quiet: int = 0
    """How many of them had been quiet: the writer has come back to these."""
    born: int = 0
    """How many are there since this commit, less those that are gone."""

    def __add__(self, other: "Written") -> "Written":
        return Written(self.files + other.files, self.quiet + other.quiet, self.born + other.born)


@dataclass(frozen=True, slots=True)
class Risk:
    """How likely a write into a partition of some age is."""

    probability: float
    """Upper end (95 %) of what the history allows, for the span that was asked for."""
    returns: float
    """Returns that it rests on, the busiest day as far as it counts."""
    watched_ms: float
    youngest: int
    """The age, in intervals of the partition: from here (inclusive) …"""
    oldest: int
    """… to here (exclusive)."""

    @property
    def is_known_hot(self) -> bool:
        """Whether enough returns were seen to hold a partition back for them."""
        return self.returns >= ENOUGH_RETURNS


@dataclass(frozen=True, slots=True)
class Lateness:
    """What a table has taught so far."""

    ages: tuple[Age, ...] = ()
    since_ms: int | None = None
    """When it began to learn."""
    updated_at_ms: int = 0
    oldest_ms: int | None = None
    """Where the oldest partition that was ever written begins: older ones do not exist, and are not watched."""
    files: float = 0
    """Files that came."""
    late: tuple[float, ...] = ()
    """Of these, those that came when the stream was past the end of their partition: by less than a minute, by one to
    two, two to four, …"""
    from_ms: int | None = None
    """The boundary when it began to learn."""
    reached_ms: int | None = None
    """The boundary at the last commit."""
    intervals: float = 0
    """Intervals that the boundary has passed."""
    born: float = 0
    """Partitions that came to them while they were the newest."""

    @property
    def width(self) -> float:
        """How many partitions an interval has, as far as that is known."""
        # More, because an interval has its partitions before it is over.
        return max(self.born / (self.intervals + NEWEST), 1.0)

    def after(
        self, written: Mapping[TimeSpan, Written], boundary_ms: int, partitions: int, committed_at_ms: int
    ) -> "Lateness":
        """With one more commit of a writer, which wrote into partitions of these time spans.

        Args:
            written: what it wrote, by time span. Returns to those ahead of the boundary teach nothing.
            boundary_ms: event time that the stream had reached before the commit.
            partitions: how many the table has: of no age are there more.
            committed_at_ms: commit time.
        """
        if not written:
            return self
        updated_at_ms = self.updated_at_ms
        if updated_at_ms - committed_at_ms > PAUSE_MS:
            updated_at_ms = committed_at_ms  # what came before was stamped by a clock that ran far ahead
        oldest_ms = min([span.start_ms for span in written] + [self.oldest_ms or boundary_ms])
        length_ms = max(span.length_ms for span in written)
        passed_ms = max(committed_at_ms - updated_at_ms, 0) if self.since_ms is not None else 0
        ages = list(self.ages)
        deepest = _age_of(boundary_ms - oldest_ms, length_ms)
        ages.extend([NOTHING] * (min(deepest + 1, AGES) - len(ages)))
        fading = 0.5 ** (passed_ms / HALF_LIFE_MS)
        ages = [_watched(age, number, passed_ms, fading, partitions) for number, age in enumerate(ages)]
        counts, width = dict[int, float](), self.width
        for span, one in written.items():
            number = _age_of(boundary_ms - span.end_ms, span.length_ms)
            if one.quiet and 0 <= number < len(ages):
                counts[number] = counts.get(number, 0) + min(one.quiet / width, 1)
        for number, count in counts.items():
            ages[number] = _returned(ages[number], count, committed_at_ms)
        return Lateness(
            tuple(ages),
            committed_at_ms if self.since_ms is None else self.since_ms,
            max(committed_at_ms, updated_at_ms),
            oldest_ms,
            *self._files_after(written, boundary_ms, fading),
            boundary_ms if self.from_ms is None else self.from_ms,
            boundary_ms,
            *self._width_after(written, boundary_ms, fading),
        )

    def _width_after(
        self, written: Mapping[TimeSpan, Written], boundary_ms: int, fading: float
    ) -> tuple[float, float]:
        """Intervals that have passed, and the partitions that came to them.

        What comes to an older interval may have been there before, and what lies far ahead is of a clock that is wrong.
        """
        if self.from_ms is None or self.reached_ms is None:
            return 0.0, 0.0
        newest = {
            span: one.born
            for span, one in written.items()
            if -1 <= (span.start_ms - boundary_ms) / max(span.length_ms, 1) <= NEWEST - 1
        }
        # By the shortest: a table that is divided by hours now may still get rows for days of before.
        length_ms = max(min(span.length_ms for span in newest or written), 1)
        # Of a leap, as of a backfill or a nightly batch, no more counts than partitions are counted of.
        passed = min(max(boundary_ms - self.reached_ms, 0) / length_ms, NEWEST)
        born = sum(count for span, count in newest.items() if span.start_ms > self.from_ms)
        fading **= HALF_LIFE_MS / max(HALF_LIFE_MS, HALF_LIFE_INTERVALS * length_ms)
        return self.intervals * fading + passed, max(self.born * fading + born, 0.0)

    def _files_after(
        self, written: Mapping[TimeSpan, Written], boundary_ms: int, fading: float
    ) -> tuple[float, tuple[float, ...]]:
        files, late = self.files * fading, [count * fading for count in self.late]
        for span, one in written.items():
            files += one.files
            if (number := _age_of(boundary_ms - span.end_ms, MINUTE_MS)) >= 0:
                number = min(number, AGES)
                late.extend([0.0] * (number + 1 - len(late)))
                late[number] += one.files
        return files, tuple(late)

    def over_after_ms(self, boundary_ms: int, watched_ms: int) -> int | None:
        """How far the stream must be past a partition's end, so that nearly all of its files have come.

        Returns None where too little is known: event time was not watched for so long yet.
        """
        if self.since_ms is None or self.from_ms is None or self.files < ENOUGH_FILES:
            return None
        # In event time too: a stream that stands still shows nothing, and a leap out of last year no more.
        if min(self.updated_at_ms - self.since_ms, boundary_ms - self.from_ms) < watched_ms:
            return None
        later = 0.0
        for number in range(len(self.late) - 1, -1, -1):
            later += self.late[number]
            if later > (1 - OVER) * self.files:
                return MINUTE_MS << number
        return 0

    def risk(self, span: TimeSpan, boundary_ms: int, horizon_ms: float) -> Risk | None:
        """How likely a write into a partition of this span is within a horizon.

        Returns None where nothing is known of its age.
        """
        number = _age_of(boundary_ms - span.end_ms, span.length_ms)
        if not 0 <= number < len(self.ages) or not self.ages[number].watched_ms:
            return None
        age = self.ages[number]
        others = max(age.returns - max(age.busiest, age.on_day), 0.0)
        returns = min(age.returns, OUTLIER * others)
        rate = _upper_count(returns) / age.watched_ms
        youngest, oldest = _bounds(number)
        return Risk(1 - math.exp(-rate * horizon_ms), returns, age.watched_ms, youngest, oldest)


UNTAUGHT: Final = Lateness()


def files_come_within(late_ms: int, now_ms: int) -> Lateness:
    """What a table teaches whose files all come so late, watched since ever: for questions about such a table."""
    late = (*[0.0] * _age_of(late_ms, MINUTE_MS), ENOUGH_FILES) if late_ms else ()
    return Lateness(since_ms=0, updated_at_ms=now_ms, files=ENOUGH_FILES, late=late, from_ms=0)


def _age_of(behind_ms: float, length_ms: int) -> int:
    """The number of an age: 0 for less than one interval behind, then octaves, and -1 for not behind at all."""
    if behind_ms < 0:
        return -1
    return int(behind_ms // max(length_ms, 1)).bit_length()


def _bounds(number: int) -> tuple[int, int]:
    """The intervals that an age covers: from the first (inclusive) to the second (exclusive)."""
    return (0, 1) if number == 0 else (1 << (number - 1), 1 << number)


def _watched(age: Age, number: int, passed_ms: int, fading: float, partitions: int) -> Age:
    youngest, oldest = _bounds(number)
    there = min(oldest - youngest, max(partitions, 1))
    # Not by `replace`: each commit makes every age again.
    return Age(
        watched_ms=age.watched_ms * fading + there * min(passed_ms, PAUSE_MS),
        returns=age.returns * fading,
        busiest=age.busiest * fading,
        day_from_ms=age.day_from_ms,
        on_day=age.on_day * fading,
    )


def _returned(age: Age, count: float, at_ms: int) -> Age:
    is_new_day = abs(at_ms - age.day_from_ms) >= DAY_MS
    return replace(
        age,
        returns=age.returns + count,
        busiest=max(age.busiest, age.on_day) if is_new_day else age.busiest,
        day_from_ms=at_ms if is_new_day else age.day_from_ms,
        on_day=count if is_new_day else age.on_day + count,
    )


def _upper_count(count: float) -> float:
    """The count that a Poisson process may really have at most (95 %), given what was counted.

    The quantile of the gamma distribution with shape count + 1/2 (Jeffreys' prior), by Wilson and Hilferty's cube.
    """
    shape = count + 0.5
    return shape * (1 - 1 / (9 * shape) + 1.6449 / (3 * math.sqrt(shape))) ** 3
