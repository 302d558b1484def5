"""The commit that removes schemas and partition specs which nothing uses any more, once an expiry is done.

It is a commit of its own, so that an expiry cannot fail by it: older servers of REST know no such request. It is
rare: a schema or a spec is replaced now and then, and removed once. Whatever goes wrong here, they stay, and the next
expiry tries again. No file is deleted for it, so it needs no marks and no grace.

The lists of all snapshots were read before (`unused_metadata`); those of snapshots that came since are read here. What
the catalog is asked to refuse is any snapshot after that. A REST catalog can be asked by its refs alone, so one that is
staged in the same moment is not seen; nor does any catalog of REST refuse the commit of a writer who began before ours.
Either breaks a table only where a writer still writes by a spec that no snapshot of the table has.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    AssertCurrentSchemaId,
    AssertDefaultSpecId,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemovePartitionSpecsUpdate,
    RemoveSchemasUpdate,
    TableRequirement,
    TableUpdate,
    ValidatableTableRequirement,
    _apply_table_update,
)

from isotherm.core.model.jobs import OutcomeKind
from isotherm.core.model.refusals import Refusal
from isotherm.iceberg import expiry
from isotherm.iceberg.misplaced import misplaced_table
from isotherm.iceberg.snapshot_log import next_ms
from isotherm.iceberg.stopping import IsStopped, never
from isotherm.iceberg.threads import THREADS, Threads
from isotherm.iceberg.unused_metadata import replaced_specs, unused_schemas, unused_specs, without_used
from isotherm.service.ports import Expired, ExpiryReading, UnusedSpecs
from isotherm.service.tables.failing_tables import FATAL

ATTEMPTS = 5
"""A stream that commits twice a second lets every second one through."""
MOST_NEW = 100
"""Manifest lists that are read between the catalog's answer and ours: of more new snapshots the specs stay."""
NONE: frozenset[int] = frozenset()


class RemoveSchemas(RemoveSchemasUpdate):
    """Schemas go, at the table's own time (`snapshot_log`). Where PyIceberg itself applies the commit."""


class RemoveSpecs(RemovePartitionSpecsUpdate):
    """The same of partition specs."""


@_apply_table_update.register(RemoveSchemas)
@_apply_table_update.register(RemoveSpecs)
def removed_in_time(
    update: RemoveSchemas | RemoveSpecs, base_metadata: TableMetadata, context: Any
) -> TableMetadata:
    """The metadata without these."""
    plain = RemoveSchemasUpdate if isinstance(update, RemoveSchemas) else RemovePartitionSpecsUpdate
    removed: TableMetadata = _apply_table_update.dispatch(plain)(update, base_metadata, context)
    return removed.model_copy(update={"last_updated_ms": next_ms(base_metadata)})


class AssertStillUnused(ValidatableTableRequirement):
    """These may still go: no snapshot came since, and nobody has made one of them the current one.

    PyIceberg checks it itself where it applies the commit (SQL, Glue, Hive catalogs).
    """

    type: Literal["isotherm-assert-still-unused"] = "isotherm-assert-still-unused"
    snapshot_ids: list[int]
    schema_ids: list[int]
    spec_ids: list[int]

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]
        """Refuse where something has come that may use one of them, or one is gone already."""
        if base_metadata is None:
            raise CommitFailedException("Requirement failed: current table metadata is missing")
        if came := {one.snapshot_id for one in base_metadata.snapshots} - set(self.snapshot_ids):
            raise CommitFailedException(f"Requirement failed: snapshot {min(came)} has come")
        behind = max(self.schema_ids, default=0) + 1
        if used := set(self.schema_ids) - unused_schemas(base_metadata, behind):
            raise CommitFailedException(f"Requirement failed: schema {min(used)} is in use, or gone")
        if used := set(self.spec_ids) - replaced_specs(base_metadata):
            raise CommitFailedException(f"Requirement failed: spec {min(used)} is in use, or gone")


@dataclass(frozen=True, slots=True)
class _Going:
    """What goes by one commit."""

    schemas: frozenset[int] = NONE
    specs: frozenset[int] = NONE

    def __bool__(self) -> bool:
        return bool(self.schemas or self.specs)

    def left(self, metadata: TableMetadata) -> bool:
        """Whether something of it is still there."""
        specs, schemas = metadata.partition_specs, metadata.schemas
        return bool(self.specs & {one.spec_id for one in specs}) or bool(
            self.schemas & {one.schema_id for one in schemas}
        )

    def __str__(self) -> str:
        return f"{len(self.schemas)} schemas and {len(self.specs)} partition specs that nothing used"


def read_with_unused(
    table: Table, snapshots: Iterable[int], now_ms: int, is_stopped: IsStopped, threads: Threads
) -> ExpiryReading:
    """What an expiry reads (`expiry.read`), and the specs that nothing would use after it."""
    reading = expiry.read(table, snapshots, now_ms, is_stopped, threads)
    unused = unused_specs(table.metadata, table.io, reading.snapshots, is_stopped, threads)
    return replace(reading, unused_specs=unused)


def with_cleaned(
    expired: Expired,
    catalog: Catalog,
    name: str,
    uuid: str,
    unused: UnusedSpecs | None,
    may_send: Callable[[Table], Refusal | None],
    pause: Callable[[float], None],
    threads: Threads = THREADS,
) -> Expired:
    """What an expiry came to, with the schemas and specs that are removed after it.

    Never raises for what the world may do. Nothing is removed after an expiry of which it is not known that it went well.

    Args:
        expired: what it came to.
        catalog: PyIceberg's catalog.
        name: the table.
        uuid: the table's; another one under its name is left alone.
        unused: the specs that no manifest has; None where nothing is to be removed.
        may_send: called before each request with the table that it is based on; says why it must not be sent, or None.
        pause: waits so many seconds between two attempts.
        threads: how files are read together.
    """
    if unused is None or expired.outcome.kind is not OutcomeKind.DONE or expired.lost_refs:
        return expired
    if expired.lost_refs is None:
        why = f"{expired.outcome.why}; schemas and partition specs stay: nobody can say whether a tag came meanwhile"
        return replace(expired, outcome=replace(expired.outcome, why=why))
    cleaning = _Cleaning(catalog, name, uuid, unused, may_send, pause, threads)
    try:
        gone, why = cleaning.run()
    except FATAL:
        raise
    except Exception as err:  # noqa: BLE001 (whatever the world, or a mistake of ours, may do)
        gone, why = _Going(), f"schemas and partition specs stay: {type(err).__name__}: {err}"
    whys = filter(None, (expired.outcome.why, why, cleaning.unused.why))
    outcome = replace(expired.outcome, why="; ".join(whys))
    return replace(expired, outcome=outcome, schemas=len(gone.schemas), specs=len(gone.specs))


@dataclass
class _Cleaning:
    """The attempts of one commit."""

    catalog: Catalog
    name: str
    uuid: str
    unused: UnusedSpecs
    """By all snapshots that were seen so far."""
    may_send: Callable[[Table], Refusal | None]
    pause: Callable[[float], None]
    threads: Threads

    def run(self) -> tuple[_Going, str]:
        """What is gone, and a sentence about it, or about why nothing is."""
        trouble = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                self.pause(0.05 * 2**attempt)
            table = self.catalog.load_table(self.name)
            if not self._is_ours(table.metadata):
                return (
                    _Going(),
                    "schemas and partition specs stay: it is another table now, or lies elsewhere",
                )
            self._look_at_new(table)
            going = _Going(unused_schemas(table.metadata, self.unused.from_schema), self.unused.ids)
            if not going:
                return going, ""
            if (against := self.may_send(table)) is not None:
                return _Going(), f"{going} stay: {against.why}"
            try:
                return self._sent(table, going)
            except CommitFailedException as err:
                trouble = str(err)
        return _Going(), f"unused schemas and specs stay: lost {ATTEMPTS} races, the last: {trouble}"

    def _sent(self, table: Table, going: _Going) -> tuple[_Going, str]:
        """The same of one request. Raises CommitFailedException: another commit was faster."""
        asserted, updates = _requirements(self.catalog, table, going), _updates(self.catalog, going)
        try:
            now = self.catalog.commit_table(table, asserted, updates).metadata
            trouble = "though the catalog said that it has removed them"
        except CommitFailedException:
            raise
        except Exception as err:  # noqa: BLE001 (whatever the world may do)
            # Perhaps it has landed: a look at the table is all that it takes.
            now, trouble = table.metadata, f"as far as is known: {type(err).__name__}: {err}"
            with suppress(Exception):
                now = self.catalog.load_table(self.name).metadata
        if self._is_ours(now) and not going.left(now):
            return going, f"removed: {going}"
        return _Going(), f"{going} stay, {trouble}"

    def _is_ours(self, metadata: TableMetadata) -> bool:
        return str(metadata.table_uuid) == self.uuid and not misplaced_table(metadata)

    def _look_at_new(self, table: Table) -> None:
        """Leave out the specs that are in use by a snapshot which has come since, or that are the default one by now."""
        metadata = table.metadata
        came = [one for one in metadata.snapshots if one.snapshot_id not in self.unused.snapshots]
        ids, why = self.unused.ids & replaced_specs(metadata), self.unused.why
        try:
            ids = without_used(ids, table.io, came[: MOST_NEW + 1], never, self.threads)
            if ids and len(came) > MOST_NEW:
                ids, why = NONE, f"specs stay, because more than {MOST_NEW} snapshots came meanwhile"
        except Exception as err:  # noqa: BLE001 (whatever a store may say: schemas go all the same)
            ids, why = NONE, f"specs stay, because a manifest list cannot be read: {err}"
        seen = self.unused.snapshots | {one.snapshot_id for one in came}
        self.unused = UnusedSpecs(ids, self.unused.from_schema, seen, why)


def _requirements(catalog: Catalog, table: Table, going: _Going) -> tuple[TableRequirement, ...]:
    metadata = table.metadata
    asserted: list[Any] = [
        AssertTableUUID(uuid=metadata.table_uuid),
        AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),
        AssertDefaultSpecId(default_spec_id=metadata.default_spec_id),
    ]
    if isinstance(catalog, RestCatalog):
        refs = metadata.refs.items()
        asserted += [AssertRefSnapshotId(ref=name, snapshot_id=ref.snapshot_id) for name, ref in refs]
    else:
        asserted.append(
            AssertStillUnused(
                snapshot_ids=[one.snapshot_id for one in metadata.snapshots],
                schema_ids=sorted(going.schemas),
                spec_ids=sorted(going.specs),
            )
        )
    return tuple(asserted)


def _updates(catalog: Catalog, going: _Going) -> tuple[TableUpdate, ...]:
    is_rest = isinstance(catalog, RestCatalog)
    schemas, specs = (
        (RemoveSchemasUpdate, RemovePartitionSpecsUpdate) if is_rest else (RemoveSchemas, RemoveSpecs)
    )
    return (
        *([specs(spec_ids=sorted(going.specs))] if going.specs else []),
        *([schemas(schema_ids=sorted(going.schemas))] if going.schemas else []),
    )
