"""What writers say of themselves on the control topic: open intents, newest words, and who announces intents.

Whoever may write to the topic may say anything, for any table, under any name. So there is a ceiling for each table,
and one for all tables that we do not know. Nothing that makes a partition hot is forgotten because of a ceiling: what
is too much becomes one intent on the whole table. A flood delays maintenance until it is over, and never begins any.
"""

from pydantic import ValidationError

from isotherm.contract.events import Intent, OpenWindow
from isotherm.core.model.writers import NOBODY, Word
from isotherm.core.units import DAY_MS
from isotherm.store.database import Part, StoreError, to_json
from isotherm.store.fold.rows import from_row

MAX_INTENTS = 100
"""Open intents of one table. A writer has one for each upsert that runs."""
MAX_WORDS = 100
"""Writers of one table whose newest words are kept."""
MAX_ANNOUNCERS = 100
"""Writers of one table that are known to announce intents. Who is forgotten is heard again."""
MAX_BYTES = 1_000_000
"""Of the intents of one table, and of its words: every verdict reads them."""
MAX_STRANGERS = 1_000
MAX_STRANGERS_BYTES = 10_000_000
"""The same of all tables that we do not know (yet), together."""
WORD_KEPT_MS = 31 * DAY_MS
"""A writer that was silent for so long makes room for another; no policy waits longer for one."""
PRUNED_AT_ONCE = 1_000
"""Rows: some milliseconds."""
TOO_MANY = "(more than are kept)"
"""The writer of the one intent that stands for all that were too many."""
UNREADABLE = "(unreadable)"
"""The writer of an intent whose row is damaged."""
_ALL = ""
"""The id under which that intent is stored: no event can have it, so none closes it."""
_STRANGERS = ""
"""The uuid under which it is stored for all unknown tables: no event can have it either."""


class Writers(Part):
    """The part of the fold that rests on events alone."""

    def prune(self, now_ms: int, limit: int = PRUNED_AT_ONCE) -> bool:
        """Forget some of what is over, and of what writers of tables that are gone once said; whether there is more."""
        with self.transaction():
            self.db.execute("DELETE FROM intents WHERE expires_at_ms <= ?", (now_ms,))
            counts = [
                self.db.execute(
                    f"DELETE FROM {name} WHERE (uuid, writer) IN (SELECT uuid, writer FROM {name} AS said "  # noqa: S608 (our words)
                    "WHERE at_ms < ?1 AND NOT EXISTS (SELECT 1 FROM tables WHERE uuid = said.uuid) LIMIT ?2)",
                    (now_ms - WORD_KEPT_MS, limit),
                ).rowcount
                for name in ("words", "announcers")
            ]
        return any(count >= limit for count in counts)

    # Intents

    def intents(self, uuid: str) -> tuple[Intent, ...]:
        """The intents of a table that were not closed; some of them may have expired."""
        rows = self.db.execute(
            "SELECT intent_id, expires_at_ms, CAST(value AS BLOB) FROM intents WHERE uuid = ? ORDER BY intent_id",
            (uuid,),
        )
        return tuple(_intent_of(uuid, *row) for row in rows)

    def holds_all(self, uuid: str, now_ms: int) -> bool:
        """Whether an open intent names every partition of a table already."""
        rows = self.db.execute(
            "SELECT 1 FROM intents WHERE uuid = ? AND names_all AND expires_at_ms > ? LIMIT 1", (uuid, now_ms)
        )
        return rows.fetchone() is not None

    def open_intent(self, intent: Intent, now_ms: int, *, is_known: bool) -> bool:
        """Keep an open intent; False where there were too many, and one intent on the whole table holds instead.

        A renewal is of the time of the opening: what the writer began on then is needed until the intent is closed.

        Args:
            intent: the intent, its expiry capped.
            now_ms: the time; what has expired by now is forgotten.
            is_known: whether we know the table.
        """
        uuid, size = intent.table_uuid, len(intent.model_dump_json())
        # First: a renewal that waited for us may come when the intent has run out by our clock.
        said_ms = min(intent.at_ms if intent.since_ms is None else intent.since_ms, now_ms)
        opened_ms = self._opened_ms(uuid, intent.intent_id, said_ms)
        self.db.execute("DELETE FROM intents WHERE expires_at_ms <= ?", (now_ms,))
        others, most, most_bytes = "uuid = ?1 AND intent_id <> ?2", MAX_INTENTS, MAX_BYTES
        if not is_known:
            others = "is_stranger AND NOT (uuid = ?1 AND intent_id = ?2)"
            most, most_bytes = MAX_STRANGERS, MAX_STRANGERS_BYTES
        count, taken = self.db.execute(
            f"SELECT COUNT(*), COALESCE(SUM(size), 0) FROM intents WHERE {others}",  # noqa: S608 (our words)
            (uuid, intent.intent_id),
        ).fetchone()
        if count >= most or taken + size > most_bytes:
            self.hold_all(uuid if is_known else _STRANGERS, intent.table, opened_ms, intent.expires_at_ms)
            return False
        intent = intent.model_copy(update={"at_ms": opened_ms})
        self._put(uuid, intent.intent_id, intent, is_stranger=not is_known)
        return True

    def close_intent(self, uuid: str, intent_id: str) -> Intent | None:
        """Forget an intent that was closed; returns it, or None if it was not kept."""
        row = self.db.execute(
            "DELETE FROM intents WHERE uuid = ? AND intent_id = ? RETURNING intent_id, expires_at_ms, CAST(value AS BLOB)",
            (uuid, intent_id),
        ).fetchone()
        return None if row is None else _intent_of(uuid, *row)

    def hold_all(self, uuid: str, name: str, now_ms: int, until_ms: int) -> None:
        """Hold every partition of a table, because more was said of it than is kept."""
        row = self.db.execute(
            "SELECT expires_at_ms FROM intents WHERE uuid = ? AND intent_id = ?", (uuid, _ALL)
        ).fetchone()
        intent = Intent(
            table_uuid=uuid or TOO_MANY,
            table=name,
            intent_id=TOO_MANY,
            writer=TOO_MANY,
            state="open",
            at_ms=self._opened_ms(uuid, _ALL, now_ms),
            expires_at_ms=until_ms if row is None else max(until_ms, row[0]),
        )
        self._put(uuid, _ALL, intent, is_stranger=False)

    def met(self, uuid: str, name: str, now_ms: int) -> None:
        """A table is known from now on. If intents of unknown tables were too many, one of them may be its own."""
        self.db.execute("UPDATE intents SET is_stranger = FALSE WHERE uuid = ?", (uuid,))
        row = self.db.execute("SELECT expires_at_ms FROM intents WHERE uuid = ?", (_STRANGERS,)).fetchone()
        if row is not None and row[0] > now_ms:
            self.hold_all(uuid, name, now_ms, row[0])

    def _opened_ms(self, uuid: str, intent_id: str, said_ms: int) -> int:
        """When an intent was opened: what is said of it now, or was said before."""
        found = "FROM intents WHERE uuid = ? AND intent_id = ?"
        if self.db.execute(f"SELECT 1 {found}", (uuid, intent_id)).fetchone() is None:
            return said_ms
        row = self.db.execute(
            f"SELECT intent_id, expires_at_ms, CAST(value AS BLOB) {found}", (uuid, intent_id)
        ).fetchone()
        return min(said_ms, _intent_of(uuid, *row).at_ms)

    def _put(self, uuid: str, intent_id: str, intent: Intent, *, is_stranger: bool) -> None:
        value, names_all = intent.model_dump_json(), intent.partitions is None
        self.db.execute(
            "INSERT OR REPLACE INTO intents VALUES (?, ?, ?, ?, ?, ?, ?)",
            (uuid, intent_id, intent.expires_at_ms, is_stranger, names_all, len(value), value),
        )

    # Who announces

    def note_announcer(self, uuid: str, writer: str, now_ms: int) -> None:
        """A writer says beforehand what it will touch."""
        self.db.execute("INSERT OR REPLACE INTO announcers VALUES (?, ?, ?)", (uuid, writer, now_ms))
        self.db.execute(
            "DELETE FROM announcers WHERE uuid = ?1 AND writer IN "
            "(SELECT writer FROM announcers WHERE uuid = ?1 ORDER BY at_ms DESC, writer LIMIT -1 OFFSET ?2)",
            (uuid, MAX_ANNOUNCERS),
        )

    def announces(self, uuid: str, writer: str) -> bool:
        """Whether a writer is known to say beforehand what it will touch."""
        rows = self.db.execute("SELECT 1 FROM announcers WHERE uuid = ? AND writer = ?", (uuid, writer))
        return rows.fetchone() is not None

    # Words

    def words(self, uuid: str) -> tuple[Word, ...]:
        """The newest word of each writer of a table."""
        rows = self.db.execute(
            "SELECT writer, at_ms, CAST(value AS BLOB) FROM words WHERE uuid = ? ORDER BY writer", (uuid,)
        )
        return tuple(_word_of(*row) for row in rows)

    def save_word(self, uuid: str, word: Word) -> bool:
        """Keep a writer's newest word; False where there were too many writers, and its window is not kept."""
        value = to_json(word)
        if not self._has_room(uuid, word.writer, len(value)):
            self._retire(uuid, word.at_ms - WORD_KEPT_MS)
            if not self._has_room(uuid, word.writer, len(value)):
                # Whatever it announces, of one more writer we do not know what it means to write.
                self._say(uuid, Word(NOBODY, word.at_ms, type(word.window)()))
                return word.window.from_ms is None and not word.window.partitions
        self._say(uuid, word, value)
        return True

    def _has_room(self, uuid: str, writer: str, size: int) -> bool:
        if writer == NOBODY:
            return True
        count, taken = self.db.execute(
            "SELECT COUNT(*), COALESCE(SUM(LENGTH(value)), 0) FROM words "
            "WHERE uuid = ? AND writer NOT IN (?, ?)",
            (uuid, writer, NOBODY),
        ).fetchone()
        return bool(count < MAX_WORDS and taken + size <= MAX_BYTES)

    def _retire(self, uuid: str, before_ms: int) -> None:
        """Forget the writers that have been silent since then, all but that there was one."""
        gone = self.db.execute(
            "DELETE FROM words WHERE uuid = ? AND at_ms < ? AND writer <> ? RETURNING writer, at_ms, CAST(value AS BLOB)",
            (uuid, before_ms, NOBODY),
        ).fetchall()
        words = [_word_of(*row) for row in gone]
        newest_ms = max((word.at_ms for word in words if not word.announces), default=None)
        if newest_ms is not None and not any(word.writer == NOBODY for word in self.words(uuid)):
            self._say(uuid, Word(NOBODY, newest_ms, type(words[0].window)()))

    def _say(self, uuid: str, word: Word, value: str | None = None) -> None:
        self.db.execute(
            "INSERT OR REPLACE INTO words VALUES (?, ?, ?, ?)",
            (uuid, word.writer, value or to_json(word), word.at_ms),
        )


def _intent_of(uuid: str, intent_id: str, expires_at_ms: int, value: bytes) -> Intent:
    """An intent as it is kept. One that cannot be read names every partition: a scan would not bring it back."""
    try:
        return Intent.model_validate_json(value)
    except ValidationError:
        return Intent(
            table_uuid=uuid or TOO_MANY,
            table=UNREADABLE,
            intent_id=intent_id or TOO_MANY,
            writer=UNREADABLE,
            state="open",
            at_ms=0,
            expires_at_ms=expires_at_ms,
        )


def _word_of(writer: str, at_ms: int, value: bytes) -> Word:
    """A writer's word as it is kept, or that it cannot be read."""
    try:
        return from_row(Word, value)
    except StoreError:
        return Word(writer, at_ms, OpenWindow(), is_unreadable=True)
