"""The quarantine of orphans as the service keeps it: how long files stay, and what a search has found in it.

A file in quarantine waits for its deletion as any other file does (`deletions`). Here is what is its own: when its time is
over, that it may be needed again, and that a person, or another daemon, may have moved it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice

from isotherm.contract.identity import TableId
from isotherm.core.deletion import Cause, Seen, name_of
from isotherm.core.observations import QuarantineCounted
from isotherm.core.orphan_findings import GRACE_MS, Found, Refused
from isotherm.core.policy.policy import Mode, Policy
from isotherm.core.policy.precedence import Resolved
from isotherm.core.quarantine import FOLDER
from isotherm.service.jobs.graces import together_ms
from isotherm.service.ports import Listener, Sweep, Swept
from isotherm.store.ledger import Ledger, Operation

FILES_AT_ONCE = 5000
"""Files of which the ledger is told together, in a tenth of a second."""
TOLD_EVERY_S = 3600.0
"""What is in quarantine is reported so often, and when it has changed."""


@dataclass(slots=True)
class Quarantine:
    """What the ledger knows of all tables' quarantines, and how that changes."""

    ledger: Ledger
    listen: Listener
    monotonic_s: Callable[[], float]
    _tell_at_s: float = float("-inf")
    _told: set[str] = field(default_factory=set)
    """The tables of which it was reported that they have something there."""

    def tell(self, names: Mapping[str, str]) -> None:
        """Report what is in quarantine, now and then; of the tables with these names, by uuid."""
        if self.monotonic_s() < self._tell_at_s:
            return
        self._tell_at_s = self.monotonic_s() + TOLD_EVERY_S
        found = {uuid: one for uuid, one in self.ledger.quarantines().items() if uuid in names}
        for uuid in sorted(found.keys() | self._told & names.keys()):
            files, size_bytes = found.get(uuid, (0, 0))
            self.listen(QuarantineCounted(TableId(uuid, names[uuid]), files, size_bytes))
        self._told = set(found)

    def ruled(self, sweep: Sweep, policy: Policy, now_ms: int) -> Sweep:
        """A sweep, with what the policy says by now of orphans and of files in quarantine."""
        places = [mark.path for mark in sweep.marks if mark.cause is Cause.QUARANTINED]
        return replace(
            sweep,
            to_quarantine=policy.orphans.mode is Mode.QUARANTINE,
            not_over=self.ledger.not_over(sweep.uuid, places, now_ms, int(policy.orphans.keep_for))
            if places
            else frozenset(),
            stays=""
            if policy.orphans.mode.takes_away
            else f"the policy says orphans.mode: {policy.orphans.mode}",
        )

    def save(self, swept: Swept, resolved: Resolved | None, now_ms: int) -> int:
        """Write down what came in and what was restored; gives how many of the deleted files were in quarantine."""
        policy, uuid = Policy() if resolved is None else resolved.policy, swept.uuid
        with self.ledger.transaction():
            self.ledger.moved(uuid, swept.moved, now_ms, until_ms(uuid, policy, now_ms))
            whys = dict.fromkeys(swept.restored, "needed_again: the table names a file of this name again")
            whys |= dict.fromkeys(swept.missing, "missing: somebody has put it back, or has deleted it")
            self.ledger.restored(uuid, whys, now_ms)
            self.ledger.keep_longer(uuid, swept.not_over, int(policy.orphans.keep_for))
        purged = sum(f"/{FOLDER}/" in path for path in swept.gone)
        if swept.moved or whys or purged:
            self._tell_at_s = float("-inf")
        return purged

    def compare(
        self, operation: Operation, result: Found | Refused, seen: Seen | None, policy: Policy, now_ms: int
    ) -> Iterator[None]:
        """Hold what a search has found in a table's quarantine against what the ledger knows of it, a slice at a time.

        Args:
            operation: the search.
            result: what it found. Where it was refused, whatever is there is looked at, because the table may need it. But
                where metadata of another table lies in the folder, what the ledger does not know may be that one's.
            seen: how far the table had come.
            policy: the table's.
            now_ms: the time.
        """
        uuid, since_ms = operation.table.uuid, operation.started_at_ms
        found = result if isinstance(result, Found) else None
        listed = {one.path: one.size_bytes for one in result.quarantine or ()}
        has_strangers = isinstance(result, Refused) and bool(result.strangers)
        if seen is not None and not has_strangers:
            over_ms = until_ms(uuid, policy, now_ms)
            left = iter(listed.items())
            while some := dict(islice(left, FILES_AT_ONCE)):
                self.ledger.adopt(uuid, operation.job_id, some, seen, now_ms, over_ms, since_ms)
                if len(some) == FILES_AT_ONCE:
                    yield
        is_whole = found is not None and found.quarantine is not None and found.is_whole
        why, last = "missing: somebody has put it back, or has deleted it", ""
        while known := self.ledger.files_in_quarantine(uuid, last, FILES_AT_ONCE):
            last = known[-1].place
            absent = [
                one.place for one in known if is_whole and one.since_ms < since_ms and one.place not in listed
            ]
            needed = [one.place for one in known if found is None or name_of(one.place) in found.needed_again]
            ahead = [one.place for one in known if one.since_ms > now_ms]
            with self.ledger.transaction():
                self.ledger.there_by_now(uuid, ahead, now_ms)
                self.ledger.restored(uuid, dict.fromkeys(absent, why), now_ms)
                self.ledger.look_soon(uuid, needed, now_ms)
            if len(known) < FILES_AT_ONCE:
                break
            yield
        self._tell_at_s = float("-inf")


def until_ms(uuid: str, policy: Policy, now_ms: int) -> int:
    """Until when a file can be restored that comes into quarantine now; files of about one day are proved together."""
    return together_ms(uuid, now_ms + int(policy.orphans.keep_for) - GRACE_MS, GRACE_MS)
