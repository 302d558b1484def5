"""How much a job of a partition may read after one that did not end in its time, or in its memory. No clock, no I/O.

Tried again as it was, such a job would be in vain for ever. So the next one reads half of it, and half again after another
such end. Two files are read at least, whatever is allowed, or one with its deletes (`model.jobs.Take`). A job that reads no more
is made no smaller: crumbs would be left for weeks, of which no job can be made. What is left of the partition goes on in parts
of the size that ended well.

The store may have been slow for a day only, and `deadline_s` may be longer by now. So with each week without such an end a job
may read twice as much, and after four of them as much as any other. A large partition loses one job in a week by that.
"""

from dataclasses import replace

from isotherm.core.model.holds import Hold, PartSize
from isotherm.core.model.job_limits import MAX_JOB_BYTES
from isotherm.core.model.jobs import JobRead
from isotherm.core.model.refusals import Reason
from isotherm.core.units import DAY_MS

TOO_LARGE = frozenset({Reason.DEADLINE, Reason.OUT_OF_MEMORY})
"""Ends of a job of which a smaller one may do better, whatever was before."""
KILLS = frozenset({Reason.KILLED, Reason.CRASHED})
"""Ends that somebody else brought about: of the job's process, or of the whole daemon with it. Where a group of processes fills
its memory, containers and services end all of it."""
GROWS_MS = 7 * DAY_MS
FORGOTTEN_AFTER = 4
"""So many times it has grown."""
LEAST_KILLED_BYTES = 256 * 1024**2
"""A job that is killed is made no smaller than this. The kernel takes rewrites first, whoever has filled the machine's memory,
and one that reads so little is not who did."""
FAILED_BEFORE = "; it failed before as "
"""In the why of an outage, before the reason for which the partition's last job failed that was to blame."""


def allowed_bytes(part: PartSize | None, now_ms: int) -> int | None:
    """What a job of a partition may read now, or None where that is no less than for others."""
    if part is None:
        return None
    # A clock that was ahead makes it no smaller.
    grown = max(now_ms - part.at_ms, 0) // GROWS_MS
    if grown >= FORGOTTEN_AFTER or (size_bytes := part.bytes << grown) >= MAX_JOB_BYTES:
        return None
    return size_bytes


def after_failure(before: Hold | None, reason: Reason, read: JobRead, now_ms: int) -> PartSize | None:
    """What the next job may read after one that failed, and that was to read so much."""
    part = None if before is None else before.part
    if not _is_too_large(before, reason) or not read.bytes:
        return part
    allowed = allowed_bytes(part, now_ms)
    if read.is_least:
        return None if allowed is None else PartSize(allowed, now_ms)
    # Of what was allowed too: deletes that name many files are read with a part of these as with all.
    least = min(read.bytes, MAX_JOB_BYTES if allowed is None else allowed)
    if reason not in KILLS:
        return PartSize(max(least // 2, 1), now_ms)
    return part if least <= LEAST_KILLED_BYTES else PartSize(max(least // 2, LEAST_KILLED_BYTES), now_ms)


def _is_too_large(before: Hold | None, reason: Reason) -> bool:
    """Whether a smaller job may end better.

    Anybody may kill a process once, or a daemon. Twice in a row it is the kernel, because the machine's memory is short: where
    `memory_bytes` is not set, or allows more than there is, nothing else ever says so. An outage between the two is no end
    of a row.
    """
    return reason in TOO_LARGE or (reason in KILLS and last_failure(before) in KILLS)


def last_failure(before: Hold | None) -> str:
    """The reason for which the last job of a partition failed that was to blame; outages since then do not count."""
    if before is None or not before.failures:
        return ""
    _, was_outage, reason = before.why.rpartition(FAILED_BEFORE)
    return reason if was_outage else before.why.partition(": ")[0]


def after_success(before: Hold, now_ms: int) -> Hold | None:
    """What is kept of a partition's hold once a job of it went well, or None where nothing is."""
    if allowed_bytes(before.part, now_ms) is None:
        return None
    return replace(before, at_ms=now_ms, until_ms=now_ms, failures=0)
