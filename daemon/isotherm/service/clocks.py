"""Clocks: this machine's, held against its own monotonic one, the catalog's and the stores'.

A grace that a wrong clock has ended is none: so nothing is deleted while one of them differs. `core.clock_check` says what
counts as a difference; this module asks. A store's time is that of a small file written to it, so it takes a table to ask.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from isotherm.core.clock_check import SKEW_MS, ClockCheck
from isotherm.service.ports import Catalog, EventSource, LoadedTable, Maintainer, NoWord, Refused, Unavailable
from isotherm.service.tables.failing_tables import Barrier
from isotherm.store.fold import Fold

WITNESS_AGAIN_S = 300.0
"""While a store's clock differs it is looked at so often."""
CLOCK_AGAIN_S = 60.0
"""A store that did not give its time is asked again after this."""
CATALOG = "the catalog"
STORE = "the store of"


@dataclass(frozen=True, slots=True)
class _Witness:
    """A table by which a store's clock was looked at."""

    uuid: str
    looked_s: float
    is_good: bool
    """Its store has answered."""


@dataclass(slots=True, kw_only=True)
class Clocks:
    """What is known of the clocks that deletions rest on."""

    fold: Fold
    events: EventSource
    catalog: Catalog
    maintainer: Maintainer
    barrier: Barrier
    now_ms: Callable[[], int]
    monotonic_s: Callable[[], float]
    seen: ClockCheck = field(default_factory=ClockCheck)
    _witnesses: dict[str, _Witness] = field(default_factory=dict)
    """By store: the table by which its clock was looked at last."""
    _clockless: dict[str, tuple[float, type[Unavailable], str]] = field(default_factory=dict)
    """By store: until when it is not asked for its time again, because it gave none, and why. Not the error itself: that
    would keep what was at hand when it was raised, each time a table's metadata."""

    def trouble(self) -> str | None:
        """Why this machine's clock is not to be believed, or None."""
        now_s = self.monotonic_s()
        self.seen = self.seen.turned(self.now_ms(), now_s)
        return self.seen.trouble(now_s)

    def turn(self) -> None:
        """Look at this machine's own clocks and the catalog's; a store that differed is looked at again."""
        now_s = self.monotonic_s()
        self.seen = self.seen.turned(self.now_ms(), now_s)
        skew_ms = self.catalog.clock_skew_ms()
        if skew_ms is not None:
            self.seen = self.seen.compared(CATALOG, skew_ms, now_s)
        for store, (_, skew_ms) in self.seen.skews.items():
            if store != CATALOG and abs(skew_ms) > SKEW_MS:
                self._look_again(store, now_s)

    def check(self, loaded: LoadedTable) -> str | None:
        """Hold this machine's clock against those of the store and the catalog, where it is time; why not, or None.

        Raises:
            Unavailable: the store does not take the small file by which its time is told.
        """
        now_s = self.monotonic_s()
        scheme, _, rest = loaded.facts.location.partition("://")
        store = f"{STORE} {scheme}://{rest.partition('/')[0]}" if rest else f"{STORE} files"
        if self.seen.wants(store, now_s):
            until_s, kind, why = self._clockless.get(store, (now_s, Unavailable, ""))
            if now_s < until_s:
                raise kind(why)  # each look may take seconds, and all tables of the store want one
            try:
                skew_ms = self.maintainer.clock_skew_ms(loaded)
            except (Refused, NoWord):  # there is an answer, and other tables of the store may have the right
                raise
            except Unavailable as err:
                self._clockless[store] = (self.monotonic_s() + CLOCK_AGAIN_S, type(err), str(err))
                raise
            self._clockless.pop(store, None)
            self._witnesses[store] = _Witness(loaded.table.uuid, now_s, is_good=True)
            if skew_ms is not None:
                self.seen = self.seen.compared(store, skew_ms, now_s)
        skew_ms = self.catalog.clock_skew_ms()
        if skew_ms is not None:
            self.seen = self.seen.compared(CATALOG, skew_ms, now_s)
        return self.seen.trouble(now_s)

    def _look_again(self, store: str, now_s: float) -> None:
        """Look at a store's clock that differed, by the table that saw it; where that fails, by others in turn."""
        witness = self._witnesses.get(store, _Witness("", float("-inf"), is_good=False))
        names = {uuid: name for uuid, name in self.fold.names().items() if self.events.owns(uuid)}
        if now_s - witness.looked_s < WITNESS_AGAIN_S or not names:
            return
        behind = [uuid for uuid in sorted(names) if uuid > witness.uuid]
        next_one = behind[0] if behind else min(names)
        uuid = witness.uuid if witness.is_good and witness.uuid in names else next_one
        self._witnesses[store] = _Witness(uuid, now_s, is_good=False)
        with self.barrier.around(names[uuid], "looking at its store's clock", f"{uuid}/clock"):
            self.check(self.catalog.load(names[uuid]))
            self.barrier.forget(f"{uuid}/clock")
        self.seen = self.seen.settled(now_s)
