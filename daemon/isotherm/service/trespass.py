"""Whether a job would read what is another table's.

A path in a manifest is only text. The daemon has rights on all tables, so it would copy another table's rows into the files of
the one that names them. Who was seen first in a folder has it; by what the ledger has seen of all tables.
"""

from collections.abc import Iterable

from isotherm.contract.paths import cluster, deepest, folder, taken_for
from isotherm.core.model.files import LiveFile
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.service.ports import LoadedTable
from isotherm.store.ledger import Ledger, Place


def trespass(ledger: Ledger, loaded: LoadedTable, files: Iterable[LiveFile]) -> tuple[Refusal, str] | None:
    """Why a job of a table that reads these files takes what is another's, and its folder; None where it does not.

    The location that a table was first seen with is its own, also where another table has the same: a table that is
    made under a name that was renamed away gets the folder of the first.
    """
    home = ledger.home(loaded.table.uuid)
    sure = set() if home is None else {folder(home)}
    stray = [file.path for file in files if any(deepest(one, sure) is None for one in taken_for(file.path))]
    if not stray:
        return None
    own, others = _divided(ledger.places(), loaded.table.uuid, sure)
    for path in stray:
        for meant in taken_for(path):
            theirs, ours = deepest(meant, others), deepest(meant, own)
            if theirs is None or others[theirs] != cluster(path):
                continue
            if ours is None or len(theirs) > len(ours):
                why = f"it names {path}, which lies in another table's folder, {theirs}"
                return Refusal(Reason.LOCATION, why), theirs
    return None


def _divided(places: Iterable[Place], mine: str, sure: set[str]) -> tuple[set[str], dict[str, str]]:
    """The folders of a table, and the locations of others with their HDFS clusters, in the order in which they were seen.

    Whoever may alter a table lays it into another's folder. So of its later places none counts that lies in one.
    """
    own, others = set(sure), dict[str, str]()
    for one in places:
        place = folder(one.location)
        if one.uuid == mine:
            own |= set() if deepest(place, others) else {place}
        elif one.is_home and not one.is_gone and place not in own:
            others[place] = cluster(one.location)
    return own, others
