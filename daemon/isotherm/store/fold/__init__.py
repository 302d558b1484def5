"""The fold, and the values that stand in it."""

from isotherm.store.fold.fold import Fold
from isotherm.store.fold.journal import BYTES_OF_PARTITION, JOURNAL_BYTES, JOURNAL_LENGTH
from isotherm.store.fold.partitions import PartitionRow, Tally
from isotherm.store.fold.tables import TableLine, TableRow
from isotherm.store.fold.troubles import Trouble

__all__ = [
    "BYTES_OF_PARTITION",
    "JOURNAL_BYTES",
    "JOURNAL_LENGTH",
    "Fold",
    "PartitionRow",
    "TableLine",
    "TableRow",
    "Tally",
    "Trouble",
]
