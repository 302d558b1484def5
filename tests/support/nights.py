"""A table that is written in a batch each night, on which policies are tried."""

from isotherm.core.policy.policy import Policy
from isotherm.core.replay.assumed import Assumed
from isotherm.core.replay.trial import watched
from support.builders import MINUTE
from workloads.appends import nightly_batch

ASSUMED = Assumed(plan_every_ms=9 * MINUTE)
NIGHTLY = nightly_batch(10)
ON = watched(NIGHTLY, Policy())
