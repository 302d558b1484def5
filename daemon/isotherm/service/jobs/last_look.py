"""The last look before a swap: what may stand against it, from the topics, the group and the table as they are now.

The order is part of it. The control topic is read to its end first, and what was read is saved, so that the table is
judged with all that its writers have said. Whether this daemon still has the table is asked last: a pause after that
question is harmless, because a swap replaces exactly the files that were read, or fails.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from isotherm.contract.identity import PartitionKey
from isotherm.core.model.jobs import CompactionJob
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.core.model.tables import PartitionField
from isotherm.core.partitions import label
from isotherm.core.rewriters import why_not_converted
from isotherm.service.clocks import Clocks
from isotherm.service.jobs.table_ownership import MOVED, Owned
from isotherm.service.ports import EventSource, LoadedTable, Message
from isotherm.service.rounds.verdicts import Verdicts
from isotherm.service.tables.confirm_heads import Follower
from isotherm.service.topics.events_to_state import Intake, Taken, in_pieces
from isotherm.service.topics.holds import Holds
from isotherm.store.fold import Fold

DRAIN_TIMEOUT_S = 5.0
"""To reach the end of the control topic; where it cannot be reached, nothing is committed."""

Cancel = Callable[[Taken], None]
"""Cancels the other jobs that new messages touch, and ends windows."""


def into_hot(output: PartitionKey, why: str, fields: Iterable[PartitionField]) -> Refusal:
    """That a job does not go on because one of the partitions into which it moves rows is hot."""
    return Refusal(Reason.OUTPUT_SPEC, f"its rows go into {label(output, fields)}: {why}")


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
        self, loaded: LoadedTable, jobs: Mapping[str, tuple[CompactionJob, int | None]], cancel: Cancel
    ) -> dict[str, Refusal]:
        """Take in what is new. Returns what stands against the swap of each job that must not be sent, by its id.

        Args:
            loaded: the table as it is now.
            jobs: those that are to be committed, by id, each with the tenure under which it began.
            cancel: is told what the new messages touch.
        """
        uuid = loaded.table.uuid
        messages = self.events.drain(DRAIN_TIMEOUT_S)
        self.is_blind = messages is None
        # Saved before anything is judged: whatever comes of this job, nobody hands these messages out again.
        self._save(messages or (), cancel)
        found = {
            job_id: Refusal(Reason.OWNER, MOVED)
            for job_id, (_, tenure) in jobs.items()
            if not self.owned.has_still(uuid, tenure)
        }
        if len(found) == len(jobs):
            return found
        if (why := self._unread(messages)) is not None:
            return dict.fromkeys(jobs, Refusal(Reason.TOPIC, why)) | found
        self.follower.confirm_loaded(loaded)
        for job_id, (job, _) in jobs.items():
            if job_id not in found and (against := self._at_table(job)) is not None:
                found[job_id] = against
        moved: dict[int | None, Refusal | None] = {}
        for job_id, (_, tenure) in jobs.items():
            if job_id in found:
                continue
            if tenure not in moved:
                moved[tenure] = self.owned.moved(uuid, tenure)
            if (against := moved[tenure]) is not None:
                found[job_id] = against
        return found

    def _unread(self, messages: Sequence[Message] | None) -> str | None:
        """Which topic could not be read, or None."""
        if messages is None:
            return f"it could not be read to its end within {DRAIN_TIMEOUT_S:.0f}s"
        if not self.holds.refresh(DRAIN_TIMEOUT_S):
            return f"what is held back could not be read within {DRAIN_TIMEOUT_S:.0f}s"
        return None

    def _at_table(self, job: CompactionJob) -> Refusal | None:
        """What stands against a swap by the table as it is now, or None."""
        row = self.fold.table(job.table.uuid)
        resolved = None if row is None else self.verdicts.policy_of(row)
        if row is None or resolved is None or not row.is_trusted:
            return Refusal(Reason.POLICY, self.verdicts.not_maintained(row))
        if job.is_on_manifests and not resolved.policy.manifests.enabled:
            return Refusal(Reason.POLICY, "it does not rewrite this table's manifests any more")
        if not job.is_on_manifests and not resolved.policy.compact.enabled:
            return Refusal(Reason.POLICY, "it does not compact this table any more")
        stopped = self.holds.stops(job.table.uuid)
        if stopped is not None:
            return stopped
        if (doubt := self.clocks.trouble()) is not None:
            return Refusal(Reason.CLOCK, doubt)
        if job.is_on_manifests:
            return None  # no file comes or leaves, so nobody asks which partition is hot
        if job.converts_equality and (why := why_not_converted(row.facts)) is not None:
            return Refusal(Reason.CONFLICT, f"equality deletes stay what they are: {why}")
        return self.hot(job)

    def hot_outputs(self, job: CompactionJob) -> Mapping[PartitionKey, str]:
        """The partitions into which a job moves rows that are hot, and why, as far as is known without asking anybody."""
        row = self.fold.table(job.table.uuid)
        resolved = None if row is None or not job.outputs else self.verdicts.policy_of(row)
        if row is None or resolved is None:
            return {}
        return dict(self.verdicts.hot_outputs(row, job, resolved.policy))

    def hot(self, job: CompactionJob) -> Refusal | None:
        """Why the partition of a job is hot, as far as is known without asking anybody, or None."""
        row = self.fold.table(job.table.uuid)
        resolved = None if row is None else self.verdicts.policy_of(row)
        if row is None or resolved is None or job.is_on_manifests:
            return None
        hot = self.verdicts.why_hot(
            row,
            job.partition,
            resolved.policy,
            beside_appends=job.beside_appends,
            window_id=job.window_id,
        )
        if hot is not None:
            return Refusal(Reason.HOT, hot)
        of_output = next(self.verdicts.hot_outputs(row, job, resolved.policy), None)
        return None if of_output is None else into_hot(*of_output, row.facts.fields)

    def _save(self, messages: Sequence[Message], cancel: Cancel) -> None:
        """Take messages into the state; where that fails, they are to be handed out again."""
        try:
            for piece in in_pieces(messages):
                cancel(self.intake.take(piece))
        except BaseException:
            self.events.undo(messages)
            raise
