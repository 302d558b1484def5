"""Do the promises hold? Rules that judge a table's history after the fact.

Pure: a `History` goes in, five judgements come out. The history is made elsewhere, by a reader of the table, the
control topic and the ledger (`audit_reader`), or by the demo's witness, which also saw what has expired since.

The rules share nothing with the code that decides and commits (coldness, planner, state, stores): what they have to
know of partitions and time is written down here a second time, on purpose. A judgement is *proved*, *broken*, or
*not provable any more* where the evidence has expired, and it names the range of history that it covers.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from enum import StrEnum

from isotherm.contract.events import Intent
from isotherm.contract.identity import PartitionKey, partition_values

MARGIN_MS = 1000
"""A commit of ours looks at the control topic for the last time shortly before it swaps: within this margin of its
snapshot's timestamp nobody can tell from outside which came first, the message or the look."""
ANNOUNCE_WITHIN_MS = 120_000
"""A snapshot younger than this may still be on its way to the control topic; it is not judged yet. The daemon
republishes what it finds after half a minute, and its broker may be slow."""
INTENT_CAP_MS = 900_000
"""No intent counts longer than this after its last word, whatever it says (the daemon's default cap)."""
EVIDENCE_LIMIT = 20
"""Sentences of evidence for each promise; the rest is counted."""
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


class Promise(StrEnum):
    """The five promises."""

    COLD_ONLY = "cold_only"
    WRITER_WINS = "writer_wins"
    SAME_ROWS = "same_rows"
    NOTHING_NEEDED_DELETED = "nothing_needed_deleted"
    NOTHING_UNSEEN = "nothing_unseen"


class Verdict(StrEnum):
    """What can be said of a promise afterwards."""

    PROVED = "proved"
    BROKEN = "broken"
    NOT_PROVABLE = "not provable any more"


@dataclass(frozen=True, slots=True)
class Touch:
    """What one snapshot did to the files of one partition, of every kind."""

    partition: PartitionKey
    added: int
    removed: int


@dataclass(frozen=True, slots=True)
class Commit:
    """One snapshot of `main`."""

    snapshot_id: int
    parent_id: int | None
    committed_at_ms: int
    operation: str
    job_id: str | None = None
    """Set where the snapshot is ours."""
    policy_hash: str | None = None
    valid_through_ms: int | None = None
    touches: tuple[Touch, ...] | None = ()
    """None: its manifests cannot be read any more."""

    @property
    def is_ours(self) -> bool:
        """Whether the daemon made it."""
        return self.job_id is not None

    @property
    def is_write(self) -> bool:
        """Whether it counts as a write of somebody else: not ours, and no rewrite of what was there."""
        return not self.is_ours and self.operation != "replace"


@dataclass(frozen=True, slots=True)
class ColdRule:
    """When a partition counted as cold, as far as the policy says."""

    after: float
    """Intervals between the partition's end and the boundary."""
    after_at_most_ms: int
    quiet_for_ms: int


@dataclass(frozen=True, slots=True)
class Said:
    """One intent message, with the broker's time."""

    at_ms: int
    intent: Intent


@dataclass(frozen=True, slots=True)
class Recomputed:
    """A MERGE that was computed again, as the writer's log says."""

    at_ms: int
    intent_id: str
    base_id: int | None
    """The snapshot from which it had been planned."""
    head_id: int | None
    """The head that it ran into."""


@dataclass(frozen=True, slots=True)
class FailedBatch:
    """A batch of the writer that failed, as its log says."""

    at_ms: int
    started_at_ms: int
    error: str


@dataclass(frozen=True, slots=True)
class RowsCompared:
    """The rows of what one commit of ours touched, counted and summed before and after."""

    snapshot_id: int
    before: tuple[int, int]
    after: tuple[int, int]


@dataclass(frozen=True, slots=True)
class SourceCompared:
    """The rows of the source and of the table, at rest."""

    source_rows: int
    lake_rows: int
    equal: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class FilesChecked:
    """Whether the files that snapshots reach are there."""

    snapshots: int
    files: int
    missing: tuple[str, ...] = ()
    """`path (needed by snapshot …)`."""
    failed_scans: tuple[str, ...] = ()
    """Scans of readable snapshots that failed while the table was maintained."""
    scans: int = 0


@dataclass(frozen=True, slots=True)
class History:
    """All that is known of a table's past."""

    table: str
    transforms: Mapping[int, str]
    """Partition field id → Iceberg's name of the transform, over all specs; `date` for identity of a date."""
    commits: tuple[Commit, ...]
    """The ancestry of `main`, oldest first, as far as it is known."""
    rules: Mapping[str, ColdRule]
    """Policy hash → the rule that it stood for."""
    now_ms: int
    intents: tuple[Said, ...] = ()
    announced: frozenset[int] = frozenset()
    announced_since_ms: int | None = None
    """The control topic is known from this time on; None: from its beginning."""
    topic_is_known: bool = True
    accounted: frozenset[int] | None = None
    """Snapshots in the daemon's ledger; None: there is no ledger to ask."""
    seen: frozenset[int] = frozenset()
    """Further snapshots that were seen to be current by somebody who looked on."""
    recomputed: tuple[Recomputed, ...] = ()
    failed_batches: tuple[FailedBatch, ...] = ()
    rows: tuple[RowsCompared, ...] = ()
    source: SourceCompared | None = None
    files: FilesChecked | None = None
    lost_commits_until_ms: tuple[int, ...] = ()
    """When the commits of ours were made that the ledger knows and the table has forgotten."""
    announce_within_ms: int = ANNOUNCE_WITHIN_MS
    intent_cap_ms: int = INTENT_CAP_MS


@dataclass(frozen=True, slots=True)
class Judgement:
    """What can be said of one promise."""

    promise: Promise
    verdict: Verdict
    from_ms: int | None
    """The answer covers history from here …"""
    to_ms: int | None
    """… to here; None: there is no history."""
    why: str
    evidence: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


def judge(history: History) -> tuple[Judgement, ...]:
    """Each of the five promises."""
    return (
        cold_only(history),
        writer_wins(history),
        same_rows(history),
        nothing_needed_deleted(history),
        nothing_unseen(history),
    )


def cold_only(history: History) -> Judgement:
    """No commit of ours added or removed a file of a partition that was hot."""
    broken: list[str] = []
    unprovable: dict[int, str] = {}
    hot = touched = 0
    rewrites = [commit for commit in history.commits if commit.is_ours and commit.touches != ()]
    for commit in rewrites:
        if commit.touches is None:
            unprovable[commit.snapshot_id] = "its manifests are gone"
            continue
        rule = history.rules.get(commit.policy_hash or "")
        if rule is None:
            unprovable[commit.snapshot_id] = "its policy is not known any more"
            continue
        before = tuple(_ancestors(history.commits, commit))
        for touch in commit.touches:
            touched += 1
            complaint = _why_hot(history, commit, touch.partition, before, rule)
            if complaint is not None:
                hot += 1
                broken.append(f"snapshot {commit.snapshot_id}, partition {touch.partition}: {complaint}")
        if not broken and (doubt := _unseen_past(commit, before, rule)):
            unprovable[commit.snapshot_id] = doubt
    counts = {"commits": len(rewrites), "partitions_touched": touched, "hot_partitions_touched": hot}
    return _judgement(
        history,
        Promise.COLD_ONLY,
        broken,
        unprovable,
        f"{len(rewrites)} commits of ours touched {touched} partitions, all cold",
        counts,
    )


def _ancestors(commits: Sequence[Commit], commit: Commit) -> Iterator[Commit]:
    """The ancestors of a commit, newest first."""
    by_id = {one.snapshot_id: one for one in commits}
    parent = commit.parent_id
    while parent is not None and parent in by_id:
        yield by_id[parent]
        parent = by_id[parent].parent_id


def _why_hot(
    history: History, commit: Commit, key: PartitionKey, before: Sequence[Commit], rule: ColdRule
) -> str | None:
    """Why a partition that a commit of ours touched was hot; None: it was cold, as far as can be seen."""
    for other in before:
        quiet_ms = commit.committed_at_ms - other.committed_at_ms
        if quiet_ms >= rule.quiet_for_ms:
            break
        if other.is_write and any(touch.partition == key for touch in other.touches or ()):
            return (
                f"snapshot {other.snapshot_id} wrote into it {quiet_ms} ms before, "
                f"{rule.quiet_for_ms} ms of quiet are needed"
            )
    span = event_time_span(key, history.transforms)
    if span is not None:
        boundary_ms = max(
            (one.valid_through_ms for one in before if one.valid_through_ms is not None), default=None
        )
        needed_ms = int(min(rule.after * (span[1] - span[0]), rule.after_at_most_ms))
        if boundary_ms is not None and boundary_ms - span[1] < needed_ms:
            return f"it ends at {span[1]}, {boundary_ms - span[1]} ms behind the stream, {needed_ms} ms are needed"
    looked_at_ms = commit.committed_at_ms - MARGIN_MS
    for story in _stories(history):
        if story.holds(key, looked_at_ms, history.intent_cap_ms):
            return f"the intent {story.intent_id} named it and was open {MARGIN_MS} ms before"
    return None


def _unseen_past(commit: Commit, before: Sequence[Commit], rule: ColdRule) -> str | None:
    """Why the past that the rule asks for is not there any more; None: it is."""
    oldest = before[-1] if before else commit
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


@dataclass(frozen=True, slots=True)
class _Story:
    """An intent from its first message to its last."""

    intent_id: str
    messages: tuple[Said, ...]

    @property
    def opened_at_ms(self) -> int:
        return self.messages[0].at_ms

    def holds(self, key: PartitionKey, at_ms: int, cap_ms: int) -> bool:
        """Whether it named the partition and was open at a time."""
        said = [message for message in self.messages if message.at_ms <= at_ms]
        if not said or said[-1].intent.state == "closed":
            return False
        newest = said[-1]
        if at_ms >= min(newest.intent.expires_at_ms, newest.at_ms + cap_ms):
            return False
        return newest.intent.partitions is None or key in newest.intent.partitions

    def attempts(self) -> Iterator[tuple[int, int]]:
        """From when to when each attempt ran that had to be made again."""
        began_ms, attempt = self.messages[0].at_ms, self.messages[0].intent.attempt
        for message in self.messages[1:]:
            if message.intent.attempt > attempt:
                yield began_ms, message.at_ms
                began_ms, attempt = message.at_ms, message.intent.attempt

    def failed_at_ms(self) -> int | None:
        """When its writer gave up; None: it did not."""
        last = self.messages[-1]
        return last.at_ms if last.intent.state == "closed" and last.intent.outcome == "failed" else None


def _stories(history: History) -> tuple[_Story, ...]:
    messages: dict[str, list[Said]] = {}
    for said in history.intents:
        messages.setdefault(said.intent.intent_id, []).append(said)
    return tuple(
        _Story(intent_id, tuple(sorted(told, key=lambda said: said.at_ms)))
        for intent_id, told in messages.items()
    )


def writer_wins(history: History) -> Judgement:
    """No commit of ours made a batch fail, or a MERGE be computed again whose intent stood when we last looked.

    The writer's log names the head that a MERGE ran into; where there is no log, the attempts that its intent counts
    are held against the times of our commits.
    """
    ours = [commit for commit in history.commits if commit.is_ours]
    stories = _stories(history)
    repeated = list(_repeated_because_of_us(history, ours, stories))
    broken = [
        _recomputed_because(story, commit)
        for story, commit in repeated
        if story.opened_at_ms <= commit.committed_at_ms - MARGIN_MS
    ]
    broken += _failures_because_of_us(history, ours, stories)
    unprovable: dict[int, str] = {}
    if not history.topic_is_known:
        unprovable = {commit.snapshot_id: "the control topic cannot be read" for commit in ours}
    elif history.announced_since_ms is not None:
        early = [c for c in ours if c.committed_at_ms < history.announced_since_ms]
        unprovable = {commit.snapshot_id: "the control topic has forgotten its time" for commit in early}
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
    why = f"{len(ours)} commits of ours, {len(stories)} intents, {recomputed_in_all} MERGEs computed again, none at our cost"
    return _judgement(history, Promise.WRITER_WINS, broken, unprovable, why, counts)


def _repeated_because_of_us(
    history: History, ours: Sequence[Commit], stories: Sequence[_Story]
) -> Iterator[tuple[_Story, Commit]]:
    """MERGEs that were computed again, with the commit of ours in their way."""
    by_intent = {story.intent_id: story for story in stories}
    for recomputed in history.recomputed:
        story = by_intent.get(recomputed.intent_id)
        culprit = _ours_between(history.commits, recomputed.base_id, recomputed.head_id)
        if story is not None and culprit is not None:
            yield story, culprit
    logged = {recomputed.intent_id for recomputed in history.recomputed}
    for story in stories:
        for began_ms, ended_ms in story.attempts() if story.intent_id not in logged else ():
            yield from ((story, c) for c in ours if began_ms <= c.committed_at_ms <= ended_ms)


def _ours_between(commits: Sequence[Commit], base_id: int | None, head_id: int | None) -> Commit | None:
    """The newest commit of ours that came after the base, up to the head."""
    head = next((commit for commit in commits if commit.snapshot_id == head_id), None)
    if head is None:
        return None
    for commit in (head, *_ancestors(commits, head)):
        if commit.snapshot_id == base_id:
            return None
        if commit.is_ours:
            return commit
        if (
            base_id is None
        ):  # nothing says where the MERGE began: only the head itself is known to be in its way
            return None
    return None


def _failures_because_of_us(
    history: History, ours: Sequence[Commit], stories: Sequence[_Story]
) -> Iterator[str]:
    """Batches and MERGEs that failed for good while a commit of ours landed."""
    for failed in history.failed_batches:
        culprits = [c for c in ours if failed.started_at_ms <= c.committed_at_ms <= failed.at_ms]
        if culprits:
            yield (
                f"a batch failed at {_time(failed.at_ms)} ({failed.error}) "
                f"while snapshot {culprits[-1].snapshot_id} of ours was committed"
            )
    for story in stories:
        gave_up_ms = story.failed_at_ms()
        if gave_up_ms is None:
            continue
        culprits = [c for c in ours if story.opened_at_ms + MARGIN_MS <= c.committed_at_ms <= gave_up_ms]
        if culprits:
            yield (
                f"the MERGE of intent {story.intent_id} failed at {_time(gave_up_ms)} "
                f"while snapshot {culprits[-1].snapshot_id} of ours was committed"
            )


def _recomputed_because(story: _Story, commit: Commit) -> str:
    ahead_ms = commit.committed_at_ms - story.opened_at_ms
    return (
        f"the MERGE of intent {story.intent_id} was computed again because of snapshot {commit.snapshot_id} "
        f"of ours, committed {ahead_ms} ms after the intent stood on the topic"
    )


def same_rows(history: History) -> Judgement:
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
    why = f"{len(history.rows)} commits of ours left every row as it was"
    if source is not None:
        why += f"; {source.lake_rows} rows are those of the source"
    counts = {"commits": len(rewrites), "compared": len(history.rows)}
    return _judgement(history, Promise.SAME_ROWS, broken, unprovable, why, counts)


def nothing_needed_deleted(history: History) -> Judgement:
    """Every file that a readable snapshot reaches is there."""
    files = history.files
    if files is None:
        return Judgement(
            Promise.NOTHING_NEEDED_DELETED,
            Verdict.NOT_PROVABLE,
            None,
            None,
            "the table's files cannot be looked at",
        )
    broken = [f"missing: {path}" for path in files.missing]
    broken += [f"a scan failed: {scan}" for scan in files.failed_scans]
    why = f"all {files.files} files that {files.snapshots} snapshots reach are there"
    if files.scans:
        why += f"; {files.scans} scans of older snapshots succeeded meanwhile"
    counts = {"snapshots": files.snapshots, "files": files.files, "scans": files.scans}
    return _judgement(history, Promise.NOTHING_NEEDED_DELETED, broken, {}, why, counts)


def nothing_unseen(history: History) -> Judgement:
    """Every snapshot that became the current one was announced, and the daemon accounted for it."""
    broken: list[str] = []
    unprovable: dict[int, str] = {}
    times = {commit.snapshot_id: commit.committed_at_ms for commit in history.commits}
    everything = [*times, *sorted(history.seen - set(times))]
    pending = 0
    for snapshot_id in everything:
        at_ms = times.get(snapshot_id)
        if at_ms is not None and history.now_ms - at_ms < history.announce_within_ms:
            is_done = snapshot_id in history.announced and (
                history.accounted is None or snapshot_id in history.accounted
            )
            pending += not is_done
            continue
        if not history.topic_is_known:
            unprovable[snapshot_id] = "the control topic cannot be read"
        elif (
            at_ms is not None
            and history.announced_since_ms is not None
            and at_ms < history.announced_since_ms
        ):
            unprovable[snapshot_id] = "the control topic has forgotten its time"
        elif snapshot_id not in history.announced:
            broken.append(f"snapshot {snapshot_id} was never announced")
        if history.accounted is None:
            unprovable.setdefault(snapshot_id, "there is no ledger")
        elif snapshot_id not in history.accounted:
            broken.append(f"snapshot {snapshot_id} was never accounted for by the daemon")
    counts = {
        "snapshots": len(everything),
        "announced": len(history.announced & set(everything)),
        "accounted": len((history.accounted or frozenset()) & set(everything)),
        "on_the_way": pending,
    }
    why = f"{len(everything)} snapshots, each announced and accounted for"
    if pending:
        why += f" ({pending} so young that they may still be on their way)"
    return _judgement(history, Promise.NOTHING_UNSEEN, broken, unprovable, why, counts)


def _judgement(
    history: History,
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
            promise, Verdict.BROKEN, from_ms, to_ms, f"{len(broken)} times", _cut(broken), counts
        )
    evidence = _grouped(unprovable, times)
    if lost:
        evidence = (*evidence, f"{len(lost)} older commits of ours have expired from the table")
    judged = [commit for commit in history.commits if commit.snapshot_id not in unprovable]
    relevant = [commit for commit in judged if commit.is_ours] if promise in _ABOUT_OURS else judged
    nothing_left = not relevant and (doubts or lost)
    if not times or nothing_left:
        reason = "there is no history" if not times else "everything that it rests on has expired"
        return Judgement(promise, Verdict.NOT_PROVABLE, from_ms, to_ms, reason, evidence, counts)
    if doubts and from_ms is not None:
        from_ms = max(doubts) + 1
    return Judgement(promise, Verdict.PROVED, from_ms, to_ms, why, evidence, counts)


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
        f"{len(ids)} snapshots are not judged ({reason}), the newest of {_newest(ids, times)}"
        for reason, ids in reasons.items()
    )


def _newest(ids: Iterable[int], times: Mapping[int, int]) -> str:
    known = [times[snapshot_id] for snapshot_id in ids if snapshot_id in times]
    return _time(max(known)) if known else "a time unknown"


def _time(at_ms: int) -> str:
    """A point in time for people; times that no calendar holds stay numbers."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms"
