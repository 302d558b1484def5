"""Which of what is due begins now: the planner's admission, with what only the service knows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from isotherm.core.model.decisions import Plan, Request
from isotherm.core.model.jobs import Action
from isotherm.core.planner.admission import admit
from isotherm.core.units import DAY_MS, HOUR_MS
from isotherm.service.compactions import Compactions
from isotherm.service.planning import Verdicts
from isotherm.store.ledger import Ledger


@dataclass(slots=True)
class Admission:
    """Lets requests in, and remembers whose turn it was."""

    ledger: Ledger
    verdicts: Verdicts
    compactions: Compactions
    now_ms: Callable[[], int]
    jobs_at_once: int
    bytes_per_hour: int | None
    served_at_ms: dict[str, int] = field(default_factory=dict)
    """By uuid, of the tables that have more to do. A restart forgets it: then who has waited longest comes first."""
    expired_at_ms: dict[str, int] = field(default_factory=dict)
    """By uuid: when an expiry began last, within a day."""

    def expires(self, uuid: str) -> bool:
        """Note that an expiry of this table has begun: the others have their turn before it. Returns True."""
        now_ms = self.now_ms()
        recent = {one: at_ms for one, at_ms in self.expired_at_ms.items() if now_ms - at_ms < DAY_MS}
        self.expired_at_ms = recent | {uuid: now_ms}
        return True

    def admitted(self, plans: Sequence[Plan], *, may_compact: bool) -> Sequence[Request]:
        """The requests of these plans that begin now."""
        if not any(planned.requests for planned in plans):
            return ()
        now_ms, budget = self.now_ms(), self.bytes_per_hour
        left = None if budget is None else budget - self.ledger.bytes_read_since(now_ms - HOUR_MS)
        rooms = self.verdicts.rooms(plans, self.compactions.running(), self.served_at_ms)
        at_once = self.jobs_at_once if may_compact else 0
        admitted = admit(plans, len(self.compactions), at_once, left, now_ms, rooms, self.expired_at_ms)
        # Whatever comes of it: who was let in and did not begin is not first in line again.
        taken = {one.table.uuid for one in admitted if one.decision.action is Action.COMPACT}
        served = self.served_at_ms | dict.fromkeys(taken, now_ms)
        due = {planned.table.uuid for planned in plans if planned.requests}
        self.served_at_ms = {uuid: at_ms for uuid, at_ms in served.items() if uuid in due}
        return admitted
