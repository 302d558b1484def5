"""When work may be done: how the windows and schedules of a policy stand at one moment.

Windows say when an action may begin at all; schedules lower the score from which something is due. Nothing is remembered
of either: inside its span a schedule is another number to compare with, and a job that brought the score down is done.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from isotherm.core.model.decisions import NEVER, Wake
from isotherm.core.model.jobs import Action
from isotherm.core.policy.policy import Policy, Schedule
from isotherm.core.policy.windows import Opening, opening
from isotherm.core.policy.zone_names import UTC_NAME, moment_text


@dataclass(frozen=True, slots=True)
class Pace:
    """How the policy's windows and schedules stand at one moment."""

    tz: str
    """The time zone of both."""
    windows: Mapping[Action, Opening]
    """Those in which each action may begin. One that is not in here may begin at all times."""
    schedules: tuple[tuple[Schedule, Opening], ...]

    @classmethod
    def at(cls, policy: Policy, now_ms: int) -> "Pace":
        """How they stand."""
        work = policy.work
        if not work.windows and not work.schedules:
            return cls(work.tz, {}, ())
        of_action = {action: work.windows_of(action) for action in Action}
        # Most actions share their windows, and each is asked about once.
        openings = {windows: opening(windows, work.tz, now_ms) for windows in set(of_action.values())}
        return cls(
            work.tz,
            {action: openings[windows] for action, windows in of_action.items() if windows},
            tuple((schedule, opening([schedule], work.tz, now_ms)) for schedule in work.schedules),
        )

    def threshold(self, action: Action) -> tuple[float, str]:
        """The score from which an action is due now, and the schedule that says so."""
        best, name = 1.0, ""
        for schedule, state in self.schedules:
            if action in schedule.do and state.is_open and schedule.from_score < best:
                best, name = schedule.from_score, schedule.name or self._cron_text(schedule)
        return best, name

    def opens(self, action: Action, score: float) -> Wake:
        """When a schedule could next make something of this score due."""
        times = [
            state.opens_at_ms
            for schedule, state in self.schedules
            if action in schedule.do and schedule.from_score <= score and state.opens_at_ms is not None
        ]
        return Wake(at_ms=min(times)) if times else NEVER

    def closes(self, action: Action, score: float) -> Wake:
        """When something of this score could cease to be due, since a schedule that lets it be due closes."""
        times = [
            state.closes_at_ms
            for schedule, state in self.schedules
            if action in schedule.do and state.closes_at_ms is not None
        ]
        return Wake(at_ms=min(times)) if times and score < 1 else NEVER

    def waits(self, action: Action, now_ms: int) -> tuple[str, Wake] | None:
        """Why an action must not begin now, and until when. Returns None where it may."""
        windows = self.windows.get(action)
        if windows is None or windows.is_open:
            return None
        opens_at_ms = windows.opens_at_ms
        if opens_at_ms is None:
            return "no window of the policy ever opens", NEVER
        opens = moment_text(opens_at_ms, now_ms, self.tz)
        return f"it waits for its window, which opens at {opens}", Wake(at_ms=opens_at_ms)

    def _cron_text(self, schedule: Schedule) -> str:
        return schedule.cron if self.tz == UTC_NAME else f"{schedule.cron} {self.tz}"
