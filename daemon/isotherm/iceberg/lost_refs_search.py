"""The look for branches and tags that were lost with an expiry, beside the loop."""

from collections.abc import Sequence

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from isotherm.iceberg.lost_refs import lost_refs
from isotherm.iceberg.threads import Beside, Threads
from isotherm.service.ports import NotYetKnown

LIMIT_S = 600.0
"""For one version of a table."""
WAIT_S = 1.0
"""For which the loop waits: a few versions are read in less."""


class LostRefs:
    """Looks for them, and keeps what was found until somebody asks again."""

    def __init__(self, catalog: Catalog, threads: Threads) -> None:
        self._catalog = catalog
        self._searches: Beside[Sequence[str] | None] = threads.beside(LIMIT_S)
        self._found: dict[str, Sequence[str] | None] = {}
        """By job."""
        self._sought: set[str] = set()
        """The jobs for which they are looked for."""

    def of(self, job_id: str, table: Table, base: str, taken: Sequence[int]) -> Sequence[str] | None:
        """Branches and tags that a catalog dropped with these snapshots since that metadata, as `lost_refs`.

        Raises:
            NotYetKnown: it takes longer.
        """
        if job_id not in self._sought | self._found.keys():
            self._sought.add(job_id)
            self._searches.start(
                job_id,
                lambda is_stopped: lost_refs(
                    self._catalog, table.io, table.metadata, base, taken, is_stopped
                ),
            )
        self._searches.wait(WAIT_S)
        for other, result in self._searches.ended():
            self._sought.discard(other)
            # What went wrong is looked for once more when somebody asks again.
            if not isinstance(result, BaseException):
                self._found[other] = result
        if job_id not in self._found:
            raise NotYetKnown(f"whether job {job_id} took branches or tags along is being looked up")
        return self._found.pop(job_id)

    def wait(self, timeout_s: float) -> None:
        """Return when one has ended, or the time is over."""
        self._searches.wait(timeout_s)

    def close(self) -> None:
        """Look for nothing any more."""
        self._searches.close()
