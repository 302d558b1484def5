"""The table as the catalog has it now, for a commit that is under way."""

from collections.abc import Callable

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import Table
from tenacity import Retrying, retry_if_not_exception_type, wait_exponential_jitter

LOOKS = 4
"""Times that the catalog is asked for the table before it counts as away."""
PATIENCE_S = 10.0
"""For looking at the table. Once requests without success have taken so long, no other is sent either: other commits wait
for them, and each may cost a time-out."""
NOT_FOUND = (NoSuchTableError, NoSuchNamespaceError)


def load_table(
    catalog: Catalog,
    name: str,
    pause: Callable[[float], None],
    clock_s: Callable[[], float],
    *,
    believes: bool,
) -> Table:
    """The table now; a catalog that is away for two seconds is no reason to throw a compaction away.

    Where the catalog is believed, "not found" is an answer; else it is trouble like any other.
    """
    until_s = clock_s() + PATIENCE_S
    retrying = Retrying(
        stop=lambda state: state.attempt_number >= LOOKS or clock_s() >= until_s,
        wait=wait_exponential_jitter(multiplier=0.2, max=2, jitter=0.2),
        retry=retry_if_not_exception_type(NOT_FOUND if believes else ()),
        sleep=pause,
        reraise=True,
    )
    return retrying(catalog.load_table, name)
