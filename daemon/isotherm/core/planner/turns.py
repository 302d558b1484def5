"""Which of the requests of all tables begin now, within the budgets.

Tables take turns: who has waited longest is served first. A table's wait begins when something of it fell due, and again
whenever it is served, so a large backlog waits no longer and no shorter than a single partition. A higher priority is
worth an hour of waiting, and so never starves the others. What does not fit a budget is passed over for an hour; then
what becomes free is kept for it.

A table that is read much waits faster: each minute counts as up to two, in its first hour. So reading is worth an hour
at most, as a step of priority is. But unlike a priority it is worth nothing to a table that was just served: a backlog
that is read much keeps nobody else waiting for an hour.

On a cluster a table waits by itself, with slots and turns of its own; its limits are those of both.

So with n tables of one priority, jobs of at most L, and s of them at once, a table is served within n·L/s, and an hour
later for each step of priority below the others, and another where others are read more (a property in
tests/core/planner/test_turns.py).
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from isotherm.core.model.decisions import Plan, Request
from isotherm.core.model.jobs import ExecutorName
from isotherm.core.reads import weight
from isotherm.core.units import HOUR_MS

KEPT_AFTER_MS = HOUR_MS
"""What has not fitted a budget for so long is passed over no more."""

DOUBLES_MS = HOUR_MS / 2
"""In one table what waits for so long comes before what saves readers twice as much. So the wait of the least useful
partition is bounded by the logarithm of how much more useful the others are."""
READ_FOR_MS = HOUR_MS
"""What reading is worth at most, in waiting: as much as a step of priority."""


@dataclass(frozen=True, slots=True)
class Room:
    """What a table's limits still allow, and where it stands in the queue."""

    priority: int = 0
    jobs: int | None = None
    """Compactions that may begin, or None for as many as there is room for."""
    bytes: int | None = None
    """What they may read, or None where there is no limit."""
    served_at_ms: Mapping[ExecutorName, int] = field(default_factory=dict)
    """When a compaction of it was last admitted to each executor; of none where none was."""
    reads_per_day: float = 0
    """Scans that engines have reported; none where nobody reports any."""


def admit(
    plans: Iterable[Plan],
    running: int,
    jobs_at_once: int,
    bytes_left: int | None,
    now_ms: int,
    rooms: Mapping[str, Room] | None = None,
    begun_at_ms: Mapping[str, int] | None = None,
    cluster_slots: int = 0,
) -> tuple[Request, ...]:
    """The requests to start now, out of all tables: what costs no bytes at once, compactions in turn from each table.

    Args:
        plans: one per table.
        running: compactions that run on this machine already.
        jobs_at_once: how many may run on it.
        bytes_left: what the budget over all tables still allows to read, or None where there is no limit.
        now_ms: the time.
        rooms: what each table's own limits still allow, by uuid.
        begun_at_ms: when work on a whole table began last, by uuid. Few may run at once, so it is done in turn.
        cluster_slots: how many may begin on a cluster. It has slots of its own, and the same budgets.
    """
    rooms, begun_at_ms = rooms or {}, begun_at_ms or {}
    by_table = sorted(plans, key=lambda one: (one.table.name, one.table.uuid))
    cheap = [request for one in by_table for request in one.requests if request.decision.partition is None]
    cheap.sort(key=lambda request: begun_at_ms.get(request.table.uuid, 0))
    slots = {ExecutorName.LOCAL: jobs_at_once - running, ExecutorName.SPARK: cluster_slots}
    if max(slots.values()) <= 0:
        return tuple(cheap)  # most rounds end here: nobody is ranked for slots that are not free
    queues = [queue for one in by_table for queue in _queues(one, rooms.get(one.table.uuid, Room()), now_ms)]
    chosen: list[Request] = []
    while max(slots.values()) > 0 and (waiting := [queue for queue in queues if queue.has_room]):
        queue = max(waiting, key=lambda queue: queue.turn)
        request = queue.requests.pop()
        size = request.decision.bytes
        if slots[queue.executor] <= 0:
            # Its other jobs would take what becomes free of its limits, each time. In every second hour: the executor may hang.
            is_its_hour = _waited_ms(request, now_ms) // KEPT_AFTER_MS % 2 == 1
            queue.limits.is_kept = queue.limits.are_some and is_its_hour
            queue.requests.clear()
            continue
        if not queue.limits.allow(size):
            if _has_waited_long(request, now_ms):
                queue.limits.is_kept = True
        elif bytes_left is not None and size > bytes_left:
            if _has_waited_long(request, now_ms):
                break
        else:
            chosen.append(request)
            queue.serve(size)
            slots[queue.executor] -= 1
            bytes_left = None if bytes_left is None else bytes_left - size
    return (*cheap, *chosen)


def rank(request: Request, now_ms: int) -> float:
    """Where a request stands among those of its table: what it saves readers for its price, and how long it waits."""
    return request.benefit * math.exp2(min(_waited_ms(request, now_ms) / DOUBLES_MS, 60))


def _waited_ms(request: Request, now_ms: int) -> int:
    return 0 if request.due_since_ms is None else max(now_ms - request.due_since_ms, 0)


def _has_waited_long(request: Request, now_ms: int) -> bool:
    return _waited_ms(request, now_ms) >= KEPT_AFTER_MS


@dataclass(slots=True)
class _Limits:
    """What a table's limits still allow, wherever its jobs run."""

    jobs: int | None
    bytes: int | None
    is_kept: bool = False
    """What is left is kept for something of it that has waited long."""

    @property
    def are_some(self) -> bool:
        return self.jobs is not None or self.bytes is not None

    @property
    def have_room(self) -> bool:
        return self.jobs != 0 and not self.is_kept

    def allow(self, size_bytes: int) -> bool:
        return self.bytes is None or size_bytes <= self.bytes

    def take(self, size_bytes: int) -> None:
        self.jobs = None if self.jobs is None else self.jobs - 1
        self.bytes = None if self.bytes is None else self.bytes - size_bytes


def _queues(planned: Plan, room: Room, now_ms: int) -> Iterator["_Queue"]:
    """A table's compactions that wait, by where they would run: who is served on one executor waits for the other still."""
    limits = _Limits(room.jobs, room.bytes)
    for executor in ExecutorName:
        waiting = [
            one for one in planned.requests if one.decision.partition is not None and one.executor is executor
        ]
        if waiting:
            yield _Queue(waiting, executor, room, limits, now_ms)


class _Queue:
    """A table's compactions that wait for one executor."""

    def __init__(
        self, requests: list[Request], executor: ExecutorName, room: Room, limits: _Limits, now_ms: int
    ) -> None:
        self.executor, self.limits = executor, limits
        self.requests = sorted(
            requests, key=lambda request: (rank(request, now_ms), request.decision.partition or "")
        )
        """The last one comes first."""
        waited_ms = max((_waited_ms(request, now_ms) for request in requests), default=0)
        if (served_at_ms := room.served_at_ms.get(executor)) is not None:
            waited_ms = min(waited_ms, max(now_ms - served_at_ms, 0))
        self._priority, self._waited_ms, self._reads_per_day = room.priority, waited_ms, room.reads_per_day
        self._served = 0

    @property
    def has_room(self) -> bool:
        return bool(self.requests) and self.limits.have_room

    @property
    def turn(self) -> tuple[float, int, float]:
        """The higher, the sooner: how long it has waited, how often it was served just now, what it would save."""
        aged_ms = self._waited_ms + weight(self._reads_per_day) * min(self._waited_ms, READ_FOR_MS)
        saved = self.requests[-1].benefit * (1 + self._reads_per_day)
        return self._priority + aged_ms / HOUR_MS, -self._served, saved

    def serve(self, size_bytes: int) -> None:
        self._waited_ms, self._served = 0, self._served + 1
        self.limits.take(size_bytes)
