"""All that the planner may know of one table, put together by whoever asks it.

What is not in a view cannot change a verdict. So `plan`, `explain`, `simulate` and the service cannot disagree.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from isotherm.contract.events import Intent
from isotherm.contract.identity import PartitionKey, TableId
from isotherm.contract.readers import ReadPosition
from isotherm.core.model.holds import Hold, Quarantine
from isotherm.core.model.jobs import Action
from isotherm.core.model.tables import Astray, PartitionField, Snapshot, TableFacts
from isotherm.core.model.windows import Grant
from isotherm.core.model.writers import Word
from isotherm.core.partition_state import PartitionState
from isotherm.core.state import TableState


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the rules look at beside the partition itself."""

    state: TableState
    fields: tuple[PartitionField, ...]
    intents: tuple[Intent, ...] = ()
    """Open ones, their expiry already capped."""
    words: tuple[Word, ...] = ()
    """The newest of each writer, retired ones too."""
    grants: tuple[Grant, ...] = ()
    """The windows of the table that are open."""
    named: tuple[frozenset[str] | None, ...] = field(init=False, compare=False, repr=False)
    """What each intent names, None for all; as sets, because they may name many and each partition is looked up."""
    in_flight: tuple[frozenset[str], ...] = field(init=False, compare=False, repr=False)
    """The same of each word's open window."""

    def __post_init__(self) -> None:
        named = (None if one.partitions is None else frozenset(one.partitions) for one in self.intents)
        object.__setattr__(self, "named", tuple(named))
        object.__setattr__(self, "in_flight", tuple(frozenset(one.window.partitions) for one in self.words))

    def grant_of(self, key: PartitionKey, now_ms: int) -> Grant | None:
        """The open window in which a partition counts as cold, or None."""
        commits = self.state.foreign_commits
        return next((one for one in self.grants if one.covers(key, commits, now_ms)), None)


@dataclass(frozen=True, slots=True)
class Flight:
    """A job that runs."""

    job_id: str
    action: Action
    partition: PartitionKey | None
    base_snapshot_id: int
    started_at_ms: int
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class View:
    """All that the planner may know of one table. `partitions` may be those alone whose verdict could have changed."""

    around: Surroundings
    facts: TableFacts
    partitions: Mapping[PartitionKey, PartitionState]
    snapshots: tuple[Snapshot, ...] | None = None
    """The ancestors of the head that still exist, oldest first, the head last. None where nobody looked this time;
    then nothing is decided of the table as a whole."""
    astray: tuple[Astray, ...] = ()
    """The snapshots that no branch or tag reaches, where somebody looked."""
    flights: tuple[Flight, ...] = ()
    due_since_ms: Mapping[PartitionKey, int] = field(default_factory=dict)
    """Since when those partitions have been due that were so before."""
    quarantined: Mapping[PartitionKey, Quarantine] = field(default_factory=dict)
    setbacks: Mapping[Action, Quarantine] = field(default_factory=dict)
    """The same of actions on the table as a whole."""
    halted: str | None = None
    pause: Hold | None = None
    """A person's wish that the table be left alone; it may be over."""
    deletions_held: str | None = None
    """Why this daemon deletes nothing: what would be deleted is only told. Asked for with `snapshots` only."""
    announced_sequence_number: int | None = None
    """Up to where this table's snapshots have been announced and consumed, or None where nothing was."""
    last_done_ms: Mapping[Action, int] = field(default_factory=dict)
    """When each action on the table as a whole was last done."""
    hour_budget_bytes: int | None = None
    """What isotherm.yaml lets all compactions read in an hour, or None where there is no limit."""
    readers: tuple[ReadPosition, ...] = ()
    """Who has said up to where they have read it. Asked for with `snapshots` only."""
    readers_unknown: str | None = None
    """Why nobody can say now who reads it, or None."""
    cluster_from_bytes: int | None = None
    """From which size on a job runs on a cluster, or None: there is none."""
    outputs: Mapping[PartitionKey, PartitionState] | None = None
    """The partitions of the current spec that are there, of those into which rows of older ones go. None where nobody looked,
    as in a simulation: then nothing is moved."""
    findings: dict[tuple[PartitionKey, int], Any] = field(default_factory=dict, compare=False)
    """What `plan` has found of them by now, for jobs of such sizes; not to be given."""

    @property
    def table(self) -> TableId:
        """The table."""
        return self.around.state.table
