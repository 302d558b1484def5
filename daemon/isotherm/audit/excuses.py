"""What may be done in a hot partition after all: in a window that its writers granted, or beside writers that only append."""

from collections.abc import Sequence

from isotherm.audit.evidence import ColdRule, Commit, Evidence, Touch
from isotherm.audit.granted_windows import why_not_granted
from isotherm.audit.minor_compaction import why_not_beside


def excused(
    history: Evidence,
    commit: Commit,
    touch: Touch,
    before: Sequence[Commit],
    rule: ColdRule,
    complaint: str,
) -> tuple[str | None, str | None, str]:
    """What is left of a complaint where a window, or what may be done beside appends, allows it.

    Returns also what of that is not known any more, and which of the two it is: `granted`, `beside`, or neither.
    """
    if commit.window_ids:
        left, doubt = why_not_granted(history, commit, touch, before)
        if left is None:
            return None, doubt, "granted"
        complaint = f"{complaint}; {left}"
    if rule.minor_after_ms is not None:
        left, doubt = why_not_beside(history, commit, touch, before, rule)
        return left, doubt, "beside" if left is None else ""
    return complaint, None, ""
