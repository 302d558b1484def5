"""What the daemon knows, or a policy wants, against every deletion of a table."""

import pytest

from isotherm.core.deletion import Cause
from isotherm.core.deletion_obstacles import Standing, obstacle


@pytest.mark.parametrize(
    ("cause", "standing"),
    [
        (Cause.OLD_VERSION, Standing(may_trim=False)),
        (Cause.ORPHAN, Standing(may_remove_orphans=False)),
        (Cause.EXPIRED, Standing(may_expire=False)),
        # Nothing goes from the quarantine for good then (`stays`), but what is needed comes back from there.
        (Cause.QUARANTINED, Standing(may_look_for_orphans=False)),
    ],
)
def test_what_a_policy_no_longer_wants_deleted_stays_and_nothing_else_does(cause, standing):
    stay = {cause}
    assert {one for one in Cause if obstacle(standing, one) is not None} == stay


@pytest.mark.parametrize(
    "against", [{"ledger": "new"}, {"clock": "ahead"}, {"owner": "another"}, {"held": "halted: x"}]
)
@pytest.mark.parametrize("cause", Cause)
def test_each_thing_that_the_daemon_knows_keeps_every_file(against, cause):
    assert obstacle(Standing(), cause) is None
    assert obstacle(Standing(**against), cause) == next(iter(against.values()))


def test_a_policy_that_stops_expiry_keeps_what_an_expiry_left_but_not_what_jobs_left():
    standing = Standing(may_expire=False)

    assert obstacle(standing, Cause.EXPIRED) is not None
    assert obstacle(standing, Cause.LEFTOVER) is None
    assert obstacle(Standing(has_policy=False), Cause.LEFTOVER) is not None
