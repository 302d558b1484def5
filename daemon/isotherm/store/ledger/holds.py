"""What holds tables back, as the ledger has it: what was read on the topic, and what is still to be told."""

import json
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import replace

from isotherm.contract.identity import PartitionKey
from isotherm.core.model.holds import Hold, HoldKind, Quarantine, hold_key
from isotherm.runtime.secrets import without_secrets
from isotherm.store.database import Part, StoreError, to_json
from isotherm.store.ledger.rows import from_row


class Holds(Part):
    """The holds of all tables."""

    def hold(self, hold: Hold, *, told: bool) -> None:
        """Keep a hold, in the place of one with the same key; `told`: the topic has it."""
        self.db.execute(
            "INSERT OR REPLACE INTO holds (key, uuid, value, told, is_wait) VALUES (?, ?, ?, ?, ?)",
            (
                hold.key,
                hold.uuid,
                to_json(replace(hold, why=without_secrets(hold.why))),
                told,
                hold.kind is HoldKind.QUARANTINE,
            ),
        )

    def lift(self, key: str, *, told: bool) -> None:
        """Forget a hold; what the topic does not know yet is kept until it does."""
        if told:
            self.db.execute("DELETE FROM holds WHERE key = ?", (key,))
        else:
            self.db.execute("UPDATE holds SET value = NULL, told = 0 WHERE key = ?", (key,))

    def holds(self, uuid: str | None = None) -> list[Hold]:
        """What holds a table back, or without a table everything that holds anything."""
        where, values = ("TRUE", ()) if uuid is None else ("uuid = ?", (uuid,))
        rows = self.db.execute(
            f"SELECT CAST(value AS BLOB) FROM holds WHERE value IS NOT NULL AND {where} ORDER BY key",  # noqa: S608 (our own words)
            values,
        )
        return [from_row(Hold, value) for (value,) in rows]

    def holds_of(self, uuid: str, partitions: Iterable[PartitionKey]) -> list[Hold]:
        """What holds a table back as a whole, and the waits of some partitions: all of them may be thousands."""
        keys = [hold_key(uuid, HoldKind.QUARANTINE, partition) for partition in partitions]
        rows = self.db.execute(
            "SELECT CAST(value AS BLOB) FROM holds INDEXED BY holds_of_tables WHERE uuid = ?1 AND NOT is_wait AND value IS NOT NULL "
            "UNION ALL SELECT CAST(value AS BLOB) FROM holds WHERE key IN (SELECT value FROM json_each(?2)) AND is_wait "
            "AND value IS NOT NULL",
            (uuid, json.dumps(keys)),
        )
        return [from_row(Hold, value) for (value,) in rows]

    def hold_under(self, key: str) -> Hold | None:
        """The hold with this key, or None."""
        row = self.db.execute(
            "SELECT CAST(value AS BLOB) FROM holds WHERE key = ? AND value IS NOT NULL", (key,)
        ).fetchone()
        return None if row is None else from_row(Hold, row[0])

    def over(self, before_ms: int) -> list[Hold]:
        """Waits of partitions that were over by then. One that cannot be read is the trouble of its table (`holds_of`)."""
        rows = self.db.execute(
            # What is no JSON would be an error of SQLite's, as if the store were broken.
            "SELECT CAST(value AS BLOB) FROM holds WHERE value IS NOT NULL AND CASE WHEN json_valid(value) THEN "
            "json_extract(value, '$.kind') = ? AND json_extract(value, '$.until_ms') <= ? END ORDER BY key",
            (HoldKind.QUARANTINE, before_ms),
        )
        found = []
        for (value,) in rows:
            with suppress(StoreError):
                found.append(from_row(Hold, value))
        return found

    def untold(self) -> list[tuple[str, bytes | None]]:
        """Keys and values that the topic does not have yet; None as value: lifted."""
        rows = self.db.execute("SELECT key, CAST(value AS BLOB) FROM holds WHERE NOT told ORDER BY key")
        return rows.fetchall()

    def told(self, key: str, value: bytes | None) -> None:
        """The topic has this value by now."""
        if value is None:
            self.db.execute("DELETE FROM holds WHERE key = ? AND value IS NULL", (key,))
        else:
            self.db.execute(
                "UPDATE holds SET told = 1 WHERE key = ? AND CAST(value AS BLOB) = ?", (key, value)
            )

    def tell_again(self, but: Collection[str]) -> None:
        """The topic was read from its beginning: what it does not have, except for these keys, is told to it."""
        known = [key for (key,) in self.db.execute("SELECT key FROM holds WHERE told")]
        self.db.executemany(
            "UPDATE holds SET told = 0 WHERE key = ?", [(key,) for key in known if key not in but]
        )

    def halted(self, uuid: str) -> str | None:
        """Why a table stands still until a person has looked, or None where it does not."""
        return halt_of(self.holds_of(uuid, ()))

    def paused(self, uuid: str) -> Hold | None:
        """A person's wish that a table be left alone, perhaps one that is over, or None where there is none."""
        return pause_of(self.holds_of(uuid, ()))

    def quarantined(self, uuid: str) -> dict[PartitionKey, Quarantine]:
        """The partitions whose jobs fail, and until when they are left alone."""
        return quarantines_of(self.holds(uuid))


def halt_of(holds: Iterable[Hold]) -> str | None:
    """Why a table with these holds stands still, or None."""
    return next((hold.why for hold in holds if hold.kind is HoldKind.HALT), None)


def pause_of(holds: Iterable[Hold]) -> Hold | None:
    """The pause among some holds, or None."""
    return next((hold for hold in holds if hold.kind is HoldKind.PAUSE), None)


def quarantines_of(holds: Iterable[Hold]) -> dict[PartitionKey, Quarantine]:
    """The quarantines among some holds, by partition."""
    return {
        hold.partition: Quarantine(hold.until_ms or 0, hold.failures, hold.why, hold.part)
        for hold in holds
        if hold.kind is HoldKind.QUARANTINE and hold.partition is not None
    }
