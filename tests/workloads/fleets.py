"""Several tables under one budget: how long what is due waits for its turn, with one job at a time.

Partitions fall due, nobody writes to them again, and a job ends well. So whatever waits, waits for others.
"""

from collections import deque
from dataclasses import dataclass

from isotherm.contract.identity import TableId
from isotherm.core.model.decisions import Plan
from isotherm.core.model.job_limits import job_ms
from isotherm.core.model.jobs import ExecutorName
from isotherm.core.planner.debt import debt
from isotherm.core.planner.file_selection import rewritten
from isotherm.core.planner.plan import plan
from isotherm.core.planner.turns import Room, admit
from isotherm.core.policy.policy import Policy
from support.builders import BUCKETS, GIB, HOUR, KIB, MIB, MINUTE, NOW, facts, key, table_state, view
from support.builders import partition as partition_of

ROUND_MS = MINUTE


@dataclass(frozen=True)
class Arrival:
    """A partition that falls due."""

    at_ms: int
    table: str
    files: int
    size: int
    """Of each file."""


@dataclass(frozen=True)
class Wait:
    """How long a partition waited, from due to the beginning of its job or to the end of the story."""

    table: str
    waited_ms: int
    is_over: bool


class Fleet:
    """The tables, and what of them is due."""

    def __init__(self, arrivals, policy, bytes_per_hour=None, reads_per_day=None):
        self._arrivals = deque(sorted(arrivals, key=lambda one: one.at_ms))
        self._policy = policy
        self._target = int(policy.compact.target_file_size)
        self._bytes_per_hour = bytes_per_hour
        self._reads_per_day = reads_per_day or {}
        self._due = {one.table: {} for one in self._arrivals}
        self._since = {}
        self._spent = deque()
        self._number = 0
        self._busy_until_ms = 0
        self._served_at_ms = {}
        self.waits = []

    def play(self, until_ms):
        """Rounds every minute, and one more when a job has ended; then all waits."""
        now_ms = 0
        while now_ms < until_ms:
            self._arrive(now_ms)
            if self._busy_until_ms <= now_ms:
                self._begin(now_ms)
            round_ms = now_ms // ROUND_MS * ROUND_MS + ROUND_MS
            now_ms = min(round_ms, self._busy_until_ms) if self._busy_until_ms > now_ms else round_ms
        left = [
            Wait(table, until_ms - self._since[table, one], is_over=False)
            for table, due in self._due.items()
            for one in due
            if (table, one) in self._since
        ]
        return [*self.waits, *left]

    def _arrive(self, now_ms):
        while self._arrivals and self._arrivals[0].at_ms <= now_ms:
            one = self._arrivals.popleft()
            self._number += 1
            self._due[one.table][key(self._number)] = partition_of(one.files, one.size)
            self._since[one.table, key(self._number)] = one.at_ms

    def _begin(self, now_ms):
        """One round of planning and admission; a job begins, if one may."""
        plans = [self._planned(table, due, now_ms) for table, due in self._due.items() if due]
        rooms = {one.table.uuid: self._room(one.table) for one in plans}
        for request in admit(plans, 0, 1, self._left(now_ms), NOW + now_ms, rooms):
            self._served_at_ms[request.table.uuid] = NOW + now_ms
            table, where, size = request.table.name, request.decision.partition, request.decision.bytes
            # Of what is done in parts the first counts.
            if (since_ms := self._since.pop((table, where), None)) is not None:
                self.waits.append(Wait(table, now_ms - since_ms, is_over=True))
            left = rewritten(self._due[table].pop(where), request.decision.take, self._target)
            if debt(left, self._policy.compact).score >= 1:
                self._due[table][where] = left
            self._spent.append((now_ms, size))
            self._busy_until_ms = now_ms + job_ms(size)

    def _room(self, table) -> Room:
        at_ms = self._served_at_ms.get(table.uuid)
        served_at_ms = {} if at_ms is None else {ExecutorName.LOCAL: at_ms}
        return Room(served_at_ms=served_at_ms, reads_per_day=self._reads_per_day.get(table.name, 0))

    def _planned(self, table, due, now_ms) -> Plan:
        state = table_state(table=TableId(f"uuid-{table}", table))
        since_ms = {one: NOW + self._since[table, one] for one in due if (table, one) in self._since}
        seen = view(due, state=state, facts=facts(fields=BUCKETS), snapshots=None, due_since_ms=since_ms)
        return plan(seen, self._policy, NOW + now_ms)

    def _left(self, now_ms):
        """What the budget still allows in this hour."""
        if self._bytes_per_hour is None:
            return None
        while self._spent and self._spent[0][0] <= now_ms - HOUR:
            self._spent.popleft()
        return self._bytes_per_hour - sum(size for _, size in self._spent)


def one_old_table(partitions=2000, hours=12, policy=None, reads_per_day=0):
    """The first day on an old table: its backlog is due at once, and nine others have a partition due each hour.

    The old one's partitions have 300 files of 4 MiB, a job of 70 seconds each; those of the others 120 of 1 MiB.
    """
    others = [f"shop.t{number}" for number in range(9)]
    arrivals = [Arrival(0, "shop.old", 300, 4 * MIB)] * partitions + [
        Arrival(hour * HOUR + (7 * place + 3) * MINUTE, name, 120, MIB)
        for hour in range(hours)
        for place, name in enumerate(others)
    ]
    fleet = Fleet(arrivals, policy or Policy(), reads_per_day={"shop.old": reads_per_day})
    return [one for one in fleet.play(hours * HOUR) if one.table != "shop.old"]


def one_large_job(hours=24, policy=None):
    """A budget of 10 GiB an hour: a job of 1 GiB falls due every six minutes, and one of 8 GiB after two hours."""
    small = [Arrival(minute * MINUTE, "shop.small", 256, 4 * MIB) for minute in range(0, hours * 60, 6)]
    arrivals = [*small, Arrival(2 * HOUR, "shop.large", 2048, 4 * MIB)]
    waits = Fleet(arrivals, policy or Policy(), bytes_per_hour=10 * GIB).play(hours * HOUR)
    return [one for one in waits if one.table == "shop.large"]


def one_large_partition(hours=24, policy=None):
    """In one table a partition of 30 GiB in 7,680 files, and others of 100 small files that come as fast as they go."""
    apart_ms = job_ms(100 * 100 * KIB)
    small = [Arrival(at_ms, "shop.crowd", 100, 100 * KIB) for at_ms in range(0, hours * HOUR, apart_ms)]
    fleet = Fleet([Arrival(0, "shop.crowd", 7680, 4 * MIB), *small], policy or Policy())
    waits = fleet.play(hours * HOUR)
    return [max(waits, key=lambda one: one.waited_ms)]


def one_that_is_read(hours=12, policy=None, reads_per_day=0):
    """Ten tables have a partition of 200 files of 4 MiB due each quarter of an hour, at the same time.

    A job takes a minute and a half, so the last one waits for as long as there is. One is read, the others are not.
    """
    names = ["shop.z", *(f"shop.t{number}" for number in range(9))]
    arrivals = [
        Arrival(minute * MINUTE, name, 200, 4 * MIB) for minute in range(0, hours * 60, 15) for name in names
    ]
    return Fleet(arrivals, policy or Policy(), reads_per_day={"shop.z": reads_per_day}).play(hours * HOUR)
