"""What one job may read, and would read at the most: budgets, the pauses of writers, and the most that any job does.

Also the sentences about them.
"""

from collections.abc import Mapping
from dataclasses import replace

from isotherm.contract.identity import PartitionKey
from isotherm.core.model.decisions import NEVER, Wake
from isotherm.core.model.holds import Quarantine
from isotherm.core.model.job_limits import MAX_JOB_BYTES
from isotherm.core.model.jobs import Take
from isotherm.core.model.tables import TableFacts
from isotherm.core.model.windows import Grant
from isotherm.core.part_size import allowed_bytes
from isotherm.core.partition_state import PartitionState
from isotherm.core.planner import pauses
from isotherm.core.planner.coldness import JobBytes
from isotherm.core.planner.debt import Debt, debt
from isotherm.core.planner.file_selection import taken
from isotherm.core.planner.granted import limits_in
from isotherm.core.planner.view import View
from isotherm.core.policy.policy import Policy
from isotherm.core.rewriters import why_not_converted
from isotherm.core.units import HOUR_MS, parse_size, size_text

MAX_RAISES = 20
"""Of a budget, until what a job takes under it is found to fit."""

_IN_PAUSE = "the pause that its writers make"
_IN_TIME = "the size that fits its deadline and its memory"


def limits(
    key: PartitionKey,
    partition: PartitionState,
    owed: Debt,
    view: View,
    policy: Policy,
    grant: Grant | None,
    now_ms: int,
    *,
    is_beside: bool,
) -> tuple[dict[str, int], dict[str, int]]:
    """What one job reads at most, by the name of what limits it: now, and in the next pause of the partition's writers.

    What does not fit a budget, or the pause that its writers make as a rule, is done in parts; a large job would seldom
    end before the stream comes back. In a window, and beside writers that only append, no pause is waited for.
    """
    always = budgets(view, policy) | in_parts(view.quarantined.get(key), now_ms)
    if is_beside or grant is not None:
        allowed = always | ({} if grant is None else limits_in(grant, now_ms))
        return allowed, allowed
    left_ms = pauses.left_ms(partition, now_ms)
    allowed = always | ({} if left_ms is None else {_IN_PAUSE: pauses.most_bytes(left_ms)})
    if not owed.of_deletes:
        return allowed, allowed
    # Of the next pause the first quarter may be over by then.
    next_ms = pauses.next_ms(partition, policy.cold.quiet_for)
    return allowed, always | ({} if next_ms is None else {_IN_PAUSE: pauses.most_bytes(next_ms * 3 // 4)})


def budgets(view: View, policy: Policy) -> dict[str, int]:
    """The budgets that hold for each job, by name."""
    said = {
        "budgets.bytes_per_hour": view.hour_budget_bytes,
        "work.bytes_per_hour": policy.work.bytes_per_hour,
        "work.bytes_per_day": policy.work.bytes_per_day,
    }
    return {name: int(limit) for name, limit in said.items() if limit is not None}


def in_parts(quarantine: Quarantine | None, now_ms: int) -> dict[str, int]:
    """What limits the jobs of a partition of which a larger job did not end in its time, or in its memory.

    It is no budget: two files that are more are read all the same.
    """
    allowed = None if quarantine is None else allowed_bytes(quarantine.part, now_ms)
    return {} if allowed is None else {_IN_TIME: allowed}


def why_in_parts(allowed: Mapping[str, int]) -> str:
    """That a job is smaller because a larger one failed, where nothing else makes it as small."""
    limit = allowed.get(_IN_TIME)
    if limit is None or limit > most_bytes(allowed):
        return ""
    return f"; at most {size_text(limit)} at once, or two files: a larger job outlived its deadline, or its memory"


def most_bytes(allowed: Mapping[str, int]) -> int:
    """What one job reads at most under some limits."""
    return min([MAX_JOB_BYTES, *allowed.values()])


def over_budget(
    partition: PartitionState,
    owed: Debt,
    take: Take,
    view: View,
    policy: Policy,
    threshold: float,
    now_ms: int,
) -> tuple[str, Wake] | None:
    """Whether one job would be more than a budget ever allows: then it would wait for ever, and must say so."""
    if policy.work.jobs_at_once == 0:
        return "work.jobs_at_once allows no job", NEVER  # another policy has all verdicts made again
    size_bytes = taken(partition, take).bytes
    limited = budgets(view, policy)
    for name, limit in limited.items():
        if size_bytes > limit:
            # The daemon may be started again with another budget, and nothing would wake this verdict.
            wake = Wake(at_ms=now_ms + HOUR_MS)
            others = most_bytes({other: least for other, least in limited.items() if other != name})
            enough = _enough(partition, owed, size_bytes, threshold, others)
            return f"its {enough} are more than {name} ever allows ({size_text(limit)})", wake
    return None


def job_bytes(policy: Policy, facts: TableFacts) -> JobBytes:
    """What a job would read of a partition of this table under a policy, at the most."""

    def of(partition: PartitionState) -> int:
        owed = convertible(debt(partition, policy.compact, format_version=facts.format_version), facts)
        take = owed.take(1.0, MAX_JOB_BYTES)
        return taken(partition, take).bytes

    return of


def convertible(owed: Debt, facts: TableFacts) -> Debt:
    """The debt as it is for this table: where somebody else may rewrite its files, equality deletes are only applied."""
    return owed if why_not_converted(facts) is None else replace(owed, converted_bytes=None)


def _enough(partition: PartitionState, owed: Debt, size_bytes: int, threshold: float, most_bytes: int) -> str:
    """What a budget would have to allow: with a larger one, a job takes more, up to the most that all else allows."""
    for _ in range(MAX_RAISES):
        size_bytes = parse_size(size_text(size_bytes, up=True))  # who reads it says this much
        needed = taken(partition, owed.take(threshold, min(size_bytes, most_bytes))).bytes
        if needed <= size_bytes:
            break
        size_bytes = needed
    return size_text(size_bytes, up=True)


def not_converted(
    full: Debt, take: Take, threshold: float, allowed: Mapping[str, int], facts: TableFacts
) -> str:
    """What keeps a job from making position deletes of equality deletes, so that it rewrites their data."""
    needed_bytes = full.converted_bytes
    converts = take.with_deletes and full.take(threshold, None).converts_equality
    if not converts or needed_bytes is None:
        return ""
    if (why := why_not_converted(facts)) is not None:
        return f"; they are not made into position deletes, because {why}"
    allow = [f"{name} allows {size_text(limit)}" for name, limit in allowed.items() if limit < needed_bytes]
    if needed_bytes > MAX_JOB_BYTES:
        allow.append(f"a job reads {size_text(MAX_JOB_BYTES)} at most")
    enough = size_text(needed_bytes, up=True)
    return f"; reading {enough} would make position deletes of them, but {' and '.join(allow)}"
