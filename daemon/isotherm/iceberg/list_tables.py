"""The list of all tables of a catalog, however many namespaces it has, and whichever of them answer."""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager, suppress

from pyiceberg.catalog import Catalog as PyIcebergCatalog
from pyiceberg.exceptions import BadRequestError
from pyiceberg.typedef import Identifier
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt
from tenacity.nap import sleep

from isotherm.contract.identity import levels_of, name_from
from isotherm.iceberg.errors import translated, wanted_pause_s
from isotherm.iceberg.stopping import IsStopped, never
from isotherm.iceberg.threads import Beside, Threads
from isotherm.runtime.breaker import Breaker
from isotherm.service.ports import Listing, Refused, TableMissing, Unavailable

LIMIT_S = 3600.0
"""For one question of a list that is made beside the loop. There are two for each namespace, of which there may be
thousands."""
SILENT_PAUSES_S = 300.0, 3600.0
"""The first pause of a namespace without an answer, and the longest: each question may cost a time-out."""
TRIES = 6
"""A question is asked so often, where the catalog says that it has had too many: a list has them all, or is none."""
SILENT_IN_A_ROW = 3
"""So many namespaces without an answer, one after the other: it may not be the namespaces, so one is asked that has
answered."""
SILENCE_S = LIMIT_S / 2
"""Once namespaces without an answer have cost a list so much, it ends with what it has: the rest counts as silent."""
NOT_ASKED = "it was not asked, because others gave no answer for too long"


class Lister:
    """Lists the tables of a catalog."""

    def __init__(
        self,
        catalog: Callable[[], PyIcebergCatalog],
        asked: Callable[[], AbstractContextManager[None]],
        breaker: Breaker,
        threads: Threads,
        pause: Callable[[float], None] = sleep,
    ) -> None:
        """Nothing is listed yet.

        Args:
            catalog: gives the catalog.
            asked: to be entered where the catalog as a whole is asked.
            breaker: of the catalog; each silent namespace gets one of the same kind.
            threads: how a list is made beside the loop.
            pause: waits so many seconds.
        """
        self._catalog = catalog
        self._asked = asked
        self._breaker = breaker
        self._asking = Retrying(
            stop=stop_after_attempt(TRIES),
            wait=_wanted_pause,
            retry=retry_if_exception(lambda err: isinstance(err, Unavailable) and wanted_pause_s(err) > 0),
            sleep=pause,
            reraise=True,
        )
        self._beside: Beside[Listing] = threads.beside(LIMIT_S)
        self._is_under_way = False
        self._silent: dict[Identifier, tuple[Breaker, str]] = {}
        """Namespaces that did not answer, and why: each has a growing pause of its own."""
        self._answered: Identifier | None = None
        """The namespace that answered last."""

    def beside(self, names: Callable[[IsStopped], Listing], wait_s: float) -> Listing | None:
        """What `names` gives, asked for beside the loop; None where that takes longer than one waits."""
        if not self._is_under_way:
            self._beside.start("listing", names)
            self._is_under_way = True
        self._beside.wait(wait_s)
        for _, result in self._beside.ended():
            self._is_under_way = False
            if isinstance(result, Listing):
                return result
            if isinstance(result, TimeoutError):
                raise Unavailable(f"the list of tables: {result}") from result
            raise result
        return None

    def names(self, is_stopped: IsStopped = never) -> Listing:
        """Every table in every namespace; one that refuses, is silent, or is not there, hides no other.

        Args:
            is_stopped: asked before each question.
        """
        # The loop and a thread may list at the same time, so neither changes what the other reads.
        known = dict(self._silent)
        waiting = _in_turn(self.namespaces(), known)
        seen, silent, in_a_row, lost_s = set(waiting), list[str](), 0, 0.0
        names, missing, unlisted = list[str](), list[Identifier](), dict[str, str]()
        while waiting:
            if is_stopped():
                raise Unavailable("the list of tables was given up")
            namespace = waiting.pop()
            name = name_from(namespace)
            breaker, why = known.get(namespace, (self._breaker.another(*SILENT_PAUSES_S), NOT_ASKED))
            if breaker.left_s > 0 or lost_s >= SILENCE_S:
                unlisted[name] = why
                silent.append(name)
                continue
            began_s = breaker.now_s
            try:
                names.extend(self._asking(self.tables_in, namespace))
                is_stopped()  # it has got on
                below = set(self._asking(self.below, namespace)) - seen
            except TableMissing:
                known.pop(namespace, None)
                missing.append(namespace)
                continue
            except Unavailable as err:
                unlisted[name] = str(err)
                if isinstance(err, Refused):
                    known.pop(namespace, None)
                    continue
                breaker.failed()
                lost_s += breaker.now_s - began_s
                known[namespace] = (breaker, str(err))
                silent.append(name)
                in_a_row += 1
                if in_a_row >= SILENT_IN_A_ROW:
                    self._silent = dict(known)
                    self._ask_for_any()
                    in_a_row = 0
                continue
            known.pop(namespace, None)
            self._answered, in_a_row = namespace, 0
            seen |= below
            late = below & known.keys()
            waiting[:0] = _in_turn(late, known)
            waiting.extend(_in_turn(below - late, known))
        # What is gone from the catalog is not paused for.
        self._silent = {namespace: one for namespace, one in known.items() if namespace in seen}
        for name in map(name_from, self._still_named(missing)):
            unlisted[name] = f"the catalog lists namespace {name}, and says that it does not have it"
            silent.append(name)
        return Listing(sorted(names), unlisted, silent)

    def _still_named(self, missing: Collection[Identifier]) -> list[Identifier]:
        """Those of some namespaces that the catalog did not have which it names once more: they were not dropped."""
        still = list[Identifier]()
        for parent in {namespace[:-1] for namespace in missing}:
            below = [namespace for namespace in missing if namespace[:-1] == parent]
            try:
                named = self._asking(self.below, parent) if parent else self.namespaces()
            except (TableMissing, Unavailable):
                named = below
            still += [namespace for namespace in below if namespace in named]
        return still

    def _ask_for_any(self) -> None:
        """Ask what was answered before. Raises Unavailable where it is the catalog that does not answer."""
        answered, self._answered = self._answered, None
        if answered is None:
            self.namespaces()
            return
        with suppress(TableMissing):  # an answer too
            self._asking(self.tables_in, answered)
        self._answered = answered

    def tables_in(self, namespace: Identifier) -> list[str]:
        """The tables in one namespace. Raises TableMissing, Unavailable."""
        with translated(f"namespace {name_from(namespace)}"):
            return [name_from(table) for table in self._catalog().list_tables(namespace)]

    def listed_once(self) -> Callable[[str], bool]:
        """A function that says whether a table is in the list of its namespace, which it asks for once.

        It raises TableMissing and Unavailable, for all tables of a namespace the same.
        """
        lists: dict[Identifier, set[str] | TableMissing | Unavailable] = {}

        def is_listed(name: str) -> bool:
            namespace = levels_of(name)[:-1]
            if namespace not in lists:
                try:
                    lists[namespace] = set(self.tables_in(namespace))
                except (TableMissing, Unavailable) as err:
                    lists[namespace] = err
            listed = lists[namespace]
            if not isinstance(listed, set):
                # A new one: raised again and again, one error would keep more of what was at hand each time.
                raise type(listed)(str(listed)) from listed.__cause__
            return name in listed

        return is_listed

    def namespaces(self) -> list[Identifier]:
        """The namespaces at the top. Raises Unavailable where the catalog as a whole does not answer."""
        try:
            with self._asked(), translated("the list of namespaces"):
                return self._catalog().list_namespaces()
        except TableMissing as err:  # a warehouse that is not there, or a wrong path
            raise Unavailable(str(err)) from err

    def below(self, namespace: Identifier) -> list[Identifier]:
        """The namespaces right below one; none where the catalog has no such thing."""
        try:
            with translated(f"namespace {name_from(namespace)}"):
                answer = self._catalog().list_namespaces(namespace)
        except Unavailable as err:
            if isinstance(err.__cause__, BadRequestError | NotImplementedError):
                return []
            raise
        # A server without nested namespaces may leave the question out, and tell all that it has.
        return [one for one in answer if len(one) > len(namespace) and one[: len(namespace)] == namespace]


def _in_turn(
    namespaces: Iterable[Identifier], silent: Mapping[Identifier, tuple[Breaker, str]]
) -> list[Identifier]:
    """Namespaces, the last one first to be asked: those that were silent come behind all others.

    Of the silent ones, the one whose pause has been over for longest comes first, so that each has its turn.
    """
    return sorted(
        namespaces,
        key=lambda one: (silent[one][0].left_s if one in silent else float("-inf"), one),
        reverse=True,
    )


def _wanted_pause(state: RetryCallState) -> float:
    err = None if state.outcome is None else state.outcome.exception()
    return wanted_pause_s(err) if isinstance(err, Unavailable) else 0.0
