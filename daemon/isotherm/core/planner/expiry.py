"""The verdict on expiry: which snapshots would go, and whether that is worth a commit now."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from isotherm.core.model.decisions import NEVER, Decision, Verdict, Wake
from isotherm.core.model.jobs import Action
from isotherm.core.model.tables import Snapshot
from isotherm.core.planner.debt import Trigger
from isotherm.core.planner.expirable import (
    FOREVER_MS,
    PLACE_FOR_MS,
    SHOWN,
    expirable,
    places,
    reader_lags,
    ripe_astray_ms,
    ripe_on_main_ms,
)
from isotherm.core.planner.held import OWN_SNAPSHOT_BYTES
from isotherm.core.planner.schedules import Pace
from isotherm.core.planner.view import View
from isotherm.core.planner.whole_table import decide_whole, parts, why_off
from isotherm.core.policy.policy import Expire
from isotherm.core.units import size_text, span_text

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
    if going and expire.clean_expired_metadata and max(view.facts.schemas, view.facts.specs) > 1:
        why += f", then of {view.facts.schemas} schemas and {view.facts.specs} specs those that nothing uses"
    rested = 1.0
    # What one commit takes is not kept waiting: there would be ever more of it.
    if going and len(going) < EXPIRED_AT_ONCE and again_at_ms > now_ms:
        rested = max(1 - (again_at_ms - now_ms) / expire.every, 0.0)
        why += f", and once in {span_text(expire.every)}: in {span_text(again_at_ms - now_ms)}"
    many = len(going) / enough
    # Where less is enough, at night, it rests all the same.
    resting = 0.99 * min(parts(pace, Action.EXPIRE))
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
    triggers += _refs_over(view, now_ms)
    ripening = sorted(
        at_ms for one, at_ms in ripe_ms.items() if one not in gone and now_ms < at_ms < FOREVER_MS
    )
    decision = decide_whole(
        Action.EXPIRE,
        triggers,
        view,
        pace,
        now_ms,
        off=None
        if expire.enabled
        else why_off(view, "expire.enabled", "the policy does not expire snapshots of this table"),
        files=len(going),
        wake=_wake(view, expire, pace, now_ms, (len(going), total, enough), ripening, oldest_ms, again_at_ms),
    )
    return _once_readers_are_known(decision, view, now_ms), going[:EXPIRED_AT_ONCE]


def _wake(
    view: View,
    expire: Expire,
    pace: Pace,
    now_ms: int,
    counts: tuple[int, int, int],
    ripening: Sequence[int],
    oldest_ms: int | None,
    again_at_ms: int,
) -> Wake:
    """When the verdict could be another one.

    `counts` are the snapshots that may go, all there are, and how many are enough; `ripening` when others are old enough.
    """
    going, total, enough = counts
    times = _times_of_others(view, view.snapshots or (), expire, now_ms)
    # A schedule may make less than the whole enough; to be looked at too early does no harm.
    for part in parts(pace, Action.EXPIRE):
        fair = view.facts.metadata_file_bytes / OWN_SNAPSHOT_BYTES / FAIR_PART
        for needed in (enough * part, total * part / WORTH_WHERE_LARGE, fair * part, EXPIRED_AT_ONCE):
            missing = math.ceil(needed) - going
            times += ripening[missing - 1 : missing] if missing > 0 else []
        times += [
            first + expire.at_latest * part for first in (oldest_ms, *ripening[:1]) if first is not None
        ]
        times.append(again_at_ms - expire.every * (1 - part))
    ahead = [math.ceil(at_ms) for at_ms in times if at_ms > now_ms]
    return Wake(at_ms=min(ahead)) if ahead else NEVER


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
        view.facts.whole_until_ms,
        *(one.kept_until_ms for one in snapshots if not one.is_pinned),
        *(snapshots[place].committed_at_ms + PLACE_FOR_MS for place in places(snapshots)),
        *(one.since_ms + PLACE_FOR_MS for one in view.astray if one.token),
        *(one.expires_at_ms for one in view.around.intents),
        *(end.over_at_ms for end in view.facts.ref_ends),
        *(now_ms + expire.max_reader_lag - one.behind_ms for one in readers if one.is_kept),
    ]


def _refs_over(view: View, now_ms: int) -> Iterator[Trigger]:
    """That branches and tags are past the age that they state: what they keep goes by the rules of all others then."""
    over = [end.name for end in view.facts.ref_ends if end.over_at_ms <= now_ms]
    if over:
        names = ", ".join(over[:SHOWN])
        more = f" and {len(over) - SHOWN} more" if len(over) > SHOWN else ""
        yield Trigger(
            "expire.enabled", 1.0, f"past their own age (max-ref-age-ms), and to be dropped: {names}{more}"
        )


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
