"""What the service needs of whoever changes tables: bind, rewrite, commit, expire, delete."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from isotherm.contract.identity import PartitionKey, TableId
from isotherm.core.deletion import Cause, Mark, Neighbours, Seen, Verdict
from isotherm.core.model.jobs import CompactionJob, Outcome, Rewrite, Swap, Take
from isotherm.core.model.progress import Progress
from isotherm.core.model.refusals import Refusal
from isotherm.core.orphan_findings import Found, Refused
from isotherm.core.policy.sort_text import NONE
from isotherm.service.ports.catalog import GoOn, LoadedTable
from isotherm.service.ports.errors import Unavailable


@dataclass(frozen=True, slots=True)
class Bound:
    """A job that is bound to its files."""

    job: CompactionJob
    live_data_files: int
    """Of the whole partition, with those that the job leaves alone."""


@dataclass(frozen=True, slots=True)
class UnusedSpecs:
    """Partition specs that no manifest has, of some snapshots, and which schemas may go beside them."""

    ids: frozenset[int] = frozenset()
    from_schema: int = 0
    """Schemas from this id on stay: somebody may still write by them."""
    snapshots: frozenset[int] = frozenset()
    """Whose manifest lists were read."""
    why: str = ""
    """Why specs stay that might go if everything could be read."""


@dataclass(frozen=True, slots=True)
class ExpiryReading:
    """What an expiry would leave without a reader, as the table was at one moment."""

    snapshots: tuple[int, ...]
    """The snapshots that may go, oldest first."""
    files: tuple[str, ...]
    """What only they reach."""
    seen: Seen | None
    """How far the table's history went, or None where its format does not tell."""
    refs: tuple[str, ...] = ()
    """Branches and tags that are past their own age: they are dropped, and what they kept goes another time."""
    damage: str = ""
    """Why files stay that would go if everything could be read."""
    unused_specs: UnusedSpecs | None = None
    """None where schemas and specs are left alone (`expire.clean_expired_metadata`)."""


@dataclass(frozen=True, slots=True)
class Expired:
    """What an expiry came to."""

    outcome: Outcome
    lost_refs: tuple[str, ...] | None = ()
    """Branches and tags that were made at the last moment and that the catalog dropped with their snapshots. None where
    nobody can say."""
    schemas: int = 0
    """That nothing used any more, and that are removed."""
    specs: int = 0
    """The same of partition specs."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """Files of one table whose grace is over, and what must be known to judge them."""

    uuid: str
    marks: tuple[Mark, ...]
    expired: Mapping[str, tuple[int, ...]]
    """By job: the snapshots that an expiry took."""
    neighbours: Neighbours
    before_ms: Mapping[Cause, int] = field(default_factory=dict)
    """Of files that were found: only those that were written before this may go, by the store's clock."""
    known_through: int = 0
    """The highest sequence number that the ledger knows of the table, whichever process saw it."""
    home: str | None = None
    """The location that the table was first seen with; None where that is not known."""
    gone: frozenset[str] = frozenset()
    """The uuids of tables that are known to be gone."""
    to_quarantine: bool = False
    """Whether orphans are moved into the quarantine, and not deleted at once."""
    not_over: frozenset[str] = frozenset()
    """Of the files in quarantine those that can still be restored."""
    stays: str = ""
    """Why nothing goes from the quarantine for good; what is needed is put back all the same."""


@dataclass(frozen=True, slots=True)
class Swept:
    """What became of marked files; each is in one of these."""

    uuid: str
    gone: tuple[str, ...] = ()
    kept: Mapping[str, Verdict] = field(default_factory=dict)
    """By path, why."""
    postponed: Mapping[str, str] = field(default_factory=dict)
    """By path, why."""
    moved: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """Into quarantine: by path, where a file lies now, and its size."""
    restored: tuple[str, ...] = ()
    """Files that were in quarantine, and are needed where they lie again."""
    missing: tuple[str, ...] = ()
    """Files that are in quarantine no more: somebody has put them back, or deleted them."""
    not_over: tuple[str, ...] = ()
    """Files that can still be restored."""


@dataclass(frozen=True, slots=True)
class Search:
    """What is looked for in a table's folders, and where."""

    uuid: str
    cause: Cause
    """Old versions of its metadata, or orphans; or nothing but what lies in its quarantine."""
    home: str
    """The location that the table was first seen with."""
    neighbours: Neighbours
    before_ms: int
    """Only what was written before this counts, by the store's clock."""
    keep_last: int = 0
    """So many of the newest old versions stay, with those that the metadata names."""
    seen_through: int = 0
    """The highest sequence number that the table is known to have had."""
    gone: frozenset[str] = frozenset()
    """The uuids of tables that are known to be gone."""
    theirs: frozenset[str] = frozenset()
    """Paths of what was found before, and turned out to be another table's."""
    quarantined: frozenset[str] = frozenset()
    """Places of files in the table's quarantine, as far as is known."""


MayCommit = Callable[[LoadedTable, Sequence[CompactionJob]], Mapping[str, Refusal]]
"""Which of some jobs must not be committed to a table as it is now, by their ids, and why."""


class Maintainer(Protocol):
    """What changes tables: bind, rewrite, commit, expire, delete."""

    def start_binding(
        self,
        loaded: LoadedTable,
        partition: PartitionKey,
        job_id: str,
        label: str,
        take: Take,
        target_bytes: int,
        policy_hash: str,
        why: str,
        *,
        sort: str = NONE,
    ) -> None:
        """Begin to find the files of a partition for a job, beside the loop, whose rows are sorted as `compact.sort` says."""
        ...

    def bound(self) -> Sequence[tuple[str, Bound | Refusal | Unavailable]]:
        """Bindings that ended since the last call, by job id; Unavailable where the files cannot be read now."""
        ...

    def start(self, loaded: LoadedTable, job: CompactionJob) -> None:
        """Begin to rewrite, elsewhere."""
        ...

    def finished(self) -> Sequence[tuple[str, Rewrite | Refusal]]:
        """Rewrites that ended since the last call, by job id; a refusal says why there is none."""
        ...

    def progress(self) -> Mapping[str, Progress]:
        """How far each rewrite is that was started and not yet reported, by job id. Waits for nothing."""
        ...

    def cancel(self, job_id: str) -> None:
        """Stop a binding, a rewrite, a search or the reading for an expiry; it is not reported any more."""
        ...

    def cancel_abandoned(self, job: CompactionJob) -> None:
        """Stop a rewrite that a daemon before this one has begun, and that may run still: a cluster outlives a daemon."""
        ...

    def start_commit(self, swaps: Sequence[Swap]) -> None:
        """Begin to swap the files of some jobs of one table in, beside the loop; one commit at a time."""
        ...

    def committed(
        self, name: str, may_commit: MayCommit, *, others_run: bool = False
    ) -> Sequence[Outcome] | BaseException | None:
        """Go on with the commit for a moment, a short one where `others_run`. Returns what each job came to, or None where it
        is not over.

        `may_commit` is asked last before each request, by this call: which of the jobs must not be committed, and why.
        """
        ...

    def start_rewriting_manifests(self, job: CompactionJob) -> None:
        """Begin to make fewer of a table's manifests, beside the loop; one table at a time."""
        ...

    def manifests_rewritten(self, name: str, may_commit: MayCommit) -> Outcome | BaseException | None:
        """Go on with that for a moment. Returns what it came to, or None where it is not over; `may_commit` as above."""
        ...

    def give_up_manifests(self) -> Sequence[str]:
        """Have that end soon, and send nothing more. Returns the paths of what it may have written, or is about to."""
        ...

    def settled(
        self,
        load: Callable[[str], LoadedTable],
        names: Sequence[str],
        job: CompactionJob,
        asserted_head_id: int | None,
        *,
        may_land: bool,
        go_on: GoOn,
    ) -> Outcome | None:
        """What came of a job, by a look at its table under one of these names. None where nobody can say yet.

        The table is loaded by `load`, which does not ask a catalog that has just not answered. While its request may
        land, a table that does not know the head that it asserts says nothing: a replica that lags shows it so. The
        manifests of the job's partition are read, and `go_on` is called between them.
        """
        ...

    def leftovers(self, loaded: LoadedTable, job: CompactionJob) -> Sequence[str]:
        """The data files that a job has written so far. Raises Unavailable."""
        ...

    def delete_at_once(self, loaded: LoadedTable, paths: Sequence[str]) -> Mapping[str, str]:
        """Delete files of which it was decided that they may go at once; gives those that stay, and why."""
        ...

    def start_reading(
        self, loaded: LoadedTable, job_id: str, snapshots: Sequence[int], *, cleans: bool = False
    ) -> None:
        """Begin to find out what an expiry would leave without a reader, beside the loop.

        `cleans`: also which partition specs nothing uses any more. Then they go once it is done, and such schemas.
        """
        ...

    def read(self) -> Sequence[tuple[str, ExpiryReading | Refusal]]:
        """Readings that ended since the last call, by job id."""
        ...

    def start_expiring(self, table: TableId, reading: ExpiryReading, job_id: str) -> None:
        """Begin to expire snapshots, beside the loop; one expiry at a time."""
        ...

    def expired(
        self, name: str, may_send: Callable[[LoadedTable, bool], Refusal | None]
    ) -> Expired | BaseException | None:
        """Go on with the expiry for a moment. Returns what it came to, or None where it is not over.

        `may_send` is asked before each request, by this call, with the table that it is based on, and whether the snapshots
        are gone, so that only schemas and specs would follow.
        """
        ...

    def is_expiring(self, job_id: str) -> bool:
        """Whether an expiry goes on, also one that was given up: its request may go out yet."""
        ...

    def lost_refs(
        self, job_id: str, loaded: LoadedTable, base: str, taken: Sequence[int]
    ) -> Sequence[str] | None:
        """Branches and tags that a catalog dropped with the snapshots that an expiry took, since that metadata.

        None where nobody can say.

        Raises:
            NotYetKnown: they are looked for beside the loop, in up to ten thousand versions of the table.
        """
        ...

    def start_search(self, loaded: LoadedTable, job_id: str, search: Search) -> None:
        """Begin to look for files that nothing needs, beside the loop; one search at a time."""
        ...

    def searched(self) -> Sequence[tuple[str, Found | Refused]]:
        """Searches that ended since the last call, by job id."""
        ...

    def start_sweep(self, loaded: LoadedTable, sweep: Sweep) -> None:
        """Begin to prove and delete, beside the loop; one sweep of a table at a time."""
        ...

    def swept(self) -> Sequence[Swept]:
        """Sweeps that ended since the last call."""
        ...

    def stop_sweep(self, uuid: str) -> None:
        """End the sweep of a table before its next file; what it did until then is reported by `swept`."""
        ...

    def clock_skew_ms(self, loaded: LoadedTable) -> int | None:
        """How far this machine's clock is ahead of the store's, as a file written now shows.

        Returns None where the store does not tell.
        """
        ...

    def stop(self) -> None:
        """End everything that runs; nothing is reported any more."""
        ...
