"""The part of the ledger about names of which nobody knows enough, so that the waiting goes on over a restart."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from isotherm.store.database import Part


@dataclass(frozen=True, slots=True)
class Silence:
    """What is known of a name that gave no answer."""

    asked_at_ms: int
    """When it was asked last."""
    lasted_s: float
    """From the first question without an answer to that one."""
    pause_s: float
    """After which it was to be asked again."""


class Silences(Part):
    """Names without an answer, by kind."""

    def silences(self, kind: str) -> dict[str, Silence]:
        """Every name of a kind that gave no answer when it was asked last."""
        rows = self.db.execute(
            "SELECT name, asked_at_ms, lasted_s, pause_s FROM silences WHERE kind = ?", (kind,)
        )
        return {name: Silence(*values) for name, *values in rows}

    def keep_silences(self, kind: str, silent: Mapping[str, Silence]) -> None:
        """Remember names that gave no answer again."""
        self.db.executemany(
            "INSERT OR REPLACE INTO silences VALUES (?, ?, ?, ?, ?)",
            [(kind, name, one.asked_at_ms, one.lasted_s, one.pause_s) for name, one in silent.items()],
        )

    def end_silences(self, kind: str, names: Collection[str]) -> None:
        """Forget names that gave an answer, or are not there any more."""
        self.db.executemany(
            "DELETE FROM silences WHERE kind = ? AND name = ?", [(kind, name) for name in names]
        )

    def seen_names(self) -> dict[str, str]:
        """The names under which our tables were seen, and perhaps are; their uuids."""
        return dict(self.db.execute("SELECT name, uuid FROM second_names"))

    def keep_seen_names(self, uuids: Mapping[str, str]) -> None:
        """Remember which of our tables some names are."""
        self.db.executemany("INSERT OR REPLACE INTO second_names VALUES (?, ?)", list(uuids.items()))

    def end_seen_names(self, names: Collection[str]) -> None:
        """Forget names of which it is known what they are, or that are not there any more."""
        self.db.executemany("DELETE FROM second_names WHERE name = ?", [(name,) for name in names])
