"""Verdicts on what the fold holds: the planner, its input from the stores, its answers kept in them.

Changes nothing in the world; asks nobody but the stores.
"""

from collections.abc import Callable, Mapping, Sequence

from isotherm.coldness import Surroundings, findings, first_hot
from isotherm.model import PartitionKey
from isotherm.observations import TablePlanned
from isotherm.planner import Flight, Plan, Verdict, View, plan
from isotherm.policy import Policy, Resolved
from isotherm.policy_files import PolicyFolder
from isotherm.simulate import backlog
from isotherm.state import PartitionState
from isotherm.store.fold import Fold, TableRow
from isotherm.store.ledger import Ledger

WRITER_SILENT_MS = 3_600_000
"""A writer that has said nothing for this long is retired: its last open window binds nobody any more."""


class Verdicts:
    """Decides, and remembers what was decided until it could change."""

    def __init__(self, fold: Fold, ledger: Ledger, policies: PolicyFolder, now_ms: Callable[[], int]) -> None:
        self._fold = fold
        self._ledger = ledger
        self._policies = policies
        self._now_ms = now_ms

    def policy_of(self, row: TableRow) -> Resolved | None:
        """The policy of a table; None: it is only observed."""
        return self._policies.resolve(row.state.table.name, dict(row.facts.properties))

    def view(
        self,
        row: TableRow,
        flights: Sequence[Flight],
        now_ms: int,
        partitions: Mapping[PartitionKey, PartitionState] | None = None,
    ) -> View:
        """What the planner may know now; None as partitions: those whose verdict could have changed."""
        uuid = row.state.table.uuid
        if partitions is None:
            partitions = self._fold.undecided(uuid, now_ms, row.state.boundary_ms, row.state.foreign_commits)
        words = tuple(word for word in self._fold.words(uuid) if now_ms - word.at_ms < WRITER_SILENT_MS)
        return View(
            around=Surroundings(row.state, row.facts.fields, self._fold.intents(uuid), words),
            facts=row.facts,
            partitions=partitions,
            flights=tuple(flights),
            quarantined=self._ledger.quarantined(uuid),
            halted=self._ledger.halted(uuid),
            announced_sequence_number=self._ledger.announced_through(uuid),
        )

    def decide(self, row: TableRow, flights: Sequence[Flight]) -> tuple[View, Policy | None, Plan]:
        """New verdicts for whatever could have another one now."""
        now_ms = self._now_ms()
        view = self.view(row, flights, now_ms)
        resolved = self.policy_of(row)
        policy = None if resolved is None else resolved.policy
        decided = plan(view, policy, now_ms)
        uuid = row.state.table.uuid
        with self._fold.transaction(), self._ledger.transaction():
            self._fold.save_decisions(uuid, decided.decisions, now_ms)
            self._ledger.decided(uuid, now_ms)
        return view, policy, decided

    def why_hot(self, row: TableRow, key: PartitionKey, policy: Policy) -> str | None:
        """Why a partition is hot at this moment; None: it is cold."""
        now_ms = self._now_ms()
        partition = self._fold.states(row.state.table.uuid, [key]).get(key)
        if partition is None:
            return "nothing is in it any more"
        around = self.view(row, (), now_ms, partitions={}).around
        hot = first_hot(findings(key, partition, around, policy.cold, now_ms))
        return None if hot is None else hot.why

    def report(self, row: TableRow, view: View, policy: Policy | None, planned: Plan) -> TablePlanned:
        """How the table stands, for metrics."""
        tally = self._fold.tally(row.state.table.uuid)
        work = backlog(view, policy, self._now_ms())
        expiry = planned.decisions[0]
        return TablePlanned(
            table=row.state.table,
            snapshots=len(row.facts.snapshots),
            metadata_bytes=row.facts.metadata_bytes,
            partitions=sum(tally.verdicts.values()),
            hot=tally.verdicts.get(Verdict.HOT, 0),
            due=tally.verdicts.get(Verdict.DUE, 0),
            unsupported=tally.verdicts.get(Verdict.UNSUPPORTED, 0),
            score=max(tally.highest_score, expiry.score),
            files_per_partition=tally.most_files,
            backlog_files=work.files,
            backlog_bytes=work.bytes,
            oldest_due_at_ms=tally.oldest_due_at_ms,
            halted=view.halted is not None,
            last_event_at_ms=row.last_event_at_ms,
        )
