"""Which of what is due begins now: the planner's turns, with what only the service knows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from isotherm.core.model.decisions import Plan, Request
from isotherm.core.model.jobs import Action, ExecutorName
from isotherm.core.planner.turns import admit
from isotherm.core.units import DAY_MS, HOUR_MS
from isotherm.service.jobs.compactions import Compactions
from isotherm.service.rounds.verdicts import Verdicts
from isotherm.store.ledger import Ledger

ROUND_ALL_MS = 60 * DAY_MS
"""So long it may take until each table's folders were searched once: whoever was forgotten before would have its turn again
in place of those that never had one."""


Key = TypeVar("Key")


@dataclass(slots=True)
class Admission:
    """Lets requests in, and remembers whose turn it was."""

    ledger: Ledger
    verdicts: Verdicts
    compactions: Compactions
    is_aside: Callable[[str], bool]
    """Whether work with this key failed lately, and is left alone."""
    now_ms: Callable[[], int]
    jobs_at_once: int
    bytes_per_hour: int | None
    cluster_jobs_at_once: int = 0
    """On a cluster, which has slots of its own: one that hangs keeps no small job waiting."""
    served_at_ms: dict[tuple[str, ExecutorName], int] = field(default_factory=dict)
    """By uuid and executor: when a compaction was let in last, within a day. It is kept while a table is set aside: else two that
    fail each time would take all turns. A restart forgets it: then who has waited longest comes first."""
    begun_at_ms: dict[str, int] = field(default_factory=dict)
    """By uuid: when work on the table as a whole began last, within `ROUND_ALL_MS`."""

    def has_begun(self, uuid: str) -> None:
        """Note that work on this table as a whole has begun: the others have their turn before it."""
        now_ms = self.now_ms()
        self.begun_at_ms = _recent(self.begun_at_ms, now_ms, ROUND_ALL_MS) | {uuid: now_ms}

    def in_turn(self, plans: Sequence[Plan], *, may_compact: bool, but: int = 0) -> Iterator[Request]:
        """The requests of these plans that begin now, in all slots but so many here.

        Of one that does not begin, others have the turn once this is asked again.
        """
        for request in self._admitted(plans, may_compact=may_compact, but=but):
            if not self.is_aside(work_key(request)):
                yield request

    def _admitted(self, plans: Sequence[Plan], *, may_compact: bool, but: int) -> Sequence[Request]:
        """Those that begin, if each does. What is set aside would only take a turn from the others."""
        plans = [self._ready(planned) for planned in plans]
        if not any(planned.requests for planned in plans):
            return ()
        now_ms, left = self.now_ms(), self._bytes_left()
        rooms = self.verdicts.rooms(plans, self.compactions.by_table(), self.served_at_ms)
        here, there = (self.jobs_at_once - but, self.cluster_jobs_at_once) if may_compact else (0, 0)
        admitted = admit(
            plans,
            self.compactions.slots_taken(ExecutorName.LOCAL),
            here,
            left,
            now_ms,
            rooms,
            self.begun_at_ms,
            there - self.compactions.slots_taken(ExecutorName.SPARK),
        )
        # Whatever comes of it: who was let in and did not begin is not first in line again.
        taken = {(one.table.uuid, one.executor) for one in admitted if one.decision.action is Action.COMPACT}
        self.served_at_ms = _recent(self.served_at_ms, now_ms) | dict.fromkeys(taken, now_ms)
        return admitted

    def bytes_left(self, uuid: str) -> int | None:
        """What a compaction of a table may read now, by all budgets and the table's limits, or None where nothing limits it."""
        room = self.verdicts.room(uuid, self.compactions.by_table(), {})
        if room is not None and room.jobs == 0:
            return 0
        lefts = (self._bytes_left(), None if room is None else room.bytes)
        return min((one for one in lefts if one is not None), default=None)

    def _bytes_left(self) -> int | None:
        budget = self.bytes_per_hour
        return None if budget is None else budget - self.ledger.bytes_read_within(HOUR_MS, self.now_ms())

    def _ready(self, planned: Plan) -> Plan:
        """The plan without what is set aside."""
        ready = tuple(request for request in planned.requests if not self.is_aside(work_key(request)))
        return replace(planned, requests=ready)


def work_key(request: Request) -> str:
    """The key under which work of this kind on its table is set aside: looking at the table goes well all the same."""
    return f"{request.table.uuid}/{request.decision.action}"


def _recent(times_ms: Mapping[Key, int], now_ms: int, span_ms: int = DAY_MS) -> dict[Key, int]:
    """Those within a day, or another span, and none of a time to come: a clock that was ahead costs no table its turn."""
    return {uuid: at_ms for uuid, at_ms in times_ms.items() if 0 <= now_ms - at_ms < span_ms}
