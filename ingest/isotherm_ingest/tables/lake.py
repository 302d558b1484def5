"""The tables as the catalog has them: what is loaded before a write, and how a table is made or gains a column.

Metadata is read through PyIceberg, in the driver, again for each write: no cache stands between a vector and its use.
Tables are made and altered through Spark, which writes them. Nothing here writes a row.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import BadRequestError, ForbiddenError, NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.typedef import Identifier
from pyiceberg.types import IntegerType, UUIDType

from isotherm.clients.catalog import open_catalog
from isotherm.clients.storage import properties_with_retries
from isotherm.contract.identity import levels_of, name_from
from isotherm.contract.summary import NOWHERE, as_of, taken_at
from isotherm_ingest.announce.pending import Link
from isotherm_ingest.failures import TableRefused
from isotherm_ingest.plan.resume_or_halt import Found
from isotherm_ingest.sql.text import quoted
from isotherm_ingest.tables.offset_vector import (
    RECENT_TOKENS,
    Source,
    Token,
    find_token,
    positions_of,
    tag_name,
    tokens_in,
)
from isotherm_ingest.tables.spark_types import spark_type

PIPELINE_PROPERTY = "ingest.pipeline"
"""Table property of a table that ingest made: whose it is."""


@dataclass(frozen=True, slots=True)
class SpecField:
    """One field of the table's present partition spec."""

    field_id: int
    column: str
    transform: str
    """`hours`, `days`, `months`, `years`, `bucket`, `truncate`, `identity`, or another one's name."""
    width: int | None = None
    """Of bucket and truncate."""


@dataclass(frozen=True)
class TableNow:
    """A table at one moment."""

    table: Table = field(repr=False)

    @property
    def name(self) -> str:
        """`namespace.table`."""
        return name_from(self.table.name())

    @property
    def uuid(self) -> str:
        """What never changes, and is new when a table is made again."""
        return str(self.table.metadata.table_uuid)

    @property
    def head(self) -> int | None:
        """The current snapshot of main."""
        return self.table.metadata.current_snapshot_id

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's properties."""
        return self.table.metadata.properties

    @cached_property
    def columns(self) -> dict[str, str]:
        """Columns and their types, as Spark's DDL says them, in order."""
        return {one.name: spark_type(one.field_type) for one in self.table.schema().fields}

    @property
    def required(self) -> frozenset[str]:
        """The columns that take no null."""
        return frozenset(one.name for one in self.table.schema().fields if one.required)

    def hides(self, column: str) -> bool:
        """Whether filters of Spark do not find the values of a column.

        UUIDs it takes for text. And where an int is truncated to more than 2^30, Iceberg's Java leaves the type in between.
        """
        field = self.table.schema().find_field(column)
        of_partitions = (
            one.transform
            for spec in self.table.specs().values()
            for one in spec.fields
            if one.source_id == field.field_id
        )
        is_too_wide = any(isinstance(one, TruncateTransform) and one.width > 2**30 for one in of_partitions)
        return isinstance(field.field_type, UUIDType) or (
            isinstance(field.field_type, IntegerType) and is_too_wide
        )

    def named(self, names: Iterable[str]) -> tuple[str, ...]:
        """Names as the table writes them; one that it does not have stays as it is."""
        own = {name.lower(): name for name in self.columns}
        return tuple(own.get(name.lower(), name) for name in names)

    @cached_property
    def spec(self) -> tuple[SpecField, ...]:
        """The present partition spec; void fields are left out."""
        schema = self.table.schema()
        return tuple(
            _spec_field(one.field_id, schema.find_column_name(one.source_id) or "", one.transform)
            for one in self.table.spec().fields
            if str(one.transform) != "void"
        )

    @property
    def rows(self) -> int:
        """Rows in the files of the head, as its summary says; deleted ones count too."""
        head = self.snapshots.get(self.head) if self.head is not None else None
        return 0 if head is None else int(summary_of(head).get("total-records") or 0)

    @property
    def is_altered(self) -> bool:
        """Whether the schema is another one than at the head, which a query of that snapshot would use."""
        head = self.snapshots.get(self.head) if self.head is not None else None
        return head is not None and head.schema_id != self.table.schema().schema_id

    @cached_property
    def snapshots(self) -> dict[int, Snapshot]:
        """Every snapshot that is still known."""
        return {one.snapshot_id: one for one in self.table.metadata.snapshots}

    def ancestry(self) -> Iterator[Snapshot]:
        """Main's snapshots, from the head back.

        Raises:
            TableRefused: one of them comes again. Whoever looks for another one would never end, and all tables wait.
        """
        seen: set[int] = set()
        current = self.head
        while current is not None and current in self.snapshots:
            if current in seen:
                raise TableRefused(
                    f"{self.name} is not written: by its metadata, snapshot {current} came before itself. Have the catalog "
                    "name an earlier metadata.json of it"
                )
            seen.add(current)
            yield self.snapshots[current]
            current = self.snapshots[current].parent_snapshot_id

    def links(self) -> dict[int, Link]:
        """Every snapshot, as the outbox walks them."""
        return {one.snapshot_id: link_of(one) for one in self.table.metadata.snapshots}

    def token(self, pipeline: str) -> Token | None:
        """What the table says of the pipeline's progress."""
        head = self.snapshots.get(self.head) if self.head is not None else None
        head_sequence = 0 if head is None else head.sequence_number or 0
        tag = self.table.metadata.refs.get(tag_name(pipeline))
        tagged = self.snapshots.get(tag.snapshot_id) if tag is not None else None
        if tagged is not None and (tagged.sequence_number or 0) > head_sequence:
            tagged = None
        token = find_token(
            pipeline,
            map(summary_of, self.ancestry()),
            None if tagged is None else summary_of(tagged),
            self.properties,
            self._follows,
        )
        return Token(Source(), is_known=False) if token is None and self._is_left(pipeline) else token

    def _is_left(self, pipeline: str) -> bool:
        """Whether a snapshot with a token of the pipeline is there that is newer than main's oldest, and not on main."""
        main = {one.snapshot_id: one.sequence_number or 0 for one in self.ancestry()}
        newer = (
            summary_of(one)
            for one in self.snapshots.values()
            if one.snapshot_id not in main and (one.sequence_number or 0) > min(main.values(), default=0)
        )
        return bool(main) and any(True for _ in tokens_in(pipeline, newer))

    def _follows(self, kept: str) -> bool | None:
        """Whether main has what a property says, and no more; None where no kept snapshot tells."""
        number, place = taken_at(kept), as_of(kept)
        if not (number or place):
            return True  # a person has said it
        main = list(self.ancestry())
        if not main or place == NOWHERE:
            return False
        if place in {main[-1].parent_snapshot_id, *(one.snapshot_id for one in main)}:
            return True
        is_left = place in self.snapshots or number > min(one.sequence_number or 0 for one in main)
        return False if is_left else None

    def has_tokens(self, pipeline: str) -> bool:
        """Whether as many snapshots of main say the pipeline's progress as are asked for it."""
        return (
            len(list(islice(tokens_in(pipeline, map(summary_of, self.ancestry())), RECENT_TOKENS)))
            == RECENT_TOKENS
        )

    @cached_property
    def oldest(self) -> Snapshot | None:
        """The oldest of main's snapshots that is still known."""
        return next(iter(deque(self.ancestry(), maxlen=1)), None)

    def found(self, token: Token | None) -> Found:
        """What the table says of a pipeline's progress by this token of it, as `plan.resume_or_halt` judges it."""
        return Found(
            self.uuid,
            None if token is None else positions_of(token.source.vector),
            {} if token is None else token.source.topic_ids,
            token is None and self.oldest is not None and self.oldest.parent_snapshot_id is not None,
            {} if token is None else token.source.cuts,
            (token is not None and not token.is_known) or (token is None and self._lost_its_beginning),
        )

    @property
    def _lost_its_beginning(self) -> bool:
        """Whether the oldest snapshot names no parent, and was not the first: PyIceberg's expiry, or a replacement."""
        return (
            self.oldest is not None and self.oldest.parent_snapshot_id is None and not is_first(self.oldest)
        )


def link_of(snapshot: Snapshot) -> Link:
    """A snapshot, as the outbox walks it."""
    return Link(snapshot.snapshot_id, snapshot.parent_snapshot_id, snapshot.sequence_number or 0)


def summary_of(snapshot: Snapshot) -> dict[str, str]:
    """The summary of a snapshot, the operation aside."""
    return dict(snapshot.summary.additional_properties) if snapshot.summary is not None else {}


def is_first(snapshot: Snapshot) -> bool:
    """Whether nothing was ever committed before it. PyIceberg's expiry takes the parent away from what stays."""
    if snapshot.parent_snapshot_id is not None or snapshot.sequence_number != 1:
        return False  # in format version 1 nothing is numbered, and nothing shows what was before
    said = summary_of(snapshot)  # after an upgrade from version 1 the numbers begin with whatever comes next
    return said.get("total-records", "0") in {said.get("added-records", "0"), "0"}


ANSWER_TIMEOUT_S = 30.0
"""Between two bytes. A commit that ran into it may have landed; the writer looks for its own token."""


NEWEST_SNAPSHOTS = 100
"""Of a table that is looked at. A week of commits a minute has 10,080, of which the newest says all, mostly."""


class Lake:
    """The catalog, for every thread of the driver."""

    def __init__(self, name: str, properties: Mapping[str, str]) -> None:
        """Connect lazily, each thread for itself: not every catalog's client is made to be shared."""
        self._name = name
        self._properties = properties_with_retries(properties)
        self._local = threading.local()

    @property
    def name(self) -> str:
        """The catalog's name, in Spark as well."""
        return self._name

    @property
    def catalog(self) -> Catalog:
        """The client of the calling thread."""
        return self._client("catalog", None)

    def _client(self, kind: str, newest: int | None) -> Catalog:
        if not hasattr(self._local, kind):
            setattr(self._local, kind, open_catalog(self._name, self._properties, ANSWER_TIMEOUT_S, newest))
        catalog: Catalog = getattr(self._local, kind)
        return catalog

    def load(self, name: str) -> TableNow | None:
        """The table now, or None where there is none."""
        return _loaded(self.catalog, name)

    def newest(self, name: str, says_enough: Callable[[TableNow], bool]) -> TableNow | None:
        """The table now with its newest snapshots, which is quicker; with all of them where these do not say enough."""
        now = _loaded(self._client("newest", NEWEST_SNAPSHOTS), name)
        if now is None or len(now.snapshots) < NEWEST_SNAPSHOTS or says_enough(now):
            return now
        return self.load(name)

    def ask(self) -> None:
        """Have the catalog answer anything; raises what it raises."""
        self.catalog.list_namespaces()

    def names(self, namespaces: frozenset[str] | None) -> list[str]:
        """Tables in some namespaces, or in all, however deep."""
        found = set[str]()
        waiting: list[Identifier] = [levels_of(one) for one in namespaces or ()]
        if namespaces is None:
            waiting = list(self.catalog.list_namespaces())
        while waiting:
            namespace = waiting.pop()
            try:
                found.update(map(name_from, self.catalog.list_tables(namespace)))
            except NoSuchNamespaceError:
                continue
            if namespaces is None:
                waiting += self._below(namespace)
        return sorted(found)

    def _below(self, namespace: Identifier) -> list[Identifier]:
        """The namespaces right below one; none where the catalog has no such thing, or does not tell us."""
        try:
            below = self.catalog.list_namespaces(namespace)
        except (NoSuchNamespaceError, BadRequestError, ForbiddenError, NotImplementedError):
            return []
        # A server without nested namespaces may leave the question out, and tell all that it has.
        return [one for one in below if len(one) > len(namespace) and one[: len(namespace)] == namespace]

    def spark_name(self, name: str) -> str:
        """The table as Spark's SQL names it."""
        return ".".join(quoted(part) for part in (self._name, *levels_of(name)))


def _loaded(catalog: Catalog, name: str) -> TableNow | None:
    try:
        return TableNow(catalog.load_table(name))
    except (NoSuchTableError, NoSuchNamespaceError):
        return None


def create_statements(
    lake: Lake, name: str, columns: Mapping[str, str], spec: tuple[str, ...], properties: Mapping[str, str]
) -> list[str]:
    """SQL that makes a table, and its namespace."""
    namespace = ".".join(quoted(part) for part in (lake.name, *levels_of(name)[:-1]))
    body = ", ".join(f"{quoted(column)} {kind}" for column, kind in columns.items())
    partitioned = f" PARTITIONED BY ({', '.join(spec)})" if spec else ""
    settings = ", ".join(
        f"'{_escaped(key)}'='{_escaped(value)}'" for key, value in sorted(properties.items())
    )
    return [
        f"CREATE NAMESPACE IF NOT EXISTS {namespace}",
        f"CREATE TABLE IF NOT EXISTS {lake.spark_name(name)} ({body}) USING iceberg{partitioned} TBLPROPERTIES ({settings})",
    ]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def _spec_field(field_id: int, column: str, transform: Transform[Any, Any]) -> SpecField:
    match transform:
        case HourTransform():
            return SpecField(field_id, column, "hours")
        case DayTransform():
            return SpecField(field_id, column, "days")
        case MonthTransform():
            return SpecField(field_id, column, "months")
        case YearTransform():
            return SpecField(field_id, column, "years")
        case BucketTransform():
            return SpecField(field_id, column, "bucket", transform.num_buckets)
        case TruncateTransform():
            return SpecField(field_id, column, "truncate", transform.width)
        case IdentityTransform():
            return SpecField(field_id, column, "identity")
        case _:
            return SpecField(field_id, column, str(transform))
