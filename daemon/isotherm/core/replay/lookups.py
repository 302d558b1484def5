"""What a replay keeps in memory, so that a round need not look at everything: decisions, and the log of snapshots.

A partition is looked at again when it was touched, while it is due (only its turn is missing), or when one of the
three things has come that its decision names: a time, a boundary, a number of commits (`decisions.Wake`). The fold does
the same with its indexes.
"""

import heapq
from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise

from isotherm.contract.identity import PartitionKey, TableId
from isotherm.core.model.decisions import Decision, Verdict
from isotherm.core.model.holds import Hold, Quarantine
from isotherm.core.model.jobs import Action
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.core.model.tables import Snapshot
from isotherm.core.partition_backoff import setback
from isotherm.core.planner.expiry import EXPIRED_AT_ONCE
from isotherm.core.policy.policy import Policy

DUE_AT_ONCE = 100
"""Of those that are due: many more than begin in one round."""


class KeptDecisions:
    """The newest decision of every partition, and when it should be made anew."""

    def __init__(self, partitions: Iterable[PartitionKey]) -> None:
        self.by_partition: dict[PartitionKey, Decision] = {}
        self._touched = set(partitions)
        self._due: dict[PartitionKey, int] = {}
        self._by_score: list[tuple[float, int, PartitionKey]] = []
        self._by_wait: list[tuple[float, int, PartitionKey]] = []
        self._number = 0
        self._times: list[tuple[int, PartitionKey]] = []
        self._boundaries: list[tuple[int, PartitionKey]] = []
        self._commits: list[tuple[int, PartitionKey]] = []

    def touch(self, keys: Iterable[PartitionKey]) -> None:
        """Something happened to these partitions."""
        self._touched.update(keys)

    def forget(self, key: PartitionKey) -> None:
        """The partition holds nothing any more."""
        self.by_partition.pop(key, None)
        self._touched.discard(key)
        self._due.pop(key, None)

    def awake(self, now_ms: int, boundary_ms: int | None, commits: int) -> set[PartitionKey]:
        """The partitions whose verdict may be another now."""
        for at_ms, key in _reached(self._times, now_ms):
            if (decision := self.by_partition.get(key)) and decision.wake.at_ms == at_ms:
                self._touched.add(key)
        for number, key in _reached(self._commits, commits):
            if (decision := self.by_partition.get(key)) and decision.wake.commits == number:
                self._touched.add(key)
        for at_ms, key in _reached(self._boundaries, boundary_ms):
            if (decision := self.by_partition.get(key)) and decision.wake.boundary_ms == at_ms:
                self._touched.add(key)
        return self._touched | self._first_due()

    def _first_due(self) -> set[PartitionKey]:
        """Some of those that are due, as the daemon takes them: half of them with the highest scores, half waiting the
        longest. So a long backlog is not decided again for each job.
        """
        if len(self._due) <= DUE_AT_ONCE:
            return set(self._due)
        half = DUE_AT_ONCE // 2
        return self._first_of(self._by_score, half) | self._first_of(self._by_wait, half)

    def _first_of(self, heap: list[tuple[float, int, PartitionKey]], count: int) -> set[PartitionKey]:
        """The first of a heap that are still due, or due again, by the number that they got then."""
        first: list[tuple[float, int, PartitionKey]] = []
        while heap and len(first) < count:
            one = heapq.heappop(heap)
            if self._due.get(one[2]) == one[1]:
                first.append(one)
        for one in first:
            heapq.heappush(heap, one)
        return {key for _, _, key in first}

    def keep(self, decisions: Iterable[Decision]) -> None:
        """New verdicts of partitions."""
        for decision in decisions:
            key, wake = decision.partition, decision.wake
            if key is None:
                continue
            self.by_partition[key] = decision
            self._touched.discard(key)
            if decision.verdict is not Verdict.DUE:
                self._due.pop(key, None)
            elif key not in self._due:
                self._number += 1
                self._due[key] = self._number
                heapq.heappush(self._by_wait, (self._number, self._number, key))
                heapq.heappush(self._by_score, (-decision.score, self._number, key))
            if wake.at_ms is not None:
                heapq.heappush(self._times, (wake.at_ms, key))
            if wake.commits is not None:
                heapq.heappush(self._commits, (wake.commits, key))
            if wake.boundary_ms is not None:
                heapq.heappush(self._boundaries, (wake.boundary_ms, key))

    @property
    def has_due(self) -> bool:
        """Whether a partition waits for its turn."""
        return bool(self._due)

    def next_look_ms(self) -> float:
        """When there is something to look at, if nothing happens before: at once, at a time, or never."""
        if self._touched or self._due:
            return float("-inf")
        return self._times[0][0] if self._times else float("inf")


def _reached(heap: list[tuple[int, PartitionKey]], value: int | None) -> Iterable[tuple[int, PartitionKey]]:
    """Takes from a heap what stands at or below a value."""
    while value is not None and heap and heap[0][0] <= value:
        yield heapq.heappop(heap)


class Waits:
    """The partitions whose job was in vain, because a writer came back."""

    def __init__(self, table: TableId, policy: Policy) -> None:
        self._table = table
        self._rest_ms = int(policy.compact.rest)
        self._held: dict[PartitionKey, Hold] = {}

    def was_in_vain(self, partition: PartitionKey, now_ms: int) -> None:
        """A job of it was ended by a writer."""
        refusal = Refusal(Reason.CANCELLED, "the stream came back to its partition while it ran")
        held = setback(self._table, partition, refusal, self._held.get(partition), self._rest_ms, now_ms)
        if held is not None:
            self._held[partition] = held

    def went_well(self, partition: PartitionKey) -> None:
        """A job of it ended well."""
        self._held.pop(partition, None)

    @property
    def quarantined(self) -> dict[PartitionKey, Quarantine]:
        """As the planner wants them."""
        return {
            key: Quarantine(held.until_ms or 0, held.failures, held.why) for key, held in self._held.items()
        }


FEW = 1000
"""Of so many snapshots all are shown to the planner: then its verdict says when it could be another."""


class SnapshotLog:
    """The snapshots of `main`, oldest first; their times never go back."""

    def __init__(self, snapshots: Iterable[Snapshot], policy: Policy) -> None:
        self._all: list[Snapshot] = []
        self._newest: dict[str, Snapshot] = {}
        """The newest of each writer that keeps its place in snapshots, by its token."""
        self._expire = policy.expire
        self._again_at_ms = float("-inf")
        """Before this no expiry is due for their number."""
        self._wakes_at_ms = float("-inf")
        """Before this the latest verdict on expiry stays what it is, as long as no snapshot comes or goes."""
        schedules = [one.from_score for one in policy.work.schedules if Action.EXPIRE in one.do]
        self._least_score = min([1.0, *schedules])
        for snapshot in snapshots:
            self.add(snapshot)

    def __len__(self) -> int:
        return len(self._all)

    @property
    def all(self) -> tuple[Snapshot, ...]:
        """Every one of them."""
        return tuple(self._all)

    def add(self, snapshot: Snapshot) -> None:
        """A commit."""
        self._wakes_at_ms = float("-inf")
        self._all.append(snapshot)
        if snapshot.token:
            self._newest[snapshot.token] = snapshot

    def remove(self, snapshot_ids: Iterable[int], at_ms: int) -> None:
        """An expiry."""
        self._wakes_at_ms = float("-inf")
        self._again_at_ms = at_ms + self._least_score * self._expire.every
        going, kept, place = set(snapshot_ids), [], 0
        while going:
            one, place = self._all[place], place + 1
            if one.snapshot_id in going:
                going.remove(one.snapshot_id)
            else:
                kept.append(one)
        # Only the old ones, at the front, are looked at: the log may be long.
        self._all[:place] = kept

    def next_look_ms(self) -> float:
        """No expiry can be due before this time: too few snapshots are old enough, and the oldest is not too old."""
        expire, room = self._expire, len(self._all) - self._expire.keep_last
        if not expire.enabled or room < 1:
            return float("inf")
        # `keep_for` is counted from the next snapshot's commit, and where there is room each has a next one.
        needed = max(int(self._least_score * expire.at_once), 1)
        enough_ms = self._all[needed].committed_at_ms if room >= needed else float("inf")
        following = (later.committed_at_ms for one, later in pairwise(self._all) if not one.is_pinned)
        overdue_ms = next(following, float("inf")) + self._least_score * expire.at_latest
        # What one commit takes does not wait for a day.
        full_ms = self._all[EXPIRED_AT_ONCE].committed_at_ms if room >= EXPIRED_AT_ONCE else float("inf")
        rests_ms = max(expire.keep_for + enough_ms, self._again_at_ms)
        return max(min(rests_ms, expire.keep_for + overdue_ms, expire.keep_for + full_ms), self._wakes_at_ms)

    def decided(self, of_table: Iterable[Decision]) -> None:
        """Keep what was decided of expiry until it could be something else."""
        for one in of_table:
            if one.action is Action.EXPIRE and len(self._all) <= FEW:
                self._wakes_at_ms = float("inf") if one.wake.at_ms is None else one.wake.at_ms

    def needed_for_expiry(self, now_ms: int) -> tuple[Snapshot, ...]:
        """Those that an expiry's verdict depends on: the old, the newest `keep_last`, the newest of each writer."""
        if len(self._all) <= FEW:
            return self.all
        old = bisect_right(self._all, now_ms - self._expire.keep_for, key=lambda one: one.committed_at_ms)
        # And those that set them free: the last of `keep_last` newer ones.
        old = min(old + self._expire.keep_last, len(self._all))
        last = max(len(self._all) - self._expire.keep_last, old)
        outer = {id(one) for one in (*self._all[:old], *self._all[last:])}
        between = [one for one in self._newest.values() if id(one) not in outer]
        between.sort(key=lambda one: one.sequence_number)
        return (*self._all[:old], *between, *self._all[last:])
