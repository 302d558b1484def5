"""What is done where SQLite says that a store is damaged.

A write that did not reach the disk may leave an index that does not fit its table. SQLite notices it when it comes upon
the row, and says neither in which of the two stores nor in which table. A look for it is too slow for each start
(`database.check`). So the daemon ends, leaves a mark in its folder, and the next start looks thoroughly: a fold that is
damaged is made again, and of a ledger the indexes are. An index may have been the newer one of the two. So a ledger that
was mended counts as older than what it did, as one that was restored does: nothing is deleted until a person says so.

SQLite does not look whether a text is UTF-8; Python does, when it reads one. A key or a name that is not counts as damage
in the same way. A value of ours that is not is the trouble of its row alone (`database.from_row`).
"""

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from isotherm.core.model.holds import Hold, HoldKind
from isotherm.store.database import DamagedError, RowError, StoreError, check, open_as_it_is
from isotherm.store.fold import Fold
from isotherm.store.folder import FOLD, LEDGER
from isotherm.store.ledger import Ledger
from isotherm.store.ledger.holds import Holds
from isotherm.store.ledger.schema import VALUES, VERSIONS

MARK = "damaged"
"""A file of the state folder: the next start looks thoroughly through both stores."""
REMEDY = "put back a backup of it (docs/runbook.md#restore-the-ledger)"


def have_looked_through(folder: Path) -> None:
    """Have the next start look thoroughly through both stores of a state folder. Raises OSError."""
    (folder / MARK).touch(mode=0o600)


@dataclass(frozen=True, slots=True)
class Stores:
    """Both stores, open, and what was done to them before."""

    fold: Fold
    ledger: Ledger
    rebuilt: str | None
    """Why the fold was made again, or None where it was not."""
    mended: str | None
    """Why the indexes of the ledger were made again, or None where they were not."""


def open_stores(folder: Path, now_ms: int) -> Stores:
    """Open both stores of a state folder, and mend what can be mended.

    Raises:
        StoreError: one of them cannot be opened, or the ledger is damaged for good.
    """
    mark, path = folder / MARK, folder / LEDGER
    is_suspect = mark.exists()
    # A fold that this version cannot read is deleted. Where the ledger is refused, nothing may be touched: the newer
    # version would have to scan every table again.
    ledger, mended = _ledger(path, now_ms, is_suspect=is_suspect)
    fold, rebuilt = Fold.open_or_rebuild(folder / FOLD, is_suspect=is_suspect)
    mark.unlink(missing_ok=True)
    return Stores(fold, ledger, rebuilt, mended)


def _ledger(path: Path, now_ms: int, *, is_suspect: bool) -> tuple[Ledger, str | None]:
    try:
        return Ledger(path, is_suspect=is_suspect), None
    except DamagedError as err:
        try:
            _Damaged(path).mend(path, str(err), now_ms)
        except (sqlite3.Error, StoreError, RowError):
            raise DamagedError(f"{err}; {REMEDY}", path) from err
        return Ledger(path), str(err)


class _Damaged(Holds):
    """A ledger whose indexes may be wrong."""

    def __init__(self, path: Path) -> None:
        self.db = open_as_it_is(path)

    def mend(self, path: Path, why: str, now_ms: int) -> None:
        """Make its indexes again, and hold deletions back. Where that is not enough, nothing is changed.

        Raises:
            StoreError, RowError, sqlite3.Error: it is damaged elsewhere too, or of another version.
        """
        try:
            with self.transaction():
                if self.db.execute("PRAGMA user_version").fetchone()[0] != len(VERSIONS):
                    raise StoreError(f"{path} is damaged, and of another version")
                self.db.execute("REINDEX")
                own = self.db.execute("SELECT value FROM facts WHERE name = 'id'").fetchone()[0]
                text = (
                    f"the ledger of this daemon was damaged ({why}); its indexes were made again, but it may be older "
                    "than what it did; `isotherm resume` lets it delete again"
                )
                self.hold(Hold(HoldKind.LEDGER, own, "", text, now_ms), told=False)
                check(self.db, path, thoroughly=True, values=VALUES)
        finally:
            self.db.close()
