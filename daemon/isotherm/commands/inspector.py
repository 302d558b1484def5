"""Answers for people: plans, explanations, states and their verification, from the stores and the catalog.

Reads beside a running daemon and changes nothing. It uses the very planner and rules of the service, so that what it
says is what the service does.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from isotherm.commands.stored_table import StoredTable, stored_table
from isotherm.commands.unknown_table import nearest
from isotherm.core.deletion import Cause
from isotherm.core.model.decisions import Plan
from isotherm.core.model.files import FileKind, FileStats
from isotherm.core.model.jobs import Action
from isotherm.core.partitions import label
from isotherm.core.planner.plan import plan
from isotherm.core.planner.view import Flight, View
from isotherm.core.policy.policy import Policy
from isotherm.core.policy.precedence import PolicyFile, Resolved, resolve
from isotherm.core.units import clock_text, size_text, span_text
from isotherm.runtime.clock import now_ms as wall_clock_ms
from isotherm.runtime.config import IsothermConfig
from isotherm.runtime.text import counted
from isotherm.service.policies.policy_folder import in_force
from isotherm.service.ports import Unavailable, UnknownTable
from isotherm.service.rounds.verdicts import Verdicts
from isotherm.store.fold import Fold, TableRow
from isotherm.store.folder import FOLD, LEDGER
from isotherm.store.ledger import CLOCK, Ledger, halt_of, pause_of
from isotherm.store.ledger.quarantine import Quarantined

if TYPE_CHECKING:
    from isotherm.core.orphan_findings import Found, Refused
    from isotherm.core.replay.assumed import Assumed
    from isotherm.core.replay.history import History
    from isotherm.iceberg.catalog import IcebergCatalog

SOON_MS = 900_000
"""Files are deleted table by table: a quarter of an hour after the grace there is nothing to tell."""
UNKNOWN = "unknown"
"""How far the stream has come, where nothing says it."""
HISTORY = 5
"""Operations shown with an explanation."""


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
    reads_per_day: float | None
    """How often engines have reported that it is read, or None where none did."""
    verified: str = ""
    differences: tuple[str, ...] = ()


Held = tuple[Mapping[int, FileStats], Mapping[FileKind, FileStats]]
"""The files of a partition: data by size class, deletes by kind."""


def held_text(held: Held | None) -> str:
    """The files of a partition, of each kind: `data: 2 files, 4 rows, 2.6 KiB`."""
    data, deletes = ({}, {}) if held is None else held
    kinds = [(FileKind.DATA, list(data.values())), *((kind, [one]) for kind, one in deletes.items())]
    said = [
        f"{kind.replace('_', ' ')}: {counted(sum(one.files for one in stats), 'file')}, "
        f"{counted(sum(one.rows for one in stats), 'row')}, {size_text(sum(one.bytes for one in stats))}"
        for kind, stats in kinds
        if stats
    ]
    return "; ".join(said) or "no files"


def difference_text(believed: Held | None, scanned: Held | None) -> str:
    """How the files of a partition differ from what a scan has found."""
    one, other = held_text(believed), held_text(scanned)
    sizes = " of other sizes" if one == other else ""
    return f"the daemon believes {one}; the scan found {other}{sizes}"


class Inspector:
    """Answers from the stores of a daemon, which may be running."""

    def __init__(self, config: IsothermConfig) -> None:
        """Open the stores read-only.

        Raises:
            StoreError: there is no store at the configured place: the daemon has never run here.
        """
        self._config = config
        self._fold = Fold(config.state.path / FOLD, read_only=True)
        self.ledger = Ledger(config.state.path / LEDGER, read_only=True)
        self.policies = in_force(config.policies, self.ledger.policies())
        self.verdicts = Verdicts(
            self._fold,
            self.ledger,
            self.policies,
            wall_clock_ms,
            config.budgets.bytes_per_hour,
            self._deletions_held,
            config.executors.cluster_from_bytes,
        )

    def policy(self, table: str) -> Resolved | None:
        """A table's policy with origins; also of a table that the daemon has not seen yet."""
        rows = {row.state.table.name: row for row in self._fold.tables().values()}
        if table in rows:
            return self.verdicts.policy_of(rows[table])
        return self.policies.resolve(table, {})

    def policy_history(self, table: str) -> tuple[str, ...]:
        """When the table last came under another policy, and what had changed; newest first."""
        records = [
            (at_ms, loaded) for at_ms, loaded in self.ledger.reloads() if table in loaded.tables.split("; ")
        ]
        return tuple(f"{clock_text(at_ms)} {loaded.changes}" for at_ms, loaded in records[:HISTORY])

    def plans(self, table: str | None, override: PolicyFile | None, now_ms: int) -> list[Plan]:
        """Every verdict for one table, or all that are maintained."""
        rows = [self.row(table)] if table is not None else list(self._fold.tables().values())
        plans = []
        for row in rows:
            resolved = self._resolved(row, override)
            if resolved is None and table is None:
                continue
            view = self.view(row)
            plans.append(plan(view, None if resolved is None else resolved.policy, now_ms))
        return plans

    def troubles(self, table: str | None) -> dict[str, str]:
        """Why looks at tables failed in the last round, of one table or of all that are maintained, by name."""
        found = self._fold.troubles()
        wanted = (
            found.keys() & {table} if table else {name for name in found if self.policies.has_policy(name)}
        )
        return {name: found[name].text for name in sorted(wanted)}

    def names(self) -> set[str]:
        """The names of the tables that were looked at."""
        return set(self._fold.names().values())

    def plans_under(
        self, files: Sequence[tuple[str, PolicyFile]], table: str | None, now_ms: int
    ) -> dict[str, Plan]:
        """Every verdict under other policies than those in force, by table."""
        rows = [self.row(table)] if table is not None else list(self._fold.tables().values())
        plans = {}
        for row in rows:
            resolved = resolve(row.state.table.name, row.facts.properties, files)
            policy = None if resolved is None else resolved.policy
            plans[row.state.table.name] = plan(self.view(row), policy, now_ms)
        return plans

    def _resolved(self, row: TableRow, override: PolicyFile | None) -> Resolved | None:
        if override is None:
            return self.verdicts.policy_of(row)
        name = row.state.table.name
        return resolve(
            name, row.facts.properties, [("--policy", override.model_copy(update={"tables": [name]}))]
        )

    def view(self, row: TableRow) -> View:
        """Everything that the planner may know of a table now."""
        uuid = row.state.table.uuid
        flights = tuple(
            Flight(
                op.job_id, op.action, op.partition, op.base_snapshot_id, op.started_at_ms, op.bytes_planned
            )
            for op, _ in self.ledger.unfinished(uuid)
        )
        everything = {one.key: one.state for one in self._fold.partitions(uuid)}
        return self.verdicts.view(row, flights, partitions=everything)

    def others_due(self, uuid: str) -> int:
        """How many other tables have something that is due."""
        return len(self._fold.with_due() - {uuid})

    def _deletions_held(self) -> str | None:
        """Why nothing of any table is deleted, as the daemon has it."""
        return self.ledger.deletions_held() or self.ledger.obstacles().get(CLOCK)

    def waiting_files(self, uuid: str, now_ms: int) -> str | None:
        """Why files of a table that should be gone by now are still there, or None where there are no such files."""
        overdue = self.ledger.overdue(uuid, now_ms)
        if overdue is None:
            return None
        said = [
            *self.left_alone(uuid, now_ms),
            self._not_removed(uuid),
            overdue.why,
            *self.ledger.obstacles().values(),
        ]
        whys = "; ".join(dict.fromkeys(why for why in said if why))
        late_ms = now_ms - overdue.due_at_ms
        if not whys and late_ms < SOON_MS:
            return None
        whys = whys or f"the daemon has not come to them for {span_text(late_ms)}"
        return f"{counted(overdue.files, 'file')} should be deleted by now: {whys}"

    def left_alone(self, uuid: str, now_ms: int) -> list[str]:
        """Why the daemon neither deletes files of a table nor puts any back, as far as the ledger says."""
        holds = self.ledger.holds(uuid)
        halt, pause = halt_of(holds), pause_of(holds)
        said = [
            None if halt is None else f"the table is halted: {halt}",
            f"paused: {pause.why}" if pause is not None and pause.holds(now_ms) else None,
            self._deletions_held(),
        ]
        return [why for why in said if why]

    def not_put_back(self, uuid: str, now_ms: int) -> str | None:
        """Why the daemon puts nothing back from a table's quarantine, after *nobody puts them back*; None where it does."""
        row = self._fold.table(uuid)
        resolved = None if row is None else self.verdicts.policy_of(row)
        if resolved is None:
            return ", because no policy maintains the table"
        if not resolved.looks_for_orphans:
            return ", because the policy says orphans.mode: off"
        left_alone = self.left_alone(uuid, now_ms)
        return f" until that is over: {'; '.join(left_alone)}" if left_alone else None

    def _not_removed(self, uuid: str) -> str | None:
        """Why orphans stay that wait already, or are in quarantine, or None where they do not."""
        row = self._fold.table(uuid)
        resolved = None if row is None else self.verdicts.policy_of(row)
        if resolved is None or resolved.policy.orphans.mode.takes_away:
            return None
        waiting = sum(self.ledger.waiting_for(uuid, cause)[0] for cause in (Cause.ORPHAN, Cause.QUARANTINED))
        return f"the policy says orphans.mode: {resolved.policy.orphans.mode}" if waiting else None

    def unwatched(self, uuid: str) -> str | None:
        """What nobody looks at in a table's quarantine, or None where there is nothing, or the daemon looks."""
        row = self._fold.table(uuid)
        resolved = None if row is None else self.verdicts.policy_of(row)
        files, _ = self.ledger.waiting_for(uuid, Cause.QUARANTINED)
        if row is None or resolved is None or not files or resolved.looks_for_orphans:
            return None
        return (
            f"{counted(files, 'file')} in quarantine: nobody looks whether the table needs one again (orphans.mode: off); "
            f"`isotherm orphans {row.state.table.name}` does"
        )

    def resolved(self, table: str, override: PolicyFile | None) -> Resolved | None:
        """The policy of a table that the daemon knows, in force or as a file says.

        Returns None where no policy matches, and the table is left alone.
        """
        return self._resolved(self.row(table), override)

    def history(self, table: str, since_ms: int, now_ms: int, tell: Callable[[int], None]) -> "History":
        """What a table went through; `tell` is told how many snapshots were read for it."""
        from isotherm.commands.table_history import read_history

        catalog = self._catalog()
        row = self.row(table)
        return read_history(
            self._fold, self.ledger, catalog, row, since_ms=since_ms, now_ms=now_ms, tell=tell
        )

    def assumed(self, table: str, plan_every_ms: int) -> "Assumed":
        """What a replay of a table's history takes for granted on this daemon."""
        from isotherm.core.replay.assumed import Assumed

        words = self._fold.words(self.row(table).state.table.uuid)
        return Assumed(
            plan_every_ms=plan_every_ms,
            jobs_at_once=self._config.executors.jobs_at_once,
            bytes_per_hour=self._config.budgets.bytes_per_hour,
            writers_announce=bool(words) and all(word.announces for word in words),
        )

    def state(self, table: str) -> tuple[StoredTable, StateAnswer]:
        """What the daemon believes, as it is kept and as it is shown."""
        stored = stored_table(self._fold, self.row(table))
        row = stored.row
        shown = StateAnswer(
            table=table,
            head=row.state.head,
            sequence_number=row.state.sequence_number,
            boundary=UNKNOWN if row.state.boundary_ms is None else clock_text(row.state.boundary_ms),
            partitions=tuple(
                PartitionAnswer(
                    partition=one.key,
                    label=label(one.key, row.facts.fields),
                    data=one.state.data_total,
                    deletes=one.state.deletes_total,
                    verdict="undecided" if one.verdict is None else str(one.verdict),
                )
                for one in stored.partitions
            ),
            reads_per_day=self.verdicts.reads_per_day(row.state.table.uuid),
        )
        return stored, shown

    def compared(self, stored: StoredTable, shown: StateAnswer) -> StateAnswer:
        """How a full scan of the very same head differs from what the daemon believes."""
        catalog, row = self._catalog(), stored.row
        scan = catalog.scan(catalog.at(catalog.load(row.state.table.name), row.state.head))
        kept = {one.key: (one.state.data, one.state.deletes) for one in stored.partitions}
        scanned = {key: (one.data, one.deletes) for key, one in scan.partitions.items()}
        differences = tuple(
            f"{label(key, row.facts.fields)}: {difference_text(kept.get(key), scanned.get(key))}"
            for key in sorted(kept.keys() | scanned.keys())
            if kept.get(key) != scanned.get(key)
        )
        count = len(differences)
        differ = f"{counted(count, 'partition')} {'differs' if count == 1 else 'differ'} from"
        verdict = differ if count else "equal to"
        text = f"{verdict} a full scan of snapshot {row.state.head}: {counted(len(scanned), 'partition')}, {counted(scan.files, 'file')}"
        return replace(shown, verified=text, differences=differences)

    def unneeded(self, table: str, action: Action, now_ms: int) -> tuple["Found | Refused", Policy, str]:
        """What nothing needs in a table's folders, as a search of the daemon's would find it now, by which policy, and where.

        Raises:
            UnknownTable: no daemon maintains such a table here, or none has seen yet where it lies.
        """
        from isotherm.iceberg.orphan_search import find
        from isotherm.service.jobs.folder_searches import search_of

        row = self.row(table)
        resolved = self.verdicts.policy_of(row)
        policy = Policy() if resolved is None else resolved.policy
        loaded = self._catalog().load(table)
        search = search_of(self.ledger, loaded, action, policy, self._config.deletions.also_under, now_ms)
        if search is None:
            raise UnknownTable(f"no daemon has seen yet where table {table} lies")
        if action is Action.REMOVE_ORPHANS:
            search = replace(search, quarantined=frozenset(self.files_in_quarantine(table)))
        return find(loaded.handle, search), policy, search.home

    def waiting_for(self, table: str, cause: Cause) -> tuple[int, int | None]:
        """How many files of a table the daemon has marked for a cause, and when the first of them may go."""
        return self.ledger.waiting_for(self.row(table).state.table.uuid, cause)

    def files_in_quarantine(self, table: str) -> dict[str, Quarantined]:
        """What the daemon knows of a table's quarantine, by the places of the files."""
        return {one.place: one for one in self.ledger.files_in_quarantine(self.row(table).state.table.uuid)}

    def _catalog(self) -> "IcebergCatalog":
        # PyIceberg, Arrow and DataFusion take seconds to import, and most answers need none of them.
        from isotherm.iceberg.catalog import IcebergCatalog, connect_to_read

        return IcebergCatalog(connect_to_read(self._config.catalog))

    def row(self, table: str) -> TableRow:
        """What the daemon knows of a table. Raises UnknownTable; Unavailable: no look at it has gone well yet."""
        rows = {row.state.table.name: row for row in self._fold.tables().values()}
        if table not in rows and (trouble := self._fold.troubles().get(table)) is not None:
            raise Unavailable(f"nothing is known of {table} yet: {trouble.text}")
        if table not in rows:
            raise UnknownTable(f"the daemon knows no table {table}; it knows: {nearest(table, rows)}")
        return rows[table]
