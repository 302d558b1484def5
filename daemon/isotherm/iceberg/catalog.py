"""The Iceberg catalog behind the port `Catalog`, read only: what is true.

It writes nothing and reads no clock. `values` turns what it loads into our values, `errors` what goes wrong.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from email.utils import parsedate_to_datetime
from typing import Any

from pyiceberg.catalog import Catalog as PyIcebergCatalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import BadRequestError
from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table import Table
from pyiceberg.typedef import Identifier
from requests import Response

from isotherm.contract.events import CommitEvent
from isotherm.contract.identity import PartitionKey
from isotherm.core.model.changes import Change
from isotherm.core.model.files import FileKind
from isotherm.core.paths import normalised
from isotherm.iceberg.catalog_client import open_catalog
from isotherm.iceberg.errors import is_no_answer, translated
from isotherm.iceberg.manifests.counts import ENTRY_BY_ENTRY, Counted, Question, census
from isotherm.iceberg.manifests.live import live_files, may_hold
from isotherm.iceberg.manifests.reading import read_manifest_list
from isotherm.iceberg.scan import scanned
from isotherm.iceberg.storage import REQUESTS_AT_ONCE, allow_requests, properties_with_retries
from isotherm.iceberg.values import (
    ListSize,
    added_manifests,
    change_of,
    deltas_of,
    event_of,
    loaded_table,
    names_of,
    snapshot_of,
    totals_of,
)
from isotherm.runtime.breaker import Breaker
from isotherm.runtime.config import CatalogConfig
from isotherm.service.ports import (
    Count,
    Listing,
    LoadedTable,
    NotAsked,
    Refused,
    Scan,
    TableMissing,
    Unavailable,
)

MAX_READ_BYTES = 64 * 1024 * 1024
"""Of the manifests that one event names: as much as one manifest may have."""
RECOUNT_MANIFESTS = 200
"""A sample that needs more manifests than this is not worth a second in which events wait."""

SILENT_PAUSES_S = 300.0, 3600.0
"""The first pause of a namespace without an answer, and the longest: each question may hold the loop for a time-out."""
SILENT_IN_A_ROW = 3
"""So many namespaces without an answer, one after the other: it is not the namespaces."""


def connect(config: CatalogConfig) -> PyIcebergCatalog:
    """The catalog of a configuration, with time-outs, and with retries for remote files.

    Raises:
        Unavailable: it does not answer, or its properties are not those of a catalog.
    """
    allow_requests()
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

    def __init__(
        self,
        catalog: PyIcebergCatalog,
        now_ms: Callable[[], int] | None = None,
        breaker: Breaker | None = None,
    ) -> None:
        self.catalog = catalog
        self._breaker = breaker or Breaker()
        self.clock = _CatalogClock(now_ms)
        if isinstance(catalog, RestCatalog):
            catalog._session.hooks["response"].append(self.clock.hear)  # noqa: SLF001 (0.12 has no way to hook in)
        self._lists: dict[str, ListSize] = {}
        self._silent: dict[Identifier, tuple[Breaker, str]] = {}
        """Namespaces that did not answer, and why: each has a growing pause of its own."""

    @contextmanager
    def _asked(self) -> Iterator[None]:
        """Ask the catalog, unless it did not answer lately: a round asks for one table after another."""
        left_s = self._breaker.left_s
        if left_s > 0:
            raise NotAsked(f"the catalog did not answer; it is asked again in {left_s:.0f} s")
        try:
            yield
        except Unavailable as err:
            if is_no_answer(err):
                self._breaker.failed()
            raise
        self._breaker.answered()

    def clock_skew_ms(self) -> int | None:
        """How far this machine's clock is ahead of the catalog's, by its last answer."""
        return self.clock.skew_ms

    def names(self) -> Listing:
        """Every table in every namespace; one that refuses, is silent, or is dropped meanwhile, hides no other."""
        waiting = sorted(self._namespaces(), reverse=True)
        seen = set(waiting)
        silent: list[str] = []
        in_a_row = 0
        names: list[str] = []
        unlisted: dict[str, str] = {}
        while waiting:
            namespace = waiting.pop()
            breaker, why = self._silent.get(namespace, (self._breaker.another(*SILENT_PAUSES_S), ""))
            if breaker.left_s > 0:
                unlisted[".".join(namespace)] = why
                silent.append(".".join(namespace))
                continue
            try:
                with translated(f"namespace {'.'.join(namespace)}"):
                    names.extend(".".join(name) for name in self.catalog.list_tables(namespace))
                    below = set(self._below(namespace)) - seen
            except TableMissing:
                self._silent.pop(namespace, None)
                continue  # it was dropped since it was listed
            except Unavailable as err:
                unlisted[".".join(namespace)] = str(err)
                if isinstance(err, Refused):
                    self._silent.pop(namespace, None)
                    continue
                breaker.failed()
                self._silent[namespace] = (breaker, str(err))
                silent.append(".".join(namespace))
                in_a_row += 1
                if in_a_row >= SILENT_IN_A_ROW:
                    raise
                continue
            self._silent.pop(namespace, None)
            in_a_row = 0
            seen |= below
            waiting.extend(sorted(below, reverse=True))
        # What is gone from the catalog is not paused for.
        self._silent = {namespace: known for namespace, known in self._silent.items() if namespace in seen}
        return Listing(sorted(names), unlisted, silent)

    def ask(self) -> None:
        """Whether it answers at all."""
        self._namespaces()

    def _namespaces(self) -> list[Identifier]:
        try:
            with self._asked(), translated("the list of namespaces"):
                return self.catalog.list_namespaces()
        except TableMissing as err:  # a warehouse that is not there, or a wrong path
            raise Unavailable(str(err)) from err

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
        with self._asked(), translated(f"table {name}"):
            table = self.catalog.load_table(name)
            spelled = ".".join(table.name())
            if spelled.casefold() == name.casefold():
                name = spelled  # Glue, Hive and MySQL find a table in any case, and have it in one
            known = self._lists.get(str(table.metadata.table_uuid))
            loaded = loaded_table(table, name, known)
            if (head := table.current_snapshot()) is not None:
                facts = loaded.facts
                size = ListSize(head.manifest_list, facts.manifests, facts.metadata_bytes)
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
            snapshot = snapshot_of(table, snapshot_id)
            manifests = added_manifests(table.io, snapshot)
            return change_of(table, snapshot, manifests)

    def event(self, loaded: LoadedTable, snapshot_id: int) -> CommitEvent:
        """The announcement of one snapshot, as its metadata and its manifest list have it."""
        table: Table = loaded.handle
        with translated(f"snapshot {snapshot_id} of {loaded.table}"):
            snapshot = snapshot_of(table, snapshot_id)
            return event_of(loaded.table, snapshot, added_manifests(table.io, snapshot))

    def change_of(self, loaded: LoadedTable, event: CommitEvent) -> Change | None:
        """What the event's manifests say; None where it does not name them all, or names files of others."""
        table: Table = loaded.handle
        home = normalised(table.metadata.location).rstrip("/") + "/"
        elsewhere = table.metadata.properties.get("write.metadata.path")
        homes = (home, normalised(elsewhere).rstrip("/") + "/") if elsewhere else (home,)
        known_specs = table.metadata.specs()
        paths = {manifest.path for manifest in event.added_manifests}
        size_bytes = sum(manifest.length for manifest in event.added_manifests)
        if not event.added_manifests_complete or len(paths) < len(event.added_manifests):
            return None
        if size_bytes > MAX_READ_BYTES:
            return None  # a short message must not make us read for long; the manifest list is asked in the round
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
            partitions = deltas_of(table, manifests, event.snapshot_id)
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
            manifests=names_of(manifests),
            valid_through_ms=event.valid_through_ms,
            totals=totals_of(event.summary),
        )

    def changes_of(self, asked: Sequence[tuple[LoadedTable, CommitEvent]]) -> Sequence[Change | None]:
        """The same of several events: a store that answers each read after 30 ms answers many at once."""
        if len(asked) < 2:
            return [self.change_of(loaded, event) for loaded, event in asked]
        with ThreadPoolExecutor(min(len(asked), REQUESTS_AT_ONCE), thread_name_prefix="events") as pool:
            return list(pool.map(lambda one: self.change_of(*one), asked))

    def is_true(self, loaded: LoadedTable, change: Change) -> bool:
        """Whether what an event said of a snapshot is what its metadata and its manifest list say."""
        table: Table = loaded.handle
        with translated(f"snapshot {change.snapshot_id} of {loaded.table}"):
            snapshot = snapshot_of(table, change.snapshot_id)
            added = names_of(added_manifests(table.io, snapshot))
            truth = replace(change_of(table, snapshot, ()), manifests=added)
        # A writer's event may leave the summary out; then there were no totals to compare.
        return truth == replace(change, partitions={}, totals=change.totals or truth.totals)

    def scan(self, loaded: LoadedTable) -> Scan:
        """Everything, from all manifests of the head."""
        table: Table = loaded.handle
        if loaded.head is None:
            return Scan({}, None, None, 0, 0)
        with translated(f"the manifests of {loaded.table}"):
            return scanned(table, loaded)

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
                for manifest in read_manifest_list(table.io, snapshot_of(table, loaded.head).manifest_list)
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
            entries = live_files(table.metadata, table.io, snapshot_of(table, loaded.head), partition)
            return sum(entry.kind is FileKind.DATA for entry in entries)
