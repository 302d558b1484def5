"""Tables whose last look failed, and why: for people who ask beside the daemon. Nothing is decided by it.

A table that was never looked at from end to end has no row of its own, so nothing else in the stores tells of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from isotherm.core.units import clock_text
from isotherm.runtime.secrets import without_secrets
from isotherm.store.database import Part

MOST_TROUBLES = 1_000
"""Where more tables fail, these tell enough, and a round writes no more than that."""
MOST_CHARS = 500
"""Of an error."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a table could not be looked at."""

    doing: str
    """What was done to it: `looking at it for the first time`."""
    error: str
    since_ms: int = 0

    @property
    def text(self) -> str:
        """For people."""
        return f"{self.doing} fails since {clock_text(self.since_ms)}: {self.error}"


class Troubles(Part):
    """The troubles of all tables."""

    def keep_troubles(self, found: Mapping[str, Trouble], now_ms: int) -> None:
        """Keep those of a round, by table name; what is over is forgotten. Unchanged ones cost nothing."""
        before = self.troubles()
        some = {
            name: (one.doing, without_secrets(one.error)[:MOST_CHARS])
            for name, one in sorted(found.items())[:MOST_TROUBLES]
        }
        over = before.keys() - some.keys()
        other = [
            (name, *said, before[name].since_ms if name in before else now_ms)
            for name, said in some.items()
            if name not in before or (before[name].doing, before[name].error) != said
        ]
        if not over and not other:
            return
        with self.transaction():
            self.db.executemany("DELETE FROM troubles WHERE name = ?", [(name,) for name in over])
            self.db.executemany("INSERT OR REPLACE INTO troubles VALUES (?, ?, ?, ?)", other)

    def troubles(self) -> dict[str, Trouble]:
        """Those of the last round, by the table's name."""
        rows = self.db.execute("SELECT name, doing, error, since_ms FROM troubles ORDER BY name")
        return {name: Trouble(doing, error, since_ms) for name, doing, error, since_ms in rows}
