"""Histories of a table, as an audit has them in evidence."""

from typing import Any

from isotherm.audit.evidence import (
    ColdRule,
    Commit,
    Evidence,
    FilesChecked,
    Judged,
    Judgement,
    RowsCompared,
    Said,
    Touch,
)
from isotherm.contract.events import Intent
from isotherm.contract.identity import PartitionKey

HOUR_MS = 3_600_000
FIVE = PartitionKey('{"1000":5}')
NINE = PartitionKey('{"1000":9}')
RULE = ColdRule(after_ms=lambda length_ms: length_ms, quiet_for_ms=10_000, silent_for_ms=24 * HOUR_MS)
POLICY = "abc"


def write(snapshot_id: int, at_ms: int, *partitions: PartitionKey, through_h: float | None = None) -> Commit:
    return Commit(
        snapshot_id=snapshot_id,
        parent_id=snapshot_id - 1 if snapshot_id > 1 else None,
        committed_at_ms=at_ms,
        operation="append",
        valid_through_ms=None if through_h is None else int(through_h * HOUR_MS),
        touches=tuple(Touch(key, 1, 0) for key in partitions),
    )


def rewrite(snapshot_id: int, at_ms: int, *partitions: PartitionKey, policy: str = POLICY) -> Commit:
    return Commit(
        snapshot_id=snapshot_id,
        parent_id=snapshot_id - 1,
        committed_at_ms=at_ms,
        operation="replace",
        job_id=f"job-{snapshot_id}",
        policy_hash=policy,
        touches=tuple(Touch(key, 1, 3) for key in partitions),
    )


def history(*commits: Commit, **more: Any) -> Evidence:
    """A table by the hour, written and maintained; everything announced, accounted for and compared."""
    ids = frozenset(commit.snapshot_id for commit in commits)
    ours = [commit.snapshot_id for commit in commits if commit.is_ours]
    filled = {
        "announced": ids,
        "accounted": ids,
        "rows": tuple(RowsCompared(one, (7, 77), (7, 77)) for one in ours),
        "files": FilesChecked(snapshots=len(commits), files=10),
        "now_ms": 10_000_000,
        **more,
    }
    return Evidence(
        table="shop.orders", transforms={1000: "hour"}, commits=commits, rules={POLICY: RULE}, **filled
    )


def intent(at_ms: int, state: str = "open", **more: Any) -> Said:
    values = {
        "table_uuid": "u",
        "table": "shop.orders",
        "intent_id": "i1",
        "writer": "shop",
        "state": state,
        "at_ms": at_ms,
        "expires_at_ms": at_ms + 60_000,
        "partitions": (FIVE,),
        **more,
    }
    return Said(at_ms, Intent(**values))


def verdict(judgement: Judgement) -> Judged:
    return judgement.verdict


COLD = (write(1, 1_000, FIVE), write(2, 50_000, NINE, through_h=9.5), rewrite(3, 60_000, FIVE))
