"""Questions to the catalog: one that did not answer is left alone for a while, and is told from a table that hangs.

Where no answer comes about a table, the catalog is asked for something that costs it little. If it answers that, only the
table waits (`unanswered_tables`). If it is silent there too, it is away as a whole: nothing else is asked for a moment.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyiceberg.catalog import Catalog as PyIcebergCatalog

from isotherm.clients.retries import is_shortage
from isotherm.iceberg.errors import is_no_answer, is_time_out, translated
from isotherm.iceberg.threads import Threads
from isotherm.iceberg.unanswered_tables import SilentTables
from isotherm.runtime.breaker import Breaker
from isotherm.service.ports import (
    NotAsked,
    Refused,
    StoreAway,
    TableMissing,
    TableSilent,
    Unavailable,
    Unreadable,
)

ANSWERS_WITHIN_S = 5.0
"""A catalog that says nothing about one table, and lists its namespaces by then, is not away; nor is one that gives
another table by then."""


class Questions:
    """Whether the catalog is worth asking now, and what its silence means."""

    def __init__(self, catalog: Callable[[], PyIcebergCatalog], breaker: Breaker, threads: Threads) -> None:
        self._catalog = catalog
        self._breaker = breaker
        self._threads = threads
        self._silent = SilentTables(breaker)

    @contextmanager
    def asked(self, table: str | None = None) -> Iterator[None]:
        """Ask the catalog, unless it did not answer lately: a round asks for one table after another.

        Args:
            table: what it is asked about, if that may be what hangs: a server may wait for the store of one table.
        """
        left_s = self._breaker.left_s
        if left_s > 0:
            raise NotAsked(f"the catalog did not answer; it is asked again in {left_s:.0f} s")
        try:
            with self.heard_of(table):
                yield
        except Unavailable as err:
            if is_no_answer(err):
                if table is not None and is_time_out(err) and self._is_table_alone(table):
                    self._breaker.answered()
                    raise TableSilent(f"{err}; the catalog answers otherwise") from err
                self._breaker.failed()
            raise
        self._breaker.answered()

    @contextmanager
    def heard_of(self, table: str | None) -> Iterator[None]:
        """Note where the catalog says something about a table: that there is none, or no right to it, is an answer."""
        try:
            yield
        except TableMissing:
            self._came(table)
            raise
        except Unavailable as err:
            if _is_about_table(err):
                self._came(table)
            raise
        self._came(table)

    def _came(self, table: str | None) -> None:
        if table is not None:
            self._silent.came(table)

    def _is_table_alone(self, table: str) -> bool:
        """Whether only this table hangs, or a few. A silent catalog is not waited for twice as long."""
        return self._answers(None) and self._silent.are_few(table, self._answers)

    def _answers(self, table: str | None) -> bool:
        """Whether the catalog answers soon, about a table or about what costs it little."""
        catalog = self._catalog()
        try:
            with translated("the list of namespaces" if table is None else f"table {table}"):
                if table is None:
                    self._threads.within(ANSWERS_WITHIN_S, "the catalog", catalog.list_namespaces)
                else:
                    self._threads.within(
                        ANSWERS_WITHIN_S, f"table {table}", lambda: catalog.load_table(table)
                    )
        except TableMissing:
            return True
        except Unavailable as err:
            return not is_no_answer(err) if table is None else _is_about_table(err)
        return True


def _is_about_table(err: Unavailable) -> bool:
    """Whether an error is the catalog's word on a table, or that of the table's own files. A gateway's is none."""
    is_word = isinstance(err, Refused | StoreAway | Unreadable) and not is_no_answer(err)
    is_ours = err.__cause__ is not None and is_shortage(err.__cause__)
    return is_word and not is_ours
