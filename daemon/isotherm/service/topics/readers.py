"""Readers of tables, as they say it on their topic: what they have not read yet does not expire.

The topic is read to its end in each round, and before each expiry. The ledger has a copy, for the commands beside the
daemon. What is not on the topic is no reader: one that was lost is said again by the readers themselves.
"""

from collections.abc import Callable
from dataclasses import dataclass

from isotherm.contract.readers import decode_position
from isotherm.core.observations import ReaderRejected
from isotherm.service.ports import KeyedTopic, Listener
from isotherm.store.ledger import Ledger

MOST_READERS = 10_000
"""Of all tables. With more, nobody knows who reads what, and nothing expires: it is told."""


@dataclass(slots=True)
class Readers:
    """What this daemon knows of them."""

    topic: KeyedTopic
    ledger: Ledger
    listen: Listener
    touch: Callable[[str], None]
    """Has the verdicts on a table, by its uuid, made again."""
    why_unknown: str | None = "the topic of readers was not read yet"
    """Why it is not known now who reads what, or None: it is."""

    def refresh(self, timeout_s: float) -> bool:
        """Take in what is new; whether it is known now who reads what."""
        before, self.why_unknown = self.why_unknown, None
        reading = self.topic.read(timeout_s)
        if reading is None:
            self.why_unknown = f"the topic of readers could not be read within {timeout_s:.0f} s"
            return False
        if not reading.records and not reading.is_whole and before is None:
            return True
        with self.ledger.transaction():
            gone = {key for key, value in reading.records.items() if value is None}
            if reading.is_whole:
                gone |= self.ledger.position_keys() - reading.records.keys()
            self.ledger.forget_positions(key for key in gone if "/" in key)
            for key, value in reading.records.items():
                if value is not None:
                    self._take(key, value)
            count = len(self.ledger.position_keys())
        for uuid in {key.partition("/")[0] for key in (*gone, *reading.records)}:
            self.touch(uuid)
        if count > MOST_READERS:
            self.why_unknown = f"{count} readers stand on their topic, more than {MOST_READERS}"
        return self.why_unknown is None

    def _take(self, key: str, value: bytes) -> None:
        try:
            self.ledger.keep_position(decode_position(key, value))
        except ValueError as err:
            self.listen(ReaderRejected(key, str(err)))
