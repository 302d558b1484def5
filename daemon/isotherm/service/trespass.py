"""Whether a table takes what is another's: it lies in another table's folder, or names files that do.

A path in metadata is only text, and who may alter a table chooses its location. The daemon has rights on all tables. So it
would copy another table's rows into this one, or write where the owner may not. Who was seen first in a folder has it, for as
long as the table is there.
"""

from collections.abc import Collection, Iterable

from isotherm.contract.paths import deepest, folder, in_all_spellings, written_under
from isotherm.core.model.files import LiveFile
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.service.ports import LoadedTable
from isotherm.store.fold import Fold
from isotherm.store.ledger import Ledger, Place

MADE = ("data/", "metadata/")
"""The folders that Iceberg makes by itself. A table may lie beside them: `a.b` within the folder of `a`."""


def trespass(
    fold: Fold, ledger: Ledger, loaded: LoadedTable, files: Iterable[LiveFile] = ()
) -> Refusal | None:
    """What a table, or a job of it that reads these files, takes of another table; None where it takes nothing."""
    written = written_under(loaded.facts.location, loaded.facts.properties)
    # Of many files a few folders, and of all files of a folder one.
    read = {file.path.rpartition("/")[0]: file.path for file in files}
    texts = {text for place in (*written.values(), *read) for text in _upwards(in_all_spellings(place))}
    # Of one that we followed and follow no more the catalog has said that it is gone. That the survey looks for it once
    # more in all of the catalog is for deletions.
    places = [
        one
        for one in ledger.places_at(texts)
        if not one.is_gone and (not ledger.was_read(one.uuid) or fold.table(one.uuid) is not None)
    ]
    own, others = _divided(places, loaded.table.uuid)
    for name, place in written.items():
        if folder(place) not in own and (theirs := _taken(folder(place), others)):
            return Refusal(Reason.LOCATION, f"its {name} {place!r} is another table's folder, {theirs}")
    for path in read.values():
        of_another, ours = deepest(path, others), deepest(path, own)
        if of_another is not None and (ours is None or len(of_another) > len(ours)):
            why = f"it names {path}, which lies in another table's folder, {of_another}"
            return Refusal(Reason.LOCATION, why)
    return None


def _upwards(path: str) -> Iterable[str]:
    """A path, and each one in which it lies."""
    while path:
        yield path
        path = path.rpartition("/")[0]


def _divided(places: Iterable[Place], mine: str) -> tuple[Collection[str], Collection[str]]:
    """The folders of a table, and the locations of others, from places in the order in which they were seen.

    What a property has chosen beside its table's location keeps nobody out.
    """
    own: set[str] = set()
    others: set[str] = set()
    for one in places:
        place = folder(one.location)
        if one.uuid == mine:
            own |= set() if _taken(place, others) else {place}
        elif one.is_home and place not in own:
            others.add(place)
    return own, others


def _taken(place: str, others: Collection[str]) -> str:
    """Which other table has a folder, or empty."""
    return next(
        (one for one in others if place == one or place.startswith(tuple(f"{one}{part}" for part in MADE))),
        "",
    )
