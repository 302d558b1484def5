"""A table's history, lived through once more under a policy: what would have been done, and what it would have cost.

The same functions as in the service: `state.apply` for every change, `plan` and `turns.admit` for every round,
`file_selection.rewritten` for what a job leaves. A round looks only at what was touched or whose kept decision may change
by itself (`Wake`), as the service's rounds do. These come every few seconds; so that rounds may be rarer here, one also
follows the end of a job where another partition waits for its turn. Our own recorded maintenance is left out.

What is exact: files that were appended, and when. What is assumed: how long a job takes, that every change is heard
of when it was, that no job fails. What is not known: intents and open windows (jobs that an intent would have held back
end as conflicts here), manifests, metadata files and orphans (not replayed), and what removals by others would have
cost on larger files (see `history.carried_over`).
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain

from isotherm.contract.events import OpenWindow
from isotherm.contract.identity import PartitionKey
from isotherm.contract.summary import Origin
from isotherm.core.appends import is_append
from isotherm.core.model.changes import Change
from isotherm.core.model.decisions import Decision, Request, Verdict
from isotherm.core.model.files import DELETE_KINDS, FileKind, bucket_bounds
from isotherm.core.model.jobs import Action, Take
from isotherm.core.model.tables import Snapshot
from isotherm.core.model.writers import Word
from isotherm.core.partition_state import PartitionState
from isotherm.core.partitions import with_epochs
from isotherm.core.planner.file_selection import SMALL, rewritten
from isotherm.core.planner.minor import on_record
from isotherm.core.planner.plan import NOTHING_SAID, plan
from isotherm.core.planner.turns import Room, admit
from isotherm.core.planner.view import Flight, Surroundings, View
from isotherm.core.policy.policy import Mode, Policy
from isotherm.core.replay.account import Replayed, Sample, SimulatedJob, Sums, Totals
from isotherm.core.replay.assumed import Assumed
from isotherm.core.replay.history import History, Recorded, carried_over, difference, others
from isotherm.core.replay.lookups import KeptDecisions, SnapshotLog, Waits
from isotherm.core.state import apply, built
from isotherm.core.units import DAY_MS, HOUR_MS

SAMPLES = 500  # of a timeline: more than a terminal has columns, few enough to keep
NEVER_MS = float("inf")
A_WRITER = "ingest"
"""Whose place a snapshot keeps: a change does not say which writer's, nor whether it does, so all count as one."""
EVERY_WRITER = Word("every writer", 0, OpenWindow(), announces=True)
"""Of writers nothing is known but that they announce."""


def replay(
    history: History,
    policy: Policy | None,
    assumed: Assumed,
    *,
    samples: int = SAMPLES,
    keep_decisions: bool = True,
    tell: Callable[[float], None] = lambda _: None,
    show: Callable[[int, Mapping[PartitionKey, PartitionState]], None] = lambda *_: None,
) -> Replayed:
    """Live through a history under a policy; None as policy: the table is left alone.

    Args:
        history: what happened.
        policy: the rules.
        assumed: what is taken for granted.
        samples: points of the timeline; nothing else depends on it.
        keep_decisions: False plans every partition anew in every round: slow, and by law the same.
        tell: is told how much of the history is done, at every point of the timeline.
        show: is shown the time and the table's partitions at every such point; they change afterwards.
    """
    life = _Life(history, policy, assumed, keep_decisions)
    span_ms = max(history.ends_at_ms - history.starts_at_ms, 1)
    points = [history.starts_at_ms + span_ms * number // samples for number in range(samples + 1)]
    taken = []
    for number, at_ms in enumerate(points):
        life.live_until(at_ms)
        taken.append(life.sample())
        show(at_ms, life.partitions)
        tell(number / samples)
    return Replayed(life.totals(), tuple(taken), tuple(life.jobs), life.partitions)


class _Life:
    """The table as it would have been, one event at a time."""

    def __init__(
        self, history: History, policy: Policy | None, assumed: Assumed, keep_decisions: bool
    ) -> None:
        self.jobs: list[SimulatedJob] = []
        self._history = history
        self._policy = NOTHING_SAID if policy is None else _without_the_rest(policy)
        self._target = int(self._policy.compact.target_file_size)
        # The size of metadata.json is not in a history; what would follow from it is left out.
        fields = with_epochs(history.facts.fields, self._policy.cold.epochs)
        snapshots = len(history.snapshots)
        self._facts = replace(history.facts, metadata_file_bytes=0, fields=fields, snapshots=snapshots)
        self._pinned = history.pinned
        self._words = (EVERY_WRITER,) if assumed.writers_announce else ()
        self._assumed = assumed
        self._keeps_decisions = keep_decisions
        state = built(
            history.table,
            history.partitions,
            None,
            boundary_ms=None,
            foreign_commits=0,
        )
        newest = max((one.sequence_number for one in history.snapshots), default=0)
        self._state = replace(state, partitions=len(history.partitions), sequence_number=newest)
        self.partitions = dict(history.partitions)
        log = [replace(one, token=A_WRITER if one.token else "") for one in history.snapshots]
        self._snapshots = SnapshotLog(log, self._policy)
        self._keepers = {Origin.INGEST, *([Origin.FOREIGN] if any(one.token for one in log) else [])}
        self._ahead = deque(others(history))
        self._now_ms = history.starts_at_ms
        self._round_ms = history.starts_at_ms
        """The earliest time of the next round."""
        self._kept = KeptDecisions(history.partitions)
        self._due_since: dict[PartitionKey, int] = {}
        self._running: dict[PartitionKey, SimulatedJob] = {}
        self._waits = Waits(history.table, self._policy)
        self._spent: deque[tuple[int, int]] = deque()
        """What was read lately, and when: for the budget."""
        self._expired_at_ms: int | None = None
        self._own_commits = 0
        self._sizes: Counter[int] = Counter()
        self._sums = Sums()
        for partition in self.partitions.values():
            self._sums.most_files = max(self._sums.most_files, partition.data_total.files)
            self._sizes.update({bucket: stats.files for bucket, stats in partition.data.items()})

    def live_until(self, until_ms: int) -> None:
        """Everything up to a time. Of what is at the same moment, jobs end first, then writers, then a round."""
        while True:
            ending = min(
                self._running.values(), key=lambda job: (job.ended_at_ms, job.partition), default=None
            )
            ends_ms = NEVER_MS if ending is None else ending.ended_at_ms
            writes_ms = max(self._ahead[0].received_at_ms, self._now_ms) if self._ahead else NEVER_MS
            round_ms = self._next_round_ms()
            at_ms = min(ends_ms, writes_ms, round_ms)
            if at_ms > until_ms:
                self._pass_until(until_ms)
                return
            self._pass_until(int(at_ms))
            if ending is not None and ends_ms == at_ms:
                self._finish(ending)
            elif writes_ms == at_ms:
                self._write(self._ahead.popleft())
            else:
                self._round_ms = self._now_ms + self._assumed.plan_every_ms
                self._round()

    def _pass_until(self, at_ms: int) -> None:
        passed_ms = at_ms - self._now_ms
        self._sums.file_ms += passed_ms * self._state.totals[FileKind.DATA].files
        self._sums.delete_row_ms += passed_ms * self._delete_rows()
        self._now_ms = at_ms

    def _delete_rows(self) -> int:
        return sum(self._state.totals[kind].rows for kind in DELETE_KINDS)

    # Writers

    def _write(self, recorded: Recorded) -> None:
        """A writer commits, and whoever of us works on the same partitions has worked in vain."""
        change = carried_over(recorded, self.partitions)
        for key, job in list(self._running.items()):
            # Beside appends a job goes on; anything else ends it, wherever that was.
            is_hit = not is_append(change) if job.is_beside_appends else key in change.partitions
            if is_hit:
                self._throw_away(self._running.pop(key))
        if change.is_foreign_write:
            self._sums.ingested_bytes += sum(delta.added.bytes for delta in change.partitions.values())
        self._apply(change)

    def _throw_away(self, job: SimulatedJob) -> None:
        passed = (self._now_ms - job.started_at_ms) / (job.ended_at_ms - job.started_at_ms)
        self._sums.conflicts += 1
        self._sums.wasted_bytes += round(job.bytes * passed)
        self._spent.append((job.started_at_ms, round(job.bytes * passed) - job.bytes))
        self.jobs.append(replace(job, ended_at_ms=self._now_ms, is_conflict=True))
        self._waits.was_in_vain(job.partition, self._now_ms)

    def _apply(self, change: Change) -> None:
        """A change becomes part of the state; in this world it follows whatever is the head."""
        change = replace(
            change,
            parent_id=self._state.head,
            sequence_number=self._state.sequence_number + 1,
            manifests=(),
            totals={},
        )
        applied = apply(self._state, self.partitions, change, self._facts.fields, self._now_ms)
        proved_ms = on_record(self._state, self._policy)
        self._state = applied.state
        for key, partition in applied.partitions.items():
            if partition is None:
                self.partitions.pop(key, None)
                self._kept.forget(key)
                self._due_since.pop(key, None)
            else:
                self.partitions[key] = partition
                files = sum(stats.files for stats in partition.data.values())
                self._sums.most_files = max(self._sums.most_files, files)
        is_lost = proved_ms not in {None, on_record(self._state, self._policy)}
        self._kept.touch(key for key in (self if is_lost else applied).partitions if key in self.partitions)
        for bucket, stats in chain.from_iterable(one.data.items() for one in change.partitions.values()):
            self._sizes[bucket] += stats.files
        self._snapshots.add(
            Snapshot(
                change.snapshot_id,
                change.sequence_number,
                self._now_ms,
                token=A_WRITER if change.origin in self._keepers else "",
                is_pinned=change.snapshot_id in self._pinned,
            )
        )
        self._facts = replace(self._facts, snapshots=len(self._snapshots))

    # Rounds

    def _next_round_ms(self) -> float:
        """When a round will find something to look at; rounds that would find nothing are left out."""
        if not self._keeps_decisions:
            return self._round_ms
        look_ms = max(min(self._kept.next_look_ms(), self._snapshots.next_look_ms()), self._now_ms)
        if look_ms == NEVER_MS:
            return NEVER_MS
        missed = max(-(-(look_ms - self._round_ms) // self._assumed.plan_every_ms), 0)
        return self._round_ms + missed * self._assumed.plan_every_ms

    def _round(self) -> None:
        now_ms = self._now_ms
        planned = plan(self._view(), self._policy, now_ms)
        self._kept.keep(planned.of_partitions)
        self._snapshots.decided(planned.of_table)
        for decision in planned.of_partitions:
            self._watch_lag(decision)
        rooms = {planned.table.uuid: self._room()}
        left = self._left_of(self._assumed.bytes_per_hour, HOUR_MS)
        for request in admit([planned], len(self._running), self._assumed.jobs_at_once, left, now_ms, rooms):
            if request.decision.action is Action.EXPIRE:
                self._expire(request)
            elif request.decision.action is Action.COMPACT:
                self._start(request.decision)

    def _view(self) -> View:
        awake = self._kept.awake(self._now_ms, self._state.boundary_ms, self._state.foreign_commits)
        snapshots = None
        if not self._keeps_decisions:
            snapshots = self._snapshots.all
        elif self._snapshots.next_look_ms() <= self._now_ms:
            snapshots = self._snapshots.needed_for_expiry(self._now_ms)
        keys = awake if self._keeps_decisions else self.partitions.keys()
        return View(
            around=Surroundings(self._state, self._facts.fields, words=self._words),
            facts=self._facts,
            partitions={key: self.partitions[key] for key in keys},
            snapshots=snapshots,
            flights=tuple(
                Flight("", Action.COMPACT, job.partition, job.base_snapshot_id, job.started_at_ms, job.bytes)
                for job in self._running.values()
            ),
            due_since_ms=self._due_since,
            quarantined=self._waits.quarantined,
            announced_sequence_number=self._state.sequence_number,
            last_done_ms={} if self._expired_at_ms is None else {Action.EXPIRE: self._expired_at_ms},
            hour_budget_bytes=self._assumed.bytes_per_hour,
        )

    def _watch_lag(self, decision: Decision) -> None:
        """Notes since when a partition has been due."""
        if decision.partition is None:
            return
        if decision.verdict in (Verdict.DUE, Verdict.WAITING):
            self._due_since.setdefault(decision.partition, self._now_ms)
        elif decision.verdict is not Verdict.RUNNING:
            self._due_since.pop(decision.partition, None)

    def _room(self) -> Room:
        """What the policy's own limits still allow."""
        work = self._policy.work
        limits = ((work.bytes_per_hour, HOUR_MS), (work.bytes_per_day, DAY_MS))
        lefts = [left for limit, span_ms in limits if (left := self._left_of(limit, span_ms)) is not None]
        jobs = None if work.jobs_at_once is None else max(work.jobs_at_once - len(self._running), 0)
        return Room(work.priority, jobs, min(lefts, default=None))

    def _left_of(self, limit: int | None, span_ms: int) -> int | None:
        """What a limit still allows to read, or None where there is no limit."""
        if limit is None:
            return None
        while self._spent and self._spent[0][0] < self._now_ms - DAY_MS:
            self._spent.popleft()
        return max(limit - sum(size for at_ms, size in self._spent if at_ms >= self._now_ms - span_ms), 0)

    # Jobs

    def _expire(self, request: Request) -> None:
        self._expired_at_ms = self._now_ms
        self._snapshots.remove(request.snapshots, self._now_ms)
        self._facts = replace(self._facts, snapshots=len(self._snapshots))
        self._sums.expiries += 1
        self._sums.expired_snapshots += len(request.snapshots)

    def _start(self, decision: Decision) -> None:
        key = decision.partition
        if key is None or self._state.head is None:
            return
        lasts_ms = self._assumed.job_overhead_ms + round(1000 * decision.bytes / self._assumed.bytes_per_s)
        self._running[key] = SimulatedJob(
            partition=key,
            label=decision.label,
            base_snapshot_id=self._state.head,
            started_at_ms=self._now_ms,
            ended_at_ms=self._now_ms + max(lasts_ms, 1),
            bytes=decision.bytes,
            files=decision.files,
            take=decision.take or Take(),
        )
        self._kept.touch([key])
        self._spent.append((self._now_ms, decision.bytes))

    def _finish(self, job: SimulatedJob) -> None:
        del self._running[job.partition]
        self._waits.went_well(job.partition)
        before = self.partitions[job.partition]
        after = rewritten(before, job.take, self._target)
        self._own_commits += 1
        change = Change(
            # No snapshot of a real table has a negative id.
            snapshot_id=-self._own_commits,
            parent_id=None,
            sequence_number=0,
            committed_at_ms=self._now_ms,
            operation="replace",
            origin=Origin.MAINTENANCE,
            partitions={job.partition: difference(after, before)},
        )
        self._apply(change)
        self.jobs.append(job)
        self._sums.rewritten_bytes += job.bytes
        self._sums.lags_ms.append(self._now_ms - self._due_since.pop(job.partition, job.started_at_ms))
        if self._kept.has_due:
            self._round()

    # Answers

    def sample(self) -> Sample:
        """The table as it stands."""
        return Sample(
            at_ms=self._now_ms,
            files=self._state.totals[FileKind.DATA].files,
            small_files=self._small_files(),
            delete_rows=self._delete_rows(),
            snapshots=len(self._snapshots),
            score=max(
                (one.score for one in self._kept.by_partition.values() if one.verdict is not Verdict.HOT),
                default=0.0,
            ),
            rewritten_bytes=self._sums.rewritten_bytes,
        )

    def _small_files(self) -> int:
        limit = SMALL * self._target
        return sum(count for bucket, count in self._sizes.items() if bucket_bounds(bucket)[1] <= limit)

    def totals(self) -> Totals:
        """The sum of what was lived through."""
        passed_ms = max(self._now_ms - self._history.starts_at_ms, 1)
        jobs = len(self.jobs) - self._sums.conflicts
        return self._sums.totals(jobs, self.sample(), passed_ms, len(self._due_since))


def _without_the_rest(policy: Policy) -> Policy:
    """The policy without what a history cannot tell: manifests, metadata files, orphans."""
    return policy.model_copy(
        update={
            "manifests": policy.manifests.model_copy(update={"enabled": False}),
            "metadata": policy.metadata.model_copy(update={"enabled": False}),
            "orphans": policy.orphans.model_copy(update={"mode": Mode.OFF}),
        }
    )
