"""Answers for people: plans, explanations, states and their verification, from the stores and the catalog.

Reads beside a running daemon and changes nothing. It uses the very planner and rules of the service, so that what it
says is what the service does.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from isotherm.commands.table_history import read_history
from isotherm.contract.identity import PartitionKey
from isotherm.core.model.decisions import Decision, Plan, Verdict, Wake
from isotherm.core.model.files import FileStats
from isotherm.core.model.jobs import Action
from isotherm.core.partitions import label
from isotherm.core.planner.coldness import findings
from isotherm.core.planner.debt import debt
from isotherm.core.planner.plan import plan
from isotherm.core.planner.view import Flight, Surroundings, View
from isotherm.core.policy.policy import Policy
from isotherm.core.policy.precedence import PolicyFile, Resolved, resolve
from isotherm.core.replay.history import History
from isotherm.core.replay.replay import Assumed
from isotherm.core.state import PartitionState
from isotherm.core.units import clock_text, span_text
from isotherm.iceberg.catalog import IcebergCatalog, connect
from isotherm.runtime.clock import now_ms as wall_clock_ms
from isotherm.runtime.config import IsothermConfig
from isotherm.service.planning import Verdicts
from isotherm.service.policy_folder import PolicyFolder
from isotherm.service.ports import NoSuchTableError
from isotherm.store.fold import Fold, TableRow
from isotherm.store.ledger import Ledger

HISTORY = 5
"""Operations shown with an explanation."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One line of an explanation."""

    name: str
    holds: bool
    text: str
    origin: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why something is, or is not, done."""

    table: str
    subject: str
    verdict: Verdict
    score: float
    why: str
    conditions: tuple[Condition, ...]
    next_at: str
    history: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PartitionAnswer:
    """One partition, as the daemon believes it to be."""

    partition: str
    label: str
    data: FileStats
    deletes: FileStats
    verdict: str


@dataclass(frozen=True, slots=True)
class StateAnswer:
    """A table's state, and how it compares with a full scan."""

    table: str
    head: int | None
    sequence_number: int
    boundary: str
    partitions: tuple[PartitionAnswer, ...]
    verified: str = ""
    differences: tuple[str, ...] = ()


class Inspector:
    """Answers from the stores of a daemon, which may be running."""

    def __init__(self, config: IsothermConfig) -> None:
        """Open the stores read-only.

        Raises:
            StoreError: there is no store at the configured place: the daemon has never run here.
        """
        self._config = config
        self._fold = Fold(config.state.path / "fold.db", read_only=True)
        self._ledger = Ledger(config.state.path / "ledger.db", read_only=True)
        self._policies = PolicyFolder(config.policies)
        # What the daemon holds on to where a file is broken now.
        self._policies.recall(self._ledger.policies())
        self._policies.reload()
        self._verdicts = Verdicts(
            self._fold, self._ledger, self._policies, wall_clock_ms, config.budgets.bytes_per_hour
        )

    def policy(self, table: str) -> Resolved | None:
        """A table's policy with origins; also of a table that the daemon has not seen yet."""
        rows = {row.state.table.name: row for row in self._fold.tables().values()}
        if table in rows:
            return self._verdicts.policy_of(rows[table])
        return self._policies.resolve(table, {})

    def policy_history(self, table: str) -> tuple[str, ...]:
        """When the table last came under another policy, and what had changed; newest first."""
        records = [
            (at_ms, loaded) for at_ms, loaded in self._ledger.reloads() if table in loaded.tables.split("; ")
        ]
        return tuple(f"{clock_text(at_ms)} {loaded.changes}" for at_ms, loaded in records[:HISTORY])

    def plans(self, table: str | None, override: PolicyFile | None, now_ms: int) -> list[Plan]:
        """Every verdict for one table, or all that are maintained."""
        rows = [self._row(table)] if table is not None else list(self._fold.tables().values())
        plans = []
        for row in rows:
            resolved = self._resolved(row, override)
            if resolved is None and table is None:
                continue
            view = self._view(row, now_ms)
            plans.append(plan(view, None if resolved is None else resolved.policy, now_ms))
        return plans

    def plans_under(
        self, files: Sequence[tuple[str, PolicyFile]], table: str | None, now_ms: int
    ) -> dict[str, Plan]:
        """Every verdict under other policies than those in force, by table."""
        rows = [self._row(table)] if table is not None else list(self._fold.tables().values())
        plans = {}
        for row in rows:
            resolved = resolve(row.state.table.name, row.facts.properties, files)
            policy = None if resolved is None else resolved.policy
            plans[row.state.table.name] = plan(self._view(row, now_ms), policy, now_ms)
        return plans

    def _resolved(self, row: TableRow, override: PolicyFile | None) -> Resolved | None:
        if override is None:
            return self._verdicts.policy_of(row)
        name = row.state.table.name
        return resolve(
            name, row.facts.properties, [("--policy", override.model_copy(update={"tables": [name]}))]
        )

    def _view(self, row: TableRow, now_ms: int) -> View:
        uuid = row.state.table.uuid
        flights = tuple(
            Flight(
                op.job_id, op.action, op.partition, op.base_snapshot_id, op.started_at_ms, op.bytes_planned
            )
            for op, _ in self._ledger.unfinished()
            if op.table.uuid == uuid
        )
        everything = {one.key: one.state for one in self._fold.partitions(uuid)}
        return self._verdicts.view(row, flights, now_ms, partitions=everything)

    def resolved(self, table: str, override: PolicyFile | None) -> Resolved | None:
        """The policy of a table that the daemon knows, in force or as a file says; None: it is only observed."""
        return self._resolved(self._row(table), override)

    def history(self, table: str, since_ms: int, now_ms: int, tell: Callable[[int], None]) -> History:
        """What a table went through; `tell` is told how many snapshots were read for it."""
        catalog = IcebergCatalog(connect(self._config.catalog))
        row = self._row(table)
        return read_history(
            self._fold, self._ledger, catalog, row, since_ms=since_ms, now_ms=now_ms, tell=tell
        )

    def assumed(self, table: str, plan_every_ms: int) -> Assumed:
        """What a replay of a table's history takes for granted on this daemon."""
        words = self._fold.words(self._row(table).state.table.uuid)
        return Assumed(
            plan_every_ms=plan_every_ms,
            jobs_at_once=self._config.executors.local.jobs_at_once,
            bytes_per_hour=self._config.budgets.bytes_per_hour,
            writers_announce=bool(words) and all(word.announces for word in words),
        )

    def explain(self, table: str, partition: str | None, now_ms: int) -> Explanation:
        """Each condition for one partition, or for the table's snapshots."""
        row = self._row(table)
        resolved = self._verdicts.policy_of(row) or Resolved(Policy(), {})
        is_maintained = self._verdicts.policy_of(row) is not None
        view = self._view(row, now_ms)
        planned = plan(view, resolved.policy if is_maintained else None, now_ms)
        if partition is None:
            return self._explain_table(row, view, planned, resolved, now_ms)
        decision = self._decision(planned, partition)
        key = decision.partition
        assert key is not None  # noqa: S101 (only the table's own decision has none)
        conditions = (
            *self._coldness(key, view.partitions[key], view.around, resolved, now_ms),
            *self._debt(view.partitions[key], resolved),
        )
        return Explanation(
            table=table,
            subject=decision.label,
            verdict=decision.verdict,
            score=decision.score,
            why=decision.why,
            conditions=conditions,
            next_at=_wake_text(decision.wake, row, now_ms),
            history=self._history(row, key),
        )

    def _coldness(
        self, key: PartitionKey, state: PartitionState, around: Surroundings, resolved: Resolved, now_ms: int
    ) -> list[Condition]:
        fields = {
            "window": "cold.writer_silent_for",
            "boundary": "cold.after",
            "quiet": "cold.quiet_for",
            "lateness": "cold.late_write_risk",
        }
        found = findings(key, state, around, resolved.policy.cold, now_ms)
        return [
            Condition(one.rule, not one.is_hot, one.why, _origin(resolved, fields.get(one.rule, "")))
            for one in found
        ]

    def _debt(self, state: PartitionState, resolved: Resolved) -> list[Condition]:
        return [
            Condition(
                # Each trigger by the name of its option: that is what a person would change.
                one.option.removeprefix("compact."),
                one.score >= 1,
                f"{one.score:.2f} of 1: {one.why}",
                _origin(resolved, one.option),
            )
            for one in debt(state, resolved.policy.compact).triggers
        ]

    def _explain_table(
        self, row: TableRow, view: View, planned: Plan, resolved: Resolved, now_ms: int
    ) -> Explanation:
        oldest = view.snapshots[0] if view.snapshots else None
        age = (
            "no snapshot"
            if oldest is None
            else f"the oldest is {span_text(now_ms - oldest.committed_at_ms)} old"
        )
        expire = resolved.policy.expire
        options = {
            Action.EXPIRE: "expire.at_once",
            Action.REWRITE_MANIFESTS: "manifests.min_count",
            Action.TRIM_METADATA: "metadata.keep_last",
            Action.REMOVE_ORPHANS: "orphans.every",
        }
        conditions = (
            Condition(
                "age",
                oldest is not None and now_ms - oldest.committed_at_ms >= expire.keep_for,
                f"{age}, kept for {span_text(expire.keep_for)}",
                _origin(resolved, "expire.keep_for"),
            ),
            Condition(
                "count",
                view.facts.snapshots > expire.keep_last,
                f"{view.facts.snapshots} snapshots, the last {expire.keep_last} stay",
                _origin(resolved, "expire.keep_last"),
            ),
            *(
                Condition(
                    str(one.action).replace("_", " "),
                    one.score >= 1,
                    f"{one.verdict}, {one.score:.2f} of 1: {one.why}",
                    _origin(resolved, options[one.action]),
                )
                for one in planned.of_table
            ),
        )
        first = max(
            planned.of_table, key=lambda one: (one.verdict is Verdict.DUE, one.action is Action.EXPIRE)
        )
        counts: dict[str, int] = {}
        for decision in planned.of_partitions:
            counts[decision.verdict] = counts.get(decision.verdict, 0) + 1
        subject = "partitions: " + (", ".join(f"{n} {v}" for v, n in sorted(counts.items())) or "none")
        return Explanation(
            table=row.state.table.name,
            subject=subject,
            verdict=first.verdict,
            score=first.score,
            why=first.why,
            conditions=conditions,
            next_at=_wake_text(first.wake, row, now_ms),
            history=self._history(row, None),
        )

    def _history(self, row: TableRow, key: PartitionKey | None) -> tuple[str, ...]:
        action = Action.EXPIRE if key is None else Action.COMPACT
        operations = [
            operation
            for operation in self._ledger.operations(row.state.table.uuid)
            if operation.action is action and operation.partition == key
        ]
        return tuple(
            f"{clock_text(op.started_at_ms)} {op.action} {op.state}"
            f"{': ' + op.outcome_why if op.outcome_why else ''}"
            f"{f' ({op.files_before} → {op.files_after} files)' if key and op.state == 'done' else ''}"
            for op in operations[:HISTORY]
        )

    def state(self, table: str, *, verify: bool) -> StateAnswer:
        """What the daemon believes, and with `verify` how a full scan of the very same head differs."""
        row = self._row(table)
        rows = list(self._fold.partitions(row.state.table.uuid))
        answer = StateAnswer(
            table=table,
            head=row.state.head,
            sequence_number=row.state.sequence_number,
            boundary="unknown" if row.state.boundary_ms is None else clock_text(row.state.boundary_ms),
            partitions=tuple(
                PartitionAnswer(
                    partition=one.key,
                    label=label(one.key, row.facts.fields),
                    data=one.state.data_total,
                    deletes=one.state.deletes_total,
                    verdict="undecided" if one.verdict is None else str(one.verdict),
                )
                for one in rows
            ),
        )
        if not verify:
            return answer
        believed = {one.key: (one.state.data, one.state.deletes) for one in rows}
        return self._verified(row, answer, believed)

    def _verified(
        self, row: TableRow, answer: StateAnswer, believed: Mapping[PartitionKey, object]
    ) -> StateAnswer:
        catalog = IcebergCatalog(connect(self._config.catalog))
        loaded = catalog.at(catalog.load(row.state.table.name), row.state.head)
        scan = catalog.scan(loaded)
        scanned: dict[PartitionKey, object] = {
            key: (one.data, one.deletes) for key, one in scan.partitions.items()
        }
        differences = tuple(
            f"{label(key, row.facts.fields)}: believed {believed.get(key)}, scanned {scanned.get(key)}"
            for key in sorted(believed.keys() | scanned.keys())
            if believed.get(key) != scanned.get(key)
        )
        verdict = "equal to" if not differences else f"{len(differences)} partitions differ from"
        text = f"{verdict} a full scan of snapshot {row.state.head}: {len(scanned)} partitions, {scan.files} files"
        return replace(answer, verified=text, differences=differences)

    def _row(self, table: str) -> TableRow:
        rows = {row.state.table.name: row for row in self._fold.tables().values()}
        if table not in rows:
            known = ", ".join(sorted(rows)) or "none yet"
            raise NoSuchTableError(f"the daemon knows no table {table}; known: {known}")
        return rows[table]

    @staticmethod
    def _decision(planned: Plan, partition: str) -> Decision:
        for decision in planned.of_partitions:
            if partition in (decision.label, decision.partition):
                return decision
        near = [d.label for d in planned.of_partitions if partition in d.label][:5]
        known = ", ".join(near or [d.label for d in planned.of_partitions[:5]]) or "none"
        raise NoSuchTableError(f"{planned.table.name} has no partition {partition}; for instance: {known}")


def _origin(resolved: Resolved, name: str) -> str:
    return resolved.origins.get(name, "built-in") if name else ""


def _wake_text(wake: Wake, row: TableRow, now_ms: int) -> str:
    """When the verdict could change by itself, for people."""
    parts = []
    if wake.at_ms is not None:
        parts.append(f"in {span_text(max(wake.at_ms - now_ms, 0))}")
    if wake.boundary_ms is not None:
        parts.append(f"when the stream reaches {clock_text(wake.boundary_ms)}")
    if wake.commits is not None:
        parts.append(f"after {max(wake.commits - row.state.foreign_commits, 0)} more commits")
    return ", or ".join(parts)
