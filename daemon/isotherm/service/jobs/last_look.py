"""The last look before a swap: what may stand against it, from the topics, the group and the table as they are now.

The order is part of it. The control topic is read to its end first, and what was read is saved, so that the table is
judged with all that its writers have said. Whether this daemon still has the table is asked last: a pause after that
question is harmless, because a swap replaces exactly the files that were read, or fails.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from isotherm.core.model.jobs import CompactionJob
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.core.rewriters import why_not_converted
from isotherm.service.clocks import Clocks
from isotherm.service.jobs.table_ownership import MOVED, Owned
from isotherm.service.ports import EventSource, LoadedTable, Message
from isotherm.service.rounds.verdicts import Verdicts
from isotherm.service.tables.follow import Follower
from isotherm.service.topics.holds import Holds
from isotherm.service.topics.intake import Intake, Touched, in_pieces
from isotherm.store.fold import Fold

DRAIN_TIMEOUT_S = 5.0
"""To reach the end of the control topic; where it cannot be reached, nothing is committed."""

Cancel = Callable[[Iterable[Touched]], None]
"""Cancels the other jobs that new messages touch."""


@dataclass(slots=True, kw_only=True)
class LastLook:
    """Looks at everything that a swap depends on."""

    fold: Fold
    events: EventSource
    follower: Follower
    intake: Intake
    verdicts: Verdicts
    holds: Holds
    clocks: Clocks
    owned: Owned
    is_blind: bool = False
    """The control topic could not be read to its end the last time: what is rewritten now would be thrown away."""

    def at(
        self, loaded: LoadedTable, job: CompactionJob, tenure: int | None, cancel: Cancel
    ) -> Refusal | None:
        """Take in what is new. Returns what stands against the swap of a job, or None where it may be sent.

        Args:
            loaded: the table as it is now.
            job: the job that is to be committed.
            tenure: the one under which it began.
            cancel: is told what the new messages touch.
        """
        uuid = job.table.uuid
        messages = self.events.drain(DRAIN_TIMEOUT_S)
        self.is_blind = messages is None
        # Saved before anything is judged: whatever comes of this job, nobody hands these messages out again.
        self._save(messages or (), cancel)
        if not self.owned.has_still(uuid, tenure):
            return Refusal(Reason.OWNER, MOVED)
        if messages is None:
            return Refusal(Reason.TOPIC, f"it could not be read to its end within {DRAIN_TIMEOUT_S:.0f}s")
        if not self.holds.refresh(DRAIN_TIMEOUT_S):
            return Refusal(Reason.TOPIC, f"what is held back could not be read within {DRAIN_TIMEOUT_S:.0f}s")
        if (against := self._at_table(loaded, job)) is not None:
            return against
        return self.owned.moved(uuid, tenure)

    def _at_table(self, loaded: LoadedTable, job: CompactionJob) -> Refusal | None:
        """Bring the state to the table as it is now. Returns what stands against the swap by it, or None."""
        self.follower.confirm_loaded(loaded)
        row = self.fold.table(job.table.uuid)
        resolved = None if row is None else self.verdicts.policy_of(row)
        if row is None or resolved is None or not row.is_trusted:
            return Refusal(Reason.POLICY, self.verdicts.not_maintained(row))
        if not resolved.policy.compact.enabled:
            return Refusal(Reason.POLICY, "it does not compact this table any more")
        stopped = self.holds.stops(job.table.uuid)
        if stopped is not None:
            return stopped
        if (doubt := self.clocks.trouble()) is not None:
            return Refusal(Reason.CLOCK, doubt)
        if job.converts_equality and (why := why_not_converted(row.facts)) is not None:
            return Refusal(Reason.CONFLICT, f"equality deletes stay what they are: {why}")
        hot = self.verdicts.why_hot(row, job.partition, resolved.policy, beside_appends=job.beside_appends)
        return None if hot is None else Refusal(Reason.HOT, hot)

    def _save(self, messages: Sequence[Message], cancel: Cancel) -> None:
        """Take messages into the state; where that fails, they are to be handed out again."""
        try:
            for piece in in_pieces(messages):
                cancel(self.intake.take(piece).touched)
        except BaseException:
            self.events.undo(messages)
            raise
