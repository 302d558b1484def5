"""What the broker must agree to before anything that cannot be undone: that a table is still ours, and the count of acts.

Topics that can be read may still take nothing: a right to write is missing, too few replicas are there, the group's
coordinator is away. Each rewrite would be thrown away at the last question, and begun again at once. So where the broker
has not agreed, nothing begins before it does.

Work belongs to the tenure under which it began: the time for which the group has given the table to this daemon
without a break. Where that has ended, the work is thrown away, also if the table has come back since. A commit would
still be safe then, as far as rows go. But another daemon has begun where we left off, perhaps with the very same files,
or has halted the table for what it found; one of two rewrites is thrown away in any case, and the younger one knows
more.
"""

from dataclasses import dataclass

from isotherm.core.model.outside import Outside
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.core.observations import TrySoon
from isotherm.service.ports import EventSource, Listener, Unavailable
from isotherm.service.topics.holds import Holds

MOVED = "the group gave the table to another daemon after the job began"


@dataclass(slots=True)
class Owned:
    """Asks the broker whether a table is still ours, and remembers where it did not agree."""

    events: EventSource
    holds: Holds
    listen: Listener
    is_withheld: bool = False
    """It was not given the last time: what is done now would be thrown away."""

    def has_still(self, uuid: str, tenure: int | None) -> bool:
        """Whether this daemon has had a table without a break, as far as it knows. The broker is not asked."""
        return tenure is not None and self.events.tenure(uuid) == tenure

    def moved(self, uuid: str, tenure: int | None) -> Refusal | None:
        """Why this daemon may not touch a table on which it began to work under that tenure, or None.

        The broker is asked, because what this process remembers may be a minute old and not know it. A pause after the
        answer does no harm: a commit replaces exactly the files that were read, or fails.
        """
        stranger = self.events.check_in()
        if stranger is not None:
            self.is_withheld = True
            return Refusal(Reason.OWNER, stranger)
        return None if self.has_still(uuid, tenure) else Refusal(Reason.OWNER, MOVED)

    def act(self) -> Refusal | None:
        """Count something that cannot be undone, before it is done. Returns why it must not be done, or None."""
        try:
            self.holds.act()
        except Unavailable as err:
            self.is_withheld = True
            return Refusal(Reason.TOPIC, str(err))
        return None

    def ask_again(self) -> bool:
        """Ask once more where it was not given the last time. Returns whether work may begin."""
        if self.is_withheld:
            against = self._against()
            self.is_withheld = against is not None
            if against is not None:
                self.listen(TrySoon("what must be told before a commit", against, Outside.CONSENT))
        return not self.is_withheld

    def _against(self) -> str | None:
        if not self.events.is_assigned():
            return None  # no table is ours
        stranger = self.events.check_in()
        if stranger is not None:
            return stranger
        refused = self.act()
        return None if refused is None else refused.why
