"""How often a table's snapshots are expired at a steady state.

That depends on the log of snapshots alone, and on the size of metadata.json, which a replay does not know. So no history
is replayed here.
"""

from isotherm.core.model.jobs import Action
from isotherm.core.model.tables import Snapshot
from isotherm.core.planner.expiry import EXPIRED_AT_ONCE
from isotherm.core.planner.plan import plan
from isotherm.core.policy.policy import Expire, Policy
from support.builders import DAY, HOUR, MINUTE, NOW, SECOND, facts, snapshots, view


def expiries_a_day(*, apart_ms, snapshot_bytes, policy=None, look_ms=HOUR, days=2):
    """How often expiry is due in a day, on a table that has committed every so often for as long as it keeps snapshots.

    Each snapshot takes so many bytes in metadata.json. The table is looked at every `look_ms`.
    """
    policy = policy or Policy()
    count = max(policy.expire.keep_for // apart_ms, policy.expire.keep_last)
    there = snapshots(count, apart_ms=apart_ms)
    number, expiries, expired_at_ms = there[-1].sequence_number, 0, None
    for now_ms in range(NOW + look_ms, NOW + days * DAY + 1, look_ms):
        newest = there[-1].committed_at_ms
        times = range(newest + apart_ms, now_ms + 1, apart_ms)
        there += tuple(Snapshot(number + at, number + at, at_ms) for at, at_ms in enumerate(times, 1))
        number += len(times)
        table = facts(metadata_file_bytes=len(there) * snapshot_bytes, snapshots=len(there))
        done = {} if expired_at_ms is None else {Action.EXPIRE: expired_at_ms}
        seen = view(facts=table, snapshots=there, announced_sequence_number=number, last_done_ms=done)
        planned = plan(seen, policy, now_ms)
        gone = {one for request in planned.requests for one in request.snapshots}
        if gone:
            expiries, expired_at_ms = expiries + 1, now_ms
            there = tuple(one for one in there if one.snapshot_id not in gone)
    return expiries / days


STREAMS = {
    "commit every ten seconds": {"apart_ms": 10 * SECOND, "snapshot_bytes": 900},
    "commit every minute": {"apart_ms": MINUTE, "snapshot_bytes": 900},
    "commit every hour, five hundred are kept": {
        "apart_ms": HOUR,
        "snapshot_bytes": 900,
        "policy": Policy(expire=Expire(keep_last=500)),
        "days": 7,
    },
}
"""A week is kept: 60,480 snapshots in 52 MiB of metadata.json, 10,080 in 9 MiB, and 500 that are older."""
MOST_A_DAY = (8640 / EXPIRED_AT_ONCE, 1, 1)
"""Times that each is expired in a day, at the most."""
