"""The referee: holds PostgreSQL against the lake, and the promises against what the witness saw.

Two readers of the lake that share nothing, DuckDB with SQL of our own and PyIceberg's scan, must both give the rows
that PostgreSQL has, in the columns that it has by then. Rows are compared as canonical text, value by value, so that
neither side's types matter.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import yaml
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from isotherm.audit.evidence import (
    ColdRule,
    Evidence,
    FailedBatch,
    FilesChecked,
    Judgement,
    Recomputed,
    SourceCompared,
)
from isotherm.audit.promises import judge
from isotherm.core.policy.precedence import PolicyFile, resolve
from isotherm.demo import lake
from isotherm.demo.logbook import Logbook
from isotherm.demo.shop import TABLES, ShopTable, table_named
from isotherm.demo.witness import SeenTable, Witness
from isotherm.runtime.clock import monotonic_s, now_ms

Sum = tuple[int, int]
"""Rows, and a sum of their hashes."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A table in PostgreSQL and in the lake, at rest or not."""

    source: Sum
    lake: Sum
    scan: Sum | None = None
    """By PyIceberg, or None where it was not asked."""

    @property
    def is_equal(self) -> bool:
        """Whether everybody reads the same rows."""
        return self.source == self.lake and self.scan in (None, self.source)


def canonical(value: Any, kind: str) -> Any:
    """A value as JSON has it, the same from both sides."""
    if value is None:
        return None
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // _MICROSECOND
    if isinstance(value, Decimal):
        return format(value.normalize(), "f") if value else "0"
    if kind == "jsonb":
        return json.loads(value) if isinstance(value, str) else value
    if isinstance(value, list | tuple):
        return [canonical(one, "") for one in value]
    return value


_MICROSECOND = datetime.resolution


def sum_of(rows: Iterable[Sequence[Any]], kinds: Sequence[str]) -> Sum:
    """Rows and the sum of their hashes, in any order."""
    count = total = 0
    for row in rows:
        values = [canonical(value, kind) for value, kind in zip(row, kinds, strict=True)]
        text = json.dumps(values, sort_keys=True, ensure_ascii=False)
        total += int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big")
        count += 1
    return count, total % 2**128


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column that a table has in PostgreSQL now, and what the lake calls it."""

    name: str
    kind: str
    lake_name: str


def source_columns(connection: "psycopg.Connection[Any]", table: ShopTable) -> list[SourceColumn]:
    """What PostgreSQL itself says that a table has; nothing where there is no such table."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute "
            "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            (table.name,),
        )
        return [SourceColumn(name, kind, table.lake_column(name)) for name, kind in cursor]


def source_sum(
    connection: "psycopg.Connection[Any]", table: ShopTable, columns: Sequence[SourceColumn]
) -> Sum:
    """The rows in PostgreSQL."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(one.name for one in columns)} FROM {table.name}".encode())
        return sum_of(cursor, [one.kind for one in columns])


def lake_sums(
    rows: lake.Rows, loaded: Table, table: ShopTable, columns: Sequence[SourceColumn], *, with_scan: bool
) -> tuple[Sum, Sum | None]:
    """The rows in the lake by DuckDB, and by PyIceberg where that is asked. A table without a column has none of them."""
    if not {one.lake_name for one in columns} <= {field.name for field in loaded.schema().fields}:
        return (0, 0), None
    return lake_sum(rows, loaded, table, columns), scan_sum(loaded, table, columns) if with_scan else None


def lake_sum(rows: lake.Rows, loaded: Table, table: ShopTable, columns: Sequence[SourceColumn]) -> Sum:
    """The rows in the lake, read by DuckDB; a changelog is first folded to its latest row per key."""
    head = loaded.current_snapshot()
    files = [] if head is None else list(lake.live(loaded, head).values())
    where = "TRUE"
    if table.mode == "changelog":
        # The key decides the Kafka partition, so the offsets of one key are in order.
        latest = f"row_number() OVER (PARTITION BY {', '.join(table.key)} ORDER BY _offset DESC) = 1"
        where = f"TRUE QUALIFY {latest} AND _op <> 'd'"
    found = rows.read(files, loaded.schema(), [one.lake_name for one in columns], where)
    return sum_of(found, [one.kind for one in columns])


def scan_sum(loaded: Table, table: ShopTable, columns: Sequence[SourceColumn]) -> Sum:
    """The rows in the lake, read by PyIceberg; a changelog is folded in plain Python."""
    extra = ("_offset", "_op") if table.mode == "changelog" else ()
    names = [one.lake_name for one in columns]
    rows = loaded.scan(selected_fields=(*names, *extra)).to_arrow().to_pylist()
    if table.mode == "changelog":
        latest: dict[tuple[Any, ...], dict[str, Any]] = {}
        for row in sorted(rows, key=lambda row: row["_offset"]):
            latest[tuple(row[name] for name in table.key)] = row
        rows = [row for row in latest.values() if row["_op"] != "d"]
    return sum_of(([row[name] for name in names] for row in rows), [one.kind for one in columns])


class Referee:
    """Compares, and judges."""

    def __init__(
        self, dsn: str, catalog: Catalog, witness: Witness, policies: Path, *, by_daemon: bool = True
    ) -> None:
        self._dsn = dsn
        self._catalog = catalog
        self._witness = witness
        self._policies = policies
        self._by_daemon = by_daemon
        self._rows = lake.Rows()

    def compare(self, *, with_scan: bool = False) -> dict[str, Compared]:
        """Each table of the shop, by its name in the lake."""
        found = {}
        with psycopg.connect(self._dsn) as connection:
            for table in TABLES:
                columns = source_columns(connection, table)
                if not columns:
                    continue  # a later table, and the shop closed before
                source = source_sum(connection, table, columns)
                if not self._catalog.table_exists(table.lake_name):
                    found[table.lake_name] = Compared(source, (0, 0))
                    continue
                loaded = self._catalog.load_table(table.lake_name)
                sums = lake_sums(self._rows, loaded, table, columns, with_scan=with_scan)
                found[table.lake_name] = Compared(source, *sums)
        return found

    def read_everything_s(self) -> float:
        """How long a full read of all tables takes: metadata, manifests, deletes and every row, by PyIceberg."""
        began_s = monotonic_s()
        for name in self._witness.tables:
            self._catalog.load_table(name).scan().to_arrow()
        return round(monotonic_s() - began_s, 3)

    def files(self) -> dict[str, tuple[int, int]]:
        """The data files and the delete files of each table now."""
        found = {}
        for name in self._witness.tables:
            loaded = self._catalog.load_table(name)
            head = loaded.current_snapshot()
            live = [] if head is None else list(lake.live(loaded, head).values())
            found[name] = sum(file.is_data for file in live), sum(not file.is_data for file in live)
        return found

    def rules(self, seen: SeenTable) -> dict[str, ColdRule]:
        """What the policy said, read from its files; by the hash that stands in our snapshots.

        Rewrites by somebody else name none, and are held to the same rule.
        """
        policies = [
            (path.name, PolicyFile.model_validate(yaml.safe_load(path.read_text(encoding="utf-8"))))
            for path in sorted(self._policies.glob("*.yaml"))
        ]
        properties = self._catalog.load_table(seen.name).metadata.properties
        resolved = resolve(seen.name, properties, policies)
        if resolved is None:
            return {}
        cold, minor_after_ms = resolved.policy.cold, resolved.policy.compact.minor_after
        rule = ColdRule(cold.least_after_ms, cold.quiet_for, cold.silent_for, minor_after_ms)
        return {resolved.policy.hash if self._by_daemon else "": rule}

    def judge(
        self,
        compared: Mapping[str, Compared],
        accounted: Callable[[str], frozenset[int] | None],
        recomputed: Mapping[str, Sequence[Recomputed]],
        failed: Mapping[str, Sequence[FailedBatch]],
    ) -> dict[str, tuple[Judgement, ...]]:
        """Every promise for every table; `recomputed` and `failed` by table, `""` for those of no table."""
        files = self._witness.check_files(self._catalog)
        return {
            name: judge(
                self._history(
                    seen,
                    compared.get(name),
                    files[name],
                    accounted(seen.uuid),
                    tuple(recomputed.get(name, ())),
                    (*failed.get(name, ()), *failed.get("", ())),
                )
            )
            for name, seen in self._witness.tables.items()
        }

    def so_far(self, seen: SeenTable, logbook: Logbook) -> tuple[Judgement, ...]:
        """The promises in the middle of a run, without files and sources: for the live view."""
        announced = frozenset(self._witness.announced.get(seen.uuid, {}))
        intents = tuple(self._witness.intents.get(seen.uuid, ()))
        windows = tuple(self._witness.windows.get(seen.uuid, ()))
        # After the intents: a writer logs what it ran into before it announces the next attempt. Of an attempt that no
        # log speaks of, any commit of ours in its time would be to blame.
        logbook.read()
        return judge(
            Evidence(
                table=seen.name,
                transforms=seen.transforms,
                commits=tuple(seen.commits.values()),
                rules=self.rules(seen),
                now_ms=now_ms(),
                intents=intents,
                windows=windows,
                announced=announced,
                accounted=announced,
                recomputed=tuple(logbook.recomputed.get(seen.name, ())),
                failed_batches=(*logbook.failed.get(seen.name, ()), *logbook.failed.get("", ())),
                rows=tuple(seen.rows),
                files=FilesChecked(
                    len(seen.in_metadata), len(seen.live), (), tuple(seen.failed_scans), seen.scans
                ),
            )
        )

    def _history(
        self,
        seen: SeenTable,
        compared: Compared | None,
        files: FilesChecked,
        accounted: frozenset[int] | None,
        recomputed: tuple[Recomputed, ...],
        failed: tuple[FailedBatch, ...],
    ) -> Evidence:
        source = None
        if compared is not None and table_named(seen.name) is not None:
            detail = ""
            if compared.source[0] == compared.lake[0] and not compared.is_equal:
                detail = "as many, but others: the checksums differ"
            if compared.scan is not None and compared.scan != compared.lake:
                detail = f"DuckDB and PyIceberg disagree: {compared.lake[0]} and {compared.scan[0]} rows"
            source = SourceCompared(compared.source[0], compared.lake[0], compared.is_equal, detail)
        return Evidence(
            table=seen.name,
            transforms=seen.transforms,
            commits=tuple(seen.commits.values()),
            rules=self.rules(seen),
            now_ms=now_ms(),
            intents=tuple(self._witness.intents.get(seen.uuid, ())),
            windows=tuple(self._witness.windows.get(seen.uuid, ())),
            announced=frozenset(self._witness.announced.get(seen.uuid, {})),
            accounted=accounted,
            recomputed=recomputed,
            failed_batches=failed,
            rows=tuple(seen.rows),
            source=source,
            files=files,
            announce_within_ms=0,
        )
