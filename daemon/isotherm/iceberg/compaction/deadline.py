"""When a rewrite takes too long. Each executor asks it of each of its jobs, and ends the job then."""

from isotherm.core.model.refusals import Reason, Refusal


def overdue(
    ran_for_s: float, limit_s: float, what: str = "not done", *, slack_s: float = 0
) -> Refusal | None:
    """Why a job is ended that has run for so long, or None where it may go on."""
    if ran_for_s <= limit_s + slack_s:
        return None
    return Refusal(Reason.DEADLINE, f"{what} after {ran_for_s:.0f}s, the limit is {limit_s:.0f}s")
