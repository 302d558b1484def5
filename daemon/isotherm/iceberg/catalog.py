"""The Iceberg catalog behind the port `Catalog`, read only: what is true.

It writes nothing and reads no clock. `values` turns what it loads into our values, `errors` what goes wrong.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog as PyIcebergCatalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.typedef import IcebergBaseModel
from pyiceberg.utils.config import Config
from requests import Response

from isotherm.clients.catalog import open_catalog
from isotherm.clients.manifests.reading import read_manifest_list
from isotherm.clients.metadata_file import Reading, opened
from isotherm.clients.storage import allow_requests, properties_with_retries
from isotherm.contract.events import CommitEvent
from isotherm.contract.identity import PartitionKey, levels_of, name_from
from isotherm.core.clock_check import apart_ms
from isotherm.core.model.changes import Change
from isotherm.iceberg.announced_changes import changes_announced
from isotherm.iceberg.catalog_breaker import Questions
from isotherm.iceberg.confirmed_changes import are_true, changes_confirmed
from isotherm.iceberg.errors import translated
from isotherm.iceberg.full_scan import scanned
from isotherm.iceberg.identify_tables import Look, Unended
from isotherm.iceberg.list_tables import Lister
from isotherm.iceberg.manifests.counts import ENTRY_BY_ENTRY, Counted, Question, census
from isotherm.iceberg.manifests.partition_values import may_hold
from isotherm.iceberg.manifests.reachability import last_sequence_number
from isotherm.iceberg.stopping import IsStopped, never
from isotherm.iceberg.threads import THREADS, Beside, Threads
from isotherm.iceberg.values import (
    ListSize,
    added_manifests,
    event_of,
    loaded_table,
    properties_of_use,
    snapshot_of,
)
from isotherm.runtime.breaker import Breaker
from isotherm.runtime.config import CatalogConfig
from isotherm.runtime.hanging import hanging
from isotherm.service.ports import (
    Count,
    GoOn,
    Lies,
    Listing,
    LoadedTable,
    Looked,
    Scan,
    TableMissing,
    TooLong,
    Unavailable,
    without_end,
)

LOOK_LIMIT_S = 600.0
"""For one name of a look beside the loop."""
LOAD_WITHIN_S = 150.0
"""For one table that the loop loads. It is called stuck after 300 s, and a metadata.json of 64 MiB comes by then on a line
of four megabits. Beside the loop such a file has more time."""
MOST_LISTS = 20_000
"""Tables of which the size of the manifest list is remembered; for one more, the first is read again some day."""
OF_CONFIRMATIONS = ("snapshot_log", "metadata_log", "statistics", "partition_statistics")
"""Lists of a table's metadata that nobody asks for until it is loaded again."""
MILLISECOND = timedelta(milliseconds=1)
RECOUNT_MANIFESTS = 200
"""A sample that needs more manifests than this is not worth a second in which events wait."""


def connect(config: CatalogConfig) -> PyIcebergCatalog:
    """The catalog of a configuration, with time-outs, and with retries for remote files.

    Raises:
        Unavailable: it does not answer, or its properties are not those of a catalog.
    """
    allow_requests()
    path = sqlite_file(config)
    if path is not None and not path.parent.is_dir():
        # SQLite makes a file, but no folder, and does not say which it could not open.
        raise Unavailable(f"catalog {config.name}: there is no folder {path.parent} for its database {path}")
    with translated(f"catalog {config.name}"):
        return open_catalog(config.name, properties_with_retries(config.properties), config.timeout_s)


def connect_to_read(config: CatalogConfig) -> PyIcebergCatalog:
    """The same for whoever only looks: a mistake in an address must not leave a new database behind.

    Raises:
        Unavailable: as above, or SQLite would make the file of this address, because it is not there.
    """
    path = sqlite_file(config)
    if path is not None and not path.exists():
        raise Unavailable(f"there is no file {path}")
    properties = {"init_catalog_tables": "false", **config.properties}
    return connect(config.model_copy(update={"properties": properties}))


def described() -> list[str]:
    """The names of the catalogs that PyIceberg's own file and its environment variables describe."""
    catalogs = Config().config.get("catalog")
    return sorted(catalogs) if isinstance(catalogs, dict) else []


def described_as(name: str) -> dict[str, str]:
    """What they say of one of them: its properties, secrets among them."""
    return {key: str(value) for key, value in (Config().get_catalog_config(name) or {}).items()}


def sqlite_file(config: CatalogConfig) -> Path | None:
    """The file that the address of a catalog on SQLite names, or None where it names none."""
    scheme, _, path = config.properties.get("uri", "").partition(":///")
    is_file = scheme.startswith("sqlite") and path and not path.startswith("file:")
    return Path(path.partition("?")[0]) if is_file else None


def _checked(name: str) -> None:
    if not all(levels := levels_of(name)) or len(levels) == 1:
        raise TableMissing(f"table {name}: no catalog has a table of such a name")


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
            now_ms, took_ms = self._now_ms(), response.elapsed // MILLISECOND
            self.skew_ms = apart_ms(now_ms - took_ms, parsedate_to_datetime(said), now_ms)


class IcebergCatalog:
    """The real catalog behind the port `Catalog`."""

    def __init__(
        self,
        catalog: PyIcebergCatalog,
        now_ms: Callable[[], int] | None = None,
        breaker: Breaker | None = None,
        threads: Threads = THREADS,
    ) -> None:
        self.catalog = catalog
        self._threads = threads
        self._looks: Beside[Looked] = threads.beside(LOOK_LIMIT_S)
        self._look: Look | None = None
        """The one that was begun last."""
        self._breaker = breaker or Breaker()
        self._unended = Unended(self._breaker)
        self._questions = Questions(lambda: self.catalog, self._breaker, threads)
        self._lister = Lister(lambda: self.catalog, self._questions.asked, self._breaker, threads)
        self.clock = _CatalogClock(now_ms)
        if isinstance(catalog, RestCatalog):
            catalog._session.hooks["response"].append(self.clock.hear)  # noqa: SLF001 (0.12 has no way to hook in)
        self._lists: dict[str, ListSize] = {}
        """Of each table, by uuid; those that were dropped are forgotten with time."""
        self._seen_through: dict[str, int] = {}
        """Of each table, by uuid: the highest sequence number that it had. Forgotten as the sizes are."""

    def clock_skew_ms(self) -> int | None:
        """How far this machine's clock is ahead of the catalog's, by its last answer."""
        return self.clock.skew_ms

    def names(self, is_stopped: IsStopped = never) -> Listing:
        """Every table in every namespace. Raises Unavailable where the catalog as a whole does not answer."""
        return self._lister.names(is_stopped)

    def list_beside(self, wait_s: float) -> Listing | None:
        """The same, asked for beside the loop; None where that takes longer than one waits."""
        return self._lister.beside(lambda is_stopped: self.names(is_stopped), wait_s)  # noqa: PLW0108 (as it is then)

    def ask(self) -> None:
        """Whether it answers at all."""
        self._lister.namespaces()

    def load(self, name: str) -> LoadedTable:
        """The table now."""
        _checked(name)
        with self._questions.asked(name), translated(f"table {name}"):
            table, loaded = self._loaded_in_time(name)
            loaded = self._compared(loaded, table)
            if (head := table.current_snapshot()) is not None:
                facts = loaded.facts
                size = ListSize(
                    head.manifest_list,
                    facts.format_version,
                    facts.manifests,
                    facts.metadata_bytes,
                    facts.needless_manifests,
                    facts.has_undivided,
                )
                self._lists[loaded.table.uuid] = size
                if len(self._lists) > MOST_LISTS:
                    self._lists.pop(next(iter(self._lists)))
            return loaded

    def _loaded_in_time(self, name: str) -> tuple[Table, LoadedTable]:
        """A table as the catalog and its files have it, for which the loop waits itself.

        Raises:
            TooLong: a file of it did not come in time.
            TimeoutError: the catalog said nothing for so long.
        """
        reading = Reading()

        def load() -> tuple[Table, LoadedTable] | Exception:
            opened.reading = reading
            try:
                return self._loaded(name)
            except Exception as err:  # noqa: BLE001 (it is raised where it is waited for)
                return err

        try:
            result = self._threads.within(LOAD_WITHIN_S, f"table {name}", load)
        except TimeoutError:
            if not reading.location:
                raise
            kib = reading.size_bytes / 1024
            raise TooLong(
                f"table {name}: the {kib:.0f} KiB of {reading.location} did not come within {LOAD_WITHIN_S:.0f} s, so they "
                f"came more slowly than {kib / LOAD_WITHIN_S:.0f} KiB a second"
            ) from None  # it is no silence of the catalog
        if isinstance(result, Exception):
            raise result
        return result

    def _loaded(self, name: str) -> tuple[Table, LoadedTable]:
        table = self.catalog.load_table(name)
        spelled = name_from(table.name())
        if spelled.casefold() == name.casefold():
            name = spelled  # Glue, Hive and MySQL find a table in any case, and have it in one
        return table, loaded_table(table, name, self._lists.get(str(table.metadata.table_uuid)))

    def _compared(self, loaded: LoadedTable, table: Table) -> LoadedTable:
        """Note how far a table has come, if it is no older version that the catalog shows."""
        uuid, number = loaded.table.uuid, last_sequence_number(table.metadata) or 0
        seen_through = self._seen_through[uuid] = max(self._seen_through.get(uuid, 0), number)
        if len(self._seen_through) > MOST_LISTS:
            self._seen_through.pop(next(iter(self._seen_through)))
        return replace(loaded, seen_through=seen_through)

    def lies(self, name: str) -> Lies:
        """Which table a listed name is, and where it lies, whatever its levels: the catalog alone says what is there.

        It is no matter of the breaker whether that is answered.
        """
        with self._questions.heard_of(name), translated(f"table {name}"):
            table = self.catalog.load_table(name)
            metadata = table.metadata
            # Those of thousands of names are kept, so none of them may be long.
            return Lies(str(metadata.table_uuid), metadata.location, properties_of_use(metadata))

    def lies_in_time(self, name: str) -> Lies:
        """The same, for which the loop waits itself."""
        with translated(f"table {name}"):
            return self._threads.within(LOAD_WITHIN_S, f"table {name}", lambda: self.lies(name))

    def start_looking(self, names: Sequence[str]) -> None:
        """Begin to look at some names, beside the loop."""
        self._go_on_looking(Look(self.lies, self._lister.listed_once(), deque(names), self._unended))

    def _go_on_looking(self, look: Look) -> None:
        self._look = look
        self._looks.start("looking", look.go_on)

    def looked(self) -> Looked | None:
        """What the look came to; where one name hangs, it goes on without it."""
        for _, result in self._looks.ended():
            if isinstance(result, Looked):
                return result
            if self._look is not None:
                self._go_on_looking(self._look.without_first(f"{type(result).__name__}: {result}"))
        return None

    @staticmethod
    def hanging() -> int:
        """How many threads of this process were given up and have not ended."""
        return hanging()

    def wait(self, timeout_s: float) -> None:
        """Return when the look has ended, or the time is over."""
        self._looks.wait(timeout_s)

    @staticmethod
    def at(loaded: LoadedTable, snapshot_id: int | None) -> LoadedTable:
        """The same table as if an earlier snapshot were its head, for a scan of it.

        Raises:
            TableMissing: that snapshot is not in the metadata any more.
        """
        if snapshot_id is not None and snapshot_id not in loaded.parents:
            raise TableMissing(f"snapshot {snapshot_id} of {loaded.table} is not in the metadata (any more)")
        return replace(loaded, head=snapshot_id)

    def changes(
        self, loaded: LoadedTable, snapshot_ids: Sequence[int], go_on: GoOn = without_end
    ) -> Iterator[Change]:
        """What some snapshots did, from the manifests that their manifest lists say they added."""
        return changes_confirmed(loaded, snapshot_ids, self._threads, go_on)

    def event(self, loaded: LoadedTable, snapshot_id: int) -> CommitEvent:
        """The announcement of one snapshot, as its metadata and its manifest list have it."""
        table: Table = loaded.handle
        with translated(f"snapshot {snapshot_id} of {loaded.table}"):
            snapshot = snapshot_of(table, snapshot_id)
            return event_of(loaded.table, snapshot, added_manifests(table.io, snapshot))

    def changes_of(
        self, asked: Sequence[tuple[LoadedTable, CommitEvent]], go_on: GoOn = without_end
    ) -> Sequence[Change | None]:
        """What the manifests of events say, in their order; None for one that says nothing that can be believed."""
        return changes_announced(asked, self._threads, go_on)

    def are_true(
        self, loaded: LoadedTable, changes: Sequence[Change], go_on: GoOn = without_end
    ) -> Sequence[bool]:
        """Of each change that an event brought, whether its snapshot's metadata and manifest list say the same."""
        return are_true(loaded, changes, self._threads, go_on)

    def scan(self, loaded: LoadedTable, go_on: GoOn = without_end) -> Scan:
        """Everything, from all manifests of the head."""
        table: Table = loaded.handle
        if loaded.head is None:
            return Scan({}, None, None, 0, 0)
        with translated(f"the manifests of {loaded.table}"):
            return scanned(table, loaded, go_on)

    @staticmethod
    def light(loaded: LoadedTable) -> LoadedTable:
        """The same table without what only a confirmation needs, such as its snapshots but for the head."""
        table: Table = loaded.handle
        head = table.current_snapshot()
        refs = {name: ref for name, ref in table.metadata.refs.items() if name == MAIN_BRANCH}
        left = {"snapshots": [] if head is None else [head], "refs": refs}
        metadata = table.metadata.model_copy(update=left | {name: [] for name in OF_CONFIRMATIONS})
        handle = Table(table.name(), metadata, table.metadata_location, table.io, table.catalog, table.config)
        kept = {} if head is None else {head.snapshot_id: loaded.snapshots[head.snapshot_id]}
        return replace(loaded, handle=handle, snapshots=kept, parents=dict.fromkeys(kept), astray=())

    @staticmethod
    def kept_bytes(light: LoadedTable) -> int:
        """How large what is left of the metadata of such a table is, as JSON."""
        # Format 3's own method refuses; that of all models writes it.
        return len(IcebergBaseModel.model_dump_json(light.handle.metadata))

    def recount(
        self, loaded: LoadedTable, keys: Collection[PartitionKey], go_on: GoOn = without_end
    ) -> Mapping[PartitionKey, Count] | None:
        """The live files of some partitions at the head, counted again; None where too many manifests may hold them."""
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
            counted = census(table.metadata, table.io, manifests, Question(), ENTRY_BY_ENTRY, go_on=go_on)
            counts = {key: counted.partitions.get(key, Counted()).delta() for key in keys}
            return {key: (count.data, count.deletes) for key, count in counts.items()}
