"""What the daemon says of what it did, written down; and what of it is a mistake."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from histories.work_lab import WorkLab, kind_of
from isotherm.core import observations as seen
from isotherm.core.model.jobs import Action, OutcomeKind
from isotherm.core.model.refusals import Reason

FINE = frozenset(
    {
        Reason.COMMITTED,
        Reason.CANCELLED,
        Reason.CONFLICT,
        Reason.FILE_TWICE,
        Reason.FORMAT,
        Reason.HOT,
        Reason.NOTHING_TO_DO,
        Reason.SCHEMA,
        Reason.STAGED,
        Reason.STALE,
        Reason.STOPPED,
    }
)
"""Ends of jobs that others' commits explain. Any other one is a mistake."""
FOUND_OUT = frozenset({Reason.LOST, Reason.NO_ANSWER})
"""Of jobs whose end was unknown at first."""
ALARMS = (seen.TableHalted, seen.StateDrifted, seen.TableFailed, seen.TableGone, seen.EventRejected)


@dataclass
class Account:
    """What was said in one history."""

    lab: WorkLab
    told: list[str]
    happened: Counter[str]
    """What the daemon has done, by kind."""
    ends: Counter[str]
    """How jobs ended, by action and reason."""
    unknown: set[str] = field(default_factory=set)
    """Jobs of which the daemon did not know the end at first."""

    def mistakes(self, observations: Iterable[Any], *, has_raced: bool) -> Iterator[str]:
        """Write down what was said, and tell what should not have been. Others may have come in between."""
        for one in observations:
            match one:
                case seen.JobEnded():
                    yield from self._ended(one, has_raced=has_raced)
                case seen.PoliciesLoaded(ok=False):
                    yield f"complaints about the policy: {one.complaints}"
                case seen.PartitionsRecounted(wrong=wrong) if wrong:
                    yield f"partitions that were counted wrongly: {wrong}"
                case seen.HoldChanged(is_held=True):
                    self.told.append(f"    held: {one.partition or 'the table'}: {one.why}")
                case seen.SnapshotsExpired():
                    self.happened["schemas removed"] += one.schemas_removed
                    self.happened["specs removed"] += one.specs_removed
                case seen.FilesDeleted():
                    self.told.append(f"    deleted {one.files}, kept {one.kept}: {one.why}")
                    self.happened["files deleted"] += one.files
            if isinstance(one, ALARMS):
                yield f"an alarm: {one}"

    def _ended(self, end: seen.JobEnded, *, has_raced: bool) -> Iterator[str]:
        kind = str(end.action)
        if end.action is Action.COMPACT:
            kind = kind_of(self.lab.take_of(end.job_id))
        self.told.append(f"    {kind} {end.label}: {end.outcome} {end.reason} {end.why[:300]}")
        self.ends[f"{end.action} {end.reason}"] += 1
        # A request that was refused once may have a second copy on its way, for all that the daemon knows.
        is_open = end.outcome is OutcomeKind.UNKNOWN and has_raced
        is_found_out = end.reason in FOUND_OUT and end.job_id in self.unknown
        if not (end.reason in FINE or is_open or is_found_out):
            yield f"{end.reason} is no good end"
        if is_open:
            self.unknown.add(end.job_id)
        if end.outcome is OutcomeKind.DONE:
            self.happened[kind] += 1
