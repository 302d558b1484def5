"""What keeps anything from being done, however due it is: a halt, a pause, a moment after a failure, somebody's audit."""

from isotherm.core.deletion import is_gc_enabled
from isotherm.core.model.decisions import NEVER, Verdict, Wake
from isotherm.core.model.holds import Quarantine
from isotherm.core.part_size import allowed_bytes
from isotherm.core.planner.expirable import WHOLE
from isotherm.core.planner.view import View
from isotherm.core.policy.policy import Policy
from isotherm.core.units import MINUTE_MS, size_text, span_text

QUARANTINE_FAILURES = 3
"""From so many failures in a row on, a partition counts as quarantined; before, it only waits a moment."""
OWN_SNAPSHOT_BYTES = 1300
"""What a compaction of ours adds to metadata.json: its snapshot with the summary, and its lines in two logs."""
LOOK_AGAIN_MS = 15 * MINUTE_MS
"""What somebody has written beside `main` may be dropped, too, and no commit says so."""


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
    if quarantine is None or quarantine.until_ms <= now_ms or quarantine.is_of_move:
        return None
    kind = Verdict.QUARANTINED if quarantine.failures >= QUARANTINE_FAILURES else Verdict.WAITING
    allowed = allowed_bytes(quarantine.part, now_ms)
    less = "" if allowed is None else f", with {size_text(allowed)} at most, or two files"
    times = "once" if quarantine.failures == 1 else f"{quarantine.failures} times in a row"
    said = f"failed {times}" if quarantine.failures else "waits"
    left = span_text(quarantine.until_ms - now_ms)
    return kind, f"{said} ({quarantine.why}); tried again in {left}{less}", Wake(at_ms=quarantine.until_ms)


def table_waits(view: View, policy: Policy, now_ms: int) -> tuple[str, Wake] | None:
    """What of the table as a whole keeps its partitions waiting, and when that is asked again."""
    return not_published(view, now_ms) or crowded(view, policy, now_ms)


def crowded(view: View, policy: Policy, now_ms: int) -> tuple[str, Wake] | None:
    """How large our own commits have made metadata.json, and when that is asked again. Writers write it with each commit.

    Expiry takes our snapshots as it takes all others. Where most are the writers' own, ours make no difference.
    """
    facts, expire = view.facts, policy.expire
    size, limit = facts.metadata_file_bytes, int(expire.max_metadata_size) // 2
    own_bytes = min(facts.own_snapshots * OWN_SNAPSHOT_BYTES, size)  # it may be compressed
    # Schemas of a thousand columns may be most of it: few snapshots of ours are no reason to wait.
    if size < limit or own_bytes < limit // 2 or 2 * facts.own_snapshots <= facts.snapshots:
        return None
    who = "" if expire.enabled else ", which expire.enabled leaves to somebody else"
    if not is_gc_enabled(facts.properties):
        who = ", which gc.enabled=false in the table's properties forbids"
    if facts.whole_until_ms > now_ms:
        who = f"; none is, because {WHOLE}"
    why = (
        f"metadata.json has {size_text(size)} (half of expire.max_metadata_size is {size_text(limit)}), some "
        f"{size_text(own_bytes)} of it our own {facts.own_snapshots} snapshots, and writers write it with each commit: "
        f"until some are expired{who}"
    )
    return why, Wake(at_ms=now_ms + LOOK_AGAIN_MS)


def not_published(view: View, now_ms: int) -> tuple[str, Wake] | None:
    """What somebody wants to publish on top of `main` as it is, and when that is looked for again."""
    one = next((one for one in view.facts.unpublished if one.waits(now_ms)), None)
    if one is None:
        return None
    again_ms = min(one.until_ms, now_ms + LOOK_AGAIN_MS)
    return one.why, Wake(at_ms=again_ms, commits=view.around.state.foreign_commits + 1)
