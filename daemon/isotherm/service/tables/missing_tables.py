"""Tables that the catalog did not find, refused, or said nothing of: since when, and whether they are gone by now.

A catalog that is restarted, or has lost its database for a moment, says of every table that it is not there.
"""

from collections.abc import Callable, Mapping

from isotherm.service.ports import NoWord, Refused, TableMissing
from isotherm.service.tables.catalog_lists import CatalogLists
from isotherm.store.fold import Fold

GONE_AFTER_S = 300.0
"""A table must be missing for so long before it counts as gone, and everything that is known of it is dropped."""
REFUSED_FOR_S = 3600.0
"""The same of a table that is refused. Some catalogs answer 403 for what they do not have, so that nobody learns of it. If
only a right was missing, the table is scanned again once it is listed."""
NO_WORD_FOR_S = 86_400.0
"""The same where its answers say nothing of the table, as those of a server that fails at it: only lists say that it is gone."""
LONG_S = REFUSED_FOR_S
"""After so long what was last seen of a table is no news any more, whatever becomes of it."""

Answer = type[TableMissing] | type[Refused] | type[NoWord]
_GONE_AFTER_S: Mapping[Answer, float] = {
    TableMissing: GONE_AFTER_S,
    Refused: REFUSED_FOR_S,
    NoWord: NO_WORD_FOR_S,
}


class MissingTables:
    """Remembers, by name, since when each answer was given, until the table is found or gone."""

    def __init__(self, fold: Fold, lists: CatalogLists, monotonic_s: Callable[[], float]) -> None:
        self._fold = fold
        self._lists = lists
        self._monotonic_s = monotonic_s
        self._since_s: dict[str, dict[Answer, float]] = {}

    def is_gone(self, name: str, answer: Answer) -> bool:
        """Note that a table was not found. Returns whether it is gone by now.

        It is gone when the catalog gave the same answer twice, so long apart, and it is not in a list that was asked
        for in between. Of one of which nothing is known, nothing can be lost: the newest list says it.
        """
        if not self._fold.named(name) and not self._is_listed(name, answer):
            newest = self._lists.newest
            is_gone = answer is TableMissing or not (newest is None or newest.hides(name))
            if is_gone:
                self.found(name)  # what comes under the name next has no past
            return is_gone
        now_s = self._monotonic_s()
        since_s = self._since_s.setdefault(name, {}).setdefault(answer, now_s)
        listing = self._lists.asked_since(since_s)
        if listing is None or now_s - since_s < _GONE_AFTER_S[answer]:
            return False
        is_empty = not listing.names and len(self._fold.names()) > 1
        if name in listing.names or listing.hides(name) or is_empty:
            return False
        del self._since_s[name]
        return True

    def _is_listed(self, name: str, answer: Answer) -> bool:
        """Whether the newest list has a table that is refused. What else is not found is not there."""
        newest = self._lists.newest
        return answer is not TableMissing and newest is not None and name in newest.names

    def is_so_for_long(self, name: str, answer: Answer) -> bool:
        """Whether that was the answer for so long that what was last seen of it is no news any more."""
        since_s = self._since_s.get(name, {}).get(answer)
        return since_s is not None and self._monotonic_s() - since_s >= LONG_S

    def found(self, name: str) -> None:
        """It is there, or nothing is: what was answered before counts no more."""
        self._since_s.pop(name, None)
