"""Letters become rows: slice by slice, each of which is one commit.

A crash between two leaves the first; whoever replays again finds what it settled, or the rows themselves.
"""

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from isotherm.runtime import logs
from isotherm_ingest.failures import TableRefused
from isotherm_ingest.plan.topic_partition import Position
from isotherm_ingest.replay.choosing import (
    AT_ONCE,
    SLACK_MS,
    Choice,
    Fate,
    behind_truncates,
    doubtful,
    is_divided,
    pieces,
    slices,
    spans,
    wanted,
)
from isotherm_ingest.replay.letters import Letter
from isotherm_ingest.replay.looks import Looks, Seen, late_of
from isotherm_ingest.replay.outcome import Replayed
from isotherm_ingest.replay.settled import encode
from isotherm_ingest.replay.standing import Standing
from isotherm_ingest.tables.portion import Behind, Portion
from isotherm_ingest.tables.writer import TableWriter
from isotherm_ingest.workers.late import At
from isotherm_ingest.workers.tasks import as_arrow

TRIES = 5
"""Of one commit, where the table is another one each time."""


class Writing:
    """Writes the letters of one table."""

    def __init__(
        self,
        standing: Standing,
        looks: Looks,
        writer: TableWriter,
        check_alone: Callable[[Standing], None],
        first_since: Callable[[Collection[str], int], Mapping[Position, int]],
        at_once: int = AT_ONCE,
    ) -> None:
        """Nothing is read yet.

        Args:
            standing: where the table stands.
            looks: reads.
            writer: commits.
            check_alone: raises where another driver has begun.
            first_since: of each partition of some topics the first message since a time.
            at_once: letters of one commit.
        """
        self._standing, self._looks, self._writer = standing, looks, writer
        self._check_alone, self._first_since = check_alone, first_since
        self._at_once = at_once

    def write(self, choice: Choice, letters: Iterable[Letter], found: Replayed) -> None:
        """Write what may be tried; `letters` are all that there are of the table's topics."""
        others = [one for one in letters if one.at not in self._standing.stand.settled]
        for some in slices(choice.tried, self._at_once):
            # One that was newer than a letter of an earlier slice is written with that.
            if left := [one for one in some if one.at not in found.told]:
                self._slice(left, others, found)

    def _slice(self, some: Collection[Letter], others: Collection[Letter], found: Replayed) -> None:
        for _ in range(TRIES):
            try:
                self._try(some, others, found)
            except Behind:
                self._standing = self._standing.again()
            else:
                return
        raise TableRefused(
            f"{found.table} is not where its marks say it is: start a driver, let it read on, and replay then"
        )

    def _try(self, some: Collection[Letter], others: Collection[Letter], found: Replayed) -> None:
        stand = self._standing.stand
        since = self._since(some) if stand.is_mirror else {}
        if unsure := doubtful(some, stand, since):
            found.tell(unsure, Fate.UNDECIDED, "Kafka may have dropped newer messages of other partitions")
            some = [one for one in some if one.at not in unsure]
        if not some:
            return
        letters, mine = wanted(some), {one.at for one in some}
        portion = replace(self._standing.portion, ranges=spans(letters, stand, since), late=late_of(letters))
        with self._looks.look(portion, letters, pieces(letters)) as seen:
            if seen is not None:
                found.told |= {one: (Fate.BAD, why) for one, why in seen.bad.items() if one in mine}
                found.tell(seen.there & mine, Fate.THERE, "its row is there")
                if not stand.is_mirror:
                    self._commit(seen, seen.there & mine, found)
        if seen is not None and stand.is_mirror:
            newer = {one.at: one for one in others if one.at[:2] in portion.ranges}
            if instead := self._mirror(some, portion, seen, newer, found):
                self._try(instead, others, found)
                return
        found.tell(mine - found.told.keys(), Fate.OTHER, "its offset has no message of this table")

    def _mirror(
        self,
        some: Collection[Letter],
        portion: Portion,
        first: Seen,
        newer: Mapping[At, Letter],
        found: Replayed,
    ) -> list[Letter]:
        """Look at all that came to the keys of letters, and write what these have a part in; or say what is to be tried instead."""
        mine = first.done.made.rows
        if first.done.error is not None or first.done.keys is None:
            self._commit(first, (), found)  # raises what went wrong, if anything
            return []
        late = late_of(wanted(newer.values()), as_arrow(first.done.keys))
        with self._looks.look(replace(portion, late=late)) as seen:
            if seen is None:
                return []
            behind = behind_truncates(some, seen.truncates, newer, self._standing.stand)
            made = seen.done.made
            more = made.rows - mine - made.unsure
            if behind or more:
                self._writer.forget(seen.ready, seen.done)
                found.told |= {at: said for at, said in behind.items() if at in mine}
                # Newer letters that come in the place of some are looked at by themselves: they may say more.
                found.letters |= {} if behind else {at: newer[at] for at in more}
                left = [one for one in some if one.at not in behind]
                return left if behind else [*left, *(newer[at] for at in more)]
            old = mine - made.rows - made.unsure
            self._commit(seen, old, found)
            found.tell(made.unsure & mine, Fate.UNDECIDED, "its key came in another partition, too")
            found.tell(old, Fate.SUPERSEDED, "newer changes of its key are there")
        return []

    def _commit(self, seen: Seen, old: Collection[At], found: Replayed) -> None:
        """Commit what letters have made, and say what is settled with them."""
        rows = seen.done.made.rows
        if seen.done.error is None and not rows:
            self._writer.forget(seen.ready, seen.done)
            return
        try:
            self._check_alone(self._standing)
        except BaseException:
            self._writer.forget(seen.ready, seen.done)
            raise
        said = encode(uuid.uuid4().hex, {*rows, *old})
        self._writer.write(replace(seen.ready, portion=replace(seen.ready.portion, replayed=said)), seen.done)
        found.commits += 1
        found.tell(rows, Fate.WRITTEN)
        logs.get().info("letters_replayed", table=found.table, letters=len(rows), others=len(old))

    def _since(self, some: Iterable[Letter]) -> Mapping[Position, int]:
        """Of each partition the first message that may be newer than one of the letters, where there are several."""
        oldest_ms = min(one.moment_ms for one in some)
        topics = {one.at[0] for one in some}
        if not is_divided(self._standing.stand, topics):
            return {}
        return self._first_since(topics, max(oldest_ms - SLACK_MS, 0))
