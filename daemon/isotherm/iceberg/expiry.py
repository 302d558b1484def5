"""Expiry of snapshots: which files it leaves without a reader, and the commit that takes the snapshots away.

Two steps, since the first may take minutes and a stream commits meanwhile. `read` finds out, from one version of the
table, which files nothing will reach any more. `expire` loads the table again, checks that the same snapshots may
still go, has the files marked, and sends the request at once: what came in between are younger snapshots, and the
proof before each deletion reads those (`deletion`).

Which snapshots may go is the planner's decision. Here it is checked once more against the metadata of the commit: no
ref may name one of them, and each must lie on `main` behind its head, or be reached by no branch or tag at all.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemovePartitionStatisticsUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetPropertiesUpdate,
    TableRequirement,
    TableUpdate,
    ValidatableTableRequirement,
)
from tenacity.nap import sleep

from isotherm.clients.manifests.avro import UnreadableError
from isotherm.core.deletion import is_gc_enabled
from isotherm.core.model.jobs import Outcome, OutcomeKind
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.commit_refusals import is_busy, is_refusal
from isotherm.iceberg.kept_tokens import newest_tokens
from isotherm.iceberg.lost_refs import lost_refs
from isotherm.iceberg.manifests.reachability import last_sequence_number, left_behind, youngest
from isotherm.iceberg.misplaced import misplaced_table
from isotherm.iceberg.refs import MOST_REF_ENDS, needed_until_ms, ref_ends
from isotherm.iceberg.snapshot_log import RemoveWithLog
from isotherm.iceberg.snapshots import astray
from isotherm.iceberg.stopping import IsStopped, never
from isotherm.iceberg.threads import THREADS, Threads
from isotherm.iceberg.whole_history import whole_until_ms
from isotherm.service.ports import Expired, ExpiryReading
from isotherm.service.tables.failing_tables import FATAL

ATTEMPTS = 20
"""Each costs one load and one request; a stream that commits twice a second lets every second one through."""
LONGEST_PAUSE_S = 0.5
SHOWN = 5
"""Names of branches and tags that are told."""


class AssertStillGoing(ValidatableTableRequirement):
    """These snapshots may still go, and `main` has not gone back: a ref or a rollback may come after our look.

    PyIceberg checks it itself where it applies the commit (SQL, Glue, Hive catalogs). A REST catalog knows only the
    requirements of its own specification, and gets `assert-ref-snapshot-id` for the refs that we saw instead.
    """

    type: Literal["isotherm-assert-still-going"] = "isotherm-assert-still-going"
    snapshot_ids: list[int]
    refs: list[str]
    """Branches and tags that are to be dropped: their owner may have made their age longer."""
    head_id: int | None
    at_ms: int

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]
        """Refuse where one of them must stay, or is gone already, or the head that we saw is not in the history."""
        if base_metadata is None:
            raise CommitFailedException("Requirement failed: current table metadata is missing")
        staying = set(self.snapshot_ids) - set(still_going(base_metadata, self.snapshot_ids, self.at_ms))
        if staying:
            raise CommitFailedException(f"Requirement failed: snapshot {min(staying)} must stay, or is gone")
        if young := set(self.refs) - _past_their_age(base_metadata, self.at_ms):
            raise CommitFailedException(f"Requirement failed: {min(young)} is not past its age, or is gone")
        head_id = base_metadata.current_snapshot_id
        if self.head_id not in {head_id, *_behind(base_metadata)}:
            raise CommitFailedException(
                f"Requirement failed: main went back from {self.head_id} to {head_id}"
            )


def read(
    table: Table,
    snapshots: Iterable[int],
    now_ms: int,
    is_stopped: IsStopped = never,
    threads: Threads = THREADS,
) -> ExpiryReading:
    """What an expiry of these snapshots would leave without a reader, as the table is now.

    Snapshots that may not go, or are gone, are left out. Where a snapshot that stays next to them is damaged, nobody can
    say what only they reach: the snapshots go, and their files stay for orphan removal.

    Raises:
        OSError: storage does not answer.
        Stopped: so it was wanted.
    """
    metadata = table.metadata
    going, damage = still_going(metadata, snapshots, now_ms), ""
    over = _past_their_age(metadata, now_ms)
    files: list[str] = []
    try:
        files = left_behind(metadata, table.io, going, is_stopped, threads) if going else []
    except (FileNotFoundError, UnreadableError) as err:
        damage = f"no file is deleted, because a snapshot that stays cannot be read: {err}"
    return ExpiryReading(
        snapshots=going,
        files=tuple(files),
        seen=youngest(metadata, going),
        refs=tuple(name for end in ref_ends(metadata) if (name := end.name) in over)[:MOST_REF_ENDS],
        damage=damage,
    )


def expire(
    catalog: Catalog,
    name: str,
    uuid: str,
    reading: ExpiryReading,
    job_id: str,
    may_send: Callable[[Table], Refusal | None],
    now_ms: int,
    pause: Callable[[float], None] = sleep,
) -> Expired:
    """Expire snapshots in one commit; the newest ingest tokens are kept as table properties by the same commit.

    Never raises for what the world may do.

    Args:
        catalog: PyIceberg's catalog.
        name: the table.
        uuid: the table's; another one under its name is left alone.
        reading: the snapshots that go, and the files that are left without a reader.
        job_id: ours.
        may_send: called before each request with the table that it is based on; says why it must not be sent,
            or None. The files are marked by then.
        now_ms: the time, for what branches keep by age.
        pause: waits so many seconds between two attempts.
    """
    expiry = _Expiry(catalog, name, uuid, reading, job_id, may_send, now_ms, pause)
    try:
        return expiry.run()
    except FATAL:
        raise
    except Exception as err:  # noqa: BLE001 (whatever the world, or a mistake of ours, may do)
        return expiry.unclear(err)


@dataclass
class _Expiry:
    """The attempts of one expiry."""

    catalog: Catalog
    name: str
    uuid: str
    reading: ExpiryReading
    job_id: str
    may_send: Callable[[Table], Refusal | None]
    now_ms: int
    pause: Callable[[float], None]
    base: Table | None = None
    """The version of the table that the last request was based on, or None if none was sent."""
    dropped: tuple[str, ...] = ()
    """The branches and tags that the last request drops."""
    trouble: str = ""
    """Why the last attempt came too late."""

    def run(self) -> Expired:
        """Until it is done or refused."""
        for attempt in range(ATTEMPTS):
            if attempt:
                self.pause(random.uniform(0, min(LONGEST_PAUSE_S, 0.01 * 2**attempt)))  # noqa: S311 (jitter)
            table = self.catalog.load_table(self.name)
            if refusal := self._refusal(table):
                return refusal
            if (against := self.may_send(table)) is not None:
                return self._failed(against)
            over = self._over(table)
            if over and self._over(self.catalog.load_table(self.name)) != over:
                self.trouble = "a branch or a tag that is past its age was changed"
            elif done := self._send(table, over):
                return done
        return self._looked(
            Reason.CONFLICT, f"lost {ATTEMPTS} races against other commits, the last: {self.trouble}"
        )

    def _send(self, table: Table, over: Mapping[str, int]) -> Expired | None:
        """One request; None where another commit was faster."""
        self.base, self.dropped = table, tuple(over)
        try:
            answer = self.catalog.commit_table(
                table,
                _requirements(self.catalog, table, self.going, over, self.now_ms),
                _updates(self.catalog, table, self.going, over),
            )
        except CommitFailedException as err:
            self.trouble = str(err)
            return None
        except Exception as err:
            # A busy catalog has not taken it either. Snapshots can wait for the next expiry.
            if not is_refusal(err) and not is_busy(err):
                raise
            return self._looked(*self._refused(err))
        landed = answer.metadata
        if self._left(landed):
            why = "the catalog said that it is done, and its answer shows it is not"
            return self._looked(Reason.REFUSED, why)
        return self._done(table, landed)

    def _refused(self, err: Exception) -> tuple[Reason, str]:
        """Why the catalog has not taken the request."""
        if isinstance(err, NotImplementedError) and not isinstance(self.catalog, RestCatalog):
            # Where the catalog is only a pointer, PyIceberg writes the metadata itself: not yet of every table.
            return Reason.UNSUPPORTED, f"snapshots of this table cannot be expired yet: {err}"
        return Reason.REFUSED, f"the catalog refused the request: {err}"

    def unclear(self, trouble: Exception) -> Expired:
        """After an error that is no answer: a look shows whether the snapshots are gone."""
        why = f"{type(trouble).__name__}: {trouble}"
        if not self.base:
            return self._failed(Refusal(Reason.CATALOG, why))
        return self._looked(None, why)

    def _looked(self, refused: Reason | None, why: str) -> Expired:
        """What a look at the table says, after an answer that was none, or a refusal of what may be a second copy."""
        with suppress(Exception):
            table = self.catalog.load_table(self.name)
            if str(table.metadata.table_uuid) == self.uuid and not self._left(table.metadata):
                # An expiry cannot be told from another's, nor need it be.
                return self._done(table, table.metadata)
            if refused is not None and not self._is_older(table):
                return self._failed(Refusal(refused, why))
        outcome = Outcome(
            self.job_id,
            OutcomeKind.UNKNOWN,
            Reason.NO_ANSWER,
            f"the catalog did not answer: {why}",
            was_sent=True,
        )
        return Expired(outcome)

    def _is_older(self, table: Table) -> bool:
        """Whether this is the table from before our last request: a replica that lags says nothing of that."""
        return self.base is not None and is_before(table, self.base)

    @property
    def going(self) -> tuple[int, ...]:
        """The snapshots."""
        return self.reading.snapshots

    def _over(self, table: Table) -> dict[str, int]:
        """The branches and tags that are to be dropped and are still past their age, each with its snapshot."""
        over, refs = _past_their_age(table.metadata, self.now_ms), table.metadata.refs
        return {name: refs[name].snapshot_id for name in self.reading.refs if name in over}

    def _left(self, metadata: TableMetadata) -> bool:
        """Whether something that was to go is still there."""
        if {snapshot.snapshot_id for snapshot in metadata.snapshots} & set(self.going):
            return True
        # Only refs were to go: one of them may be a new one of the same name by now.
        return not self.going and bool(set(self.dropped) & set(metadata.refs))

    def _refusal(self, table: Table) -> Expired | None:
        metadata = table.metadata
        if self._is_older(table):
            # Asked for on top of it, a second request would hide how old it is.
            return self._looked(Reason.CONFLICT, "the catalog shows the table as it was before the request")
        if str(metadata.table_uuid) != self.uuid:
            return self._failed(
                Refusal(Reason.GONE, f"{self.name} is another table now: {metadata.table_uuid}")
            )
        if why := misplaced_table(metadata):
            return self._failed(Refusal(Reason.LOCATION, why))
        if not is_gc_enabled(metadata.properties):
            return self._failed(Refusal(Reason.GC_DISABLED, "the table says gc.enabled=false"))
        staying = set(self.going) - set(still_going(metadata, self.going, self.now_ms))
        if staying and self.base and not staying & {one.snapshot_id for one in metadata.snapshots}:
            # They are gone, after a request of ours that was answered otherwise: it has landed.
            return self.unclear(CommitFailedException("a request was refused, and its snapshots are gone"))
        if not self.going and not self._over(table):
            why = "nothing of the plan may go any more"
            return self._looked(Reason.STALE, why) if self.base else self._failed(Refusal(Reason.STALE, why))
        if staying:
            why = f"{len(staying)} of {len(self.going)} snapshots must stay, or are gone, by now"
            return self._failed(Refusal(Reason.STALE, why))
        return None

    def _done(self, table: Table, landed: TableMetadata) -> Expired:
        base = "" if self.base is None else self.base.metadata_location
        lost = lost_refs(self.catalog, table.io, landed, base, self.going)
        why = f"{len(self.going)} snapshots expired, {len(self.reading.files)} files have no reader any more"
        if dropped := [name for name in self.dropped if name not in landed.refs]:
            more = f" and {len(dropped) - SHOWN} more" if len(dropped) > SHOWN else ""
            why += f"; past their age, and dropped: {', '.join(dropped[:SHOWN])}{more}"
        why += f"; {self.reading.damage}" if self.reading.damage else ""
        done = Outcome(self.job_id, OutcomeKind.DONE, Reason.COMMITTED, why, was_sent=True)
        return Expired(done, lost)

    def _failed(self, refusal: Refusal) -> Expired:
        return Expired(replace(Outcome.refused(self.job_id, refusal), was_sent=bool(self.base)))


def is_before(version: Table, other: Table) -> bool:
    """Whether this version of a table came before another one.

    Each commit of rows has a higher sequence number, and each version names the hundred or so before it. The clocks of two
    writers may differ, so their times count only where neither tells.
    """
    number, others = (last_sequence_number(one.metadata) or 0 for one in (version, other))
    if number != others:
        return number < others
    if version.metadata_location == other.metadata_location or _names(version, other):
        return False
    return _names(other, version) or version.metadata.last_updated_ms < other.metadata.last_updated_ms


def _names(version: Table, other: Table) -> bool:
    """Whether a version names the other one among those before it."""
    return any(entry.metadata_file == other.metadata_location for entry in version.metadata.metadata_log)


def still_going(metadata: TableMetadata, snapshots: Iterable[int], now_ms: int) -> tuple[int, ...]:
    """Of the planned ones, those behind the head of `main` that no branch or tag keeps, and those that none reaches."""
    kept, behind = needed_until_ms(metadata), _behind(metadata)
    if whole_until_ms(metadata) > now_ms:  # perhaps only since the plan
        behind.clear()
    behind |= {snapshot.snapshot_id for snapshot in astray(metadata)}
    named = {ref.snapshot_id for ref in metadata.refs.values()}
    return tuple(
        one for one in snapshots if one in behind and one not in named and kept.get(one, 0) <= now_ms
    )


def _past_their_age(metadata: TableMetadata, now_ms: int) -> set[str]:
    """The branches and tags that may be dropped."""
    return {end.name for end in ref_ends(metadata) if end.over_at_ms <= now_ms}


def _behind(metadata: TableMetadata) -> set[int]:
    """The ancestors of the head that the metadata still has, without the head."""
    parents = {snapshot.snapshot_id: snapshot.parent_snapshot_id for snapshot in metadata.snapshots}
    behind: set[int] = set()
    current = parents.get(metadata.current_snapshot_id or -1)
    while current is not None and current in parents and current not in behind:
        behind.add(current)
        current = parents[current]
    return behind


def _requirements(
    catalog: Catalog, table: Table, going: Sequence[int], over: Iterable[str], now_ms: int
) -> tuple[TableRequirement, ...]:
    uuid = AssertTableUUID(uuid=table.metadata.table_uuid)
    if isinstance(catalog, RestCatalog):
        # `main` as well: a rollback to one of them in between would have the catalog drop the branch.
        refs = table.metadata.refs.items()
        seen = (AssertRefSnapshotId(ref=name, **{"snapshot-id": ref.snapshot_id}) for name, ref in refs)
        return (uuid, *seen)
    head_id = table.metadata.current_snapshot_id
    still: Any = AssertStillGoing(snapshot_ids=list(going), refs=list(over), head_id=head_id, at_ms=now_ms)
    return (uuid, still)


def _updates(
    catalog: Catalog, table: Table, going: Sequence[int], over: Iterable[str]
) -> tuple[TableUpdate, ...]:
    # To REST catalogs one snapshot an update: servers on Iceberg's Java library before 1.9 refuse a list.
    is_rest = isinstance(catalog, RestCatalog)
    parts = [[one] for one in going] if is_rest else [list(going)] if going else []
    remove = RemoveSnapshotsUpdate if is_rest else RemoveWithLog
    # Table statistics go with their snapshot by themselves; those of partitions would name its file for ever.
    removals: tuple[TableUpdate, ...] = (
        *(
            RemovePartitionStatisticsUpdate(**{"snapshot-id": statistics.snapshot_id})
            for statistics in table.metadata.partition_statistics
            if statistics.snapshot_id in going
        ),
        *(remove(**{"snapshot-ids": part}) for part in parts),
        *(RemoveSnapshotRefUpdate(**{"ref-name": name}) for name in over),
    )
    tokens = newest_tokens(table.metadata)
    if all(table.metadata.properties.get(name) == token for name, token in tokens.items()):
        return removals
    return (SetPropertiesUpdate(updates=tokens), *removals)
