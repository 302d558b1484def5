"""What a change of policy stops, of deletions that are under way."""

import pytest

from isotherm.core.deletion import Cause
from isotherm.core.policy.kept_longer import keeps_longer
from isotherm.core.policy.policy import Metadata, Mode, Orphans, Policy


def policy(mode=Mode.QUARANTINE, keep_for=14, older_than=3, versions=7):
    orphans = Orphans(mode=mode, keep_for=f"{keep_for}d", older_than=f"{older_than}d")
    return Policy(orphans=orphans, metadata=Metadata(older_than=f"{versions}d"))


@pytest.mark.parametrize(
    ("now", "stops"),
    [
        ({}, set()),
        ({"keep_for": 15}, {Cause.QUARANTINED}),
        ({"keep_for": 13}, set()),
        ({"older_than": 4}, {Cause.ORPHAN}),
        ({"older_than": 2}, set()),
        ({"versions": 8}, {Cause.OLD_VERSION}),
        ({"versions": 6}, set()),
        ({"mode": Mode.APPLY}, {Cause.ORPHAN, Cause.QUARANTINED}),
        ({"mode": Mode.REPORT}, {Cause.ORPHAN, Cause.QUARANTINED}),
        ({"mode": Mode.OFF}, {Cause.ORPHAN, Cause.QUARANTINED}),
    ],
)
def test_what_keeps_longer_than_the_policy_before(now, stops):
    assert {one for one in Cause if keeps_longer(policy(**now), policy(), {one})} == stops
    assert keeps_longer(policy(**now), policy(), set(Cause)) is bool(stops)


def test_from_apply_to_quarantine_no_orphan_goes_for_good_any_more():
    assert keeps_longer(policy(), policy(mode=Mode.APPLY), {Cause.ORPHAN, Cause.EXPIRED})
    assert not keeps_longer(policy(), policy(mode=Mode.APPLY), {Cause.EXPIRED, Cause.LEFTOVER})
