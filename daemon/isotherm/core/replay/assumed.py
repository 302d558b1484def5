"""What a replay cannot know, and takes for granted."""

from dataclasses import dataclass

from isotherm.core.model.job_limits import JOB_BYTES_PER_S, JOB_OVERHEAD_MS


@dataclass(frozen=True, slots=True)
class Assumed:
    """What a replay takes for granted."""

    plan_every_ms: int = 600_000
    jobs_at_once: int = 1
    """Of all tables together; here there is only this one."""
    bytes_per_s: float = JOB_BYTES_PER_S
    """What a job reads in a second."""
    job_overhead_ms: int = JOB_OVERHEAD_MS
    """What every job takes beside its bytes: a process, a commit."""
    bytes_per_hour: int | None = None
    """The budget over all tables."""
    writers_announce: bool = False
    """Every writer says in intents what it will touch: then late writes are no reason to wait."""
