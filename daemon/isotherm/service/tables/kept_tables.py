"""Tables as they were loaded last, so that an event or a job need not load them again.

Whoever owns a table chooses how much metadata there is to keep: thousands of schemas, or properties of megabytes. In
memory that takes up to twenty times as much as in its file. So ordinary tables are all kept, and of the others the
newest, and the smallest that fit. One that is not kept is loaded again in each round in which events of it came.
"""

from collections.abc import Callable

from isotherm.service.ports import LoadedTable

ORDINARY_BYTES = 128 * 1024
"""What is kept of a table, as JSON: a hundred columns in a dozen schemas. It is some 2 MiB in memory."""
OTHERS_BYTES = 16 * 1024 * 1024
"""Of all larger ones but the newest together: some 300 MiB in memory."""


class KeptTables:
    """Those that are kept, by uuid."""

    def __init__(
        self,
        size_of: Callable[[LoadedTable], int],
        ordinary_bytes: int = ORDINARY_BYTES,
        others_bytes: int = OTHERS_BYTES,
    ) -> None:
        self._size_of = size_of
        self._ordinary_bytes = ordinary_bytes
        self._others_bytes = others_bytes
        self._tables: dict[str, LoadedTable] = {}
        self._unmeasured: dict[str, None] = {}
        """Those whose size is not known yet, in the order in which they came."""
        self._large: dict[str, int] = {}
        """Sizes of those that are larger than ordinary ones."""

    def get(self, uuid: str) -> LoadedTable | None:
        """A table as it was loaded last, or None where it is not kept."""
        return self._tables.get(uuid)

    def keep(self, table: LoadedTable) -> None:
        """Keep a table, whatever its size: a job may begin by it at once.

        It is measured later (`measure`). The last look before a swap keeps one too, and writing hundreds of schemas as JSON
        takes a tenth of a second, in which a writer may be faster.
        """
        uuid = table.table.uuid
        self.forget(uuid)
        self._tables[uuid] = table
        self._unmeasured[uuid] = None

    def measure(self) -> None:
        """Measure what was kept since the last time, and let go of others where it is too much."""
        while self._unmeasured:
            # Each once, also one that cannot be measured.
            uuid = next(iter(self._unmeasured))
            del self._unmeasured[uuid]
            self._count(uuid, self._size_of(self._tables[uuid]))

    def _count(self, uuid: str, size_bytes: int) -> None:
        if size_bytes <= self._ordinary_bytes:
            return
        # The largest go first: whoever has one cannot push out the smaller ones of everybody else.
        for other in sorted(self._large, key=self._large.__getitem__, reverse=True):
            if sum(self._large.values()) <= self._others_bytes:
                break
            self.forget(other)
        self._large[uuid] = size_bytes

    def forget(self, uuid: str) -> None:
        """Keep a table no more."""
        self._tables.pop(uuid, None)
        self._large.pop(uuid, None)
        self._unmeasured.pop(uuid, None)
