"""Tables in the fold: their state, what their metadata said, the log of their snapshots, and whose turn it is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from isotherm.core.clock_check import SKEW_MS
from isotherm.core.model.decisions import Decision
from isotherm.core.model.tables import Astray, Snapshot, TableFacts
from isotherm.core.state import TableState
from isotherm.store.database import Part, StoreError, to_json
from isotherm.store.fold.rows import from_row


@dataclass(frozen=True, slots=True)
class TableRow:
    """A table in the fold."""

    state: TableState
    facts: TableFacts
    confirmed_head: int | None
    """The head that the catalog confirmed last, or None where it never did."""
    last_event_at_ms: int
    of_table: tuple[Decision, ...] = ()
    """The latest verdicts on the table as a whole, or empty before the first."""
    is_trusted: bool = True
    """Whether all added up. If not, the table is scanned when it is confirmed next."""
    is_whole_touched: bool = True
    """Whether the verdicts on the table as a whole must be made again."""
    whole_wake_at_ms: int | None = None
    """When they could change by themselves."""
    changed_at_ms: int = 0
    """When the head was committed that the catalog confirmed last, or 0 before the first."""


@dataclass(frozen=True, slots=True)
class TableLine:
    """A table in the fold, in a few words."""

    uuid: str
    name: str
    confirmed_at_ms: int | None
    wake_at_ms: int | None
    """When the next verdict could change by itself."""
    of_table: tuple[Decision, ...]


@dataclass(frozen=True, slots=True)
class Decisions:
    """How the verdicts on a table as a whole are kept."""

    of_table: tuple[Decision, ...]


_SILENT = (
    "(confirmed_at_ms > :now OR (confirmed_at_ms + MIN(MAX(:every, (confirmed_at_ms - MAX(changed_at_ms, last_event_at_ms)) / 10), 60 * :every) <= :now "
    "AND (last_event_at_ms + 5 * :every <= :now OR last_event_at_ms > :now "
    "OR confirmed_at_ms + 60 * :every <= :now)))"
)
"""When a table's head is confirmed though nothing points to it: `every` after the last time; where nobody has written
for long, after a tenth of that span; where events come, which name each snapshot, after their end; and after 60 times
`every` at the latest. Each confirmation reads the whole metadata file. A time that is still to come is one of a clock
that was ahead, and says nothing."""
_SNAPSHOT = (
    "snapshot_id, sequence_number, committed_at_ms, token, is_pinned, kept_until_ms, left_at_ms, is_rewrite"
)
_COLUMNS = (
    "CAST(state AS BLOB), CAST(facts AS BLOB), confirmed_head, last_event_at_ms, CAST(of_table AS BLOB), trusted, "
    "whole_touched, whole_wake_at_ms, changed_at_ms"
)


class Tables(Part):
    """The tables that the fold has."""

    is_read_only: bool

    def tables(self) -> dict[str, TableRow]:
        """Every table by uuid."""
        return {
            row[0]: self._table_row(row[1:])
            for row in self.db.execute(
                f"SELECT uuid, {_COLUMNS} FROM tables ORDER BY name"  # noqa: S608 (our own column names)
            )
        }

    def names(self) -> dict[str, str]:
        """The name of every table, by uuid."""
        return dict(self.db.execute("SELECT uuid, name FROM tables ORDER BY name").fetchall())

    def lines(self) -> list[TableLine]:
        """Every table, in what `isotherm tables` shows: no state is read, which a thousand tables would take a second for."""
        rows = self.db.execute(
            "SELECT uuid, name, confirmed_at_ms, wake_at_ms, whole_wake_at_ms, CAST(of_table AS BLOB) FROM tables "
            "ORDER BY name"
        )
        return [
            TableLine(
                uuid,
                name,
                confirmed_at_ms or None,
                min((at_ms for at_ms in wakes if at_ms is not None), default=None),
                from_row(Decisions, of_table).of_table,
            )
            for uuid, name, confirmed_at_ms, *wakes, of_table in rows
        ]

    def confirmed_heads(self) -> dict[str, int]:
        """The head of every table that the catalog has confirmed, by uuid."""
        rows = self.db.execute("SELECT uuid, confirmed_head FROM tables WHERE confirmed_head IS NOT NULL")
        return dict(rows.fetchall())

    def agenda(self, now_ms: int, every_ms: int) -> list[str]:
        """The uuids of the tables that a planning round must look at, by name.

        Those that were touched, that have something due or newly come due, that are not trusted, and those of which
        nobody has spoken for long, where `every_ms` says how long that is (`_SILENT`).
        """
        rows = self.db.execute(
            "SELECT uuid, name FROM tables WHERE touched OR NOT trusted OR due > 0 OR wake_at_ms <= :now "  # noqa: S608
            f"OR whole_wake_at_ms <= :now OR anew_after IS NOT NULL OR {_SILENT}",
            {"now": now_ms, "every": every_ms},
        )
        return [uuid for uuid, _ in sorted(rows, key=lambda row: (row[1], row[0]))]

    def with_due(self) -> set[str]:
        """The uuids of the tables of which something is due."""
        return {uuid for (uuid,) in self.db.execute("SELECT uuid FROM tables WHERE due > 0")}

    def is_silent(self, uuid: str, now_ms: int, every_ms: int) -> bool:
        """Whether nobody has spoken of a table for so long that the catalog is to be asked."""
        rows = self.db.execute(
            f"SELECT 1 FROM tables WHERE uuid = :uuid AND {_SILENT}",  # noqa: S608 (our own words)
            {"uuid": uuid, "now": now_ms, "every": every_ms},
        )
        return rows.fetchone() is not None

    def with_property(self, name: str) -> list[str]:
        """The uuids of the tables of which a property may have this name: whoever asks looks at them."""
        rows = self.db.execute(
            "SELECT uuid FROM tables WHERE instr(CAST(facts AS BLOB), CAST(? AS BLOB)) ORDER BY name", (name,)
        )
        return [uuid for (uuid,) in rows]

    def looked_at(self, uuid: str) -> None:
        """A planning round has looked at the table; it comes back when something touches it or comes due."""
        self.db.execute("UPDATE tables SET touched = 0 WHERE uuid = ?", (uuid,))

    def named(self, name: str) -> list[str]:
        """The uuids of the tables that have, or had, this name."""
        return [row[0] for row in self.db.execute("SELECT uuid FROM tables WHERE name = ?", (name,))]

    def table(self, uuid: str) -> TableRow | None:
        """One table. Of one whose row cannot be read nothing is known, until a round makes it again (`damage`).

        Raises:
            StoreError: its row cannot be read, and this is a look beside the daemon that will mend it.
        """
        try:
            return self._table(uuid)
        except StoreError:
            if self.is_read_only:
                raise
            return None

    def damage(self, uuid: str) -> str | None:
        """Why the row of a table cannot be read. Returns None where it can, or is not there."""
        try:
            self._table(uuid)
        except StoreError as err:
            return str(err)
        return None

    def _table(self, uuid: str) -> TableRow | None:
        row = self.db.execute(
            f"SELECT {_COLUMNS} FROM tables WHERE uuid = ?",  # noqa: S608 (our own column names)
            (uuid,),
        ).fetchone()
        return None if row is None else self._table_row(row)

    @staticmethod
    def _table_row(row: tuple[bytes, bytes, int | None, int, bytes, int, int, int | None, int]) -> TableRow:
        (
            state,
            facts,
            confirmed,
            last_event_at_ms,
            of_table,
            trusted,
            whole_touched,
            whole_wake_at_ms,
            changed,
        ) = row
        return TableRow(
            from_row(TableState, state),
            from_row(TableFacts, facts),
            confirmed,
            last_event_at_ms,
            from_row(Decisions, of_table).of_table,
            bool(trusted),
            bool(whole_touched),
            whole_wake_at_ms,
            changed,
        )

    def save_table(
        self,
        state: TableState,
        facts: TableFacts,
        confirmed_head: int | None,
        snapshots: Sequence[Snapshot],
        astray: Sequence[Astray] = (),
    ) -> None:
        """Keep a table's state, and what its metadata said when its head was confirmed."""
        uuid = state.table.uuid
        self.db.execute(
            "INSERT INTO tables (uuid, name, state, facts, confirmed_head, confirmed_at_ms, changed_at_ms) "
            "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (uuid) DO UPDATE SET name = excluded.name, "
            "state = excluded.state, facts = excluded.facts, confirmed_head = excluded.confirmed_head, "
            "confirmed_at_ms = excluded.confirmed_at_ms, changed_at_ms = excluded.changed_at_ms, trusted = 1, "
            "touched = 1, whole_touched = 1, "
            # By a clock that was ahead everything was decided until times that are long in coming.
            "anew_after = CASE WHEN tables.confirmed_at_ms > excluded.confirmed_at_ms THEN '' ELSE tables.anew_after END",
            (
                uuid,
                state.table.name,
                to_json(state),
                to_json(facts),
                confirmed_head,
                facts.confirmed_at_ms,
                # An empty table waits for its first writer, it does not rest.
                snapshots[-1].committed_at_ms if snapshots else facts.confirmed_at_ms,
            ),
        )
        self._save_snapshots(uuid, snapshots)
        self._save_astray(uuid, astray, facts.confirmed_at_ms)

    def save_state(self, state: TableState, heard_at_ms: int | None = None) -> None:
        """Keep a table's state alone, and when its last event came: the steady path of an event."""
        self.db.execute(
            "UPDATE tables SET state = ?, touched = 1, last_event_at_ms = COALESCE(?, last_event_at_ms) WHERE uuid = ?",
            (to_json(state), heard_at_ms, state.table.uuid),
        )

    def _save_snapshots(self, uuid: str, snapshots: Sequence[Snapshot]) -> None:
        """Keep the log of snapshots, writing only what is new, gone or different."""
        # Plain rows on both sides: logs are long, and most of the time there is nothing to write.
        rows = self.db.execute(
            f"SELECT place, {_SNAPSHOT} FROM snapshots WHERE uuid = ? ORDER BY place",  # noqa: S608 (our own names)
            (uuid,),
        )
        places = {tuple(entry): place for place, *entry in rows}
        log = [
            (
                s.snapshot_id,
                s.sequence_number,
                s.committed_at_ms,
                s.token,
                s.is_pinned,
                s.kept_until_ms,
                s.left_at_ms,
                s.is_rewrite,
            )
            for s in snapshots
        ]
        if log == list(places):
            return
        known = set(log)
        kept = [entry for entry in places if entry in known]
        if log[: len(kept)] == kept:
            gone = [place for entry, place in places.items() if entry not in known]
            fresh, following = log[len(kept) :], max(places.values(), default=-1) + 1
        else:
            # Not the old log with something gone and something new at its end: written as a whole.
            gone, fresh, following = list(places.values()), log, 0
        self.db.executemany(
            "DELETE FROM snapshots WHERE uuid = ? AND place = ?", [(uuid, place) for place in gone]
        )
        self.db.executemany(
            "INSERT INTO snapshots VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(uuid, place, *entry) for place, entry in enumerate(fresh, start=following)],
        )

    def _save_astray(self, uuid: str, astray: Sequence[Astray], now_ms: int) -> None:
        """Keep what no branch or tag reaches. Each counts from when it was first seen so, or was left last."""
        known = {one.snapshot_id: one for one in self.astray(uuid)}
        gone = known.keys() - {one.snapshot_id for one in astray}
        self.db.executemany(
            "DELETE FROM astray WHERE uuid = ? AND snapshot_id = ?", [(uuid, one) for one in gone]
        )
        once = {one.snapshot_id: one for one in astray}  # damaged metadata may list one twice
        # A clock that was ahead may have said when; a time to come says nothing.
        self.db.execute("UPDATE astray SET since_ms = ?2 WHERE uuid = ?1 AND since_ms > ?2", (uuid, now_ms))
        self.db.executemany(
            "INSERT INTO astray VALUES (?, ?, ?, ?, ?, ?)",
            [
                (uuid, s.snapshot_id, s.sequence_number, max(s.since_ms, now_ms), s.token, s.is_staged)
                for s in once.values()
                if s.snapshot_id not in known
            ],
        )
        # It was the newest once more, between two looks.
        self.db.executemany(
            "UPDATE astray SET since_ms = ?3 WHERE uuid = ?1 AND snapshot_id = ?2 AND since_ms < ?3",
            [
                (uuid, s.snapshot_id, min(s.left_at_ms, now_ms))
                for s in once.values()
                if 0 < s.left_at_ms <= now_ms + SKEW_MS
            ],
        )

    def astray(self, uuid: str) -> tuple[Astray, ...]:
        """The snapshots that no branch or tag reaches, the longest first."""
        rows = self.db.execute(
            "SELECT snapshot_id, sequence_number, since_ms, token, is_staged FROM astray WHERE uuid = ? "
            "ORDER BY since_ms, sequence_number, snapshot_id",
            (uuid,),
        )
        return tuple(
            Astray(snapshot_id, number, since_ms, token, bool(is_staged))
            for snapshot_id, number, since_ms, token, is_staged in rows
        )

    def snapshots(self, uuid: str) -> tuple[Snapshot, ...]:
        """The ancestors of the confirmed head that still exist, oldest first."""
        rows = self.db.execute(
            f"SELECT {_SNAPSHOT} FROM snapshots WHERE uuid = ? ORDER BY place",  # noqa: S608 (our own names)
            (uuid,),
        )
        return tuple(
            Snapshot(
                snapshot_id,
                sequence_number,
                at_ms,
                token,
                bool(is_pinned),
                kept_until_ms,
                left_ms,
                bool(rewrites),
            )
            for snapshot_id, sequence_number, at_ms, token, is_pinned, kept_until_ms, left_ms, rewrites in rows
        )

    def note_events(self, at_ms: Mapping[str, int]) -> None:
        """When the last event of each of these tables came, by uuid."""
        self.db.executemany(
            "UPDATE tables SET last_event_at_ms = ? WHERE uuid = ?",
            [(ms, uuid) for uuid, ms in at_ms.items()],
        )

    def distrust(self, uuid: str) -> None:
        """Have the table scanned when it is confirmed next; until then its verdicts stand still."""
        self.db.execute("UPDATE tables SET trusted = 0 WHERE uuid = ?", (uuid,))
