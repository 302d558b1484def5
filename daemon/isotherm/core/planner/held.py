"""What keeps anything from being done, however due it is: a halt, a pause, a moment after a failure."""

from isotherm.core.model.decisions import NEVER, Verdict, Wake
from isotherm.core.model.holds import Quarantine
from isotherm.core.planner.view import View
from isotherm.core.units import span_text

QUARANTINE_FAILURES = 3
"""From so many failures in a row on, a partition counts as quarantined; before, it only waits a moment."""


def standstill(view: View, now_ms: int) -> tuple[Verdict, str, Wake] | None:
    """Whether the table stands still, and until when."""
    if view.halted is not None:
        return Verdict.HALTED, f"the table is halted: {view.halted}", NEVER
    pause = view.pause
    if pause is None or not pause.holds(now_ms):
        return None
    left = "" if pause.until_ms is None else f", for another {span_text(pause.until_ms - now_ms)}"
    return Verdict.OFF, f"paused{left}: {pause.why}", Wake(at_ms=pause.until_ms)


def after_failures(quarantine: Quarantine | None, now_ms: int) -> tuple[Verdict, str, Wake] | None:
    """Whether something that failed is left alone for now, and until when."""
    if quarantine is None or quarantine.until_ms <= now_ms:
        return None
    kind = Verdict.QUARANTINED if quarantine.failures >= QUARANTINE_FAILURES else Verdict.WAITING
    if not quarantine.failures:
        left = span_text(quarantine.until_ms - now_ms)
        return (
            kind,
            f"waits ({quarantine.why}); tried again in {left}",
            Wake(at_ms=quarantine.until_ms),
        )
    times = "once" if quarantine.failures == 1 else f"{quarantine.failures} times in a row"
    left = span_text(quarantine.until_ms - now_ms)
    return kind, f"failed {times} ({quarantine.why}); tried again in {left}", Wake(at_ms=quarantine.until_ms)
