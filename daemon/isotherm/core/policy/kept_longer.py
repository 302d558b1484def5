"""Whether a policy keeps files longer than another one: what goes by the other one must stop then."""

from collections.abc import Collection

from isotherm.core.deletion import Cause
from isotherm.core.policy.policy import Policy


def keeps_longer(policy: Policy, before: Policy, causes: Collection[Cause]) -> bool:
    """Whether a policy keeps what was found longer than the one before, or does something else with it.

    Args:
        policy: the one in force.
        before: by which the deletion of some files began.
        causes: why those are wanted gone.
    """
    now, then = policy.orphans, before.orphans
    if Cause.OLD_VERSION in causes and policy.metadata.older_than > before.metadata.older_than:
        return True
    if Cause.ORPHAN in causes and now.older_than > then.older_than:
        return True
    if Cause.QUARANTINED in causes and now.keep_for > then.keep_for:
        return True
    return now.mode is not then.mode and not {Cause.ORPHAN, Cause.QUARANTINED}.isdisjoint(causes)
