"""The loop: takes events in, makes verdicts, and starts, watches and finishes jobs.

It keeps its own pace: an event changes the state and the verdicts, and work begins in planning rounds. Each round
confirms the head of a table with the catalog before it does anything to the table. A commit checks once more, last of
all. It reads the control topic to its end, and compares the newest metadata with the state. Only then are the files
swapped.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from isotherm.core.planner.plan import RULES
from isotherm.core.policy.policy import Policy
from isotherm.service.policies.policy_reload import recall_policies
from isotherm.service.ports import Message
from isotherm.service.topics.ledger_age import doubt_another_ledger, scan_what_the_ledger_lacks
from isotherm.service.wiring import Wiring

STEP_BUDGET_S = 2.0
"""A turn of the loop looks at tables for so long, then at events again."""


@dataclass(slots=True)
class Service(Wiring):
    """The daemon, but for its process: call `start`, then `step` until it is over, then `stop`."""

    def start(self) -> None:
        """Load the policies, so that the first verdicts are the right ones."""
        recall_policies(self.policies, self.ledger)
        self.barrier.guard("reading the policies", self.reload_policies)
        doubt_another_ledger(self.fold, self.ledger, self.holds.doubt_ledger)
        scan_what_the_ledger_lacks(self.fold, self.ledger)
        self.fold.grow_beside(self.ledger.id)
        self.scans.start()
        self.fold.decide_by(f"{RULES} {Policy().hash}")  # a new version may judge the same facts otherwise
        self.health.ticked_at_s = self.monotonic_s()

    def step(self, timeout_s: float = 0.2) -> None:
        """One turn: events, ended rewrites, and a planning round when it is time."""
        is_busy = False
        if self.relay is not None:
            is_busy = self.barrier.guard("hearing other sources", self.relay.turn) and self.relay.is_busy
        messages = self.events.poll(0 if is_busy else timeout_s)
        self.consume(messages)
        self.health.is_assigned = self.events.is_assigned()
        for what, turn in (
            ("cancelling rewrites of tables that moved", self.compactions.cancel_moved),
            ("cancelling expiries of tables that moved", self.expiries.cancel_moved),
            ("cancelling rewrites of manifests of tables that moved", self.manifests.cancel_moved),
            ("cancelling searches of tables that moved", self.searches.cancel_moved),
            ("starting rewrites", self.compactions.start_bound),
            ("ending rewrites", self.compactions.finish),
            ("telling how far rewrites are", self.compactions.tell_progress),
            ("going on with windows", self.windows.turn),
            ("ending expiries", self.expiries.finish),
            ("ending rewrites of manifests", self.manifests.finish),
            ("ending searches", self.searches.finish),
            ("listing quarantines", self.listings.turn),
            ("deleting files", self.deletions.turn),
        ):
            self.barrier.guard(what, turn)
            self.health.ticked_at_s = self.monotonic_s()  # several parts may each wait for a dead store
        self.pace.jobs_run(len(self.compactions.unwritten))
        has_left = self.rounds.due.has_left
        if self.rounds.is_open or self.pace.is_time(self.monotonic_s(), has_left=has_left):
            self.barrier.guard("planning", self._plan)
        elif has_left and self.pace.has_room:
            self.barrier.guard("beginning what is left", self.rounds.refill)
        elif not messages and not len(self.compactions):
            self.barrier.guard("counting again", self.recount.turn)
        self.barrier.guard("counting scans", self.scans.turn)
        self.barrier.guard("forgetting what is long over", self.pruning.turn)
        self.health.ticked_at_s = self.monotonic_s()

    def stop(self) -> None:
        """Stop at once: running jobs are cancelled, what they wrote is deleted, everything is saved."""
        self.compactions.stop()
        self.windows.stop()
        self.expiries.stop()
        self.manifests.stop()
        self.searches.stop()
        for what, stop in (("deleting files", self.deletions.stop), ("all work", self.maintainer.stop)):
            self.barrier.guard(f"stopping {what}", stop)
        if self.relay is not None:
            self.relay.close()
        self.events.commit()
        self.events.close()
        self.hold_topic.close()
        self.reader_topic.close()

    def consume(self, messages: Sequence[Message]) -> None:
        """Take messages of the control topic into the state, then acknowledge them."""
        self.consumer.consume(messages)

    def round(self, budget_s: float = float("inf")) -> None:
        """Begin a planning round, or go on with the open one, for so long."""
        if not self.rounds.is_open:
            began_s = self.monotonic_s()
            if self.relay is not None:
                self.relay.round_begins()
            self.rounds.begin(budget_s)
            if self.monotonic_s() - began_s >= budget_s:
                return  # the group puts out a daemon that does not ask for events: so they come first
        self.rounds.go_on(budget_s)

    def _plan(self) -> None:
        """A turn's share of a round; one that goes wrong as a whole is given up, because it would do so again."""
        try:
            self.round(STEP_BUDGET_S)
        except BaseException:
            self.rounds.give_up()
            raise
