"""A file that is marked in a table of which all is in order, and what is judged of it."""

from isotherm.core.deletion import Cause, Evidence, Mark, Neighbours, Seen, judge, own_folders

HOME = "s3://lake/shop/orders"
PATH = f"{HOME}/data/a.parquet"
OWN = own_folders(HOME, (), ("shop", "orders"))
SEEN = Seen(7, 10)
MARK = Mark(PATH, "job", Cause.EXPIRED, SEEN)


def evidence(**changes):
    whole = {
        "gc_enabled": True,
        "last_sequence_number": 12,
        "snapshot_ids": {7, 8},
        "reached": frozenset(),
    }
    return Evidence(**(whole | changes))


def found(mark=MARK, expired=(1, 2), neighbours=None, **changes):
    verdict = judge(mark, expired, evidence(**changes), neighbours or Neighbours(OWN))
    return verdict.finding, verdict.reason
