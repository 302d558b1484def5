"""When a rewrite takes too long. Each executor asks it of each of its jobs, and ends the job then."""

from isotherm.core.model.refusals import Reason, Refusal


def overdue(
    ran_for_s: float, limit_s: float, what: str = "not done", *, slack_s: float = 0, has_begun: bool = True
) -> Refusal | None:
    """Why a job is ended that has run for so long, or None where it may go on.

    One that nobody has begun says nothing of its size: whoever was to begin it does not answer.
    """
    if ran_for_s <= limit_s + slack_s:
        return None
    reason = Reason.DEADLINE if has_begun else Reason.UNAVAILABLE
    return Refusal(reason, f"{what} after {ran_for_s:.0f}s, the limit is {limit_s:.0f}s")
