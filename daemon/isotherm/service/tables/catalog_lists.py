"""The newest list of all tables of the catalog: made beside the loop, at a steady pace, and sooner where somebody waits.

A list of thousands of namespaces takes minutes. So nobody in the loop makes one: who needs a list that is newer than a
certain time says so (`asked_since`), and asks again later.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from isotherm.core.model.outside import Outside
from isotherm.core.observations import TrySoon
from isotherm.service.ports import Catalog, Listener, Listing
from isotherm.service.survey.silences_kept import BREAK_S, Silences
from isotherm.store.ledger import Ledger

PATIENCE_S = 86_400.0
"""A namespace for which the catalog has no answer all day is passed over: nobody else can read it either."""
REFUSED_S = 120.0
"""One that refuses must have done so for this long: a server that restarts says the same, and all its names count."""
WAIT_S = 1.0
"""A list that is there within this time is taken in the same round; a longer one is made beside the loop."""
GOOD_FOR_S = 600.0
"""After a list, beside the time until three others."""
WANTED_EVERY_S = 60.0
"""Between two lists for which somebody waits, where the steady pace is slower."""
EMPTY = "it lists no tables; a SQL database keeps those of several catalogs, each under its catalog.name"


@dataclass(slots=True)
class CatalogLists:
    """Makes one list after another."""

    every_s: float
    catalog: Catalog
    ledger: Ledger
    listen: Listener
    now_ms: Callable[[], int]
    monotonic_s: Callable[[], float]
    wait_s: float = WAIT_S
    newest: Listing | None = None
    asked_s: float = 0.0
    """When the newest list was asked for."""
    _last_s: float = float("-inf")
    """When the last list ended, or failed."""
    _began_s: float | None = None
    """When the list that is under way was asked for."""
    _wanted_since_s: float | None = None
    """Somebody waits for a list that is asked for at this time or later."""
    _silent_since_s: dict[str, float] = field(default_factory=dict)
    """Namespaces that were not shown in the last list, and since when there was no answer."""
    _refused_since_s: dict[str, float] = field(default_factory=dict)
    """Those of them that refused, and since when."""
    _silences: Silences = field(init=False)
    """What the ledger keeps of them."""
    _listed_s: float | None = None
    """When the last list ended that did not fail."""
    _unlisted: frozenset[str] = frozenset()
    """Namespaces that the catalog did not show the last time: each is reported once, because it may stay so."""

    def __post_init__(self) -> None:
        self._silences = Silences(self.ledger, "namespace", PATIENCE_S, self.now_ms)

    @property
    def has_heard_all(self) -> bool:
        """Whether the last list shows every table that anybody can see: in no namespace something may still turn up.

        It must have been asked for when the patience was over: time alone is no second answer.
        """
        return all(map(self._is_heard, self._unlisted))

    def _is_heard(self, namespace: str) -> bool:
        never_s = float("inf")
        silent_s = self.asked_s - self._silent_since_s.get(namespace, never_s)
        return (
            silent_s >= PATIENCE_S
            or self.asked_s - self._refused_since_s.get(namespace, never_s) >= REFUSED_S
        )

    @property
    def good_for_s(self) -> float:
        """How long from now the last list is the newest that can be had: some lists may fail, and each takes its time."""
        return GOOD_FOR_S + 3 * self.every_s + 2 * (self._last_s - self.asked_s)

    def asked_since(self, at_s: float) -> Listing | None:
        """The newest list, if it was asked for at this time or later. Returns None if not; then one is made soon."""
        if self.newest is not None and self.asked_s >= at_s:
            return self.newest
        self._wanted_since_s = max(at_s, self._wanted_since_s or at_s)
        return None

    def take(self) -> Listing | None:
        """The next list, once it is there; None while it is not. Raises Unavailable."""
        every_s = self.every_s if self._wanted_since_s is None else min(self.every_s, WANTED_EVERY_S)
        if self._began_s is None and self.monotonic_s() - self._last_s < every_s:
            return None
        if self._began_s is None:
            self._began_s = self.monotonic_s()
        began_s = self._began_s
        try:
            listing = self.catalog.list_beside(self.wait_s)
        except BaseException:
            # From the end, also of a list that failed: the questions of one may take half a minute each.
            self._last_s, self._began_s = self.monotonic_s(), None
            raise
        if listing is None:
            return None
        self._last_s, self._began_s = self.monotonic_s(), None
        if not listing.names and not listing.unlisted and (self.newest is None or self.newest.names):
            # Ordinary where a lake begins, so it is said once; a mistake in the name would look the same.
            self.listen(TrySoon("the catalog", EMPTY, Outside.CATALOG))
        self.newest, self.asked_s = listing, began_s
        if self._wanted_since_s is not None and began_s >= self._wanted_since_s:
            self._wanted_since_s = None
        self._note_unlisted(listing, began_s)
        for namespace in sorted(listing.unlisted.keys() - self._unlisted):
            self.listen(
                TrySoon(f"the tables of namespace {namespace}", listing.unlisted[namespace], Outside.CATALOG)
            )
        self._unlisted = frozenset(listing.unlisted)
        return listing

    def _note_unlisted(self, listing: Listing, began_s: float) -> None:
        """Note the namespaces that are not shown. While the catalog as a whole gave none, nobody has asked for them."""
        now_s, since_s = self._last_s, self._silent_since_s
        unasked_s = 0.0 if self._listed_s is None else began_s - self._listed_s - self.every_s - BREAK_S
        self._listed_s = now_s
        self._silent_since_s = {
            one: since_s[one] + max(unasked_s, 0.0)
            if one in since_s
            else now_s - self._silences.before_s(one)
            for one in listing.unlisted
            if one in since_s or one in listing.silent
        }
        self._refused_since_s = {
            one: self._refused_since_s.get(one, now_s)
            for one in listing.unlisted
            if one not in listing.silent
        }
        with self.ledger.transaction():
            self._silences.end_but(self._silent_since_s)
            self._silences.keep(
                {one: (now_s - at_s, self.every_s) for one, at_s in self._silent_since_s.items()}
            )
