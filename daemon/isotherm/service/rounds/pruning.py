"""Forgets what is long over, in the fold and in the ledger, a slice at a time."""

from collections.abc import Callable
from dataclasses import dataclass

from isotherm.service.clocks import Clocks
from isotherm.service.health import Health
from isotherm.service.jobs.deletions import Deletions
from isotherm.service.rounds.rounds import Rounds
from isotherm.store.fold import Fold
from isotherm.store.ledger import Ledger

EVERY_S = 3600.0
SLICE_EVERY_S = 1.0
"""While there is more: a slice takes some 20 ms."""


@dataclass(slots=True)
class Pruning:
    """Forgets a slice in a turn, once an hour until nothing is left of it, however busy the loop is."""

    fold: Fold
    ledger: Ledger
    deletions: Deletions
    clocks: Clocks
    rounds: Rounds
    health: Health
    now_ms: Callable[[], int]
    monotonic_s: Callable[[], float]
    _again_at_s: float = float("-inf")

    def turn(self) -> None:
        """Forget a little. What is long over a clock tells: while it is in doubt, nothing is forgotten."""
        now_s = self.monotonic_s()
        if now_s < self._again_at_s or self.clocks.trouble() is not None:
            return
        has_more = self.ledger.prune(self.now_ms())
        has_more = self.fold.prune(self.now_ms()) or has_more
        if self.health.is_assigned and self.rounds.has_found_all:
            # Until then a table that is ours may look like another's.
            has_more = self.deletions.give_up() or has_more
            has_more = self.ledger.prune_gone(self.fold.names(), self.now_ms()) or has_more
        self._again_at_s = now_s + (SLICE_EVERY_S if has_more else EVERY_S)
