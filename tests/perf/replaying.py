"""A month of one-minute commits, replayed under the default policy and planned every ten minutes.

30 days by 16 buckets are 480 partitions; each commit adds a file to the 16 of its day, every tenth one more to the
day before. The month is held against what is promised of it, half a minute; and ten days of it against planning
every partition in every round.
"""

import time

from measure import times_row

from isotherm.contract.identity import partition_key
from isotherm.contract.summary import Origin
from isotherm.core.model.changes import Change
from isotherm.core.model.tables import PartitionField
from isotherm.core.policy.policy import Policy
from isotherm.core.replay.assumed import Assumed
from isotherm.core.replay.history import History, Recorded
from isotherm.core.replay.replay import replay
from support.builders import DAY, KIB, MINUTE, NOW, TABLE, added, facts

DAYS = 30
SHORT = 10
BUCKETS = 16
LATE_EVERY = 10
PROMISED_S = 30
FIELDS = (
    PartitionField(1000, "at_day", "day", "timestamptz"),
    PartitionField(1001, "id_bucket", f"bucket[{BUCKETS}]", "long"),
)


def history(days):
    """So many days, a commit a minute."""
    delta = added(1, 300 * KIB)
    start = NOW // DAY * DAY
    recorded = []
    for minute in range(days * 24 * 60):
        at_ms = start + minute * MINUTE
        day = at_ms // DAY
        keys = [partition_key({1000: day, 1001: bucket}) for bucket in range(BUCKETS)]
        if minute % LATE_EVERY == 0:
            keys.append(partition_key({1000: day - 1, 1001: minute // LATE_EVERY % BUCKETS}))
        change = Change(
            snapshot_id=minute + 1,
            parent_id=minute or None,
            sequence_number=minute + 1,
            committed_at_ms=at_ms,
            operation="append",
            origin=Origin.INGEST,
            partitions=dict.fromkeys(keys, delta),
            valid_through_ms=at_ms,
        )
        recorded.append(Recorded(change, at_ms + 1000))
    return History(
        TABLE, facts(fields=FIELDS), {}, (), frozenset(), tuple(recorded), start, start + days * DAY
    )


def benchmarks(say):
    """What a replay takes, in processor time: it is one process that waits for nothing."""
    say(f"a replay of {DAYS} days, {DAYS * 24 * 60:,} commits")
    month_s = _seconds(history(DAYS), keep_decisions=True)
    say(f"a replay of {SHORT} days, decisions kept, and made each time")
    days = history(SHORT)
    kept_s, anew_s = (_seconds(days, keep_decisions=keep) for keep in (True, False))
    return [
        times_row(f"a month on {DAYS * BUCKETS} partitions, against half a minute", month_s, PROMISED_S),
        times_row(f"{SHORT} days of it, against planning everything each time", kept_s, anew_s),
    ]


def _seconds(past, *, keep_decisions):
    started = time.process_time()
    replayed = replay(past, Policy(), Assumed(), keep_decisions=keep_decisions)
    took = time.process_time() - started
    if not replayed.totals.jobs:
        raise AssertionError("a replay that compacts nothing measures nothing")
    return took
