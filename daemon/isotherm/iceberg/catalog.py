"""The Iceberg catalog and the manifests behind it, read only: what is true.

The one module that turns PyIceberg's tables into our values. It writes nothing; it reads no clock. What does not
answer becomes `Unavailable` (try later), what makes no sense `Unreadable`, and only what the catalog itself says that
it does not have `TableMissing`.
"""

import re
import sqlite3
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Any

import pyarrow as pa
import pydantic
import pyiceberg.exceptions
from pyiceberg.catalog import Catalog as PyIcebergCatalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    BadRequestError,
    NoSuchIdentifierError,
    NoSuchNamespaceError,
    NoSuchTableError,
)
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Snapshot as PyIcebergSnapshot
from pyiceberg.transforms import VoidTransform
from pyiceberg.typedef import Identifier
from requests import Response
from requests.exceptions import RequestException

from isotherm.contract.boundary import MAX_AHEAD_MS
from isotherm.contract.events import MAX_MANIFESTS, AddedManifest, CommitEvent
from isotherm.contract.identity import PartitionKey, TableId
from isotherm.contract.summary import INGEST_VALID_THROUGH, JOB_ID, Origin, origin_of, token_of
from isotherm.core.model.changes import Change, PartitionDelta
from isotherm.core.model.files import FileKind
from isotherm.core.model.tables import PartitionField, Snapshot, TableFacts
from isotherm.core.paths import normalised
from isotherm.core.state import PartitionState, boundary_of_rows
from isotherm.iceberg.catalog_client import concerns_one_thing, open_catalog
from isotherm.iceberg.manifests.counts import ENTRY_BY_ENTRY, Counted, Question, census
from isotherm.iceberg.manifests.live import live_files, may_hold
from isotherm.iceberg.manifests.reading import read_manifest_list
from isotherm.iceberg.storage import properties_with_retries
from isotherm.runtime.config import CatalogConfig
from isotherm.service.ports import (
    Count,
    Fenced,
    Listing,
    LoadedTable,
    Scan,
    TableMissing,
    Unavailable,
    Unreadable,
)

_NUMBER = re.compile(r"-?[0-9]{1,18}")
"""A number in a summary; a longer one fits nowhere, and says nothing."""
RECOUNT_MANIFESTS = 200
"""A sample that needs more manifests than this is not worth a second in which events wait."""
RECENT = 20
"""Snapshots behind the head whose changes a full scan reads too: who wrote where lately, also by removing files."""


def connect(config: CatalogConfig) -> PyIcebergCatalog:
    """The catalog of a configuration, with time-outs, and with retries for remote files.

    Raises:
        Unavailable: it does not answer, or its properties are not those of a catalog.
    """
    with translated(f"catalog {config.name}"):
        return open_catalog(config.name, properties_with_retries(config.properties), config.timeout_s)


class _CatalogClock:
    """What the catalog's answers say about the time; a server's `Date` counts whole seconds."""

    def __init__(self, now_ms: Callable[[], int] | None) -> None:
        self._now_ms = now_ms
        self.skew_ms: int | None = None

    def hear(self, response: Response, *_: Any, **__: Any) -> None:
        """Take in one answer."""
        said = response.headers.get("Date")
        if said is None or self._now_ms is None or response.headers.get("Age", "0") != "0":
            return  # an answer out of a cache has the time at which it was made
        with suppress(ValueError, TypeError):
            told = parsedate_to_datetime(said)
            self.skew_ms = self._now_ms() - int(told.timestamp() * 1000)


class IcebergCatalog:
    """The real catalog behind the port `Catalog`."""

    def __init__(self, catalog: PyIcebergCatalog, now_ms: Callable[[], int] | None = None) -> None:
        self.catalog = catalog
        self.clock = _CatalogClock(now_ms)
        if isinstance(catalog, RestCatalog):
            catalog._session.hooks["response"].append(self.clock.hear)  # noqa: SLF001 (0.12 has no way to hook in)
        self._lists: dict[str, _ListSize] = {}

    def clock_skew_ms(self) -> int | None:
        """How far this machine's clock is ahead of the catalog's, by its last answer."""
        return self.clock.skew_ms

    def names(self) -> Listing:
        """Every table in every namespace; one that refuses, or is dropped meanwhile, hides no other."""
        try:
            with translated("the list of namespaces"):
                waiting = sorted(self.catalog.list_namespaces(), reverse=True)
        except TableMissing as err:  # a warehouse that is not there, or a wrong path
            raise Unavailable(str(err)) from err
        seen = set(waiting)
        names: list[str] = []
        unlisted: dict[str, str] = {}
        while waiting:
            namespace = waiting.pop()
            try:
                with translated(f"namespace {'.'.join(namespace)}"):
                    names.extend(".".join(name) for name in self.catalog.list_tables(namespace))
                    below = set(self._below(namespace)) - seen
            except TableMissing:
                continue  # it was dropped since it was listed
            except Unavailable as err:
                if err.__cause__ is None or not concerns_one_thing(err.__cause__):
                    raise
                unlisted[".".join(namespace)] = str(err)
                continue
            seen |= below
            waiting.extend(sorted(below, reverse=True))
        return Listing(sorted(names), unlisted)

    def _below(self, namespace: Identifier) -> list[Identifier]:
        """The namespaces right below one; none where the catalog has no such thing."""
        try:
            answer = self.catalog.list_namespaces(namespace)
        except (BadRequestError, NotImplementedError):
            return []
        # A server without nested namespaces may leave the question out, and tell all that it has.
        return [one for one in answer if len(one) > len(namespace) and one[: len(namespace)] == namespace]

    def load(self, name: str) -> LoadedTable:
        """The table now."""
        if not all(parts := name.split(".")) or len(parts) == 1:
            raise TableMissing(f"table {name}: no catalog has a table of such a name")
        with translated(f"table {name}"):
            table = self.catalog.load_table(name)
            known = self._lists.get(str(table.metadata.table_uuid))
            loaded = loaded_table(table, name, known)
            if (head := table.current_snapshot()) is not None:
                facts = loaded.facts
                size = _ListSize(head.manifest_list, facts.manifests, facts.metadata_bytes)
                self._lists[loaded.table.uuid] = size
            return loaded

    @staticmethod
    def at(loaded: LoadedTable, snapshot_id: int | None) -> LoadedTable:
        """The same table as if an earlier snapshot were its head, for a scan of it.

        Raises:
            TableMissing: that snapshot is not in the metadata any more.
        """
        if snapshot_id is not None and snapshot_id not in loaded.parents:
            raise TableMissing(f"snapshot {snapshot_id} of {loaded.table} is not in the metadata (any more)")
        return replace(loaded, head=snapshot_id)

    def change(self, loaded: LoadedTable, snapshot_id: int) -> Change:
        """What one snapshot did, from the manifests that its manifest list says it added."""
        table: Table = loaded.handle
        with translated(f"snapshot {snapshot_id} of {loaded.table}"):
            snapshot = _snapshot(table, snapshot_id)
            manifests = _added(table.io, snapshot)
            return _change(table, snapshot, manifests)

    def event(self, loaded: LoadedTable, snapshot_id: int) -> CommitEvent:
        """The announcement of one snapshot, as its metadata and its manifest list have it."""
        table: Table = loaded.handle
        with translated(f"snapshot {snapshot_id} of {loaded.table}"):
            snapshot = _snapshot(table, snapshot_id)
            return _event(loaded.table, snapshot, _added(table.io, snapshot))

    def change_of(self, loaded: LoadedTable, event: CommitEvent) -> Change | None:
        """What the event's manifests say; None where it does not name them all, or names files of others."""
        table: Table = loaded.handle
        home = normalised(table.metadata.location).rstrip("/") + "/"
        elsewhere = table.metadata.properties.get("write.metadata.path")
        homes = (home, normalised(elsewhere).rstrip("/") + "/") if elsewhere else (home,)
        known_specs = table.metadata.specs()
        if not event.added_manifests_complete:
            return None
        for manifest in event.added_manifests:
            path = normalised(manifest.path)
            if not path.startswith(homes) or ".." in path or manifest.spec_id not in known_specs:
                return None
        manifests = [
            ManifestFile.from_args(
                manifest_path=manifest.path,
                manifest_length=manifest.length,
                partition_spec_id=manifest.spec_id,
                content=ManifestContent.DATA if manifest.content == "data" else ManifestContent.DELETES,
                sequence_number=event.sequence_number,
                min_sequence_number=event.sequence_number,
                added_snapshot_id=event.snapshot_id,
            )
            for manifest in event.added_manifests
            if manifest.added_files or manifest.deleted_files
        ]
        try:
            partitions = _deltas(table, manifests, event.snapshot_id)
        except Exception:  # noqa: BLE001 (a file that only an event names may be anything, or nothing)
            return None
        return Change(
            snapshot_id=event.snapshot_id,
            parent_id=event.parent_id,
            sequence_number=event.sequence_number,
            committed_at_ms=event.timestamp_ms,
            operation=event.operation,
            origin=event.origin_kind,
            partitions=partitions,
            manifests=_named(manifests),
            valid_through_ms=event.valid_through_ms,
            totals=_totals(event.summary),
        )

    def is_true(self, loaded: LoadedTable, change: Change) -> bool:
        """Whether what an event said of a snapshot is what its metadata and its manifest list say."""
        table: Table = loaded.handle
        with translated(f"snapshot {change.snapshot_id} of {loaded.table}"):
            snapshot = _snapshot(table, change.snapshot_id)
            added = _named(_added(table.io, snapshot))
            truth = replace(_change(table, snapshot, ()), manifests=added)
        # A writer's event may leave the summary out; then there were no totals to compare.
        return truth == replace(change, partitions={}, totals=change.totals or truth.totals)

    def scan(self, loaded: LoadedTable) -> Scan:
        """Everything, from all manifests of the head."""
        table: Table = loaded.handle
        if loaded.head is None:
            return Scan({}, None, None, 0, 0)
        with translated(f"the manifests of {loaded.table}"):
            return _scan(table, loaded)

    @staticmethod
    def light(loaded: LoadedTable) -> LoadedTable:
        """The same table without what only a confirmation needs: its snapshots but for the head."""
        table: Table = loaded.handle
        head = table.current_snapshot()
        small = {"snapshots": [] if head is None else [head], "snapshot_log": [], "metadata_log": []}
        metadata = table.metadata.model_copy(update=small)
        handle = Table(table.name(), metadata, table.metadata_location, table.io, table.catalog, table.config)
        kept = {} if head is None else {head.snapshot_id: loaded.snapshots[head.snapshot_id]}
        return replace(loaded, handle=handle, snapshots=kept, parents=dict.fromkeys(kept))

    def recount(
        self, loaded: LoadedTable, keys: Collection[PartitionKey]
    ) -> Mapping[PartitionKey, Count] | None:
        """The live files of some partitions at the head, counted anew; None where too many manifests may hold them."""
        table: Table = loaded.handle
        if loaded.head is None:
            return None
        with translated(f"the manifests of {loaded.table}"):
            manifests = [
                manifest
                for manifest in read_manifest_list(table.io, _snapshot(table, loaded.head).manifest_list)
                if any(may_hold(table.metadata, manifest, key) for key in keys)
            ]
            if len(manifests) > RECOUNT_MANIFESTS:
                return None
            # A second opinion: not by the reader that large manifests were first counted with.
            counted = census(table.metadata, table.io, manifests, Question(), ENTRY_BY_ENTRY)
            counts = {key: counted.partitions.get(key, Counted()).delta() for key in keys}
            return {key: (count.data, count.deletes) for key, count in counts.items()}

    def live_files(self, loaded: LoadedTable, partition: PartitionKey) -> int:
        """Data files of one partition at the head, counted anew."""
        table: Table = loaded.handle
        if loaded.head is None:
            return 0
        with translated(f"the manifests of {loaded.table}"):
            entries = live_files(table.metadata, table.io, _snapshot(table, loaded.head), partition)
            return sum(entry.kind is FileKind.DATA for entry in entries)


@dataclass(frozen=True, slots=True)
class _ListSize:
    """What the facts of a table take from its head's manifest list, which need not be read again for it."""

    location: str
    manifests: int
    bytes: int


def loaded_table(table: Table, name: str, known: _ListSize | None = None) -> LoadedTable:
    """PyIceberg's table as ours."""
    metadata = table.metadata
    head = table.current_snapshot()
    pinned = {ref.snapshot_id for name, ref in metadata.refs.items() if name != MAIN_BRANCH}
    snapshots = {
        snapshot.snapshot_id: _known(snapshot, is_pinned=snapshot.snapshot_id in pinned)
        for snapshot in metadata.snapshots
    }
    parents = {snapshot.snapshot_id: snapshot.parent_snapshot_id for snapshot in metadata.snapshots}
    loaded = LoadedTable(
        table=TableId(str(metadata.table_uuid), name),
        facts=_facts(table, _list_size(table, known)),
        head=None if head is None else head.snapshot_id,
        snapshots=snapshots,
        parents=parents,
        handle=table,
    )
    return replace(loaded, facts=replace(loaded.facts, snapshots=len(loaded.ancestors())))


def _list_size(table: Table, known: _ListSize | None) -> _ListSize:
    head = table.current_snapshot()
    if head is None:
        return _ListSize("", 0, 0)
    if known is not None and known.location == head.manifest_list:
        return known
    manifests = read_manifest_list(table.io, head.manifest_list)
    return _ListSize(
        head.manifest_list, len(manifests), sum(manifest.manifest_length for manifest in manifests)
    )


def _facts(table: Table, listed: _ListSize) -> TableFacts:
    metadata = table.metadata
    fields: dict[int, PartitionField] = {}
    for spec in metadata.partition_specs:
        for part in spec.fields:
            if isinstance(part.transform, VoidTransform):
                continue
            source = _source_type(table, part.source_id)
            fields[part.field_id] = PartitionField(part.field_id, part.name, str(part.transform), source)
    return TableFacts(
        has_ours=any(JOB_ID in _summary(snapshot) for snapshot in reversed(metadata.snapshots)),
        location=metadata.location,
        format_version=metadata.format_version,
        fields=tuple(fields[field_id] for field_id in sorted(fields)),
        default_spec_id=metadata.default_spec_id,
        properties=dict(metadata.properties),
        manifests=listed.manifests,
        metadata_bytes=listed.bytes,
        metadata_file_bytes=len(table.io.new_input(table.metadata_location)),
        metadata_versions=len(metadata.metadata_log),
    )


def _source_type(table: Table, source_id: int) -> str:
    """Iceberg's name of a source column's type, also of one that was dropped since."""
    for schema in reversed(table.metadata.schemas):
        try:
            return str(schema.find_type(source_id))
        except ValueError:
            continue
    return "unknown"


def _known(snapshot: PyIcebergSnapshot, *, is_pinned: bool) -> Snapshot:
    return Snapshot(
        snapshot_id=snapshot.snapshot_id,
        sequence_number=snapshot.sequence_number or 0,
        committed_at_ms=snapshot.timestamp_ms,
        token=token_of(_summary(snapshot)),
        is_pinned=is_pinned,
    )


def _summary(snapshot: PyIcebergSnapshot) -> Mapping[str, str]:
    return {} if snapshot.summary is None else snapshot.summary.additional_properties


def _operation(snapshot: PyIcebergSnapshot) -> str:
    return "" if snapshot.summary is None else snapshot.summary.operation.value


def _snapshot(table: Table, snapshot_id: int) -> PyIcebergSnapshot:
    snapshot = table.metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise TableMissing(f"snapshot {snapshot_id} is not in the metadata")
    return snapshot


def _added(io: FileIO, snapshot: PyIcebergSnapshot) -> list[ManifestFile]:
    """The manifests that this snapshot added, without those that only carry files over."""
    return [
        manifest
        for manifest in read_manifest_list(io, snapshot.manifest_list)
        if manifest.added_snapshot_id == snapshot.snapshot_id
        # Unknown counts (version 1 may leave them out) are looked into.
        and (manifest.added_files_count != 0 or manifest.deleted_files_count != 0)
    ]


def _change(table: Table, snapshot: PyIcebergSnapshot, manifests: Iterable[ManifestFile]) -> Change:
    summary = _summary(snapshot)
    manifests = list(manifests)
    return Change(
        snapshot_id=snapshot.snapshot_id,
        parent_id=snapshot.parent_snapshot_id,
        sequence_number=snapshot.sequence_number or 0,
        committed_at_ms=snapshot.timestamp_ms,
        operation=_operation(snapshot),
        origin=origin_of(summary),
        partitions=_deltas(table, manifests, snapshot.snapshot_id),
        manifests=_named(manifests),
        valid_through_ms=_valid_through(summary),
        totals=_totals(summary),
    )


def _event(table: TableId, snapshot: PyIcebergSnapshot, added: Sequence[ManifestFile]) -> CommitEvent:
    summary = _summary(snapshot)
    # Version 1 may leave the counts out, and an event must not guess.
    counted = [m for m in added if None not in {m.added_files_count, m.deleted_files_count}]
    named = counted[:MAX_MANIFESTS]
    return CommitEvent(
        table_uuid=table.uuid,
        table=table.name,
        snapshot_id=snapshot.snapshot_id,
        parent_id=snapshot.parent_snapshot_id,
        sequence_number=snapshot.sequence_number or 0,
        timestamp_ms=snapshot.timestamp_ms,
        operation=_operation(snapshot),
        origin=origin_of(summary).value,
        schema_id=snapshot.schema_id,
        manifest_list=snapshot.manifest_list,
        added_manifests=tuple(
            AddedManifest(
                path=manifest.manifest_path,
                length=manifest.manifest_length,
                spec_id=manifest.partition_spec_id,
                content="deletes" if manifest.content == ManifestContent.DELETES else "data",
                added_files=manifest.added_files_count or 0,
                deleted_files=manifest.deleted_files_count or 0,
            )
            for manifest in named
        ),
        added_manifests_complete=len(named) == len(added),
        summary={name: text for name, text in summary.items() if name.startswith("total-")},
        valid_through_ms=_valid_through(summary),
    )


def _named(manifests: Iterable[ManifestFile]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((manifest.manifest_path, manifest.partition_spec_id) for manifest in manifests))


def _valid_through(summary: Mapping[str, str]) -> int | None:
    text = summary.get(INGEST_VALID_THROUGH, "")
    return int(text) if _NUMBER.fullmatch(text) else None


def _totals(summary: Mapping[str, str]) -> dict[str, int]:
    return {
        name: int(text)
        for name, text in summary.items()
        if name.startswith("total-") and _NUMBER.fullmatch(text)
    }


def _deltas(
    table: Table, manifests: Iterable[ManifestFile], snapshot_id: int
) -> dict[PartitionKey, PartitionDelta]:
    counted = census(table.metadata, table.io, manifests, Question(snapshot_id))
    return {key: partition.delta() for key, partition in counted.partitions.items()}


def _scan(table: Table, loaded: LoadedTable) -> Scan:
    # By hand: PyIceberg looks for a snapshot from the first one on, and logs are long.
    snapshots = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    ancestors = [snapshots[snapshot_id] for snapshot_id in reversed(loaded.ancestors())]
    writes = [
        s
        for s in ancestors
        if origin_of(_summary(s)) is not Origin.MAINTENANCE and _operation(s) != "replace"
    ]
    numbers = {snapshot.snapshot_id: number for number, snapshot in enumerate(writes, start=1)}
    head = ancestors[-1]
    live = census(
        table.metadata,
        table.io,
        read_manifest_list(table.io, head.manifest_list),
        Question(numbers=numbers),
    )
    last = {key: partition.number for key, partition in live.partitions.items()}
    recent = [_change(table, s, _added(table.io, s)) for s in writes[-RECENT:]]
    for change in recent:
        for key in change.partitions:
            last[key] = max(last.get(key, 0), numbers[change.snapshot_id])
    # What only snapshots long gone have written was written before the oldest that is left.
    oldest_ms = ancestors[0].timestamp_ms
    times = [oldest_ms, *(snapshot.timestamp_ms for snapshot in writes)]
    partitions = {}
    for key, partition in live.partitions.items():
        delta = partition.delta()
        partitions[key] = PartitionState(
            data=delta.data,
            deletes=delta.deletes,
            first_write_at_ms=times[last[key]],
            last_write_at_ms=times[last[key]],
            last_write_number=last[key],
        )
    return Scan(
        partitions=partitions,
        head=_change(table, head, ()),
        boundary_ms=_boundary(writes, recent, loaded.facts.fields),
        foreign_commits=len(writes),
        files=live.files,
        read_slowly=live.read_slowly,
    )


def _boundary(
    writes: Sequence[PyIcebergSnapshot], recent: Sequence[Change], fields: tuple[PartitionField, ...]
) -> int | None:
    """The furthest event time that the retained history gives, each commit capped by its own time."""
    reached = [
        (said, snapshot.timestamp_ms)
        for snapshot in writes
        if (said := _valid_through(_summary(snapshot))) is not None
    ]
    if not reached:
        reached = [
            (by_rows, change.committed_at_ms)
            for change in recent
            if (by_rows := boundary_of_rows(change.partitions, fields)) is not None
        ]
    return max((min(at_ms, committed_ms + MAX_AHEAD_MS) for at_ms, committed_ms in reached), default=None)


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Whatever PyIceberg and its clients raise as the three that the service knows.

    Only an answer makes something missing. What we do not understand is there, as far as we know: a table is never
    forgotten because of it. What our own callbacks raise, and our own stores, goes through.
    """
    try:
        yield
    except (TableMissing, Unavailable, Fenced, sqlite3.Error):
        raise
    except (NoSuchTableError, NoSuchNamespaceError, NoSuchIdentifierError) as err:
        if _NOT_THE_CATALOG.match(str(err)):
            raise Unavailable(f"{what}: {_first_line(err)}") from err
        raise TableMissing(f"{what}: the catalog does not have it") from err
    except FileNotFoundError as err:  # the table's own metadata names it
        raise Unreadable(f"{what} cannot be read: {_first_line(err)}") from err
    except (RequestException, OSError) as err:  # some of them are a ValueError too
        raise Unavailable(f"{what}: {_first_line(err)}") from err
    except _NOT_UNDERSTOOD as err:
        raise Unreadable(f"{what} cannot be read: {_first_line(err)}") from err
    except Exception as err:
        raise Unavailable(f"{what}: {_first_line(err)}") from err


_NOT_THE_CATALOG = re.compile(r"RESTError 404: |\w+: RestError: ")
"""How PyIceberg words a 404 that has no error of a catalog in it: a proxy's, or a wrong path."""
_NOT_UNDERSTOOD = (
    pydantic.ValidationError,
    pyiceberg.exceptions.ValidationError,
    pa.ArrowException,
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    RecursionError,
    SystemError,
    TypeError,
    ValueError,
    zlib.error,
)
"""What parsers raise at bytes that are not what they should be."""


def _first_line(err: Any) -> str:
    lines = str(err).strip().splitlines()
    return f"{type(err).__name__}: {lines[0] if lines else ''}"
