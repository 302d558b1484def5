"""Reads the control topic: what its messages say becomes state, verdicts are made, and the messages are acknowledged.

Save, then acknowledge: what an event changed is saved before its offset is committed. While many messages wait, they
come first: a table's next event makes its verdicts again anyway. Until then its touched partitions are marked in the
fold, where a round finds them too, and nothing begins on a verdict alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from isotherm.core.model.outside import Outside
from isotherm.core.observations import EventApplied, TrySoon
from isotherm.core.planner.view import Flight
from isotherm.service.health import Health
from isotherm.service.jobs.compactions import Compactions
from isotherm.service.jobs.last_look import DRAIN_TIMEOUT_S
from isotherm.service.ports import EventSource, Listener, Message
from isotherm.service.rounds.verdicts import Verdicts
from isotherm.service.tables.failing_tables import Barrier
from isotherm.service.topics.dead_letters import SetAside
from isotherm.service.topics.events_to_state import Intake, Taken, in_pieces
from isotherm.store.fold import Fold
from isotherm.store.ledger import Ledger

MANY = 250
"""Messages that came together: then more wait."""
VERDICTS_WITHIN_S = 10.0
"""While more messages wait, verdicts are made so often: as often as a round is planned."""
DECIDE_FOR_S = 2.0
"""In one turn of the loop; the other tables are decided in the next one."""
TABLES_AT_ONCE = 100
"""Tables whose verdicts are saved together."""


@dataclass(slots=True, kw_only=True)
class Consumer:
    """Consumes the control topic."""

    fold: Fold
    ledger: Ledger
    events: EventSource
    intake: Intake
    verdicts: Verdicts
    compactions: Compactions
    flights: Callable[[str], tuple[Flight, ...]]
    """What runs for a table, by uuid."""
    barrier: Barrier
    set_aside: SetAside
    health: Health
    listen: Listener
    now_ms: Callable[[], int]
    monotonic_s: Callable[[], float]

    _undecided: dict[str, list[EventApplied]] = field(default_factory=dict)
    """Tables whose verdicts are still to be made, by uuid, with the events after which they are."""
    _since_s: float = 0.0
    """Since when the first of them waits."""

    def consume(self, messages: Sequence[Message]) -> None:
        """Take messages of the control topic into the state, then acknowledge them."""
        if not messages and not self._undecided:
            return
        try:
            for piece in in_pieces(messages):
                taken = self.intake.take_or_set_aside(piece)
                self.compactions.hear(taken)
                self._note(taken)
                self.health.ticked_at_s = self.monotonic_s()
            if len(messages) < MANY or self.monotonic_s() - self._since_s >= VERDICTS_WITHIN_S:
                self._decide()
        except BaseException:
            # Also those that are saved already: they mean nothing the second time.
            self.events.undo(messages)
            raise
        self.set_aside.flush()
        self.events.commit()

    def _note(self, taken: Taken) -> None:
        """Tables that are to be decided again."""
        if not self._undecided:
            self._since_s = self.monotonic_s()
        for touched in taken.touched:
            self._undecided.setdefault(touched.uuid, [])
        for one in taken.applied:
            self._undecided.setdefault(one.table.uuid, []).append(one)

    def _decide(self) -> None:
        """New verdicts for the tables that wait for them, once for each, for a while."""
        until_s = self.monotonic_s() + DECIDE_FOR_S
        while self._undecided and self.monotonic_s() < until_s:
            some = list(self._undecided)[:TABLES_AT_ONCE]
            with self.fold.transaction(), self.ledger.transaction():
                for uuid in some:
                    row = self.fold.table(uuid)
                    if row is not None and row.is_trusted:
                        with self.barrier.around(row.state.table.name, "deciding after an event"):
                            self.verdicts.decide(row, self.flights(uuid), in_round=False)
            for uuid in some:
                for one in self._undecided.pop(uuid):
                    self.listen(replace(one, decided_at_ms=self.now_ms()))
            self.health.ticked_at_s = self.monotonic_s()
        self._since_s = self.monotonic_s()

    def read_to_the_end(self) -> bool:
        """Read the control topic to its end, if that was not possible the last time; whether it is now."""
        if self.compactions.last_look.is_blind:
            messages = self.events.drain(DRAIN_TIMEOUT_S)
            self.compactions.last_look.is_blind = messages is None
            if messages is None:
                why = "it could not be read, so nothing is compacted"
                self.listen(TrySoon("the end of the control topic", why, Outside.CONTROL_END))
            self.consume(messages or ())
        return not self.compactions.last_look.is_blind
