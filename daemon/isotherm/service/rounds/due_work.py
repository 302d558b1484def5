"""Begins what a round found due, each at the head that the catalog confirms; and what is left, once a slot is free.

A round looks at every table that could be due, and small jobs take less than that. So what did not begin waits for a free
slot until the next round. It is decided once more then, because its table has gone on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from isotherm.core.model.decisions import Plan, Request
from isotherm.core.model.jobs import Action
from isotherm.core.planner.view import Flight
from isotherm.service.health import Health
from isotherm.service.jobs.compactions import Compactions
from isotherm.service.jobs.table_work import TableWork
from isotherm.service.rounds.admission import Admission, work_key
from isotherm.service.rounds.own_code import OwnCode
from isotherm.service.rounds.verdicts import Verdicts
from isotherm.service.tables.confirm_heads import Follower
from isotherm.service.tables.failing_tables import Barrier
from isotherm.store.fold import Fold

BEGIN_FOR_S = 20.0
"""For beginning what is due: each may wait for a store that takes no files."""
REFILL_FOR_S = 2.0
"""The same between two rounds, where each job that has ended may call for it."""
CONFIRMED_FOR_MS = 1_000
"""So long a head counts as confirmed for what begins between two rounds. Our own commits confirm it as well, and each last
look does it again."""


@dataclass(slots=True, kw_only=True)
class DueWork:
    """What is due and has not begun."""

    fold: Fold
    follower: Follower
    verdicts: Verdicts
    compactions: Compactions
    table_work: TableWork
    admission: Admission
    own_code: OwnCode
    barrier: Barrier
    health: Health
    owns: Callable[[str], bool]
    """Whether the group has given a table, by its uuid, to this daemon."""
    confirm: Callable[[str], bool]
    """Brings our row of a table to what the catalog has; whether there is a table of ours under the name."""
    slots_left: Callable[[], int]
    """So many slots are left free now, for windows whose writers were asked or will be."""
    read_to_the_end: Callable[[], bool]
    """Reads the control topic to its end. Returns False where it cannot: then no compaction is worth its work."""
    now_ms: Callable[[], int]
    monotonic_s: Callable[[], float]
    _left: Sequence[Plan] = field(default_factory=tuple)
    """The compactions of the last round that have not begun."""

    @property
    def has_left(self) -> bool:
        """Whether something waits for a free slot."""
        return bool(self._left)

    def clear(self) -> None:
        """Forget what is left: a new round finds it again, or something else."""
        self._left = ()

    def flights(self, uuid: str) -> tuple[Flight, ...]:
        """What runs for a table."""
        return self.compactions.flights(uuid) + self.table_work.flights(uuid)

    def begin(self, plans: Sequence[Plan], since_ms: int) -> int:
        """Begin what a round has planned, where a head was confirmed since then or is confirmed now. Returns how much."""
        started, tried = self._begin_in_turn(plans, lambda: since_ms, BEGIN_FOR_S)
        self._left = _without(plans, tried)
        return started

    def begin_in_window(self, planned: Plan) -> int:
        """Begin what is due in a window, in the slots that are free. Returns how much."""
        return self._begin_in_turn(
            [planned], lambda: self.now_ms() - CONFIRMED_FOR_MS, REFILL_FOR_S, in_window=True
        )[0]

    def refill(self) -> None:
        """Begin what is left in the slots that are free by now."""
        plans, self._left = self._left, ()
        _, tried = self._begin_in_turn(plans, lambda: self.now_ms() - CONFIRMED_FOR_MS, REFILL_FOR_S)
        self._left = _without(plans, tried)

    def _begin_in_turn(
        self,
        plans: Sequence[Plan],
        since_ms: Callable[[], int],
        for_s: float,
        *,
        in_window: bool = False,
    ) -> tuple[int, set[int]]:
        """How many began, and which requests had their turn. A head counts that was confirmed since `since_ms`."""
        started, tried = 0, set[int]()
        deadline_s = self.monotonic_s() + for_s
        is_wanted = any(planned.requests for planned in plans)
        may_compact = is_wanted and self.own_code.is_there() and self.read_to_the_end()
        before = -1
        # A slot that several small ones share is filled one after another; and one that is not begun leaves its slot free.
        while len(tried) > before:
            before = len(tried)
            for request in self.admission.in_turn(
                plans, may_compact=may_compact, but=0 if in_window else self.slots_left()
            ):
                if self.monotonic_s() >= deadline_s:
                    return started, tried
                tried.add(id(request))
                started += self._begin_guarded(request, since_ms())
                self.health.ticked_at_s = self.monotonic_s()
            plans = _without(plans, tried)
        return started, tried

    def _begin_guarded(self, request: Request, since_ms: int) -> bool:
        action, key = request.decision.action, work_key(request)
        has_begun = False
        with self.barrier.around(request.table.name, f"beginning to {action}", key):
            has_begun = self._begin(request, since_ms)
            if has_begun and action is not Action.COMPACT:  # that has only begun to be bound
                self.barrier.forget(key)
        return has_begun

    def _begin(self, planned: Request, since_ms: int) -> bool:
        """Begin what was planned, where it is still to be done at the head that the catalog confirms."""
        action = planned.decision.action
        if action is not Action.COMPACT and not self.table_work.has_room(action):
            return False
        request = self._still_due(planned, since_ms)
        if request is None:
            return False
        if action is Action.COMPACT:
            return self.compactions.begin(request)
        has_begun = self.table_work.begin(request)
        if has_begun:
            self.admission.has_begun(request.table.uuid)
        return has_begun

    def _still_due(self, planned: Request, since_ms: int) -> Request | None:
        """The same request at the head that the catalog confirms, or has confirmed since then; None where it is not due there.

        A compaction is decided once more in any case: what begins first shows what others wrote, and that was not known
        when the next ones were planned.
        """
        uuid, name, key = planned.table.uuid, planned.table.name, planned.decision.partition
        row = self.fold.table(uuid)
        if row is None or not self.owns(uuid):
            return None
        is_confirmed = self.follower.loaded(uuid) is not None and row.facts.confirmed_at_ms >= since_ms
        if not is_confirmed:
            # Where that fails, it is asked for before anything is planned for it again.
            self.follower.suspects.add(name)
            row = self.fold.table(uuid) if self.confirm(name) else None
        if row is None or not row.is_trusted:
            return None
        if key is not None:
            again = self.verdicts.compaction_of(row, self.flights(uuid), key)
            # In the slot that it was given.
            return None if again is None else replace(again, executor=planned.executor)
        if is_confirmed:
            return planned
        requests = self.verdicts.decide(row, self.flights(uuid), whole=True).plan.requests
        return next((one for one in requests if one.decision.action is planned.decision.action), None)


def _without(plans: Sequence[Plan], tried: set[int]) -> list[Plan]:
    """The compactions of these plans that had no turn."""
    found = []
    for one in plans:
        left = tuple(
            request
            for request in one.requests
            if request.decision.action is Action.COMPACT and id(request) not in tried
        )
        if left:
            found.append(replace(one, requests=left))
    return found
