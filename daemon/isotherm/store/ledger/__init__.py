"""The ledger, and the values that stand in it."""

from isotherm.store.ledger.accounts import Account
from isotherm.store.ledger.deletions import CLOCK, SEARCH, SURVEY
from isotherm.store.ledger.holds import halt_of, pause_of, quarantines_of
from isotherm.store.ledger.ledger import Ledger
from isotherm.store.ledger.operations import Operation
from isotherm.store.ledger.places import Place
from isotherm.store.ledger.silences import Silence

__all__ = [
    "CLOCK",
    "SEARCH",
    "SURVEY",
    "Account",
    "Ledger",
    "Operation",
    "Place",
    "Silence",
    "halt_of",
    "pause_of",
    "quarantines_of",
]
