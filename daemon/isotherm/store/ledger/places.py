"""Where all tables lie, as far as the ledger has seen it: the proof before a deletion rests on it.

A place is never forgotten, because old files may still lie there. But a table's owner chooses its places, as often as he
likes, and each deletion of another table reads them. So those of one table have a bound. Beyond it only the newest are
known, beside all that were there before: whoever calls is told, and stops that table.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate

from isotherm.store.database import Part

MOST_PLACES_CHARS = 1_000_000
"""Characters of all places of one table: three thousand ordinary ones, so one that moves each day has eight years."""
CHARS_OF_PLACE = 200
"""Of a place, beside its text."""


@dataclass(frozen=True, slots=True)
class Place:
    """A folder in which files of a table were written."""

    uuid: str
    location: str
    is_home: bool
    """It was the table's location; else a property has chosen it, which gives no right to delete there."""
    is_gone: bool
    """The table is not in the catalog any more, under whatever name."""


class Places(Part):
    """The places of every table that was ever known."""

    def place(self, uuid: str, location: str, others: Iterable[str] = ()) -> bool:
        """A table was seen: it is not gone. Where it lies is remembered for as long as the ledger lives.

        Returns whether there is room for that among the places of the table. Where not, it is remembered until the table
        is seen elsewhere.

        Args:
            uuid: the table.
            location: its location.
            others: other folders in which its files are written.
        """
        wanted = dict.fromkeys(others, False) | {location: True}
        rows = self.db.execute(
            "SELECT number, location, is_home, is_gone FROM places WHERE uuid = ? ORDER BY number", (uuid,)
        ).fetchall()
        chars = [0, *accumulate(_chars(place) for _, place, _, _ in rows)]
        stay = bisect_right(chars, MOST_PLACES_CHARS) - 1
        for_good = {place for _, place, _, _ in rows[:stay]}
        new = sum(_chars(place) for place in wanted if place not in for_good)
        known = {place: bool(is_home) for _, place, is_home, is_gone in rows if not is_gone}
        if not all(known.get(place) in (is_home, True) for place, is_home in wanted.items()):
            beyond = [number for number, place, _, _ in rows[stay:] if place not in wanted]
            self._write(uuid, wanted, beyond)
        return chars[stay] + new <= MOST_PLACES_CHARS

    def _write(self, uuid: str, wanted: Mapping[str, bool], beyond: Iterable[int]) -> None:
        """Save where a table lies now, in the place of those of its places for which there was no room."""
        with self.transaction():
            self.db.executemany("DELETE FROM places WHERE number = ?", [(number,) for number in beyond])
            self.db.execute("UPDATE places SET is_gone = 0 WHERE uuid = ?", (uuid,))
            self.db.executemany(
                "INSERT INTO places (uuid, location, is_home) VALUES (?, ?, ?) "
                "ON CONFLICT (uuid, location) DO UPDATE SET is_home = MAX(is_home, excluded.is_home)",
                [(uuid, place, wanted[place]) for place in sorted(wanted, key=lambda one: not wanted[one])],
            )

    def left(self, uuid: str) -> None:
        """The table was looked for in the whole catalog, and is not there: its places keep nothing back."""
        with self.transaction():
            self.db.execute("UPDATE places SET is_gone = 1 WHERE uuid = ?", (uuid,))
            # Nobody may ever have seen where it lay.
            self.db.execute(
                "INSERT INTO places (uuid, location, is_home, is_gone) SELECT ?1, '', 0, 1 "
                "WHERE NOT EXISTS (SELECT 1 FROM places WHERE uuid = ?1)",
                (uuid,),
            )

    def gone(self) -> frozenset[str]:
        """The tables that were looked for in the whole catalog, and were not there."""
        # All places of a table are gone, or none.
        rows = self.db.execute("SELECT DISTINCT uuid FROM places INDEXED BY places_gone WHERE is_gone")
        return frozenset(uuid for (uuid,) in rows)

    def home(self, uuid: str) -> str | None:
        """The location that a table was first seen with, or None where it never was."""
        location, _ = self.db.execute(
            "SELECT location, MIN(number) FROM places WHERE uuid = ? AND is_home", (uuid,)
        ).fetchone()
        return None if location is None else str(location)

    def places(self, texts: Iterable[str] = ("",)) -> list[Place]:
        """Places of every table that was ever known, in the order in which they were seen.

        Args:
            texts: only places whose location contains one of these, or is spelled in no plain way; there may be millions
                of others.
        """
        rows = self.db.execute(
            "SELECT uuid, location, is_home, is_gone FROM places "
            "WHERE EXISTS (SELECT 1 FROM json_each(?) WHERE instr(location, value)) "
            "OR instr(replace(location, '://', ':'), '//') OR location GLOB '*/.*' OR location GLOB ? ORDER BY number",
            (json.dumps(list(texts)), "*[?#\\\t\n\r]*"),
        )
        return [Place(uuid, location, bool(home), bool(gone)) for uuid, location, home, gone in rows]


def _chars(place: str) -> int:
    return len(place) + CHARS_OF_PLACE
