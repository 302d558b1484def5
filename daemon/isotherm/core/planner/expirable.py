"""Which snapshots nobody needs any more, and which the table's own branches and tags keep.

Those of `main` go from the oldest on. Those that no branch or tag reaches (a rollback left them, a branch was dropped,
or they were staged and never published) go by age. Those of other branches stay.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from isotherm.contract.summary import writer_of
from isotherm.core.model.readers import ReaderLag
from isotherm.core.model.tables import Astray, Snapshot
from isotherm.core.planner.view import View
from isotherm.core.policy.policy import Expire
from isotherm.core.units import DAY_MS, HOUR_MS, span_text

FOREVER_MS = 2**62
"""Later than any clock."""
STAGED_FOR_MS = DAY_MS
"""What was staged, and `main` from there on, is kept for so long at least: whoever looks at it before it is published may
take their time."""
PLACE_FOR_MS = 14 * DAY_MS
"""A writer that has committed nothing for so long does not come back to its place."""
WHOLE = "Flink's sink cannot commit its upserts to a table of format 3 whose first snapshots have expired"
"""So far (`iceberg/whole_history.py`). It would fail for good: here a large metadata.json is the lesser evil."""
SHOWN = 5
"""Readers, and branches and tags, that a why names."""
LOOKED_BEFORE_MS = HOUR_MS
"""A writer looks at the table, plans what it will touch, and only then says so."""


@dataclass(frozen=True, slots=True)
class Ref:
    """A branch or a tag, with what it states about its own history."""

    snapshot_id: int
    is_branch: bool
    min_snapshots: int | None = None
    """`min-snapshots-to-keep`, or None where the ref states nothing."""
    max_age_ms: int | None = None
    """`max-snapshot-age-ms`, or None where the ref states nothing."""


def kept_by_refs(
    refs: Iterable[Ref], parents: Mapping[int, int | None], committed_at_ms: Mapping[int, int]
) -> dict[int, int]:
    """Until when branches and tags keep snapshots, in milliseconds since the epoch, `FOREVER_MS` for always.

    By the specification's retention policy: a tag keeps its snapshot; a branch its head, the newest `min_snapshots` of
    its history, and what is younger than `max_age_ms`.
    """
    kept: dict[int, int] = {}
    counts: dict[int, int] = {}
    """How many snapshots a branch still keeps from here on backwards, for their number."""
    ages_ms: dict[int, int] = {}
    """The longest age to which a branch keeps what lies from here on backwards."""
    for ref in refs:
        kept[ref.snapshot_id] = FOREVER_MS
        if ref.is_branch and (ref.min_snapshots or 0) > counts.get(ref.snapshot_id, 0):
            counts[ref.snapshot_id] = ref.min_snapshots or 0
        if ref.is_branch and ref.max_age_ms is not None:
            ages_ms[ref.snapshot_id] = max(ages_ms.get(ref.snapshot_id, ref.max_age_ms), ref.max_age_ms)
    if not counts and not ages_ms:
        return kept
    # Each snapshot once, however many branches it lies behind: a branch for each run of a job is soon a thousand.
    newest_first = _children_first(parents)
    for snapshot_id in newest_first:
        count, age_ms = counts.get(snapshot_id, 0), ages_ms.get(snapshot_id)
        if count > 0:
            kept[snapshot_id] = FOREVER_MS
        elif age_ms is not None:
            kept[snapshot_id] = max(kept.get(snapshot_id, 0), committed_at_ms[snapshot_id] + age_ms)
        parent = parents[snapshot_id]
        if parent is not None and parent in parents:
            counts[parent] = max(counts.get(parent, 0), count - 1)
            if age_ms is not None:
                ages_ms[parent] = max(ages_ms.get(parent, age_ms), age_ms)
    # Damaged metadata may lead in a circle: nobody can say what lies behind what.
    return kept | dict.fromkeys(parents.keys() - set(newest_first), FOREVER_MS)


def _children_first(parents: Mapping[int, int | None]) -> list[int]:
    """The snapshots, each behind all of its children; none of those in a circle, or behind one."""
    children = Counter(parents.values())
    ordered = [snapshot_id for snapshot_id in parents if not children[snapshot_id]]
    for snapshot_id in ordered:  # which grows
        parent = parents[snapshot_id]
        children[parent] -= 1
        if parent is not None and parent in parents and not children[parent]:
            ordered.append(parent)
    return ordered


def places(snapshots: Sequence[Snapshot]) -> dict[int, int]:
    """Where writers look for their places, as numbers of the snapshots of `main`, oldest first; each with the first of those
    that have to stay for it.

    A run of Flink that another one followed is over: the same job was started again. Where a run of the same program wrote
    before its end and after it, there are two jobs, and nobody can say which of them was started again. What shows that
    has to stay with the place, or it would be forgotten.
    """
    last = {one.token: number for number, one in enumerate(snapshots) if one.token}
    begun: set[str] = set()
    newest: dict[str, int] = {}
    """By writer: where its newest run begins."""
    unended: dict[str, list[int]] = {}
    """By writer: snapshots of runs that write later, too; the newest stands last."""
    found: dict[int, int | None] = {}
    # A program that runs each minute has ten thousand runs in a week: each snapshot is looked at once.
    for number, one in enumerate(snapshots):
        if not one.token:
            continue
        writer = writer_of(one.token)
        if one.token not in begun:
            begun.add(one.token)
            newest[writer] = number
        others = unended.setdefault(writer, [])
        while others and last[snapshots[others[-1]].token] <= number:
            others.pop()
        if last[one.token] > number:
            others.append(number)
        else:
            found[number] = others[-1] if others else None
    return {
        place: place if witness is None else witness
        for place, witness in found.items()
        if witness is not None or newest[writer_of(snapshots[place].token)] <= place
    }


def read_by_writers(view: View, now_ms: int) -> int | None:
    """The number of the oldest snapshot of `main` on which a writer with an open intent may have begun; None without one.

    Its commit is validated from there on, as Iceberg does it: with one of these gone, it fails.
    """
    open_ms = [one.at_ms for one in view.around.intents if one.expires_at_ms > now_ms]
    if not open_ms:
        return None
    began_ms = min(open_ms) - LOOKED_BEFORE_MS
    left_ms = _left_ms(view.snapshots or (), now_ms)
    return next((number for number, at_ms in enumerate(left_ms) if at_ms > began_ms), 0)


def reader_lags(view: View, expire: Expire, now_ms: int) -> tuple[ReaderLag, ...]:
    """Who reads a table bit by bit, as they have said it (`contract.readers`).

    Each needs the snapshot at which it is and all later ones: engines walk from the head back to it. That is so while there
    are rewrites alone behind it, too, in which it finds nothing and stays where it is. What one has not read for
    `expire.max_reader_lag` is kept no longer. After a rollback it needs what it has read of the history before, and what was
    left: the rollback may be taken back.
    """
    if not view.readers or not expire.max_reader_lag:
        return ()
    snapshots = view.snapshots or ()
    numbers = {one.snapshot_id: number for number, one in enumerate(snapshots)}
    left_ms, astray = _left_ms(snapshots, now_ms), {one.snapshot_id: one for one in view.astray}
    wrote_ms = [FOREVER_MS] * len(snapshots)
    """Of each, when something came that it does not have."""
    for number in range(len(snapshots) - 2, -1, -1):
        came = snapshots[number + 1]
        wrote_ms[number] = wrote_ms[number + 1] if came.is_rewrite else left_ms[number]
    is_too_large = view.facts.metadata_file_bytes >= int(expire.max_metadata_size)
    found = []
    for position in view.readers:
        number, stray = numbers.get(position.snapshot_id, -1), astray.get(position.snapshot_id)
        # Of one whose snapshot is gone nobody knows more than when it said so.
        since_ms = position.at_ms if number < 0 else wrote_ms[number]
        if stray is not None:
            since_ms = stray.since_ms
            older = [
                place for place, one in enumerate(snapshots) if one.sequence_number < stray.sequence_number
            ]
            number = max(older, default=0)
        behind_ms = max(now_ms - since_ms, 0)
        is_kept = number >= 0 and behind_ms < expire.max_reader_lag and not is_too_large
        found.append(ReaderLag(number, position.reader, behind_ms, is_kept))
    return tuple(found)


def _needed_astray(view: View, expire: Expire, now_ms: int) -> int | None:
    """From which sequence number on readers need what no branch or tag reaches, or None."""
    kept = {one.name for one in reader_lags(view, expire, now_ms) if one.is_kept}
    astray = {one.snapshot_id: one for one in view.astray}
    needed = (
        astray[position.snapshot_id].sequence_number
        for position in view.readers
        if position.reader in kept and position.snapshot_id in astray
    )
    return min(needed, default=None)


def expirable(view: View, expire: Expire, now_ms: int) -> tuple[tuple[int, ...], str]:
    """The snapshots of `main` that nobody needs any more, oldest first, and why others had to stay.

    Never: the head, the newest `keep_last`, those that were the newest within `keep_for`, those that a tag or branch keeps,
    the base of a running job, and what was not announced and consumed yet. Nor, for a while, the newest snapshot that keeps a
    writer's place, and what came after it: the writer looks for it from the head on, from parent to parent; nor what a
    writer with an open intent may have begun on, and what came after that; nor what a reader has not read. Where
    metadata.json is too large, what is kept for a while goes all the same, because each commit writes that file again. Only
    the whole history that Flink's sink needs stays then, too.

    What no branch or tag reaches (`astray`) goes by age alone, as in Iceberg's Java.
    """
    snapshots = view.snapshots or ()
    bases = {flight.base_snapshot_id for flight in view.flights}
    is_too_large = view.facts.metadata_file_bytes >= int(expire.max_metadata_size)
    needed_from = min(
        (
            needed
            for place, needed in places(snapshots).items()
            if not is_too_large and now_ms - snapshots[place].committed_at_ms < PLACE_FOR_MS
        ),
        default=len(snapshots),
    )
    read_from = None if is_too_large else read_by_writers(view, now_ms)
    readers = reader_lags(view, expire, now_ms)
    reader = min((one for one in readers if one.is_kept), default=None)
    going: list[int] = []
    held: dict[str, int] = {}
    ripe_ms = ripe_on_main_ms(snapshots, expire, now_ms)
    for number, snapshot in enumerate(snapshots[: max(len(snapshots) - expire.keep_last, 0)]):
        if ripe_ms[number] > now_ms:
            continue
        keeper = None
        if snapshot.is_pinned or snapshot.kept_until_ms > now_ms:
            keeper = "kept by tags, branches or staged work"
        elif snapshot.snapshot_id in bases:
            keeper = "read by a running job"
        elif read_from is not None and number >= read_from:
            keeper = "needed by a writer's open intent"
        elif (
            view.announced_sequence_number is None
            or snapshot.sequence_number > view.announced_sequence_number
        ):
            keeper = "not announced yet"
        elif for_writer := _kept_for_writer(view, number, needed_from, now_ms):
            keeper = for_writer
        elif reader is not None and number >= reader.needs_from:
            keeper = f"kept for the reader {reader.name}"
        if keeper is None:
            going.append(snapshot.snapshot_id)
        else:
            held[keeper] = held.get(keeper, 0) + 1
    stray = _expirable_astray(view, expire, now_ms, is_too_large=is_too_large)
    why = f", {len(stray)} of them reached by no branch or tag" if stray else ""
    why += "".join(f", {count} {keeper}" for keeper, count in sorted(held.items()))
    late = [f"{one.name} ({span_text(one.behind_ms)} behind)" for one in readers if not one.is_kept]
    why += f", nothing is kept for the readers {', '.join(late[:SHOWN])}" if late else ""
    # Where one commit cannot take them all, these do not wait for ever.
    return (*stray, *going), why


def _kept_for_writer(view: View, number: int, needed_from: int, now_ms: int) -> str:
    """Why a writer needs the snapshot of this number, to go on where it stopped or to commit at all; or nothing."""
    if view.facts.whole_until_ms > now_ms:
        return f"kept because {WHOLE}"
    return "kept for a writer's place" if number >= needed_from else ""


def _expirable_astray(view: View, expire: Expire, now_ms: int, *, is_too_large: bool) -> list[int]:
    """What no branch or tag reaches, and nobody needs any more, the longest first."""
    bases = {flight.base_snapshot_id for flight in view.flights}
    newest: dict[str, int] = {}
    for snapshot in view.snapshots or ():
        newest[snapshot.token] = snapshot.sequence_number
    needed_from = _needed_astray(view, expire, now_ms)
    return [
        one.snapshot_id
        for one in view.astray
        if ripe_astray_ms(one, expire) <= now_ms
        and one.snapshot_id not in bases
        and (needed_from is None or one.sequence_number < needed_from)
        # A writer may look for its newest place there, too, once the rollback is taken back.
        and (
            not one.token
            or is_too_large
            or one.sequence_number < newest.get(one.token, 0)
            or now_ms - one.since_ms >= PLACE_FOR_MS
        )
    ]


def ripe_on_main_ms(snapshots: Sequence[Snapshot], expire: Expire, now_ms: int) -> list[int]:
    """When each snapshot of `main`, oldest first, is old enough to go, in milliseconds since the epoch.

    That is so long after it stopped being the newest. Until then whoever began to read began with it, however old it was by
    then: a stream may have stood still for a weekend.
    """
    return [min(at_ms + expire.keep_for, FOREVER_MS) for at_ms in _left_ms(snapshots, now_ms)]


def _left_ms(snapshots: Sequence[Snapshot], now_ms: int) -> list[int]:
    """When each snapshot of `main`, oldest first, stopped being the newest one, in milliseconds since the epoch.

    That is when the next one came; if this is one of a branch that was published later, then. What came with the branch has
    been a part of `main` since then alone: a writer that began before is validated along all of it.
    """
    # One clock may be ahead of another; a time in the far future says nothing, and would hold all that comes later.
    known_ms = [one.left_at_ms if one.left_at_ms < now_ms + DAY_MS else 0 for one in snapshots]
    published_ms = accumulate(known_ms, max)
    next_ms = [
        max(one.committed_at_ms, later.committed_at_ms, at_ms)
        for (one, later), at_ms in zip(pairwise(snapshots), published_ms, strict=False)
    ]
    return [*next_ms, *[FOREVER_MS for _ in snapshots[-1:]]]


def ripe_astray_ms(one: Astray, expire: Expire) -> int:
    """When what no branch or tag reaches is old enough to go, in milliseconds since the epoch."""
    return one.since_ms + max(expire.keep_for, STAGED_FOR_MS if one.is_staged else 0)
