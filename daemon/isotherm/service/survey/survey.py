"""Looks at every table of the catalog, beside the loop: which table each name is, and where that lies.

Nothing is done to the tables of others, but they decide what may be deleted of ours. Two questions are asked:

- *May a name share files with one of ours?* It lies in the same folder, or is a second entry of the very same table. A
  name may be given to another table at any time, so one look is not for ever: a file is deleted only if every name in
  the catalog's newest list was looked at after the file was marked (`seen_since_ms`).
- *Is a table gone whose folder holds files back?* (`want_holders`) Where a namespace is not listed, or a name cannot
  be read, a look has shown nothing of that.

New names are looked at as they come. All are looked at again only where files wait for it, and for a tenth of the time
at most. A table that refuses, or makes no sense, counts as looked at, because it may never be readable to us: but only
when it has said so twice, minutes apart, because one look at a new name may decide. One that is dropped is gone once a
younger list does not have it. One that the catalog, or its store, gives no answer for counts so after a day, and so
does one of which nobody can say whether it is a second entry: but files of that one table wait on, until a look shows
what the name is. What keeps files waiting stands in the ledger, for those who ask.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from isotherm.core.model.outside import Outside
from isotherm.core.observations import TrySoon
from isotherm.service.ports import Catalog, Listener, Listing, Looked
from isotherm.service.survey.look import Look
from isotherm.service.survey.second_entries import SecondEntries
from isotherm.service.survey.silences_kept import Silences
from isotherm.service.survey.table_search import AGAIN_AFTER_S, TableSearch
from isotherm.service.survey.unanswered_names import Answer, UnansweredNames
from isotherm.service.survey.whereabouts import remembered
from isotherm.service.tables.seen_names import SeenNames
from isotherm.store.ledger import SURVEY, Ledger

NAMES_AT_ONCE = 500
"""What one piece of a look takes, so that the loop need not take in tens of thousands in one turn."""
SILENT_AT_ONCE = 20
"""The same of names that gave no answer before: each may cost a time-out, and other looks wait for this one."""
PAUSE_S = 10.0
"""Between two looks at all names, at least."""
SHARE = 0.1
"""Of the time, what looks at all names may take at most; half, for names that give no answer."""
TWICE_S = 120.0
"""What is refused or makes no sense must be so for this long: a replica that lags says the same of a new table."""
IN_VAIN = 6
"""Pauses in a row, each followed by no answer but the wish for another: it is as good as no answer."""
PATIENCE_S = 86_400.0
"""A name for which the catalog has no answer all day is passed over: nobody else can read it either."""


@dataclass(slots=True)
class Survey:
    """Which names were looked at since when; where the tables lie is in the ledger."""

    catalog: Catalog
    ledger: Ledger
    second_entries: SecondEntries
    seen_names: SeenNames
    clock_trouble: Callable[[], str | None]
    """Why this machine's clock is not to be believed, or None."""
    listen: Listener
    now_ms: Callable[[], int]
    monotonic_s: Callable[[], float]
    names_at_once: int = NAMES_AT_ONCE
    _listing: Listing | None = None
    _listed_s: float = 0.0
    _listed_until_s: float = 0.0
    """So long it counts as the newest."""
    _is_whole: bool = False
    _no_list: str | None = None
    """Why the catalog gives no newer list, since the last one."""
    _look: Look | None = None
    _looked: Looked | None = None
    """What its last piece came to, while it is not known which of the tables are ours under another name."""
    _looked_s: float = 0.0
    """When that came."""
    _looked_at: dict[str, float] = field(default_factory=dict)
    """By name: when the latest look at it began."""
    _uuids: dict[str, str] = field(default_factory=dict)
    """By name: the table that it was."""
    _ahead_ms: int | None = None
    """The least by which the wall clock was ahead of the monotonic one since those looks. No file that was marked
    after a look began has an earlier time than the look has by this: a clock may be set, and marks have its time."""
    _unknown: UnansweredNames = field(init=False)
    _gone: dict[str, float] = field(default_factory=dict)
    """Names that were dropped since the list was made, and when that was answered.

    One answer of a replica that lags says the same: they are gone once a younger list does not have them."""
    _first: set[str] = field(default_factory=set)
    """Names under which we knew a table of ours when they were looked at last."""
    _told: set[str] = field(default_factory=set)
    """Names that could not be read, each told once."""
    _is_wanted: bool = False
    """Whether files wait for another look at all names."""
    _is_turn_of_silent: bool = True
    """Whether names without an answer have their turn before the others: some may always be due."""
    _next_s: float = float("-inf")
    """When all names may be looked at again."""
    _last_s: float = float("-inf")
    """When the latest look at all names began."""
    _missing: TableSearch = field(init=False)

    def __post_init__(self) -> None:
        silences, unsettled = (
            Silences(self.ledger, kind, PATIENCE_S, self.now_ms) for kind in ("table", "second name")
        )
        self._unknown = UnansweredNames(self.monotonic_s, TWICE_S, silences, unsettled)
        self._missing = TableSearch(self.ledger, self.listen)

    def names(self) -> Collection[str]:
        """The names in the catalog's list; none while there is no list."""
        return () if self._listing is None else self._listing.names

    def seen_since_ms(self) -> int | None:
        """Since when every name in the catalog's list was looked at. Returns None where some were not, or the list is old."""
        names = self.names()
        if not names or not self._is_whole or self.monotonic_s() > self._listed_until_s:
            return None
        if any(one not in self._looked_at for one in names):
            return None
        since_s = min([self._listed_s, *(self._looked_at[one] for one in names)])
        return int(since_s * 1000) + self._least_ahead_ms() - 1

    def compare_names(self, name: str, uuid: str) -> bool:
        """Have each other name looked at again that was this table. Returns whether there was none.

        One that is still no more than perhaps a second entry after a day keeps files of this table alone waiting.

        A fold that is rebuilt knows a table only after its first scan, and the look may have come before.
        """
        others = [one for one in self._names_of(uuid) if one != name]
        for one in others:
            if one not in self._unknown:
                self._looked_at.pop(one, None)
        return not others

    def _names_of(self, uuid: str) -> Sequence[str]:
        """The names that are this table, as far as is known; also those that are not listed now, or give no answer."""
        second = [one for one in self.seen_names.of(uuid) if self._uuids.get(one, uuid) == uuid]
        return [
            *second,
            *(one for one, theirs in self._uuids.items() if theirs == uuid and one not in second),
        ]

    def why_not(self, name: str) -> str:
        """Why files of a table wait for this search, for people."""
        if self._listing is None:
            return "the catalog has not listed its tables yet"
        if name not in self._listing.names:
            return "the catalog's list does not show the table itself"
        if self._no_list is not None or self.monotonic_s() > self._listed_until_s:
            return f"the catalog does not list its tables: {self._no_list or 'its list takes too long'}"
        if not self._is_whole:
            namespace = next(iter([*self._listing.silent, *self._listing.unlisted]), "")
            why = self._listing.unlisted.get(namespace, "")
            return f"namespace {namespace} of the catalog gives no answer, and a table in it may need the file: {why}"
        unseen = [one for one in self._listing.names if one not in self._looked_at]
        ours = self._uuids.get(name)
        twin = next((one for one in self._names_of(ours or "") if one != name), None)
        if twin is not None and not unseen:
            why = self._unknown.why(twin) if twin in self._unknown else "when it was looked at last, it was"
            why = self._listing.why_hidden(twin) or why
            return f"{twin} may be a second entry of it: {why}"
        if not unseen:
            oldest = min(self._listing.names, key=self._looked_at.__getitem__)
            hours = (self.monotonic_s() - self._looked_at[oldest]) / 3600
            return (
                f"the catalog's tables are to be looked at once more: {oldest} was looked at {hours:.1f} h ago, "
                "and no other one before"
            )
        first = next((one for one in unseen if one in self._unknown), unseen[0])
        why = f": {self._unknown.why(first)}" if first in self._unknown else ""
        return (
            f"{len(unseen)} of the catalog's {len(self._listing.names)} tables could not be looked at yet, "
            f"{first} for instance{why}; one of them may need the file"
        )

    def want(self) -> None:
        """Files wait that were marked after the last look at some name began."""
        # One that is under way began after these files were marked, or they ask again.
        if self._look is None or not self._look.is_of_all:
            self._is_wanted = True

    def want_holders(self, uuids: Collection[str], waiting: str) -> None:
        """Look for tables, because files of another one wait for them to be gone."""
        self._missing.want(uuids, waiting)

    def listed(self, listing: Listing, asked_s: float, good_for_s: float, *, is_whole: bool) -> None:
        """Take the catalog's newest list.

        Args:
            listing: the list.
            asked_s: when it was asked for.
            good_for_s: how long from now it counts as the newest.
            is_whole: whether each namespace has answered, or was silent for so long that nobody can read it.
        """
        self._no_list = None
        there = {*listing.names, *(name for name, at_s in self._gone.items() if at_s >= asked_s)}
        self._listing, self._listed_s, self._is_whole = (
            replace(listing, names=sorted(there)),
            asked_s,
            is_whole,
        )
        self._listed_until_s = self.monotonic_s() + good_for_s
        known = there - self._gone.keys()
        self._gone.clear()
        self._looked_at = {name: at_s for name, at_s in self._looked_at.items() if name in known}
        self._unknown.keep(there, listing.hides)
        self.seen_names.end_but(there, listing.hides, asked_s)
        self._uuids = {name: uuid for name, uuid in self._uuids.items() if name in known}
        self._first &= known
        self._told &= there
        self._note()

    def not_listed(self, why: str) -> None:
        """The catalog does not list its tables, so no look at all of them can begin."""
        self._no_list = why
        self._note()

    def _note(self) -> None:
        """Say in the ledger what keeps files of all tables waiting."""
        why = None if self._no_list is None else f"the catalog does not list its tables: {self._no_list}"
        silent = self._unknown.first(self._looked_at)
        if why is None and silent is not None:
            why = f"{silent}, which may share files, gives no answer: {self._unknown.why(silent)}"
        self.ledger.note_obstacle(SURVEY, why)

    def turn(self) -> bool:
        """Take what a look came to, and begin the next; whether one ended."""
        is_doubted = self.clock_trouble() is not None
        if is_doubted:
            self._looked_at.clear()  # at which times, nobody knows
            self._ahead_ms = None
        self._least_ahead_ms()
        if self._look is not None:
            self._look.ahead_ms = min(self._look.ahead_ms, self._now_ahead_ms())
        look, ended = self._look, self._ended(is_doubted=is_doubted)
        if look is not None and (ended is not None or look.asked_s is None):
            self._look = None
            if not is_doubted:
                if ended is not None:
                    self._take(look, ended)
                self._go_on(look)
        if self._look is None and not is_doubted:
            self._begin()
        return ended is not None

    def _ended(self, *, is_doubted: bool) -> Looked | None:
        """What a piece of a look came to, once it is known what each name is, or nobody takes it in."""
        looked = self.catalog.looked()
        if looked is not None:
            self._looked, self._looked_s = looked, self.monotonic_s()
            self.second_entries.begin(looked)
        if self._looked is None or not (is_doubted or self.second_entries.go_on()):
            return None
        ended, self._looked = self._looked, None
        return ended

    def _now_ahead_ms(self) -> int:
        return self.now_ms() - int(self.monotonic_s() * 1000)

    def _least_ahead_ms(self) -> int:
        now = self._now_ahead_ms()
        self._ahead_ms = now if self._ahead_ms is None else min(self._ahead_ms, now)
        return self._ahead_ms

    def _begin(self) -> None:
        listing, now_s = self._listing, self.monotonic_s()
        if listing is None:
            return
        names = [name for name in listing.names if name not in self._looked_at and name not in self._unknown]
        is_wanted = self._is_wanted or (bool(self._missing) and now_s >= self._last_s + AGAIN_AFTER_S)
        silent = self._unknown.due(self._looked_at)
        is_of_all = not names and is_wanted and now_s >= self._next_s
        is_of_all = is_of_all and not (silent and self._is_turn_of_silent)
        if is_of_all:
            # What does not answer is behind all others, and keeps none of them from being asked for. Where a look is
            # cut short, the next one goes on there.
            names = [name for name in listing.names if name in self._looked_at]
            names.sort(key=lambda name: (name in self._unknown, self._looked_at[name]))
            self._is_wanted, self._last_s = False, now_s
        elif not names:
            names = silent[:SILENT_AT_ONCE]
        if not names:
            return
        self._is_turn_of_silent = is_of_all or (self._is_turn_of_silent and names[0] not in self._unknown)
        hidden = next((f"namespace {name}: {why}" for name, why in listing.unlisted.items()), None)
        if hidden is None and len(names) < len(listing.names):
            hidden = next(
                (f"table {one}: {self._unknown.why(one)}" for one in listing.names if self._is_hidden(one)),
                None,
            )
        self._go_on(Look(now_s, self._now_ahead_ms(), is_of_all, hidden, self._listed_s, list(names)))

    def _is_hidden(self, name: str) -> bool:
        return name in self._unknown and name not in self._gone

    def _go_on(self, look: Look) -> None:
        """Begin with the next piece of a look, or end it."""
        now_s = self.monotonic_s()
        if look.behind:
            self._look = look
            if now_s >= look.again_s:
                look.asked_s = now_s
                self.catalog.start_looking(self._piece(look))
            return
        if look.is_of_all:
            self._next_s = now_s + max(PAUSE_S, look.lasted_s * (1 / SHARE - 1) + look.lost_s)
            if min(self._looked_at.values(), default=0.0) >= look.began_s:
                self._ahead_ms = look.ahead_ms  # what was looked at before does not count any more
        self._note()
        if look.is_of_all and self._missing:
            self._missing.look_through(
                look.uuids, look.hidden, listed_s=look.listed_s, began_s=look.began_s, ended_s=now_s
            )

    def _piece(self, look: Look) -> list[str]:
        """Take the next names of a look. To those that gave no answer comes one that did: does the catalog answer?"""
        look.is_of_silent = look.behind[0] in self._unknown
        names = look.behind[: SILENT_AT_ONCE if look.is_of_silent else self.names_at_once]
        piece = list(takewhile(lambda name: (name in self._unknown) is look.is_of_silent, names))
        look.behind, was_paused, look.again_s = look.behind[len(piece) :], look.again_s > 0.0, 0.0
        if was_paused or not look.is_of_silent:
            return piece  # after a pause the catalog has answered already, or it counts as one in vain
        well = (name for name in self._looked_at if name not in self._unknown and name not in piece)
        newest = max(well, key=self._looked_at.__getitem__, default=None)
        return piece if newest is None else [newest, *piece]

    def _take(self, look: Look, looked: Looked) -> None:
        now_s, self._ahead_ms = self.monotonic_s(), min(self._least_ahead_ms(), look.ahead_ms)
        asked_s = look.began_s if look.asked_s is None else look.asked_s
        if look.is_of_silent:
            look.lost_s += self._looked_s - asked_s
        else:
            look.lasted_s += self._looked_s - asked_s
        look.asked_s = None
        unread, silent = dict(looked.unread), dict(looked.silent)
        unread |= dict.fromkeys(looked.missing, "the catalog lists it, and has no table behind it")
        unread |= self._place(looked)
        silent |= self._paused(look, looked)
        unsettled = self.second_entries.unsettled
        if looked.found:
            self._unknown.found()
        look.uuids |= {lies.uuid for lies in looked.found.values()}
        unknown = {**unread, **silent, **unsettled}
        look.hidden = look.hidden or next((f"table {name}: {why}" for name, why in unknown.items()), None)
        self._tell(unknown)
        for name in looked.found.keys() - unknown.keys():
            self._looked_at[name], self._uuids[name] = look.began_s, looked.found[name].uuid
            self._unknown.answered(name)
        first = self.second_entries.first_names(looked)
        self._first = (self._first - looked.found.keys()) | first
        self.seen_names.keep(self.second_entries.names_of_ours(looked))
        self.seen_names.end_others(looked)
        self._gone |= dict.fromkeys(looked.gone, now_s)
        gone = dict.fromkeys(looked.gone, "the catalog has dropped it, which its next list is to confirm")
        for name, why in {**unknown, **gone}.items():
            answer = Answer.SILENT if name in silent else Answer.REFUSED
            if self._unknown.note(name, why, Answer.UNSETTLED if name in unsettled else answer, asked_s):
                self._looked_at[name] = look.began_s
                if name in self._first:  # it may be any table by now; a second entry it was not
                    self._uuids.pop(name, None)
            else:
                self._looked_at.pop(name, None)
        with self.ledger.transaction():
            self._unknown.save(unknown, {*looked.found, *looked.gone} - unknown.keys())
        if looked.unasked and not looked.pause_s:
            look.hidden = look.hidden or "the catalog does not answer"
            self._is_wanted = self._is_wanted or look.is_of_all

    def _paused(self, look: Look, looked: Looked) -> dict[str, str]:
        """Have a look go on after a pause, where the catalog wants one. Returns what it does not get on with, and why."""
        if not looked.pause_s:
            return {}
        unasked, vain = list(looked.unasked), list[str]()
        is_answered = looked.found or looked.gone or looked.missing or looked.unread
        look.in_vain = 0 if is_answered else look.in_vain + 1
        if look.in_vain == IN_VAIN:
            look.in_vain, vain, unasked = 0, unasked[:1], unasked[1:]
        look.behind, look.again_s = [*unasked, *look.behind], self.monotonic_s() + looked.pause_s
        return dict.fromkeys(vain, "the catalog says again and again that it has had too many requests")

    def _place(self, looked: Looked) -> dict[str, str]:
        """Remember where the tables lie that were found. Returns the names whose place is no text, and why."""
        unread = dict[str, str]()
        with self.ledger.transaction():
            for name, lies in looked.found.items():
                try:
                    if why := remembered(self.ledger, lies.uuid, lies.location, lies.properties):
                        self._tell({name: why})  # where it lies is known all the same
                except ValueError as err:  # its owner may have chosen it
                    unread[name] = f"{type(err).__name__}: {err}"
        return unread

    def _tell(self, whys: Mapping[str, str]) -> None:
        for name in sorted(whys.keys() - self._told):
            self.listen(TrySoon(f"looking where table {name} lies", whys[name], Outside.TABLE))
        self._told.update(whys)
