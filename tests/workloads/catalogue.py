"""The workloads by name: how long each is, what kind it is, and what the review measured of its like."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache

from isotherm.core.replay.history import History
from workloads import appends, updates
from workloads.measuring import Measured, measured, policy_of


class Kind(Enum):
    """What can be asked of a policy."""

    APPENDS = "partitions by time that are left behind: each can be rewritten once"
    LATE = "the same, where rows come late for as long as it lasts: each is rewritten a little more often"
    LONG = "months and years, which cannot wait for two of themselves"
    MIRROR = "a mirror: old partitions are updated too"
    TIMELESS = "no time in its partitions, so they are written for ever"
    ODD = "made for one question"


@dataclass(frozen=True)
class Before:
    """What the review measured at f3fb432 under the default; its histories were others of the same description."""

    write_amplification: float
    files_mean: float
    files_p95: int
    wasted_gib: float = 0


@dataclass(frozen=True)
class Workload:
    """A history, by its length in days."""

    make: Callable[..., History]
    days: float
    """In the benchmark."""
    short: float
    """In the tests."""
    kind: Kind
    examples: tuple[str, ...] = ()
    """Those of policies/examples that are made for its like."""
    before: Before | None = None
    fewer: Mapping[str, int] = field(default_factory=dict)
    """What the tests have less of, beside days."""

    def history(self, *, is_short: bool) -> History:
        """As long as in the benchmark, or as in the tests."""
        return self.make(self.short, **self.fewer) if is_short else self.make(self.days)

    @property
    def name(self) -> str:
        """As rows and tests call it."""
        return self.make.__name__


WORKLOADS = {
    one.name: one
    for one in (
        Workload(appends.hourly, 10, 3, Kind.APPENDS, ("hourly_events",), Before(1.00, 60, 61)),
        Workload(appends.hourly_late, 10, 3, Kind.LATE, ("hourly_events",), Before(1.93, 9.4, 92, 0.03)),
        Workload(appends.hourly_slow, 10, 5, Kind.LATE, ("hourly_events",), Before(1.00, 19.8, 26)),
        Workload(appends.hourly_big, 10, 3, Kind.LATE, (), Before(1.86, 69.5, 231, 9.7)),
        Workload(appends.two_writers, 10, 3, Kind.APPENDS),
        Workload(appends.sensors, 14, 3, Kind.LATE, ("hourly_events",), Before(1.86, 49, 95, 0.1)),
        Workload(appends.old_table, 3, 1, Kind.ODD, fewer={"partitions": 2000}),
        Workload(appends.daily, 14, 7, Kind.APPENDS, (), Before(1.79, 786, 2882)),
        Workload(appends.stream_ends, 30, 21, Kind.APPENDS),
        Workload(appends.office_hours, 21, 21, Kind.APPENDS),
        Workload(appends.nightly_batch, 60, 30, Kind.APPENDS),
        Workload(appends.well_sized_batch, 30, 30, Kind.ODD),
        Workload(appends.backfill, 3, 1.5, Kind.APPENDS, fewer={"back": 90}),
        Workload(appends.monthly, 120, 70, Kind.LONG, (), Before(1.60, 1824, 4464)),
        Workload(appends.monthly_nightly, 120, 70, Kind.ODD),
        Workload(appends.monthly_in_two, 120, 70, Kind.ODD),
        Workload(appends.yearly, 800, 800, Kind.LONG),
        Workload(updates.mirror_zipf, 10, 3, Kind.MIRROR, ("mirror",), Before(2.70, 272, 936, 0.9)),
        Workload(updates.mirror_uniform, 10, 5, Kind.MIRROR, ("mirror",), Before(1.51, 48, 68)),
        Workload(updates.mirror_month, 8, 4, Kind.ODD),
        Workload(updates.closing_orders, 90, 60, Kind.MIRROR),
        Workload(updates.daily_load, 30, 30, Kind.TIMELESS, ("dimension",)),
        Workload(
            updates.daily_load_jittery, 30, 30, Kind.TIMELESS, ("dimension",), Before(6.19, 657, 1322, 83)
        ),
        Workload(updates.buckets, 4, 2, Kind.TIMELESS, ("buckets",), Before(4.95, 223, 589, 1.6)),
        Workload(updates.large_buckets, 4, 2, Kind.TIMELESS, ("buckets",), Before(1.00, 663, 846, 3894)),
        Workload(updates.regions, 10, 6, Kind.TIMELESS),
        Workload(updates.half_hourly, 7, 4, Kind.TIMELESS),
        Workload(updates.hourly_merge, 10, 4, Kind.TIMELESS),
        Workload(updates.fortnight, 10, 6, Kind.ODD),
        Workload(updates.one_delete_row, 3, 3, Kind.ODD),
        Workload(updates.delete_files, 6, 4, Kind.ODD),
        Workload(updates.gdpr_nightly, 60, 40, Kind.ODD),
        Workload(updates.keyed_upserts, 4, 3, Kind.ODD),
    )
}

CASES = tuple((one.name, example) for one in WORKLOADS.values() for example in (None, *one.examples))
"""Every workload under the default, and under the examples that are made for its like."""


@cache
def outcome(name: str, example: str | None, *, is_short: bool) -> Measured:
    """What a policy makes of a workload; each is replayed once."""
    workload = WORKLOADS[name]
    return measured(workload.history(is_short=is_short), policy_of(example))
