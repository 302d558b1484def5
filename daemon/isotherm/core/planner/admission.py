"""Which of the requests of all tables begin now, within the budgets: fair between tables, the most urgent first."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from isotherm.core.model.decisions import Plan, Request


@dataclass(frozen=True, slots=True)
class Room:
    """What a table's limits still allow, and where it stands in the queue."""

    priority: int = 0
    jobs: int | None = None
    """Compactions that may begin, or None for as many as there is room for."""
    bytes: int | None = None
    """What they may read, or None where there is no limit."""


def admit(
    plans: Iterable[Plan],
    running: int,
    jobs_at_once: int,
    bytes_left: int | None,
    rooms: Mapping[str, Room] | None = None,
) -> tuple[Request, ...]:
    """The requests to start now, out of all tables: what costs no bytes at once, compactions in turn from each table.

    Args:
        plans: one per table.
        running: compactions that run already.
        jobs_at_once: how many may run.
        bytes_left: what the budget over all tables still allows to read, or None where there is no limit.
        rooms: what each table's own limits still allow, by uuid.
    """
    rooms = rooms or {}
    by_table = sorted(plans, key=lambda one: (one.table.name, one.table.uuid))
    cheap = [request for one in by_table for request in one.requests if request.decision.partition is None]
    queues = [
        _Queue(
            [r for r in one.requests if r.decision.partition is not None], rooms.get(one.table.uuid, Room())
        )
        for one in by_table
    ]
    chosen: list[Request] = []
    free = max(jobs_at_once - running, 0)
    # A higher priority is served as long as it has work. Among equals the best of each table in turn, so that a
    # table with much debt does not starve the others.
    for priority in sorted({queue.room.priority for queue in queues}, reverse=True):
        peers = [queue for queue in queues if queue.room.priority == priority]
        while free and (waiting := [queue for queue in peers if queue.has_room]):
            for queue in sorted(waiting, key=lambda queue: -queue.requests[0].decision.score):
                request = queue.requests.pop(0)
                size = request.decision.bytes
                if not free or (bytes_left is not None and size > bytes_left) or not queue.allows(size):
                    continue
                chosen.append(request)
                queue.take(size)
                free -= 1
                bytes_left = None if bytes_left is None else bytes_left - size
    return (*cheap, *chosen)


class _Queue:
    """A table's compactions that wait, and what its limits still allow."""

    def __init__(self, requests: list[Request], room: Room) -> None:
        self.requests = requests
        self.room = room
        self._jobs, self._bytes = room.jobs, room.bytes

    @property
    def has_room(self) -> bool:
        return bool(self.requests) and self._jobs != 0

    def allows(self, size_bytes: int) -> bool:
        return self._bytes is None or size_bytes <= self._bytes

    def take(self, size_bytes: int) -> None:
        self._jobs = None if self._jobs is None else self._jobs - 1
        self._bytes = None if self._bytes is None else self._bytes - size_bytes
