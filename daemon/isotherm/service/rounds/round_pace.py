"""When the next planning round is due. No clock, no I/O."""

from dataclasses import dataclass


@dataclass(slots=True)
class RoundPace:
    """A round each so many seconds; sooner where a compaction has ended and others wait for its place."""

    every_s: float
    _ended_s: float = float("-inf")
    """When the last round ended."""
    _lasted_s: float = 0.0
    _leaves_work: bool = False
    """Whether it left something due that did not begin."""
    _jobs: int = 0
    _has_room: bool = False
    """Whether a compaction has ended since."""

    def jobs_run(self, jobs: int) -> None:
        """So many compactions run now. Where they are fewer than before, there is room for another one."""
        self._has_room = self._has_room or jobs < self._jobs
        self._jobs = jobs

    def round_ended(self, now_s: float, lasted_s: float, jobs: int, *, leaves_work: bool) -> None:
        """A round has ended that took so long, and after which so many compactions run."""
        self._ended_s, self._lasted_s, self._leaves_work = now_s, lasted_s, leaves_work
        self._jobs, self._has_room = jobs, False

    def refilled(self, jobs: int) -> None:
        """What the round had left was begun, as far as there was room; so many compactions run now."""
        self._jobs, self._has_room = jobs, False

    @property
    def has_room(self) -> bool:
        """Whether a compaction has ended since something began last."""
        return self._has_room

    def is_time(self, now_s: float, *, has_left: bool) -> bool:
        """Whether another round is due. Where the last one's requests are not used up, `has_left`, free slots take those.

        Small jobs take a fraction of a second. Rounds between them take half of the time at most.
        """
        passed_s = now_s - self._ended_s
        others_wait = self._has_room and self._leaves_work and not has_left and passed_s >= self._lasted_s
        return others_wait or passed_s >= self.every_s
