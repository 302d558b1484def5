"""Remembers where tables lie, whenever one is seen: the proof before a deletion of another table rests on it."""

from collections.abc import Mapping

from isotherm.contract.paths import written_under
from isotherm.service.ports import LoadedTable, Unreadable
from isotherm.store.ledger import Ledger

TOO_OFTEN = (
    "its location, or the properties that choose its folders (write.data.path and others), were changed too often: no "
    "further place of it is kept for good; put back a place that it had before, and find out who changes them"
)


def place(ledger: Ledger, loaded: LoadedTable) -> None:
    """Remember where a table that was just loaded lies.

    Raises:
        Unreadable: it was at so many places that this one will not be known for good. What it writes here could be
            taken for nobody's, in a folder of another table; so nothing is done to it.
    """
    if why := remembered(ledger, loaded.table.uuid, loaded.facts.location, loaded.facts.properties):
        raise Unreadable(why)


def remembered(ledger: Ledger, uuid: str, location: str, properties: Mapping[str, str]) -> str:
    """Remember where a table lies by what it says. Returns why that will not be known for good, or nothing."""
    folders = written_under(location, properties)
    return "" if ledger.place(uuid, folders.pop("location"), folders.values()) else TOO_OFTEN
