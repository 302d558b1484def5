"""Verdicts on a table as a whole: its snapshots, manifests, metadata.json files, and orphans.

Each has triggers with scores; the highest one speaks.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from isotherm.core.deletion import is_gc_enabled
from isotherm.core.model.decisions import NEVER, Decision, Verdict, Wake, sooner
from isotherm.core.model.jobs import Action
from isotherm.core.model.tables import UPGRADE, Snapshot
from isotherm.core.planner.debt import Trigger
from isotherm.core.planner.held import OWN_SNAPSHOT_BYTES, after_failures, standstill
from isotherm.core.planner.retention import (
    FOREVER_MS,
    PLACE_FOR_MS,
    expirable,
    places,
    reader_lags,
    ripe_astray_ms,
    ripe_on_main_ms,
)
from isotherm.core.planner.schedules import Pace
from isotherm.core.planner.view import View
from isotherm.core.policy.policy import Expire, Mode, Policy
from isotherm.core.units import DAY_MS, HOUR_MS, size_text, span_text
from isotherm.runtime.text import counted

CAPABLE = frozenset({Action.EXPIRE, Action.TRIM_METADATA, Action.COMPACT, Action.REMOVE_ORPHANS})
"""What this version can do; the rest is judged, explained and counted, but not done."""

WHOLE = {
    Action.EXPIRE: "(snapshots)",
    Action.REWRITE_MANIFESTS: "(manifests)",
    Action.TRIM_METADATA: "(metadata)",
    Action.REMOVE_ORPHANS: "(orphans)",
}
"""What verdicts on the table as a whole are called, where those on partitions have a label."""

WORTH_PART = 20
"""Of many snapshots a twentieth must be free to go, else an expiry costs more than it brings: a table with a commit a
minute that keeps a week would be expired every ten minutes, and each time ten thousand snapshots read for ten."""

EXPIRED_AT_ONCE = 2000
"""Snapshots that one commit takes, the oldest first: PyIceberg's work for them grows with their number, times all that
there are. A table with a commit a minute has fewer in a day."""

WORTH_WHERE_LARGE = 4
"""Where metadata.json is too large, a quarter of the snapshots is enough, without waiting for the day to be over. With
less it would be as large again at once: what is young stays, and is why it is large."""

FAIR_PART = 16
"""And where that is a sixteenth of the file, or more."""

TRIM_AT_ONCE = 10
"""Times as many as are due once a day are due within the day, for streams that commit each second: each search is a line in
the ledger, which a thousand tables share."""

MANIFEST_BYTES = 8 * 1024**2
"""Size of a well-filled manifest: Iceberg's default of `commit.manifest.target-size-bytes`."""


def _decide_whole(
    action: Action,
    triggers: Iterable[Trigger],
    view: View,
    pace: Pace,
    now_ms: int,
    *,
    off: tuple[str, str] | None,
    deletes: bool = True,
    files: int = 0,
    wake: Wake = NEVER,
) -> Decision:
    """The verdict on one action on the whole table, from its triggers.

    `off` says why it is not wanted at all and which option says so, `deletes` whether it takes something away that a lost ledger might still have
    needed.
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
    if action not in CAPABLE:
        what = action.replace("_", " ")
        return verdict(Verdict.UNSUPPORTED, f"due, but this version cannot {what} yet: {speaker.why}", until)
    if view.deletions_held is not None and deletes:
        return verdict(Verdict.HALTED, f"due, but nothing is deleted: {view.deletions_held}: {speaker.why}")
    if (failed := after_failures(view.setbacks.get(action), now_ms)) is not None:
        kind, why, wake = failed
        return verdict(kind, why, sooner(wake, until))
    if (waits := pace.waits(action, now_ms)) is not None:
        return verdict(Verdict.WAITING, f"due, but {waits[0]}: {speaker.why}", sooner(waits[1], until))
    by = f"by the schedule {schedule}: " if speaker.score < 1 else ""
    return verdict(Verdict.DUE, f"{by}{speaker.why}")


def _parts(pace: Pace, action: Action) -> set[float]:
    """The scores from which an action may be due: 1, and what schedules say."""
    return {1.0, *(one.from_score for one, _ in pace.schedules if action in one.do)}


def decide_expiry(
    view: View, snapshots: tuple[Snapshot, ...], expire: Expire, pace: Pace, now_ms: int
) -> tuple[Decision, tuple[int, ...]]:
    """The verdict on expiry, and the snapshots that would go."""
    going, kept_why = expirable(view, expire, now_ms)
    gone, total = set(going), max(len(snapshots), view.facts.snapshots) + len(view.astray)
    # An expiry reads and writes the whole metadata file: what it costs is in proportion to what it takes.
    enough = max(expire.at_once, total // WORTH_PART)
    # A time that is ahead was told by another clock.
    again_at_ms = min(view.last_done_ms.get(Action.EXPIRE, -expire.every), now_ms) + expire.every
    why = f"{len(going)} of {total} snapshots may go, due at {enough}{kept_why}"
    rested = 1.0
    # What one commit takes is not kept waiting: there would be ever more of it.
    if going and len(going) < EXPIRED_AT_ONCE and again_at_ms > now_ms:
        rested = max(1 - (again_at_ms - now_ms) / expire.every, 0.0)
        why += f", and once in {span_text(expire.every)}: in {span_text(again_at_ms - now_ms)}"
    many = len(going) / enough
    # Where less is enough, at night, it rests all the same.
    resting = 0.99 * min(_parts(pace, Action.EXPIRE))
    if rested < 1:
        many = min(many, rested, resting)
    triggers = [Trigger("expire.at_once", many, why)]
    ripe_ms = _ripe_ms(view, snapshots, expire, now_ms)
    free_ms = _free_ms(snapshots, ripe_ms, expire.keep_last)
    oldest_ms = min((at_ms for one, at_ms in free_ms if one in gone), default=None)
    done_ms = min(view.last_done_ms.get(Action.EXPIRE, 0), now_ms)
    if oldest_ms is not None and len(going) < EXPIRED_AT_ONCE:
        # What the last expiry has left could not go then, whatever kept it.
        oldest_ms = max(oldest_ms, done_ms)
    if oldest_ms is not None:
        most = resting if rested < 1 else math.inf
        triggers += _overdue(view, expire, oldest_ms, len(going), total, now_ms, most)
    ripening = sorted(
        at_ms for one, at_ms in ripe_ms.items() if one not in gone and now_ms < at_ms < FOREVER_MS
    )
    times = _times_of_others(view, snapshots, expire, now_ms)
    # A schedule may make less than the whole enough; to be looked at too early does no harm.
    for part in _parts(pace, Action.EXPIRE):
        fair = view.facts.metadata_file_bytes / OWN_SNAPSHOT_BYTES / FAIR_PART
        for needed in (enough * part, total * part / WORTH_WHERE_LARGE, fair * part, EXPIRED_AT_ONCE):
            missing = math.ceil(needed) - len(going)
            times += ripening[missing - 1 : missing] if missing > 0 else []
        times += [
            first + expire.at_latest * part for first in (oldest_ms, *ripening[:1]) if first is not None
        ]
        times.append(again_at_ms - expire.every * (1 - part))
    ahead = [math.ceil(at_ms) for at_ms in times if at_ms > now_ms]
    decision = _decide_whole(
        Action.EXPIRE,
        triggers,
        view,
        pace,
        now_ms,
        off=None
        if expire.enabled
        else _off(view, "expire.enabled", "the policy does not expire snapshots of this table"),
        files=len(going),
        wake=Wake(at_ms=min(ahead)) if ahead else NEVER,
    )
    return _once_readers_are_known(decision, view, now_ms), going[:EXPIRED_AT_ONCE]


def _once_readers_are_known(decision: Decision, view: View, now_ms: int) -> Decision:
    """The verdict on expiry, which waits while nobody knows who needs what would go."""
    if view.readers_unknown is None or decision.verdict is not Verdict.DUE:
        return decision
    why = f"due, but who reads the table is not known now: {view.readers_unknown}"
    return replace(decision, verdict=Verdict.WAITING, why=why, wake=Wake(at_ms=now_ms))


def _times_of_others(view: View, snapshots: tuple[Snapshot, ...], expire: Expire, now_ms: int) -> list[float]:
    """When snapshots are free that a branch, a writer's place, an open intent or a reader keeps."""
    readers = reader_lags(view, expire, now_ms)
    return [
        *(one.kept_until_ms for one in snapshots if not one.is_pinned),
        *(snapshots[place].committed_at_ms + PLACE_FOR_MS for place in places(snapshots)),
        *(one.since_ms + PLACE_FOR_MS for one in view.astray if one.token),
        *(one.expires_at_ms for one in view.around.intents),
        *(now_ms + expire.max_reader_lag - one.behind_ms for one in readers if one.is_kept),
    ]


def _overdue(
    view: View, expire: Expire, oldest_ms: int, going: int, total: int, now_ms: int, most: float
) -> Iterator[Trigger]:
    """That the oldest could have gone long ago, or that metadata.json is too large: due, or a score of `most`."""
    overdue_ms = max(now_ms - oldest_ms, 0)
    said = (
        f"the oldest could have gone {span_text(overdue_ms)} ago, {span_text(expire.at_latest)} at the latest"
    )
    late = overdue_ms / expire.at_latest if expire.at_latest else 1.0
    yield Trigger("expire.at_latest", late if late >= 1 else min(late, most), said)
    size, limit = view.facts.metadata_file_bytes, int(expire.max_metadata_size)
    said = (
        f"metadata.json has {size_text(size)} of {size_text(limit)}, and {going} of {total} snapshots may go"
    )
    # Schemas of a thousand columns may be most of it, and no expiry makes them less.
    fair = going * OWN_SNAPSHOT_BYTES * FAIR_PART / size if size else 0.0
    large = min(size / limit, going * WORTH_WHERE_LARGE / total, fair)
    said += "" if fair >= 1 else ", which are little of it"
    yield Trigger("expire.max_metadata_size", large if large >= 1 else min(large, most), said)


def _ripe_ms(view: View, snapshots: tuple[Snapshot, ...], expire: Expire, now_ms: int) -> dict[int, int]:
    """When each snapshot is old enough to go, by its id."""
    ripe_ms = ripe_on_main_ms(snapshots, expire, now_ms)
    on_main = zip((one.snapshot_id for one in snapshots), ripe_ms, strict=True)
    return {one.snapshot_id: ripe_astray_ms(one, expire) for one in view.astray} | dict(on_main)


def _free_ms(
    snapshots: tuple[Snapshot, ...], ripe_ms: Mapping[int, int], keep_last: int
) -> Iterator[tuple[int, int]]:
    """Since when each could have gone, by its id: what the newest, a branch or a tag kept could not go before that."""
    freed_ms = {
        one.snapshot_id: max(one.kept_until_ms, snapshots[number + keep_last].committed_at_ms)
        for number, one in enumerate(snapshots[: max(len(snapshots) - keep_last, 0)])
    }
    for snapshot_id, at_ms in ripe_ms.items():
        yield snapshot_id, max(at_ms, freed_ms.get(snapshot_id, 0))


def decide_manifests(view: View, policy: Policy, pace: Pace, now_ms: int) -> Decision:
    """The verdict on regrouping manifests."""
    count, partitions = view.facts.manifests, max(view.around.state.partitions, 1)
    # So many there must be, however they are grouped.
    needed = max(math.ceil(view.facts.metadata_bytes / MANIFEST_BYTES), 1)
    limits = policy.manifests
    many = max(count - needed, 0) / limits.min_count
    spread = count / (limits.max_per_partition * partitions)
    why = (
        f"{counted(count, 'manifest')} for {counted(partitions, 'partition')}, {needed} would do "
        f"(due {limits.min_count} above that, at {limits.max_per_partition:g} to a partition)"
    )
    option = "manifests.min_count" if many < spread else "manifests.max_per_partition"
    return _decide_whole(
        Action.REWRITE_MANIFESTS,
        [Trigger(option, min(many, spread), why)],
        view,
        pace,
        now_ms,
        off=None
        if limits.enabled
        else ("the policy does not regroup manifests of this table", "manifests.enabled"),
        deletes=False,
    )


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
            score = min(score, 0.99 * min(_parts(pace, Action.TRIM_METADATA)))
        why = (
            f"as many as {counted(going, 'metadata.json file')} may go since {span_text(ago_ms)} ago, due at "
            f"{limits.at_once} once a day, and at {TRIM_AT_ONCE * limits.at_once} once an hour"
        )
        times += [done_ms + HOUR_MS, done_ms + DAY_MS]
    return _decide_whole(
        Action.TRIM_METADATA,
        [Trigger("metadata.at_once", score, why)],
        view,
        pace,
        now_ms,
        off=_trims_not(view, policy),
        files=going,
        wake=Wake(at_ms=min((at_ms for at_ms in times if at_ms > now_ms), default=None)),
    )


def _off(view: View, option: str, by_policy: str) -> tuple[str, str]:
    """Why nothing of a table is deleted, and by which option: its owner may forbid it, whatever the policy says."""
    if is_gc_enabled(view.facts.properties):
        return by_policy, option
    return "gc.enabled is false in the table's properties", ""


def _trims_not(view: View, policy: Policy) -> tuple[str, str] | None:
    """Why old versions of a table's metadata are not looked for, or None where they are."""
    if not policy.metadata.enabled:
        return _off(view, "metadata.enabled", "old metadata.json files of this table are left alone")
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
        times = [math.ceil(done_ms + orphans.every * part) for part in _parts(pace, Action.REMOVE_ORPHANS)]
    elif not snapshots:
        score, why = 0.0, "the table has no snapshot"
    elif young_ms is not None and young_ms > now_ms:
        score, why = 0.0, f"the table is younger than an orphan must be ({span_text(orphans.older_than)})"
        times = [young_ms]
    else:
        score, why = 1.0, "nobody has looked for orphans yet"
    return _decide_whole(
        Action.REMOVE_ORPHANS,
        [Trigger("orphans.every", score, why)],
        view,
        pace,
        now_ms,
        off=_off(view, "orphans.mode", "the policy does not look for orphans")
        if orphans.mode is Mode.OFF
        else None,
        deletes=orphans.mode is Mode.APPLY,
        wake=Wake(at_ms=min((math.ceil(at_ms) for at_ms in times if at_ms > now_ms), default=None)),
    )
