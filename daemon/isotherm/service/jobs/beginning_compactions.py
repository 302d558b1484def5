"""Compactions from request to rewrite: bound to their files, and begun.

Binding reads manifests, which may take minutes, so it is done beside the loop; it leaves nothing behind. A job is in the
ledger before it is bound, because that may take the daemon with it. Where rows are moved into another partition spec, and
only files tell into which partitions, it is bound once more without those that go where writers are.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from isotherm.contract.identity import PartitionKey
from isotherm.core.model.decisions import Request
from isotherm.core.model.jobs import (
    NOTHING_READ,
    JobRead,
    Outcome,
    Rewrite,
    Take,
)
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.core.observations import JobStarted
from isotherm.core.policy.policy import Compact, Policy
from isotherm.service.clocks import Clocks
from isotherm.service.jobs.deletions import Deletions
from isotherm.service.jobs.granted_windows import GrantedWindows
from isotherm.service.jobs.last_look import LastLook, into_hot
from isotherm.service.jobs.operations import Operations, begun
from isotherm.service.jobs.own_commits import OwnCommits
from isotherm.service.jobs.running_compactions import RunningCompactions
from isotherm.service.jobs.table_ownership import Owned
from isotherm.service.ports import (
    Bound,
    EventSource,
    Listener,
    LoadedTable,
    Maintainer,
    Unavailable,
)
from isotherm.service.rounds.verdicts import Verdicts
from isotherm.service.tables.confirm_heads import Follower
from isotherm.service.tables.failing_tables import Barrier
from isotherm.service.topics.holds import Holds
from isotherm.store.fold import Fold
from isotherm.store.ledger import Ledger, Operation

BOUND_AGAIN = 3
"""So often a job is bound once more, because where its rows go turned out to be hot: each time its manifests are read."""
WAS_HOT = "it was hot when it was decided last"


@dataclass(slots=True, kw_only=True)
class BeginningCompactions(RunningCompactions):
    """How compactions begin."""

    fold: Fold
    ledger: Ledger
    events: EventSource
    maintainer: Maintainer
    follower: Follower
    last_look: LastLook
    verdicts: Verdicts
    holds: Holds
    owned: Owned
    own_commits: OwnCommits
    deletions: Deletions
    clocks: Clocks
    operations: Operations
    windows: GrantedWindows
    barrier: Barrier
    listen: Listener
    now_ms: Callable[[], int]

    def begin(self, request: Request) -> bool:
        """Begin to bind what was admitted; whether that began."""
        row = self.fold.table(request.table.uuid)
        resolved = None if row is None else self.verdicts.policy_of(row)
        if row is None or resolved is None or row.state.head is None:
            return False
        operation = begun(request, row, row.state.head, resolved.policy.hash, self.now_ms())
        take, window_id = request.decision.take or Take(), request.decision.window_id
        if take.before_ms is not None:
            # Where its rows go is known once it is bound. Of what was hot before it need not be asked then.
            take = replace(take, not_into=dict.fromkeys(self.fold.hot_ones(request.table.uuid), WAS_HOT))
        return self._begin(operation, take, resolved.policy.compact, window_id)

    def _begin(self, operation: Operation, take: Take, compact: Compact, window_id: str) -> bool:
        uuid, key, job_id = operation.table.uuid, operation.partition, operation.job_id
        loaded = self.follower.loaded(uuid)
        if loaded is None or key is None or loaded.head != operation.base_snapshot_id:
            return False
        if self.clocks.check(loaded) is not None:
            return False  # whether a partition is quiet, and an intent over, is told by the clock
        # Written down before: binding may take the daemon with it, as a rewrite may.
        self.ledger.save(operation)
        self._tenures[job_id] = self.events.tenure(uuid)
        self._binding[job_id] = (operation, loaded, take)
        if take.through_number is not None:
            self._beside.add(job_id)
        if window_id:
            self._windowed[job_id] = window_id
            self.windows.began(uuid)  # by a round, or by what leads the window
        try:
            self._bind(loaded, key, operation, take, compact)
        except BaseException:
            self._let_go(job_id)
            self.ledger.forget_operation(job_id)
            raise
        self.fold.touch(uuid, [key])
        return True

    def _bind(
        self, loaded: LoadedTable, key: PartitionKey, operation: Operation, take: Take, compact: Compact
    ) -> None:
        self.maintainer.start_binding(
            loaded,
            key,
            operation.job_id,
            operation.label,
            take,
            int(compact.target_file_size),
            operation.policy_hash,
            operation.why,
            sort=compact.sort,
        )

    def start_bound(self) -> int:
        """Start the rewrites of the jobs that are bound by now; gives how many."""
        started = 0
        for job_id, bound in self.maintainer.bound():
            if job_id not in self._binding:
                continue
            operation, loaded, take = self._binding.pop(job_id)
            # Under a key of its own: that the table is looked at well says nothing of its manifests.
            key = f"{operation.table.uuid}/{operation.action}"
            with self.barrier.around(operation.table.name, "beginning to compact", key):
                started += self._start(operation, loaded, take, bound)
                self.barrier.forget(key)
            if job_id not in self:
                self._tenures.pop(job_id, None)
                self._beside.discard(job_id)
                self._windowed.pop(job_id, None)
                self._bound_again.pop(job_id, None)
                self._touch(operation)
        return started

    def _start(
        self, operation: Operation, loaded: LoadedTable, take: Take, bound: Bound | Refusal | Unavailable
    ) -> bool:
        if isinstance(bound, Unavailable):
            self.ledger.forget_operation(operation.job_id)
            raise bound
        if isinstance(bound, Refusal):
            self.operations.end(replace(operation, bytes_planned=0), Outcome.refused(operation.job_id, bound))
            self._set_back(operation, bound)
            return False
        if hot := self.last_look.hot_outputs(bound.job):
            return self._bind_but(hot, operation, loaded, take)
        window_id, uuid = self._windowed.get(operation.job_id, ""), operation.table.uuid
        job = replace(bound.job, executor=operation.executor, window_id=window_id)
        files = len(job.data_files) + len(job.delete_files)
        operation = replace(
            operation,
            files_before=bound.live_data_files,
            bytes_planned=job.read_bytes,
            files_planned=files,
        )
        self.ledger.save(operation, job)
        self.maintainer.start(loaded, job)
        self._running[job.job_id] = (operation, job)
        self.fold.touch(uuid, job.touched)
        table, action, label = operation.table, operation.action, operation.label
        self.listen(JobStarted(table, action, job.job_id, label, files, operation.bytes_planned, job.why))
        return True

    def _bind_but(
        self, hot: Mapping[PartitionKey, str], operation: Operation, loaded: LoadedTable, take: Take
    ) -> bool:
        """Bind once more, without files whose rows go into these partitions: where they go was not known before."""
        uuid, key, job_id = operation.table.uuid, operation.partition, operation.job_id
        row, times = self.fold.table(uuid), self._bound_again.get(job_id, 0)
        resolved = None if row is None else self.verdicts.policy_of(row)
        if resolved is None or key is None or resolved.policy.hash != operation.policy_hash:
            why = (
                self.verdicts.not_maintained(row) if resolved is None else "its policy was changed meanwhile"
            )
            return self._start(operation, loaded, take, Refusal(Reason.POLICY, why))
        if times >= BOUND_AGAIN:
            found = () if row is None else row.facts.fields
            return self._start(operation, loaded, take, into_hot(*next(iter(hot.items())), found))
        take = replace(take, not_into={**hot, **take.not_into})
        try:
            self._bind(loaded, key, operation, take, resolved.policy.compact)
        except BaseException:
            self.ledger.forget_operation(job_id)
            raise
        self._binding[job_id], self._bound_again[job_id] = (operation, loaded, take), times + 1
        return False

    def _set_back(self, operation: Operation, refusal: Refusal, read: JobRead = NOTHING_READ) -> None:
        row = self.fold.table(operation.table.uuid)
        resolved = None if row is None else self.verdicts.policy_of(row)
        rest_ms = int((resolved.policy if resolved else Policy()).compact.rest)
        self.holds.set_back(operation.table, operation.partition, refusal, rest_ms, read)

    def _touch(self, operation: Operation) -> None:
        """Have the partition's verdict made again."""
        if operation.partition is not None:
            self.fold.touch(operation.table.uuid, [operation.partition])

    def _let_go(self, job_id: str) -> Rewrite | None:
        """Forget a job; gives what it wrote. Where its end goes wrong, the next round finds it in the ledger."""
        self._binding.pop(job_id, None)
        self._running.pop(job_id, None)
        self._ended.forget(job_id)
        self._tenures.pop(job_id, None)
        self._beside.discard(job_id)
        self._windowed.pop(job_id, None)
        self._bound_again.pop(job_id, None)
        return self._rewrites.pop(job_id, None)
