"""Readers of tables, as they say it on their topic: what they have not read yet does not expire.

The topic is read to its end in each round, and before each expiry. The ledger has a copy, for the commands beside the
daemon, and for a topic that was lost or comes back older: who is not on it any more, and has not taken it back, is kept until
`expire.max_reader_lag` is over.
"""

from collections.abc import Callable
from dataclasses import dataclass

from isotherm.contract.readers import decode_position
from isotherm.core.observations import ReaderRejected
from isotherm.service.ports import KeyedTopic, Listener
from isotherm.store.ledger import Ledger

MOST_READERS = 10_000
"""Of all tables. With more, nobody knows who reads what, and nothing expires: it is told."""
MOST_TOLD = 20
"""Records of one reading that are none of ours and are told one by one."""


@dataclass(slots=True)
class Readers:
    """What this daemon knows of them."""

    topic: KeyedTopic
    ledger: Ledger
    listen: Listener
    touch: Callable[[str], None]
    """Has the verdicts on a table, by its uuid, made again."""

    def __post_init__(self) -> None:
        self.ledger.doubt_readers("the topic of readers was not read yet")

    def refresh(self, timeout_s: float) -> bool:
        """Take in what is new; whether it is known now who reads what."""
        reading = self.topic.read(timeout_s)
        doubt = self.ledger.why_readers_unknown()
        if reading is None:
            self._doubt(f"the topic of readers could not be read within {timeout_s:.0f} s", doubt)
            return False
        if not reading.records and doubt is None:
            return True
        self._doubt("its topic is being read", doubt)  # until all of it is kept
        with self.ledger.transaction():
            self.ledger.forget_positions(
                key for key, value in reading.records.items() if value is None and "/" in key
            )
            rejected = 0
            for key, value in reading.records.items():
                rejected += value is not None and not self._take(key, value, is_told=rejected < MOST_TOLD)
            if rejected > MOST_TOLD:
                self.listen(ReaderRejected("", f"{rejected} records are none of ours"))
            for uuid in {key.rpartition("/")[0] for key in reading.records}:
                self.touch(uuid)
            count = len(self.ledger.position_keys())
            why = f"{count} readers stand on their topic, more than {MOST_READERS}"
            self.ledger.doubt_readers(why if count > MOST_READERS else None)
        return count <= MOST_READERS

    def _doubt(self, why: str | None, before: str | None) -> None:
        if why != before:
            self.ledger.doubt_readers(why)

    def _take(self, key: str, value: bytes, *, is_told: bool) -> bool:
        try:
            self.ledger.keep_position(decode_position(key, value))
        except ValueError as err:
            if is_told:
                self.listen(ReaderRejected(key, str(err)))
            return False
        return True
