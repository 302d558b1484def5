"""A barrier around each table: whatever goes wrong with one stays with it, also a mistake of ours.

A table that fails is set aside, for longer each time; a gauge, an alert and a line with the traceback say so, and the
others do not notice. Only what concerns the whole daemon goes through: its stores, and the loss of its place in the
group.
"""

import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import IntEnum

from isotherm.core.model.outside import Outside
from isotherm.core.observations import TableFailed, TableRecovered, TrySoon
from isotherm.service.ports import (
    Fenced,
    Listener,
    NotAsked,
    NotYetKnown,
    NoWord,
    Refused,
    StoreAway,
    TableMissing,
    TableSilent,
    Unavailable,
    Unreadable,
)
from isotherm.store.database import StoreTrouble

FATAL = (Fenced, StoreTrouble)
"""What ends the daemon: without its stores it does not know what it does, and fenced it has nothing to do."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 10.0, 3600.0
AWAY_PAUSE_S = 300.0
"""The longest pause of a table that does not answer; one that makes no sense, or fails by our mistake, waits longer."""
NO_WORD_PAUSE_S = 900.0
"""The longest pause where the answer was no word on the table: it may be over with the next one, and asking costs little."""
OUTAGE_S = AWAY_PAUSE_S
"""Where nothing went well for so long, everything was away: whatever waits is tried again with the first success."""
LONG_S = 86_400.0
"""What gave no answer for so long counts as looked at; what was not tried again for so long nobody wants any more."""
MOST_ASIDE = 20_000
"""Above, those whose pause is over are forgotten: forged events may name any number of tables."""
OURS = "report it with this line; meanwhile leave the table out of the policies (docs/runbook.md#isothermtablefailing)"
THEIRS = (
    "put back what cannot be read, roll the table back, or leave it out of the policies until a newer version knows its "
    "format (docs/runbook.md#isothermtablefailing)"
)
OF_OTHERS = (
    "nothing is known to be wrong with the table itself: mend the catalog, our login to it, or the right that is missing; "
    "or leave the table out of the policies (docs/runbook.md#isothermtablefailing)"
)
"""What a person can do about a table that fails by our mistake, about one that cannot be read, and about one that is not shown."""
ALL = "all tables"
"""Under which what concerns no single table is reported."""
AWAY_IN_A_ROW = 3
"""So many tables without an answer, one after the other: it is not the tables."""


class Doubt(IntEnum):
    """Who gave no answer the last time, the least first."""

    NONE = 0
    NEIGHBOURS = 1
    """Another table in the namespace, which may be the only one."""
    ITSELF = 2


@dataclass(frozen=True, slots=True)
class _Aside:
    """A table that is left alone for a while."""

    failures: int
    since_s: float
    until_s: float
    is_away: bool
    may_be_over: bool
    """With the next answer about any table: it did not answer, or its answer was about the server, or about who asks."""
    table: str = ""
    doing: str = ""
    error: str = ""
    """What was done to which table, and what came of it."""
    told_of: str = ""
    """The table that was reported as failing for it, and not as recovered."""
    told_at_s: float = float("-inf")


@dataclass(slots=True)
class Barrier:
    """Which tables are set aside."""

    listen: Listener
    monotonic_s: Callable[[], float]
    is_maintained: Callable[[str], bool] = lambda _: True
    """Whether a policy names a table. Of others it is only said that they are tried again: a person has left them out."""
    _aside: dict[str, _Aside] = field(default_factory=dict)
    _failing: dict[str, set[str]] = field(default_factory=dict)
    """What failed of each table that was reported as failing: itself, jobs, other work under keys of its own."""
    not_asked: set[str] = field(default_factory=set)
    """What had its turn in this round and was not asked for, because another one had no answer just before."""
    _away_in_a_row: int = 0
    _mute: set[str] = field(default_factory=set)
    """Namespaces whose table that was asked for last cost a time-out: their others may as well."""
    _well_s: float = float("-inf")
    """When something went well last."""

    def is_aside(self, name: str) -> bool:
        """Whether a table, or a job, is left alone now."""
        known = self._aside.get(name)
        return known is not None and self.monotonic_s() < known.until_s

    def makes_no_sense(self, name: str) -> bool:
        """Whether a table is set aside for what was found (damage, a refusal, a mistake of ours), or was silent for long."""
        known = self._aside.get(name)
        return known is not None and (not known.is_away or self.monotonic_s() - known.since_s >= LONG_S)

    def is_settled(self, name: str) -> bool:
        """The same, but of what may be over with the next answer only once it was so for long."""
        known = self._aside.get(name)
        return known is not None and (not known.may_be_over or self.monotonic_s() - known.since_s >= LONG_S)

    def doubt(self, name: str) -> Doubt:
        """Whether a table, or one in its namespace, gave no answer the last time: to ask for it may cost a time-out."""
        known = self._aside.get(name)
        if known is not None and known.is_away:
            return Doubt.ITSELF
        return Doubt.NEIGHBOURS if _namespace(name) in self._mute else Doubt.NONE

    @property
    def failing(self) -> Collection[str]:
        """The tables that were reported as failing, and not as recovered."""
        return self._failing.keys()

    @property
    def is_away(self) -> bool:
        """Whether the catalog does not answer, rather than single tables, or a store that some of them lie in."""
        return self._away_in_a_row >= AWAY_IN_A_ROW

    @contextmanager
    def around(self, name: str, what: str, job_id: str | None = None) -> Iterator[None]:
        """Keep what goes wrong inside from everything else.

        Args:
            name: the table.
            what: what is done to it, for people: `looking at it`.
            job_id: the job that is set aside in the place of the table.
        """
        try:
            yield
        except FATAL:
            raise
        except Exception as err:  # noqa: BLE001 (that is what a barrier is for)
            self._failed(name, what, job_id or name, err)
        else:
            self._away_in_a_row = 0

    def troubles(self) -> dict[str, tuple[str, str]]:
        """By table what was done when it failed last, and the error; of jobs only where the table itself is well."""
        by_key = {key: aside for key, aside in self._aside.items() if aside.table and aside.table != ALL}
        of_jobs = {aside.table: (aside.doing, aside.error) for aside in by_key.values()}
        return of_jobs | {
            key: (aside.doing, aside.error) for key, aside in by_key.items() if key == aside.table
        }

    def _failed(self, name: str, what: str, key: str, err: Exception) -> None:
        """Tell what went wrong with a table, and leave it alone for a while, or the job with this key."""
        self._tell_failed(name, what, key, err)
        aside = self._aside.get(key)
        if aside is not None and not isinstance(err, NotAsked):
            known = isinstance(err, Unavailable | TableMissing)
            error = str(err) if known else f"{type(err).__name__}: {err}"
            table = "" if name.startswith(ALL) else name
            self._aside[key] = replace(aside, table=table, doing=what, error=error)

    def _tell_failed(self, name: str, what: str, key: str, err: Exception) -> None:
        if not isinstance(err, Unavailable | TableMissing):
            trace = "".join(traceback.format_exception(err))
            self.put_aside(key, is_away=False)
            self._tell(key, TableFailed(name, what, f"{type(err).__name__}: {err}", trace, OURS))
            return
        is_away = isinstance(err, Unavailable) and not isinstance(err, Unreadable | Refused | NoWord)
        # A dead store says nothing of the catalog, nor of tables that lie elsewhere.
        self._away_in_a_row += is_away and not isinstance(err, NotYetKnown | StoreAway | TableSilent)
        if isinstance(err, NotAsked):
            self.not_asked.add(key)  # that is no failure of its own
            return
        kind = Outside.STORAGE if isinstance(err, StoreAway) else Outside.TABLE
        if isinstance(err, StoreAway | TableSilent):
            self._mute.add(_namespace(name))
        self.listen(TrySoon(f"table {name}", str(err), kind))
        says_nothing = isinstance(err, NoWord) or isinstance(err.__cause__, NoWord)
        self.put_aside(key, is_away=is_away, may_be_over=says_nothing)
        if isinstance(err, Unreadable):
            remedy = OF_OTHERS if isinstance(err.__cause__, NoWord | Refused) else THEIRS
            self._tell(
                key, TableFailed(name, what, str(err), remedy=remedy), again_s=LONGEST_PAUSE_S * says_nothing
            )

    def answered(self, name: str) -> None:
        """A table was loaded: others of its namespace may be, too."""
        self._mute.discard(_namespace(name))

    def went_well(self, name: str) -> None:
        """A table was looked at from end to end: it is aside no more. What failed under other keys still fails.

        After an outage of everything, no table is that only did not answer.
        """
        self._away_in_a_row = 0
        self._over(name)
        was_outage = self.monotonic_s() - self._well_s >= OUTAGE_S
        self._well_s = self.monotonic_s()
        if was_outage:  # else thousands may be aside, each time that one of thousands goes well
            for other in [other for other, aside in self._aside.items() if aside.may_be_over]:
                self._aside[other] = replace(self._aside[other], until_s=self._well_s)

    def guard(self, what: str, action: Callable[[], object]) -> bool:
        """Do something that concerns no single table; where it fails it is left out for a while, as a table is.

        Returns whether it was done.
        """
        name = f"{ALL} ({what})"
        if self.is_aside(name):
            return False
        try:
            action()
        except FATAL:
            raise
        except Exception as err:  # noqa: BLE001 (that is what a barrier is for)
            self._failed(name, what, name, err)
            return False
        # That it went well says nothing of the tables, which have barriers of their own.
        self.forget(name)
        return True

    def forget(self, name: str) -> None:
        """The table is gone, or somebody else's, with all that failed of it; or what has this key is over."""
        for key in (name, *self._failing.get(name, ())):
            self._over(key)

    def _over(self, key: str) -> None:
        """What has this key fails no more."""
        aside = self._aside.pop(key, None)
        if aside is not None:
            self._recovered(key, aside.told_of)

    def _recovered(self, key: str, table: str) -> None:
        """Tell that a table has recovered, where nothing but this failed of it."""
        failing = self._failing.get(table, set())
        failing.discard(key)
        if table in self._failing and not failing:
            del self._failing[table]
            self.listen(TableRecovered(table))

    def try_again(self) -> None:
        """A new round: perhaps everything answers by now."""
        self._away_in_a_row = 0
        self.not_asked.clear()
        before_s = self.monotonic_s() - LONG_S
        work = [(table, key) for table, keys in self._failing.items() for key in keys if key != table]
        for table, key in work:
            # What is left out of the policies has no such work any more, so nothing tries it again.
            if self._aside[key].until_s <= before_s or not self.is_maintained(table):
                self._over(key)

    def _tell(self, key: str, failed: TableFailed, again_s: float = 0.0) -> None:
        """Report a table as failing; one that was, not again before so long."""
        aside, now_s = self._aside[key], self.monotonic_s()
        if not (failed.name.startswith(ALL) or self.is_maintained(failed.name)):
            self._recovered(key, aside.told_of)
            self._aside[key] = replace(aside, told_of="")
            self.listen(TrySoon(f"table {failed.name}", failed.error, Outside.TABLE))
            return
        if aside.told_of != failed.name:
            self._recovered(key, aside.told_of)
        elif now_s < aside.told_at_s + again_s:
            return
        self._aside[key] = replace(aside, told_of=failed.name, told_at_s=now_s)
        self._failing.setdefault(failed.name, set()).add(key)
        self.listen(failed)

    def put_aside(self, name: str, *, is_away: bool = False, may_be_over: bool = False) -> None:
        """Leave a table, or a job, alone for a while, for longer each time."""
        now_s = self.monotonic_s()
        may_be_over = may_be_over or is_away
        known = self._aside.get(name, _Aside(0, now_s, now_s, is_away, may_be_over))
        longest_s = AWAY_PAUSE_S if is_away else NO_WORD_PAUSE_S if may_be_over else LONGEST_PAUSE_S
        pause_s = min(FIRST_PAUSE_S * 2 ** min(known.failures, 20), longest_s)
        if len(self._aside) >= MOST_ASIDE:
            over = [one for one, aside in self._aside.items() if aside.until_s <= now_s and one != name]
            for other in over:
                self._over(other)
        self._aside[name] = replace(
            known,
            failures=known.failures + 1,
            until_s=now_s + pause_s,
            is_away=is_away,
            may_be_over=may_be_over,
        )


def _namespace(name: str) -> str:
    return name.rpartition(".")[0]
