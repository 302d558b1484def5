"""Where files of a table may be deleted, and where those of all other tables lie: by what the ledger has seen of them."""

from collections.abc import Iterable, Iterator, Sequence

from isotherm.contract.identity import levels_of
from isotherm.contract.paths import folder, in_all_spellings
from isotherm.core.deletion import Neighbours, own_folders
from isotherm.service.ports import LoadedTable
from isotherm.store.ledger import Ledger, Place


def neighbours_of(ledger: Ledger, loaded: LoadedTable, also_under: Sequence[str]) -> Neighbours:
    """The same.

    Args:
        ledger: what it has seen of all tables.
        loaded: the table.
        also_under: folders outside of tables' locations in which the operator lets us delete.
    """
    home, mine = ledger.home(loaded.table.uuid), loaded.table.uuid
    own = {} if home is None else own_folders(home, also_under, levels_of(loaded.table.name))
    places = ledger.places({in_all_spellings(one.of) for one in own.values()})
    others: set[str] = set()
    claims: set[str] = set()
    for one, is_claim in _others(places, mine, home):
        (claims if is_claim else others).add(folder(one.location))
    return Neighbours(own, frozenset(others), frozenset(claims))


def _others(places: Iterable[Place], mine: str, home: str | None) -> Iterator[tuple[Place, bool]]:
    """The places of other tables, each with whether it only claims what is this table's.

    So does one that a property of another table chose when this table was there already, in, above or at its home:
    would it count as any other, then who may set a property could keep what is expired from ever being deleted.
    """
    was_here = False
    for one in places:
        was_here = was_here or (one.uuid == mine and one.location == home)
        if one.uuid == mine or one.is_gone:
            continue
        theirs, ours = folder(one.location), folder(home or "")
        is_claim = was_here and not one.is_home and (theirs.startswith(ours) or ours.startswith(theirs))
        yield one, is_claim
