"""Whether what an expiry is about to take is still what the policy and the table would have it take."""

from collections.abc import Sequence

from isotherm.core.model.refusals import Reason, Refusal
from isotherm.core.planner.expirable import expirable
from isotherm.service.rounds.verdicts import Verdicts
from isotherm.store.fold import TableRow


def outdated(
    snapshots: Sequence[int], row: TableRow | None, verdicts: Verdicts, now_ms: int
) -> Refusal | None:
    """Why the plan is not what it would be now: a policy that keeps more, a rollback. Returns None where it is."""
    resolved = None if row is None else verdicts.policy_of(row)
    if row is None or resolved is None:
        return Refusal(Reason.POLICY, verdicts.not_maintained(row))
    if not row.is_trusted:
        return Refusal(Reason.STALE, "the table must be scanned again: what must stay is not known now")
    view = verdicts.view(row, (), partitions={})
    going, _ = expirable(view, resolved.policy.expire, now_ms)
    staying = set(snapshots) - set(going)
    if not staying:
        return None
    return Refusal(Reason.STALE, f"{len(staying)} of its snapshots must stay by now")


def may_not_clean(row: TableRow | None, verdicts: Verdicts) -> Refusal | None:
    """Why schemas and specs stay by the policy as it is now, or None where they may go."""
    resolved = None if row is None else verdicts.policy_of(row)
    if resolved is not None and resolved.policy.expire.clean_expired_metadata:
        return None
    return Refusal(Reason.POLICY, "the policy does not say expire.clean_expired_metadata any more")
