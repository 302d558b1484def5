"""Where files of a table may be deleted, and where those of all other tables lie: by what the ledger has seen of them."""

from collections.abc import Collection, Iterable, Iterator, Sequence

from isotherm.contract.identity import levels_of
from isotherm.contract.paths import folder, in_all_spellings, taken_for
from isotherm.core.deletion import Neighbours, named_folders, own_folders
from isotherm.service.ports import LoadedTable
from isotherm.store.ledger import Ledger, Place


def neighbours_of(
    ledger: Ledger, loaded: LoadedTable, also_under: Sequence[str], names: Collection[str] = ()
) -> Neighbours:
    """The same.

    Args:
        ledger: what it has seen of all tables.
        loaded: the table.
        also_under: folders outside of tables' locations in which the operator lets us delete.
        names: of the catalog's tables. What was found by listing needs none, because it goes in the location alone.
    """
    home, mine = ledger.home(loaded.table.uuid), loaded.table.uuid
    own = {} if home is None else own_folders(home, also_under, levels_of(loaded.table.name))
    places = ledger.places({in_all_spellings(one.of) for one in own.values()})
    others: set[str] = set()
    claims: set[str] = set()
    for one, is_claim in _others(places, mine, home):
        # However it is spelled: what lies there may be named by another spelling, as on a disk.
        (claims if is_claim else others).update(map(folder, taken_for(one.location)))
    # By the name that he gives a table, nobody keeps what is expired in this one's location.
    made = tuple(Neighbours(own).made)
    nested = _named_within(also_under, loaded.table.name, names) if also_under else ()
    others.update(one for one in nested if one not in own and not one.startswith(made))
    return Neighbours(own, frozenset(others), frozenset(claims))


def _named_within(also_under: Sequence[str], name: str, names: Collection[str]) -> Iterator[str]:
    """The folders that are named for tables below a namespace that is called as a table is.

    With `{namespace}/{name}`, the folder of `a.b` has that of `a.b.c` in it, and who owns the first may not own the
    second.
    """
    for below in names:
        if below.startswith(f"{name}."):
            named = named_folders(also_under, levels_of(below))
            yield from (folder(one) for one in named if one not in also_under)


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
        theirs, ours = folder(taken_for(one.location)[-1]), folder(home or "")
        is_claim = was_here and not one.is_home and (theirs.startswith(ours) or ours.startswith(theirs))
        yield one, is_claim
