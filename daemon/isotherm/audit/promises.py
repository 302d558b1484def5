"""Do the promises hold? Rules that judge a table's history after the fact.

Pure: `Evidence` goes in, five judgements come out. The evidence is gathered elsewhere, by a reader of the table, the
control topic and the ledger (`evidence_reader`), or by the demo's witness, which also saw what has expired since.

The rules share nothing with the code that decides and commits (coldness, planner, state, stores): what they have to
know of partitions and time is written down here a second time, on purpose. A judgement is *proved*, *broken*, or
*not provable any more* where the evidence has expired, or *not looked at* where it cannot be read now. It names the
range of history that it covers.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date

from isotherm.audit.announcements import (
    CAN_BE_READ_LATER,
    NO_LEDGER,
    TOPIC_AWAY,
    why_not_known,
)
from isotherm.audit.evidence import ColdRule, Commit, Evidence, Judged, Judgement, Promise
from isotherm.audit.excuses import excused
from isotherm.audit.intents import (
    MARGIN_MS,
    ancestors,
    failures_because_of_us,
    open_meanwhile,
    recomputed_because,
    repeated_because_of_us,
    time_text,
    told_stories,
)
from isotherm.audit.visits import visit_is_over
from isotherm.contract.identity import PartitionKey, partition_values
from isotherm.runtime.text import counted

EVIDENCE_LIMIT = 20
"""Sentences of evidence for each promise; the rest is counted."""

HOUR_MS = 3_600_000

DAY_MS = 24 * HOUR_MS


def judge(history: Evidence) -> tuple[Judgement, ...]:
    """Each of the five promises."""
    return (
        cold_only(history),
        writer_wins(history),
        same_rows(history),
        nothing_needed_deleted(history),
        nothing_unseen(history),
    )


def cold_only(history: Evidence) -> Judgement:
    """No commit of ours added or removed a file of a partition that was hot.

    What was done in a window that its writers had granted is none. Where the policy allows it, old files of one whose table is only appended to are no breach (`minor`).
    """
    broken: list[str] = []
    unprovable: dict[int, str] = {}
    hot = touched = beside = granted = 0
    rewrites = [commit for commit in history.commits if commit.is_ours and commit.touches != ()]
    for commit in rewrites:
        if commit.touches is None:
            unprovable[commit.snapshot_id] = "its manifests are gone"
            continue
        rule = history.rules.get(commit.policy_hash or "")
        if rule is None:
            unprovable[commit.snapshot_id] = "it was made under another policy than that in force"
            continue
        before = tuple(ancestors(history.commits, commit))
        for touch in commit.touches:
            touched += 1
            complaint = _why_hot(history, commit, touch.partition, before, rule)
            if complaint is not None:
                complaint, doubt, how = excused(history, commit, touch, before, rule, complaint)
                granted, beside = granted + (how == "granted"), beside + (how == "beside")
                if doubt is not None:
                    unprovable[commit.snapshot_id] = doubt
            if complaint is not None:
                hot += 1
                broken.append(f"snapshot {commit.snapshot_id}, partition {touch.partition}: {complaint}")
        if not broken and (doubt := _unseen_past(history, commit, before, rule)):
            unprovable[commit.snapshot_id] = doubt
    counts = {"commits": len(rewrites), "partitions_touched": touched, "hot_partitions_touched": hot}
    return _judgement(
        history,
        Promise.COLD_ONLY,
        broken,
        unprovable,
        f"{counted(len(rewrites) - len(unprovable), 'commit')} of ours touched {counted(touched, 'partition')}, all cold"
        + (f", {granted} in a window that the writer had granted" if granted else "")
        + (f", but for old files of {beside} beside writers that only append" if beside else ""),
        counts,
    )


def _why_hot(
    history: Evidence, commit: Commit, key: PartitionKey, before: Sequence[Commit], rule: ColdRule
) -> str | None:
    """Why a partition that a commit of ours touched was hot. Returns None where it was cold, as far as we see."""
    for other in before:
        quiet_ms = commit.committed_at_ms - other.committed_at_ms
        if quiet_ms >= rule.quiet_for_ms:
            break
        if other.is_write and any(touch.partition == key for touch in other.touches or ()):
            return (
                f"snapshot {other.snapshot_id} wrote into it {quiet_ms} ms before, "
                f"{rule.quiet_for_ms} ms of quiet are needed"
            )
    near = _why_near(history, key, before, rule)
    silent_ms, is_known = _silent_ms(commit, key, before)
    is_silent = not is_known or silent_ms >= rule.silent_for_ms
    is_over = is_silent or visit_is_over(key, before, silent_ms, rule.silent_for_ms) is not False
    if near is not None and not is_over:
        return near
    return open_meanwhile(history, key, commit)


def _why_near(history: Evidence, key: PartitionKey, before: Sequence[Commit], rule: ColdRule) -> str | None:
    """Why a partition was not far enough behind the stream, or None where it was, or where nobody knows."""
    span = event_time_span(key, history.transforms)
    boundary_ms = max(
        (one.valid_through_ms for one in before if one.valid_through_ms is not None), default=None
    )
    if span is None or boundary_ms is None:
        return None
    needed_ms = rule.after_ms(span[1] - span[0])
    if boundary_ms - span[1] >= needed_ms:
        return None
    return f"it ends at {span[1]}, {boundary_ms - span[1]} ms behind the stream, {needed_ms} ms are needed"


def _silent_ms(commit: Commit, key: PartitionKey, before: Sequence[Commit]) -> tuple[float, bool]:
    """For how long nobody had written into a partition, and whether that is known: else it was as long at least."""
    for other in before:
        if other.is_write and other.touches is None:
            return commit.committed_at_ms - other.committed_at_ms, False
        if other.is_write and any(touch.partition == key for touch in other.touches or ()):
            return commit.committed_at_ms - other.committed_at_ms, True
    oldest = before[-1] if before else commit
    return commit.committed_at_ms - oldest.committed_at_ms, oldest.parent_id is None


def _unseen_past(history: Evidence, commit: Commit, before: Sequence[Commit], rule: ColdRule) -> str | None:
    """Why the past that the rule asks for is not there any more, or None where it is."""
    oldest = before[-1] if before else commit
    for touch in commit.touches or ():
        silent_ms, is_known = _silent_ms(commit, touch.partition, before)
        is_over = visit_is_over(touch.partition, before, silent_ms, rule.silent_for_ms)
        if (
            silent_ms < rule.silent_for_ms
            and (not is_known or is_over is None)
            and _why_near(history, touch.partition, before, rule)
        ):
            return "the history before it is gone, so how long its partition had been silent is not known any more"
    if any(
        one.touches is None
        for one in before
        if one.committed_at_ms > commit.committed_at_ms - rule.quiet_for_ms
    ):
        return "the manifests of a snapshot shortly before it are gone"
    if oldest.parent_id is not None and commit.committed_at_ms - oldest.committed_at_ms < rule.quiet_for_ms:
        return "the snapshots before it have expired"
    return None


def event_time_span(key: PartitionKey, transforms: Mapping[int, str]) -> tuple[int, int] | None:
    """The event time that a partition covers, in milliseconds: start and end; None where it has no time.

    The narrowest of several time fields. Ordinals as in the Iceberg specification.
    """
    spans = []
    for field_id, value in partition_values(key).items():
        if not isinstance(value, int):
            continue
        match transforms.get(field_id):
            case "hour":
                spans.append((value * HOUR_MS, (value + 1) * HOUR_MS))
            case "day" | "date":
                spans.append((value * DAY_MS, (value + 1) * DAY_MS))
            case "month":
                spans.append((_month_start_ms(value), _month_start_ms(value + 1)))
            case "year":
                spans.append((_month_start_ms(12 * value), _month_start_ms(12 * value + 12)))
            case _:
                pass
    return min(spans, key=lambda span: span[1] - span[0], default=None)


def _month_start_ms(months: int) -> int:
    """Milliseconds at the first of a month, counted from January 1970 (years 1 to 9999)."""
    years, month = divmod(months, 12)
    return (date(1970 + years, month + 1, 1) - date(1970, 1, 1)).days * DAY_MS


def writer_wins(history: Evidence) -> Judgement:
    """No commit of ours made a batch fail, or an upsert be computed again whose intent was there when we last looked.

    The writer's log names the head that an upsert ran into. Where there is no log, the attempts that its intent counts
    are compared with the times of our commits.
    """
    ours = [commit for commit in history.commits if commit.is_ours]
    stories = told_stories(history)
    repeated = list(repeated_because_of_us(history, ours, stories))
    broken = [
        recomputed_because(story, commit)
        for story, commit in repeated
        if story.opened_at_ms <= commit.committed_at_ms - MARGIN_MS
    ]
    broken += failures_because_of_us(history, ours, stories)
    unprovable: dict[int, str] = {}
    if not history.topic_is_known:
        unprovable = {commit.snapshot_id: TOPIC_AWAY for commit in history.commits}
    else:
        # Where a commit's announcement is not there any more, the intents of its time need not be either.
        lacking = {c.snapshot_id: why_not_known(history, c.snapshot_id, c.committed_at_ms) for c in ours}
        unprovable = {snapshot_id: why for snapshot_id, why in lacking.items() if why is not None}
    logged = {recomputed.intent_id for recomputed in history.recomputed}
    recomputed_in_all = len(history.recomputed) + sum(
        len(list(story.attempts())) for story in stories if story.intent_id not in logged
    )
    counts = {
        "intents": len(stories),
        "merges_recomputed": recomputed_in_all,
        "because_of_us": len(repeated),
        "batches_failed": len(history.failed_batches),
    }
    why = (
        f"{counted(len(ours) - len(unprovable), 'commit')} of ours, {counted(len(stories), 'intent')}, "
        f"{counted(recomputed_in_all, 'upsert')} computed again, none because of us"
    )
    return _judgement(history, Promise.WRITER_WINS, broken, unprovable, why, counts)


def same_rows(history: Evidence) -> Judgement:
    """What we rewrote holds the rows that it held before, and the table those of its source."""
    broken = [
        f"snapshot {one.snapshot_id}: {one.before[0]} rows before, {one.after[0]} after"
        + ("" if one.before[0] != one.after[0] else ", but others (the checksums differ)")
        for one in history.rows
        if one.before != one.after
    ]
    source = history.source
    if source is not None and not source.equal:
        detail = f" ({source.detail})" if source.detail else ""
        broken.append(f"{source.source_rows} rows in the source, {source.lake_rows} in the table{detail}")
    compared = {one.snapshot_id for one in history.rows}
    rewrites = [commit for commit in history.commits if commit.is_ours and commit.touches != ()]
    unprovable = {
        commit.snapshot_id: "its rows, or those of its parent, cannot be read any more"
        for commit in rewrites
        if commit.snapshot_id not in compared
    }
    why = f"{counted(len(history.rows), 'commit')} of ours left every row as it was"
    if source is not None:
        why += f"; {source.lake_rows} rows are those of the source"
    counts = {"commits": len(rewrites), "compared": len(history.rows)}
    return _judgement(history, Promise.SAME_ROWS, broken, unprovable, why, counts)


def nothing_needed_deleted(history: Evidence) -> Judgement:
    """Every file that a readable snapshot reaches is there, but for those that somebody else has taken away."""
    files = history.files
    broken = [f"missing: {path}" for path in files.missing]
    broken += [f"a scan failed: {scan}" for scan in files.failed_scans]
    others = [f"missing: {path}" for path in files.missing_by_others]
    if others and not broken:
        return _removed_by_others(history, others)
    if files.unread and not broken:
        why = f"{counted(len(files.unread), 'file')} of them cannot be read now, and nobody looked for what they name"
        return Judgement(
            Promise.NOTHING_NEEDED_DELETED, Judged.NOT_LOOKED_AT, None, None, why, _cut(list(files.unread))
        )
    why = f"{counted(files.files, 'file')} that {counted(files.snapshots, 'snapshot')} need, none missing"
    if files.scans:
        why += f"; {counted(files.scans, 'scan')} of older snapshots succeeded meanwhile"
    counts = {"snapshots": files.snapshots, "files": files.files, "scans": files.scans}
    return _judgement(history, Promise.NOTHING_NEEDED_DELETED, [*broken, *others], {}, why, counts)


def _removed_by_others(history: Evidence, missing: Sequence[str]) -> Judgement:
    """Files are missing, and nothing says that we took them away. A reader fails all the same, so they are named."""
    verdict, said = Judged.NOT_LOOKED_AT, NO_LEDGER
    if history.accounted is not None:
        verdict = Judged.NOT_PROVABLE
        said = "the ledger, which keeps a week, does not say that this daemon deleted them"
    why = f"{counted(len(missing), 'file')} missing, but {said}; ask who else deletes in the table's folders"
    promise = Promise.NOTHING_NEEDED_DELETED
    return Judgement(promise, verdict, None, None, why, _cut(missing), {"missing": len(missing)})


def nothing_unseen(history: Evidence) -> Judgement:
    """Every snapshot that became the current one was announced, and the daemon accounted for it."""
    broken: list[str] = []
    unprovable: dict[int, str] = {}
    times = {commit.snapshot_id: commit.committed_at_ms for commit in history.commits}
    everything = [*times, *sorted(history.seen - set(times))]
    pending = 0
    for snapshot_id in everything:
        at_ms = times.get(snapshot_id)
        if not history.topic_is_known:
            unprovable[snapshot_id] = TOPIC_AWAY
        elif at_ms is not None and history.now_ms - at_ms < history.announce_within_ms:
            is_done = snapshot_id in history.announced and (
                history.accounted is None or snapshot_id in history.accounted
            )
            pending += not is_done
            continue
        elif (why_not := why_not_known(history, snapshot_id, at_ms)) is not None:
            unprovable[snapshot_id] = why_not
        elif snapshot_id not in history.announced:
            broken.append(f"snapshot {snapshot_id} was never announced")
        if history.accounted is None:
            unprovable.setdefault(snapshot_id, NO_LEDGER)
        elif snapshot_id not in history.accounted:
            broken.append(f"snapshot {snapshot_id} was never accounted for by the daemon")
    counts = {
        "snapshots": len(everything),
        "announced": len(history.announced & set(everything)),
        "accounted": len((history.accounted or frozenset()) & set(everything)),
        "on_the_way": pending,
    }
    judged = len(everything) - len(unprovable) - pending
    why = f"{counted(judged, 'snapshot')}, each announced and accounted for"
    if pending:
        why += f"; {pending} more, of the last minutes, may still be on the way"
    return _judgement(history, Promise.NOTHING_UNSEEN, broken, unprovable, why, counts)


def _judgement(
    history: Evidence,
    promise: Promise,
    broken: Sequence[str],
    unprovable: Mapping[int, str],
    why: str,
    counts: Mapping[str, int],
) -> Judgement:
    """Broken wins; else what lies after the newest thing that cannot be proved any more is what is proved."""
    times = {commit.snapshot_id: commit.committed_at_ms for commit in history.commits}
    from_ms = min(times.values(), default=None)
    to_ms = max([*times.values(), history.now_ms]) if times else None
    lost = [at_ms for at_ms in history.lost_commits_until_ms if promise in _NEED_THE_PAST]
    doubts = [times[snapshot_id] for snapshot_id in unprovable if snapshot_id in times]
    if broken:
        return Judgement(
            promise, Judged.BROKEN, from_ms, to_ms, counted(len(broken), "time"), _cut(broken), counts
        )
    evidence = _grouped(unprovable, times)
    if lost:
        evidence = (*evidence, f"{counted(len(lost), 'older commit')} of ours expired from the table")
    judged = [commit for commit in history.commits if commit.snapshot_id not in unprovable]
    relevant = [commit for commit in judged if commit.is_ours] if promise in _ABOUT_OURS else judged
    nothing_left = not relevant and (doubts or lost)
    if not times or nothing_left:
        verdict, reason = _why_not(unprovable, has_lost=bool(lost))
        return Judgement(promise, verdict, from_ms, to_ms, reason, evidence, counts)
    if doubts and from_ms is not None:
        from_ms = max(doubts) + 1
    return Judgement(promise, Judged.PROVED, from_ms, to_ms, why, evidence, counts)


def _why_not(unprovable: Mapping[int, str], *, has_lost: bool) -> tuple[Judged, str]:
    """Why nothing is left to judge: gone for good, or only out of reach now."""
    reasons = list(dict.fromkeys(unprovable.values()))
    if has_lost:
        reasons.append("commits of ours expired from the table")
    if reasons and CAN_BE_READ_LATER.issuperset(reasons):
        return Judged.NOT_LOOKED_AT, "; ".join(reasons)
    return Judged.NOT_PROVABLE, "; ".join(reasons) or "there is no history"


_ABOUT_OURS = frozenset({Promise.COLD_ONLY, Promise.WRITER_WINS, Promise.SAME_ROWS})

_NEED_THE_PAST = frozenset({Promise.COLD_ONLY, Promise.SAME_ROWS})


def _cut(lines: Sequence[str]) -> tuple[str, ...]:
    if len(lines) <= EVIDENCE_LIMIT:
        return tuple(lines)
    return (*lines[:EVIDENCE_LIMIT], f"… and {len(lines) - EVIDENCE_LIMIT} more")


def _grouped(unprovable: Mapping[int, str], times: Mapping[int, int]) -> tuple[str, ...]:
    """One sentence for each reason, however many snapshots share it."""
    reasons: dict[str, list[int]] = {}
    for snapshot_id, reason in unprovable.items():
        reasons.setdefault(reason, []).append(snapshot_id)
    return tuple(
        f"{counted(len(ids), 'snapshot')} not judged ({reason}), the newest of {_newest(ids, times)}"
        for reason, ids in reasons.items()
    )


def _newest(ids: Iterable[int], times: Mapping[int, int]) -> str:
    known = [times[snapshot_id] for snapshot_id in ids if snapshot_id in times]
    return time_text(max(known)) if known else "a time unknown"
