"""What tests of plans share: a policy, a partition that is cold, and the verdict on a table as a whole."""

from isotherm.core.policy.policy import Compact, Expire, Policy
from support.builders import key, partition

POLICY = Policy(compact=Compact(min_files=4), expire=Expire(keep_for="10m", keep_last=3, at_once=2))
COLD = {key(1): partition(10)}


def on_table(planned, action):
    """The verdict on one action on the table as a whole."""
    return next(decision for decision in planned.of_table if decision.action is action)
