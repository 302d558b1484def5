"""Whether this ledger is as old as the world: restored from a backup, cloned or cut back, it does not know what was done.

The ledger counts what it does that cannot be undone (a request for a swap, an expiry, deletions), before it is done, and
the topic with holds keeps the newest count of each ledger. A ledger that counts less than the topic is an older copy. A
count by another process while this one lives means that two of them live on copies of one ledger. Then nothing is
deleted until a person has looked (`isotherm resume`).
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import uuid4

from isotherm.service.ports import KeyedTopic
from isotherm.store.fold import Fold
from isotherm.store.ledger import Ledger


@dataclass(slots=True)
class LedgerAge:
    """The count of one ledger, here and on the topic."""

    topic: KeyedTopic
    ledger: Ledger
    process: str = field(default_factory=lambda: str(uuid4()))
    """What tells this process from every other."""
    _counted: int | None = None
    """The newest count of this process, or None where it has done nothing yet."""

    @property
    def key(self) -> str:
        """Where the topic keeps the count."""
        return f"{self.ledger.id}/{SUFFIX}"

    def act(self) -> None:
        """Count something that cannot be undone, before it is done.

        Raises:
            Unavailable: the topic does not take the count; then it must not be done.
        """
        self._tell(self.ledger.act())

    def tell(self) -> None:
        """Tell the topic the count that this ledger has: it was lost there. Raises Unavailable."""
        if self.ledger.acts:
            self._tell(self.ledger.acts)

    def heard(self, value: bytes) -> str | None:
        """Take in the count that the topic has; gives why this ledger is not to be believed, or None."""
        known = self.ledger.acts
        acts, process = _read(value)
        if process == self.process:
            return None
        if acts is None or acts > known + MOST_BETWEEN:
            # Whoever wrote it may have wanted to hide the true count. Ours is put in its place.
            self._counted = self.ledger.acts
            return "the topic's count for the ledger of this daemon makes no sense"
        if self._counted is not None and acts >= self._counted:
            self._counted = self.ledger.act(at_least=acts)
            return "another process works with a copy of the ledger of this daemon"
        if acts > known:
            self.ledger.act(at_least=acts)
            return f"the ledger of this daemon is older than what it did: it counts {known} acts of {acts}"
        return None

    def _tell(self, counted: int) -> None:
        self.topic.write(self.key, json.dumps({"acts": counted, "process": self.process}).encode())
        self._counted = counted


def look_for_a_lost_ledger(
    fold: Fold, ledger: Ledger, tell: Callable[[str], None], *, knows_all: bool
) -> None:
    """A new ledger beside tables with snapshots of jobs that it does not have: it took the place of a lost one.

    (Or a daemon was added to others. It cannot know, and a person can.)
    """
    if not ledger.is_new:
        return
    doubt = doubt_by_tables(fold, ledger)
    if doubt is not None:
        tell(doubt)
    if doubt is not None or (knows_all and fold.names()):
        ledger.settle_in()


def doubt_by_tables(fold: Fold, ledger: Ledger) -> str | None:
    """Why a new ledger seems to be in the place of a lost one: a table has a snapshot of a job that it does not have."""
    for uuid, name in fold.names().items():
        row = fold.table(uuid)
        job_id = "" if row is None else row.facts.oldest_job
        if job_id and not ledger.has_job(job_id):
            return f"the ledger of this daemon is new, but {name} has a snapshot of job {job_id}"
    return None


def doubt_another_ledger(fold: Fold, ledger: Ledger, doubt: Callable[[str], None]) -> None:
    """Doubt a ledger that is not the one beside which the fold has grown."""
    if fold.ledger in (None, ledger.id):
        return
    doubt(
        "the ledger of this daemon is not the one beside which its fold has grown"
        if not ledger.is_new
        else "the ledger of this daemon is new, but the fold beside it is not"
    )
    ledger.settle_in()
    for uuid in fold.names():
        fold.distrust(uuid)  # the scan accounts for the snapshots that were there


def scan_what_the_ledger_lacks(fold: Fold, ledger: Ledger) -> None:
    """Have each table scanned whose head this ledger has no account of, although the fold beside it has.

    An older copy was put back, or the daemon died between its two stores. The fold would find nothing new in the table,
    and what came meanwhile, and nobody announced, would never be announced. The scan accounts for it.
    """
    for uuid, head in fold.confirmed_heads().items():
        if not ledger.is_known(uuid, head):
            fold.distrust(uuid)


def _read(value: bytes) -> tuple[int | None, str]:
    """The count and the process in a record; None where it is none of ours."""
    try:
        said = json.loads(value)
        acts, process = said["acts"], said["process"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None, ""
    is_count = isinstance(acts, int) and not isinstance(acts, bool) and acts >= 0
    return acts if is_count else None, str(process)


MOST_BETWEEN = 10**9
"""More acts than any daemon does between a backup and its restoration; a count so far ahead was forged."""
SUFFIX = "acts"
"""What the key of a count ends with."""
