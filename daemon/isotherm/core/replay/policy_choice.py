"""Chooses one of the policies that were tried on a table's history, and says why.

A pure function of the trials. Its laws (`tests/core/replay/test_policy_choice.py`):

- It never chooses a policy that costs readers more and writers more than another one that was tried.
- The order of the trials matters only for ties.
- It keeps the present policy unless another costs at least a tenth less.
- Where the history says too little, it says what is needed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from statistics import median

from isotherm.contract.summary import Origin
from isotherm.core.appends import is_append
from isotherm.core.policy.policy import Policy
from isotherm.core.replay.assumed import Assumed
from isotherm.core.replay.candidates import MOST, Candidate, beside, near, together
from isotherm.core.replay.history import History
from isotherm.core.replay.trial import Trial, Watched, tried
from isotherm.core.units import DAY_MS, clock_text, size_text, span_text
from isotherm.runtime.text import counted

WORTH = 0.1
"""What a day costs must fall by this part, or the policy stays as it is: a replay is no more exact than that."""

AS_GOOD = 0.05
"""What costs so little more than the cheapest is as good, and may change fewer fields."""

LEAST_COMMITS = 20

LEAST_MS = DAY_MS * 3 // 2
"""Shorter, and a history shows no partition that comes back after its rest, nor what falls silent for a day."""


class Advice(StrEnum):
    """What can be said of a table's policy."""

    CHANGE = "change"
    KEEP = "keep"
    NEVER_COLD = "never_cold"
    """No policy that waits for cold partitions can help, because writers never leave one alone."""
    TOO_LITTLE = "too_little_history"


@dataclass(frozen=True, slots=True)
class Choice:
    """The policy to take, and why."""

    advice: Advice
    chosen: Trial | None
    """None where nothing was tried."""
    why: str


def too_little(history: History) -> Choice | None:
    """What a history needs before anything can be said of it, or None where it is enough."""
    writes = [
        one
        for one in history.recorded
        if one.change.origin is not Origin.MAINTENANCE and one.change.partitions
    ]
    span_ms = history.ends_at_ms - history.starts_at_ms
    if len(writes) >= LEAST_COMMITS and span_ms >= LEAST_MS:
        return None
    why = (
        f"There is too little history: {counted(len(writes), 'commit')} of writers in {span_text(span_ms)}. "
        f"It takes {LEAST_COMMITS} of them and {span_text(LEAST_MS)}, because a partition rests for a day after a job."
    )
    return Choice(Advice.TOO_LITTLE, None, why)


def no_end(on: Watched) -> Choice | None:
    """The same where every partition is about time, and the time of none is over."""
    first_ms = min((on.ends_ms.get(key, 0) for key in on.partitions), default=0)
    if first_ms <= on.history.ends_at_ms:
        return None
    why = (
        f"There is too little history: the time of no partition is over yet. It takes one that the stream has left; "
        f"the first ends {clock_text(first_ms)}."
    )
    return Choice(Advice.TOO_LITTLE, None, why)


def search(
    on: Watched,
    name: str,
    policy: Policy,
    assumed: Assumed,
    reads_a_day: float,
    tell: Callable[[float], None] = lambda _: None,
) -> Iterator[Trial]:
    """Try the policy that is there, then what differs in one field, then in several.

    Args:
        on: the history.
        name: of the policy that is there.
        policy: what is there.
        assumed: what every replay takes for granted.
        reads_a_day: how often the table is read.
        tell: is told how many policies are done, as parts of one go on.
    """
    done: list[Trial] = []

    def one(candidate: Candidate) -> Trial:
        done.append(tried(on, candidate, assumed, lambda part: tell(len(done) + part)))
        return done[-1]

    def price(trial: Trial) -> float:
        return trial.figures.price(reads_a_day)

    now = one(Candidate(name, policy, {}))
    yield now
    for candidate in near(policy, on.history):
        yield one(candidate)
    paying = sorted((trial for trial in done if price(trial) < price(now)), key=price)
    idle = [trial.candidate for trial in done if trial is not now and trial.figures == now.figures]
    for candidate in together(policy, [trial.candidate for trial in paying]):
        yield one(candidate)
    # Where nothing was compacted, nothing else could have an effect; where something is, it may.
    best = min(done, key=price).candidate
    for candidate in beside(policy, best, idle)[: MOST - len(done)]:
        yield one(candidate)


def choose(trials: Sequence[Trial], on: Watched, reads_a_day: float) -> Choice:
    """The policy to take.

    Args:
        trials: what was tried; the first is the policy that is there.
        on: the history.
        reads_a_day: how often the table is read.
    """
    now = trials[0]
    if len(trials) == 1:
        return Choice(Advice.KEEP, now, "Keep what you have for now: no other policy was tried.")
    if not any(one.figures.jobs or one.figures.has_cold_debt for one in trials) and now.figures.read_bytes:
        return Choice(Advice.NEVER_COLD, now, _never_cold(trials, on))
    best = _best(trials, reads_a_day)
    before, after = (one.figures.price(reads_a_day) for one in (now, best))
    if best is now or before == 0 or after > (1 - WORTH) * before:
        return Choice(Advice.KEEP, now, _keep(trials, reads_a_day))
    return Choice(Advice.CHANGE, best, _change(now, best, reads_a_day))


def is_beaten(one: Trial, other: Trial) -> bool:
    """Whether another policy costs readers and writers less, or one of them less and the other the same."""
    ours, theirs = ((trial.figures.read_bytes, trial.figures.rewritten_bytes_a_day) for trial in (one, other))
    return theirs != ours and theirs[0] <= ours[0] and theirs[1] <= ours[1]


def _best(trials: Sequence[Trial], reads_a_day: float) -> Trial:
    """The simplest of those that are as good as the cheapest, and that no other beats."""
    cheapest = min(one.figures.price(reads_a_day) for one in trials)
    front = [one for one in trials if not any(is_beaten(one, other) for other in trials)]
    as_good = [one for one in front if one.figures.price(reads_a_day) <= (1 + AS_GOOD) * cheapest]
    return min(as_good, key=lambda one: (len(one.candidate.changes), one.figures.price(reads_a_day)))


def _change(now: Trial, best: Trial, reads_a_day: float) -> str:
    old, new = now.figures, best.figures
    before, after = old.price(reads_a_day), new.price(reads_a_day)
    said = (
        f"Readers meet {new.files_mean:,.1f} files in a partition where they meet {old.files_mean:,.1f} now, and each "
        f"byte is written {_times(new.write_amplification)} times where now {_times(old.write_amplification)}. "
        f"That costs {size_text(after)} a day instead of {size_text(before)}, {1 - after / before:.0%} less"
    )
    saved, paid = old.read_bytes - new.read_bytes, new.rewritten_bytes_a_day - old.rewritten_bytes_a_day
    if saved > 0 and paid > 0:
        return f"{said}; it pays from {_reads(paid / saved)} reads a day on."
    if saved < 0 and paid < 0:
        return f"{said}; it pays up to {_reads(paid / saved)} reads a day."
    return f"{said}, however often the table is read."


def _keep(trials: Sequence[Trial], reads_a_day: float) -> str:
    now, others = trials[0], trials[1:]
    before = now.figures.price(reads_a_day)
    best = min(others, key=lambda one: one.figures.price(reads_a_day))
    after = best.figures.price(reads_a_day)
    of = f"none of {len(others)} other policies"
    if not any(one.figures.jobs for one in trials):
        return f"Keep what you have: {of} compacts anything; `isotherm explain` says why of each partition."
    if after >= before:
        return f"Keep what you have: {of} costs less."
    return (
        f"Keep what you have: {of} costs a tenth less. The cheapest, {best.candidate.name}, costs "
        f"{1 - after / before:.1%} less."
    )


def _never_cold(trials: Sequence[Trial], on: Watched) -> str:
    gaps = [after - before for times in on.writes_ms.values() for before, after in pairwise(times)]
    back = f": writers come back to one every {span_text(round(median(gaps)))}" if gaps else ""
    writes = [one.change for one in on.history.recorded if one.change.is_foreign_write]
    # It is not tried: that they go on so is for a person to say.
    asked_ms = trials[0].candidate.policy.compact.minor_after
    beside = ""
    if all(map(is_append, writes)):
        beside = "; or, because they only append, say `compact.minor_after`"
    if beside and asked_ms is not None:
        beside = f"; `compact.minor_after` waits until they have only appended for {span_text(asked_ms)}"
    return (
        f"Under none of {len(trials)} policies was a partition with small "
        f"files ever cold{back}. Let writers commit less often and more at once, or leave partitions behind{beside}."
    )


def _times(amplification: float | None) -> str:
    return "1.00" if amplification is None else f"{amplification:.2f}"


def _reads(reads: float) -> str:
    return f"{reads:,.0f}" if reads >= 10 else f"{reads:.2g}"
