"""What writers say, as the fold has it: open intents, and the newest word of each."""

from collections.abc import Iterable

from isotherm.contract.events import Intent
from isotherm.core.model.writers import Word
from isotherm.store.database import Part, from_json, to_json


class Writers(Part):
    """The writers of all tables."""

    def save_intent(self, intent: Intent) -> None:
        """Keep an open intent, or forget a closed one."""
        if intent.state == "closed":
            self._db.execute(
                "DELETE FROM intents WHERE uuid = ? AND intent_id = ?", (intent.table_uuid, intent.intent_id)
            )
            return
        self._db.execute(
            "INSERT OR REPLACE INTO intents (uuid, intent_id, value) VALUES (?, ?, ?)",
            (intent.table_uuid, intent.intent_id, intent.model_dump_json()),
        )

    def intents(self, uuid: str) -> tuple[Intent, ...]:
        """The intents of a table that were not closed, expired ones too."""
        rows = self._db.execute("SELECT value FROM intents WHERE uuid = ? ORDER BY intent_id", (uuid,))
        return tuple(Intent.model_validate_json(value) for (value,) in rows)

    def note_intent(self, uuid: str, writer: str) -> None:
        """A writer says beforehand what it will touch."""
        self._db.execute("INSERT OR IGNORE INTO announcers (uuid, writer) VALUES (?, ?)", (uuid, writer))

    def announces(self, uuid: str, writer: str) -> bool:
        """Whether a writer was ever heard to say beforehand what it will touch."""
        rows = self._db.execute("SELECT 1 FROM announcers WHERE uuid = ? AND writer = ?", (uuid, writer))
        return rows.fetchone() is not None

    def save_words(self, words: Iterable[tuple[str, Word]]) -> None:
        """Keep the newest words of writers, each with the uuid of the table."""
        self._db.executemany(
            "INSERT OR REPLACE INTO words (uuid, writer, value) VALUES (?, ?, ?)",
            [(uuid, word.writer, to_json(word)) for uuid, word in words],
        )

    def words(self, uuid: str) -> tuple[Word, ...]:
        """The newest word of each writer of a table."""
        rows = self._db.execute("SELECT value FROM words WHERE uuid = ? ORDER BY writer", (uuid,))
        return tuple(from_json(Word, value) for (value,) in rows)
