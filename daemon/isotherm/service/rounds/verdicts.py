"""Verdicts on what the fold holds: the planner, its input from the stores, its answers kept in them.

Changes nothing in the world; asks nobody but the stores.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from isotherm.contract.boundary import MAX_AHEAD_MS
from isotherm.contract.identity import PartitionKey
from isotherm.core.model.decisions import Decision, Plan, Request, Verdict
from isotherm.core.model.jobs import Action, CompactionJob, ExecutorName, OutputSpec
from isotherm.core.model.tables import TableFacts
from isotherm.core.model.windows import Grant
from isotherm.core.observations import TablePlanned
from isotherm.core.older_specs import is_older, outputs_of
from isotherm.core.partition_state import PartitionState
from isotherm.core.planner.backlog import requested
from isotherm.core.planner.coldness import first_hot
from isotherm.core.planner.expirable import reader_lags
from isotherm.core.planner.job_size import job_bytes
from isotherm.core.planner.minor import why_not
from isotherm.core.planner.older_spec_moves import output_hot
from isotherm.core.planner.plan import plan
from isotherm.core.planner.turns import Room
from isotherm.core.planner.view import Flight, Surroundings, View
from isotherm.core.policy.policy import Policy
from isotherm.core.policy.precedence import PROPERTIES, Resolved
from isotherm.core.rewriters import why_not_converted
from isotherm.core.units import DAY_MS, HOUR_MS
from isotherm.service.policies.policy_folder import PolicyFolder
from isotherm.store.fold import Fold, TableRow
from isotherm.store.ledger import Ledger, halt_of, pause_of, quarantines_of

DECIDED_AT_ONCE = 2000
"""Partitions of one table that are decided together, in a fifth of a second: a table of a million has its turn often,
and keeps nobody waiting."""
DUE_AT_ONCE = 500
"""Of those that are due: more than ever begin in one round."""


ASKED_AT_ONCE = 100
"""Hot partitions of one table for which its writers are asked together."""
MOST_PAGES = 10
"""So many times as many are looked at, where nobody is asked for the first ones."""


@dataclass(frozen=True, slots=True)
class Decided:
    """New verdicts on some partitions of a table."""

    view: View
    policy: Policy | None
    plan: Plan
    has_more: bool
    """Whether others wait for theirs."""


class Verdicts:
    """Decides, and remembers what was decided until it could change."""

    def __init__(
        self,
        fold: Fold,
        ledger: Ledger,
        policies: PolicyFolder,
        now_ms: Callable[[], int],
        hour_budget_bytes: int | None,
        deletions_held: Callable[[], str | None] | None = None,
        cluster_from_bytes: int | None = None,
        grants: Callable[[str], tuple[Grant, ...]] = lambda _: (),
    ) -> None:
        self._grants = grants
        self._deletions_held = deletions_held or ledger.deletions_held
        self._hour_budget_bytes = hour_budget_bytes
        self._cluster_from_bytes = cluster_from_bytes
        self._fold = fold
        self._ledger = ledger
        self._policies = policies
        self._now_ms = now_ms

    def policy_of(self, row: TableRow) -> Resolved | None:
        """The policy of a table, or None where it is left alone."""
        return self._policies.resolve(row.state.table.name, row.facts.properties)

    def not_maintained(self, row: TableRow | None) -> str:
        """That a table is not maintained any more, and why."""
        said = "the table is not maintained any more"
        if row is None or self.policy_of(row) is not None:
            return said
        return f"{said}: {self._policies.why_none(row.state.table.name)}"

    def view(
        self,
        row: TableRow,
        flights: Sequence[Flight],
        *,
        partitions: Mapping[PartitionKey, PartitionState],
        whole: bool = True,
    ) -> View:
        """What the planner may know now.

        Args:
            row: the table.
            flights: its running jobs.
            partitions: those to decide.
            whole: with what is needed to decide of the table as a whole (its log of snapshots may be long).
        """
        uuid, now_ms = row.state.table.uuid, self._now_ms()
        holds = self._ledger.holds_of(uuid, partitions)
        # What failed, or was done, by a clock that was ahead would be left alone until that time has come.
        latest_ms = now_ms + MAX_AHEAD_MS
        return View(
            around=Surroundings(
                row.state,
                row.facts.fields,
                self._fold.intents(uuid),
                self._fold.words(uuid),
                self._grants(uuid),
            ),
            facts=row.facts,
            partitions=partitions,
            due_since_ms=self._fold.due_since(uuid, partitions),
            snapshots=self._fold.snapshots(uuid) if whole else None,
            astray=self._fold.astray(uuid) if whole else (),
            flights=tuple(flights),
            quarantined=quarantines_of(hold for hold in holds if hold.at_ms <= latest_ms),
            halted=halt_of(holds),
            pause=pause_of(holds),
            setbacks=self._ledger.setbacks(uuid, latest_ms) if whole else {},
            deletions_held=self._deletions_held() if whole else None,
            announced_sequence_number=self._ledger.announced_through(uuid) if whole else None,
            last_done_ms=self._ledger.last_done(uuid, latest_ms) if whole else {},
            hour_budget_bytes=self._hour_budget_bytes,
            cluster_from_bytes=self._cluster_from_bytes,
            readers=self._ledger.positions(uuid) if whole else (),
            readers_unknown=self._ledger.why_readers_unknown() if whole else None,
            outputs=self._outputs(row, partitions),
        )

    def _outputs(
        self, row: TableRow, partitions: Mapping[PartitionKey, PartitionState]
    ) -> Mapping[PartitionKey, PartitionState]:
        """The partitions into which rows of some others are to be moved, as far as they are there."""
        resolved = self.policy_of(row) if partitions else None
        if resolved is None or resolved.policy.compact.output_spec is OutputSpec.OWN:
            return {}
        older = [key for key in partitions if is_older(key, row.facts)]
        keys = {output for key in older for output in outputs_of(key, row.facts.fields) or ()}
        return self._fold.states(row.state.table.uuid, keys) if keys else {}

    def decide(
        self, row: TableRow, flights: Sequence[Flight], *, whole: bool = False, in_round: bool = True
    ) -> "Decided":
        """New verdicts for a slice of the partitions that could have another one now.

        Args:
            row: the table.
            flights: its running jobs.
            whole: decide of the table as a whole too.
            in_round: look also at those that are due already, and go on with a table that is decided slice by slice;
                both may be many, and an event does not wait for them.
        """
        uuid, now_ms = row.state.table.uuid, self._now_ms()
        found = self._fold.undecided(
            uuid, now_ms, row.state.boundary_ms, row.state.foreign_commits, DECIDED_AT_ONCE, anew=in_round
        )
        due = self._fold.due(uuid, DUE_AT_ONCE) if in_round and not found.has_more else {}
        view = self.view(row, flights, partitions={**due, **found.states}, whole=whole)
        resolved = self.policy_of(row)
        policy = None if resolved is None else resolved.policy
        planned = plan(view, policy, now_ms)
        with self._fold.transaction(), self._ledger.transaction():
            self._fold.save_decisions(uuid, planned, now_ms, found.through)
            self._ledger.decided(uuid, now_ms)
        return Decided(view, policy, planned, found.has_more)

    def compaction_of(self, row: TableRow, flights: Sequence[Flight], key: PartitionKey) -> Request | None:
        """The compaction of a partition that is due now, or None. Nothing is remembered of it."""
        states = self._fold.states(row.state.table.uuid, [key])
        resolved = self.policy_of(row)
        policy = None if resolved is None else resolved.policy
        planned = plan(self.view(row, flights, partitions=states, whole=False), policy, self._now_ms())
        return next((one for one in planned.requests if one.decision.action is Action.COMPACT), None)

    def asking(self, row: TableRow, flights: Sequence[Flight]) -> tuple[Decision, ...]:
        """The hot partitions for which the writers of a table are to be asked for a window, those that owe most first."""
        resolved = self.policy_of(row)
        if resolved is None or resolved.policy.compact.ask_writer is None:
            return ()
        for page in range(MOST_PAGES):
            states = self._fold.hot(row.state.table.uuid, ASKED_AT_ONCE, page * ASKED_AT_ONCE)
            planned = plan(
                self.view(row, flights, partitions=states, whole=False), resolved.policy, self._now_ms()
            )
            # What rests, or failed, may owe more than all others.
            if found := [one for one in planned.of_partitions if one.asks]:
                return tuple(sorted(found, key=lambda one: (-one.score, one.partition or "")))
            if len(states) < ASKED_AT_ONCE:
                break
        return ()

    def wants_whole(self, row: TableRow, *, may_search: bool = True) -> bool:
        """Whether the verdicts on the table as a whole could be others now, or something of it could begin.

        Without `may_search`, a search of its folders could not.
        """
        wake_at_ms = row.whole_wake_at_ms
        is_due = any(
            one.verdict in (Verdict.DUE, Verdict.RUNNING) and (may_search or one.action is Action.EXPIRE)
            for one in row.of_table
        )
        return row.is_whole_touched or is_due or (wake_at_ms is not None and wake_at_ms <= self._now_ms())

    def rooms(
        self,
        plans: Iterable[Plan],
        running: Mapping[str, int],
        served_at_ms: Mapping[tuple[str, ExecutorName], int],
    ) -> dict[str, Room]:
        """What the limits of each table's policy still allow, and when it was last served; all by uuid."""
        found = {
            planned.table.uuid: self.room(planned.table.uuid, running, served_at_ms)
            for planned in plans
            if planned.requests
        }
        return {uuid: room for uuid, room in found.items() if room is not None}

    def room(
        self, uuid: str, running: Mapping[str, int], served_at_ms: Mapping[tuple[str, ExecutorName], int]
    ) -> Room | None:
        """The same of one table, or None where no policy says."""
        row = self._fold.table(uuid)
        resolved = None if row is None else self.policy_of(row)
        if resolved is None:
            return None
        work, now_ms = resolved.policy.work, self._now_ms()
        lefts = [
            max(limit - self._ledger.bytes_read_within(span_ms, now_ms, uuid), 0)
            for limit, span_ms in ((work.bytes_per_hour, HOUR_MS), (work.bytes_per_day, DAY_MS))
            if limit is not None
        ]
        return Room(
            work.priority,
            None if work.jobs_at_once is None else max(work.jobs_at_once - running.get(uuid, 0), 0),
            min(lefts, default=None),
            {one: served_at_ms[uuid, one] for one in ExecutorName if (uuid, one) in served_at_ms},
            self.reads_per_day(uuid) or 0,
        )

    def reads_per_day(self, uuid: str) -> float | None:
        """How often a table is read, or None where nobody has reported a scan of it."""
        reads = self._ledger.reads(uuid)
        return None if reads is None else reads.per_day(self._now_ms())

    def why_hot(
        self,
        row: TableRow,
        key: PartitionKey,
        policy: Policy,
        *,
        beside_appends: bool = False,
        window_id: str = "",
    ) -> str | None:
        """Why a partition is hot at this moment, or None where it is cold.

        `beside_appends`: or where its old files may be merged though it is hot. `window_id`: or where its writers leave it
        alone in this window.
        """
        now_ms = self._now_ms()
        partition = self._fold.states(row.state.table.uuid, [key]).get(key)
        if partition is None:
            return "nothing is in it any more"
        around = self.view(row, (), partitions={}, whole=False).around
        grants = tuple(one for one in around.grants if one.window_id == window_id)
        around = replace(around, grants=grants)
        hot = first_hot(key, partition, around, policy.cold, now_ms, job_bytes(policy, row.facts))
        if hot is None or not beside_appends:
            return None if hot is None else hot.why
        return why_not(partition, row.state, policy, hot, now_ms)

    def hot_outputs(
        self, row: TableRow, job: CompactionJob, policy: Policy
    ) -> Iterator[tuple[PartitionKey, str]]:
        """The partitions that are hot at this moment into which a job moves rows, each with what keeps it hot."""
        if not job.outputs:
            return
        states = self._fold.states(row.state.table.uuid, job.outputs)
        around, now_ms = self.view(row, (), partitions={}, whole=False).around, self._now_ms()
        for key in job.outputs:
            hot = output_hot(key, states.get(key), around, policy.cold, now_ms, job.read_bytes)
            if hot is not None:
                yield key, hot.why

    def report(self, row: TableRow, decided: Decided) -> TablePlanned:
        """How the table stands, for metrics."""
        tally = self._fold.tally(row.state.table.uuid)
        view, planned = decided.view, decided.plan
        work = requested(view, planned)
        done = [
            one
            for one in planned.of_table or row.of_table
            if one.verdict not in (Verdict.UNSUPPORTED, Verdict.OFF)
        ]
        score = max([tally.highest_score, *(one.score for one in done)])
        is_paused = view.pause is not None and view.pause.holds(self._now_ms())
        quiet_ms = self._now_ms() - max(row.last_event_at_ms, row.changed_at_ms)
        is_owed = score >= 1 or tally.oldest_due_at_ms is not None
        return TablePlanned(
            table=row.state.table,
            snapshots=row.facts.snapshots,
            metadata_bytes=row.facts.metadata_bytes,
            partitions=sum(tally.verdicts.values()),
            hot=tally.verdicts.get(Verdict.HOT, 0),
            due=tally.verdicts.get(Verdict.DUE, 0),
            unsupported=tally.verdicts.get(Verdict.UNSUPPORTED, 0),
            waiting=tally.verdicts.get(Verdict.WAITING, 0),
            quarantined=tally.verdicts.get(Verdict.QUARANTINED, 0),
            score=score,
            files_per_partition=tally.most_files,
            backlog_files=work.files,
            backlog_bytes=work.bytes,
            expire_score=max((one.score for one in done if one.action is Action.EXPIRE), default=0.0),
            metadata_file_bytes=row.facts.metadata_file_bytes,
            oldest_due_at_ms=tally.oldest_due_at_ms,
            hot_score=tally.hot_score,
            due_actions=tuple(str(one.action) for one in done if one.verdict is Verdict.DUE),
            halted=view.halted is not None,
            paused=is_paused,
            last_event_at_ms=row.last_event_at_ms,
            reads_per_day=self.reads_per_day(row.state.table.uuid),
            readers=None
            if view.snapshots is None or decided.policy is None
            else reader_lags(view, decided.policy.expire, self._now_ms()),
            rests=quiet_ms >= DAY_MS and not (is_owed or is_paused or view.halted is not None),
        )


def verdicts_rest_on(facts: TableFacts) -> tuple[object, ...]:
    """What of a table's metadata every verdict on its partitions rests on: when it changes, all are made again."""
    said = tuple(facts.properties.get(name) for name in PROPERTIES)
    converts = why_not_converted(facts) is None
    moves = facts.not_moved, facts.has_undivided
    return facts.format_version, facts.unsupported, facts.sortable, facts.fields, said, converts, *moves
