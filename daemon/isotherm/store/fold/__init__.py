"""The fold, and the values that stand in it."""

from isotherm.store.fold.fold import Fold
from isotherm.store.fold.journal import JOURNAL_LENGTH
from isotherm.store.fold.partitions import PartitionRow, Tally
from isotherm.store.fold.tables import TableRow

__all__ = ["JOURNAL_LENGTH", "Fold", "PartitionRow", "TableRow", "Tally"]
