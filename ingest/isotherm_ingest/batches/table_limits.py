"""How many tables a stream may have whose messages say themselves where they go (`tables_at_most`).

A field with an id in it would make a table for each message. Tables that are there count, whoever made them, where the
stream's template may give their names; so a restart makes no room for more.
"""

from collections.abc import Collection

from isotherm_ingest.failures import CatalogAway, brief
from isotherm_ingest.name_template import PLACEHOLDER, may_be
from isotherm_ingest.streams import Stream
from isotherm_ingest.tables.lake import Lake


class NoMoreTablesError(Exception):
    """A stream has as many tables as it may have."""

    def __init__(self, name: str, stream: Stream, tables: frozenset[str]) -> None:
        """A table that is not there, and those that are."""
        super().__init__(
            f"{name} is not made: the stream has {len(tables)} tables, and `tables_at_most` is {stream.tables_at_most}"
        )
        self.tables = tables


class TableLimits:
    """The names that streams have given, and those that the catalog has."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._tables: dict[str, set[str]] = {}
        """By the topics of a stream. The catalog is asked once: what it has later, this driver made."""

    def check(self, name: str, stream: Stream, begun: Collection[str] = ()) -> None:
        """Count a table, unless it is counted.

        Args:
            name: the table's.
            stream: its stream.
            begun: tables of the stream that were taken up without a question; one that failed may not be there yet.

        Raises:
            NoMoreTablesError: it would be one too many.
            CatalogAway: the catalog does not answer.
        """
        if stream.topics not in self._tables:
            self._tables[stream.topics] = self._there(stream)
        tables = self._tables[stream.topics]
        tables.update(begun)
        if name not in tables and len(tables) >= stream.tables_at_most:
            raise NoMoreTablesError(name, stream, frozenset(tables))
        tables.add(name)

    def _there(self, stream: Stream) -> set[str]:
        namespace = stream.table.rpartition(".")[0]
        is_plain = PLACEHOLDER.search(namespace) is None
        try:
            names = self._lake.names(frozenset({namespace}) if is_plain else None)
        except Exception as err:
            raise CatalogAway(brief(err)) from err
        return {name for name in names if may_be(stream.table, name)}
