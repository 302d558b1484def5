"""Reads the control topic: what its messages say becomes state, verdicts are made, and the messages are acknowledged.

Save, then acknowledge: what an event changed is saved before its offset is committed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from isotherm.contract.identity import TableId
from isotherm.core.model.outside import Outside
from isotherm.core.observations import EventApplied, TrySoon
from isotherm.core.planner.view import Flight
from isotherm.service.barrier import Barrier
from isotherm.service.compactions import Compactions
from isotherm.service.dead_letters import SetAside
from isotherm.service.health import Health
from isotherm.service.intake import AppliedEvent, Intake, Taken, in_pieces
from isotherm.service.last_look import DRAIN_TIMEOUT_S
from isotherm.service.planning import Verdicts
from isotherm.service.ports import EventSource, Listener, Message
from isotherm.store.fold import Fold
from isotherm.store.ledger import Ledger


@dataclass(slots=True)
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

    def consume(self, messages: Sequence[Message]) -> None:
        """Take messages of the control topic into the state, then acknowledge them."""
        if not messages:
            return
        try:
            for piece in in_pieces(messages):
                taken = self.intake.take_or_set_aside(piece)
                self.compactions.cancel_touched(taken.touched)
                self._decide(taken)
                for one in taken.applied:
                    self._tell_applied(one)
                self.health.ticked_at_s = self.monotonic_s()
        except BaseException:
            # Also those that are saved already: they mean nothing the second time.
            self.events.undo(messages)
            raise
        self.set_aside.flush()
        self.events.commit()

    def _decide(self, taken: Taken) -> None:
        """New verdicts for the tables of a batch, once for each."""
        with self.fold.transaction(), self.ledger.transaction():
            for uuid in {one.event.table_uuid for one in taken.applied} | {one.uuid for one in taken.touched}:
                row = taken.rows.get(uuid) or self.fold.table(uuid)
                if row is not None and row.is_trusted:
                    with self.barrier.around(row.state.table.name, "deciding after an event"):
                        self.verdicts.decide(row, self.flights(uuid), in_round=False)

    def _tell_applied(self, one: AppliedEvent) -> None:
        self.listen(
            EventApplied(
                table=TableId(one.event.table_uuid, one.event.table),
                snapshot_id=one.event.snapshot_id,
                origin=one.event.origin,
                partitions=one.partitions,
                committed_at_ms=one.event.timestamp_ms,
                received_at_ms=one.received_at_ms,
                decided_at_ms=self.now_ms(),
                seconds=one.seconds,
            )
        )

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
