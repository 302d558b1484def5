"""Files that wait for hours for a look at all tables: they are reported with what keeps it, some in each sweep."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from isotherm.contract.identity import TableId
from isotherm.core.deletion import Cause
from isotherm.core.observations import FilesDeleted
from isotherm.service.ports import Listener
from isotherm.service.survey import Survey
from isotherm.store.ledger import Ledger

LATE_MS = 6 * 3_600_000
"""Files that wait so long are reported."""
LATE_AT_ONCE = 10_000
"""Of all tables, in one sweep: a tenth of a second. After a night without a look each table may have so many."""


@dataclass(slots=True)
class LateFiles:
    """What a sweep reports of them."""

    ledger: Ledger
    survey: Survey
    listen: Listener
    now_ms: Callable[[], int]
    _left: int = 0
    """So many this sweep may still report."""

    def begin(self) -> None:
        """A sweep begins."""
        self._left = LATE_AT_ONCE

    def tell(self, table: TableId, causes: Collection[Cause]) -> None:
        """Report files of a table, wanted gone for these causes. They are looked at again later for it."""
        now_ms = self.now_ms()
        late = self.ledger.due_deletions(table.uuid, now_ms - LATE_MS, self._left, causes)
        if late:
            self._left -= len(late)
            why = self.survey.why_not(table.name)
            self.ledger.postponed(table.uuid, dict.fromkeys((mark.path for mark in late), why), now_ms)
            self.listen(FilesDeleted(table, 0, 0, len(late), why))
