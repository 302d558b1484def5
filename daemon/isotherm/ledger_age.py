"""Whether this ledger is as old as the world: restored from a backup, cloned or cut back, it does not know what was done.

The ledger counts what it does that cannot be undone (a request for a swap, an expiry, deletions), before it is done, and
the topic with holds keeps the newest count of each ledger. A ledger that counts less than the topic is an older copy. A
count by another process while this one lives means that two of them live on copies of one ledger. Then nothing is
deleted until a person has looked (`isotherm resume`).
"""

import json
from dataclasses import dataclass, field
from uuid import uuid4

from isotherm.ports import HoldTopic
from isotherm.store.ledger import Ledger


@dataclass(slots=True)
class LedgerAge:
    """The count of one ledger, here and on the topic."""

    topic: HoldTopic
    ledger: Ledger
    process: str = field(default_factory=lambda: str(uuid4()))
    """What tells this process from every other."""
    _counted: int | None = None
    """The newest count of this process; None: it has done nothing yet."""

    @property
    def key(self) -> str:
        """Where the topic keeps the count."""
        return f"{self.ledger.id}/{SUFFIX}"

    def act(self) -> None:
        """Count something that cannot be undone, before it is done.

        Raises:
            Unavailable: the topic does not take the count; then it must not be done.
        """
        counted = self.ledger.act()
        value = json.dumps({"acts": counted, "process": self.process})
        self.topic.write(self.key, value.encode())
        self._counted = counted

    def heard(self, value: bytes | None) -> str | None:
        """Take in the count that the topic has; gives why this ledger is not to be believed, or None."""
        try:
            said = json.loads(value or b"{}")
            acts, process = int(said.get("acts", 0)), said.get("process")
        except (ValueError, TypeError, AttributeError):
            return None
        if process == self.process:
            return None
        known = self.ledger.acts
        if self._counted is not None and acts >= self._counted:
            self._counted = self.ledger.act(at_least=acts)
            return "another process works with a copy of the ledger of this daemon"
        if acts > known:
            self.ledger.act(at_least=acts)
            return f"the ledger of this daemon is older than what it did: it counts {known} acts of {acts}"
        return None


SUFFIX = "acts"
"""What the key of a count ends with."""
