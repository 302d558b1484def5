"""Verdicts on a table as a whole: its manifests, metadata.json files, and orphans; its snapshots are in `expiry`.

Each has triggers with scores; the highest one speaks.
"""

import math
from collections.abc import Iterable
from dataclasses import replace

from isotherm.core.deletion import is_gc_enabled
from isotherm.core.model.decisions import NEVER, Decision, Verdict, Wake, sooner
from isotherm.core.model.jobs import Action
from isotherm.core.model.tables import UPGRADE, Snapshot, TableFacts
from isotherm.core.planner.debt import Trigger
from isotherm.core.planner.held import after_failures, standstill, table_waits
from isotherm.core.planner.schedules import Pace
from isotherm.core.planner.view import View
from isotherm.core.policy.policy import Mode, Policy
from isotherm.core.units import DAY_MS, HOUR_MS, span_text
from isotherm.runtime.text import counted

WHOLE = {
    Action.EXPIRE: "(snapshots)",
    Action.REWRITE_MANIFESTS: "(manifests)",
    Action.TRIM_METADATA: "(metadata)",
    Action.REMOVE_ORPHANS: "(orphans)",
}
"""What verdicts on the table as a whole are called, where those on partitions have a label."""

TRIM_AT_ONCE = 10
"""Times as many as are due once a day are due within the day, for streams that commit each second: each search is a line in
the ledger, which a thousand tables share."""

MANIFEST_BYTES = 8 * 1024**2
"""Size of a well-filled manifest: Iceberg's default of `commit.manifest.target-size-bytes`."""


def decide_whole(
    action: Action,
    triggers: Iterable[Trigger],
    view: View,
    pace: Pace,
    now_ms: int,
    *,
    off: tuple[str, str] | None,
    deletes: bool = True,
    unable: str = "",
    files: int = 0,
    wake: Wake = NEVER,
) -> Decision:
    """The verdict on one action on the whole table, from its triggers.

    Args:
        action: what would be done.
        triggers: why; the highest score speaks.
        view: the table.
        pace: schedules and windows.
        now_ms: the time.
        off: why it is not wanted at all, and which option says so.
        deletes: whether it takes something away that a lost ledger might still have needed.
        unable: why this version cannot do it to this table, if so.
        files: how many it takes.
        wake: when it could be due.
    """
    speaker = max(triggers, key=lambda trigger: trigger.score)

    def verdict(kind: Verdict, why: str, wake: Wake = NEVER) -> Decision:
        score, option = round(speaker.score, 4), speaker.option
        return Decision(action, None, WHOLE[action], kind, score, why, wake, files=files, option=option)

    if (held := standstill(view, now_ms)) is not None:
        return verdict(*held)
    if off is not None:
        return replace(verdict(Verdict.OFF, off[0]), option=off[1])
    if any(flight.action is action for flight in view.flights):
        return verdict(Verdict.RUNNING, f"it is running: {speaker.why}")
    threshold, schedule = pace.threshold(action)
    if speaker.score < threshold:
        return verdict(Verdict.CLEAN, speaker.why, sooner(wake, pace.opens(action, speaker.score)))
    until = pace.closes(action, speaker.score)
    if unable:
        return verdict(Verdict.UNSUPPORTED, f"due, but {unable}: {speaker.why}", until)
    if view.deletions_held is not None and deletes:
        return verdict(Verdict.HALTED, f"due, but nothing is deleted: {view.deletions_held}: {speaker.why}")
    if (failed := after_failures(view.setbacks.get(action), now_ms)) is not None:
        kind, why, wake = failed
        return verdict(kind, why, sooner(wake, until))
    if (waits := pace.waits(action, now_ms)) is not None:
        return verdict(Verdict.WAITING, f"due, but {waits[0]}: {speaker.why}", sooner(waits[1], until))
    by = f"by the schedule {schedule}: " if speaker.score < 1 else ""
    return verdict(Verdict.DUE, f"{by}{speaker.why}")


def parts(pace: Pace, action: Action) -> set[float]:
    """The scores from which an action may be due: 1, and what schedules say."""
    return {1.0, *(one.from_score for one, _ in pace.schedules if action in one.do)}


def well_filled(facts: TableFacts) -> int:
    """How many manifests there must be: by their size, and because those of two specs or kinds never become one."""
    least = 0 if facts.needless_manifests is None else facts.manifests - facts.needless_manifests
    return min(max(math.ceil(facts.metadata_bytes / MANIFEST_BYTES), least, 1), facts.manifests)


def decide_manifests(view: View, policy: Policy, pace: Pace, now_ms: int) -> Decision:
    """The verdict on rewriting manifests, so that there are fewer."""
    count, partitions = view.facts.manifests, max(view.around.state.partitions, 1)
    needed = well_filled(view.facts)
    limits = policy.manifests
    many = max(count - needed, 0) / limits.min_count
    spread = count / (limits.max_per_partition * partitions)
    why = (
        f"{counted(count, 'manifest')} for {counted(partitions, 'partition')}, {needed} would do "
        f"(due {limits.min_count} above that, at {limits.max_per_partition:g} to a partition)"
    )
    option = "manifests.min_count" if many < spread else "manifests.max_per_partition"
    decision = decide_whole(
        Action.REWRITE_MANIFESTS,
        [Trigger(option, min(many, spread), why)],
        view,
        pace,
        now_ms,
        off=None
        if limits.enabled
        else ("the policy does not rewrite manifests of this table", "manifests.enabled"),
        deletes=False,
        unable=view.facts.unsupported,
    )
    if decision.verdict is Verdict.DUE and (waits := table_waits(view, policy, now_ms)) is not None:
        return replace(decision, verdict=Verdict.WAITING, why=f"due, but {waits[0]}: {why}", wake=waits[1])
    return decision


def decide_metadata(
    view: View, snapshots: tuple[Snapshot, ...], policy: Policy, pace: Pace, now_ms: int
) -> Decision:
    """The verdict on trimming old metadata.json files.

    Each commit leaves one behind, and so makes an older one ripe. How many there are, nobody knows who has not listed the
    folder; the commits since it was listed last count.
    """
    limits, done_ms = policy.metadata, view.last_done_ms.get(Action.TRIM_METADATA)
    times: list[int] = []
    if done_ms is None:
        # Each commit that the table ever had, where snapshots live less long than versions.
        commits = max((one.sequence_number for one in snapshots), default=0)
        versions = max(len(snapshots), view.facts.metadata_versions, commits)
        going, score = max(versions - limits.keep_last, 0), 0.0
        young_ms = _young_until_ms(snapshots, limits.older_than)
        if young_ms is None or young_ms <= now_ms:
            score = going / limits.at_once
        else:
            times.append(young_ms)
            going = 0
        why = f"{going} of {versions} old metadata.json files may go, due at {limits.at_once}"
        if young_ms is not None and young_ms > now_ms:
            why += f"; all are younger than {span_text(limits.older_than)}"
    else:
        ago_ms = max(now_ms - done_ms, 0)
        going = _commits_since(snapshots, done_ms, now_ms)
        many = going / limits.at_once
        rested = max(ago_ms / DAY_MS, many / TRIM_AT_ONCE)
        score = min(many, rested if ago_ms >= HOUR_MS else min(rested, ago_ms / HOUR_MS))
        if min(rested, ago_ms / HOUR_MS) < 1:
            # Where less is enough, at night, it rests all the same.
            score = min(score, 0.99 * min(parts(pace, Action.TRIM_METADATA)))
        why = (
            f"as many as {counted(going, 'metadata.json file')} may go since {span_text(ago_ms)} ago, due at "
            f"{limits.at_once} once a day, and at {TRIM_AT_ONCE * limits.at_once} once an hour"
        )
        times += [done_ms + HOUR_MS, done_ms + DAY_MS]
    return decide_whole(
        Action.TRIM_METADATA,
        [Trigger("metadata.at_once", score, why)],
        view,
        pace,
        now_ms,
        off=_trims_not(view, policy),
        files=going,
        wake=Wake(at_ms=min((at_ms for at_ms in times if at_ms > now_ms), default=None)),
    )


def why_off(view: View, option: str, by_policy: str) -> tuple[str, str]:
    """Why nothing of a table is deleted, and by which option: its owner may forbid it, whatever the policy says."""
    if is_gc_enabled(view.facts.properties):
        return by_policy, option
    return "gc.enabled is false in the table's properties", ""


def _trims_not(view: View, policy: Policy) -> tuple[str, str] | None:
    """Why old versions of a table's metadata are not looked for, or None where they are."""
    if not policy.metadata.enabled:
        return why_off(view, "metadata.enabled", "old metadata.json files of this table are left alone")
    if view.facts.format_version == 1:
        return f"with format 1 nothing would show that the table's history went back; {UPGRADE}", ""
    return None


def _commits_since(snapshots: tuple[Snapshot, ...], since_ms: int, now_ms: int) -> int:
    """Commits since a time, by the snapshots that are left: where these do not reach so far, as many as at their pace."""
    oldest_ms = min((one.committed_at_ms for one in snapshots), default=now_ms)
    if oldest_ms <= since_ms:
        return sum(one.committed_at_ms > since_ms for one in snapshots)
    return len(snapshots) * (now_ms - since_ms) // max(now_ms - oldest_ms, 1)


def _young_until_ms(snapshots: tuple[Snapshot, ...], age_ms: int) -> int | None:
    """Until when all of a table is younger than this. None where that is not known."""
    first = min(snapshots, key=lambda one: one.sequence_number, default=None)
    return first.committed_at_ms + age_ms if first is not None and first.sequence_number == 1 else None


def decide_orphans(
    view: View, snapshots: tuple[Snapshot, ...], policy: Policy, pace: Pace, now_ms: int
) -> Decision:
    """The verdict on looking for orphans."""
    orphans, done_ms = policy.orphans, view.last_done_ms.get(Action.REMOVE_ORPHANS)
    times: list[float] = []
    young_ms = _young_until_ms(snapshots, orphans.older_than)
    if done_ms is not None:
        ago_ms = max(now_ms - done_ms, 0)
        score = ago_ms / orphans.every if orphans.every else 1.0
        why = f"looked for {span_text(ago_ms)} ago, every {span_text(orphans.every)}"
        # A schedule may make less than the whole time enough; to be looked at too early does no harm.
        times = [math.ceil(done_ms + orphans.every * part) for part in parts(pace, Action.REMOVE_ORPHANS)]
    elif not snapshots:
        score, why = 0.0, "the table has no snapshot"
    elif young_ms is not None and young_ms > now_ms:
        score, why = 0.0, f"the table is younger than an orphan must be ({span_text(orphans.older_than)})"
        times = [young_ms]
    else:
        score, why = 1.0, "nobody has looked for orphans yet"
    return decide_whole(
        Action.REMOVE_ORPHANS,
        [Trigger("orphans.every", score, why)],
        view,
        pace,
        now_ms,
        off=why_off(view, "orphans.mode", "the policy does not look for orphans")
        if orphans.mode is Mode.OFF
        else None,
        deletes=orphans.mode.takes_away,
        wake=Wake(at_ms=min((math.ceil(at_ms) for at_ms in times if at_ms > now_ms), default=None)),
    )
