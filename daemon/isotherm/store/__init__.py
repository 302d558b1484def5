"""What the daemon keeps on disk: the fold, a cache that may be deleted at any time, and the ledger, which may not.

Both are SQLite in WAL mode, so that the commands that ask can read them beside a running daemon.
"""

from isotherm.store.fold import Fold
from isotherm.store.folder import FolderTakenError, StateFolder
from isotherm.store.ledger import Ledger

__all__ = ["Fold", "FolderTakenError", "Ledger", "StateFolder"]
