"""Asks writers to leave a table alone for a while, and has what never cools compacted in that time.

A window goes from its request to its end: every writer grants it, the head that they name is confirmed, what is due in it
begins, and as soon as that is over the window is closed, so that the writers wait for seconds. It ends early where anybody
writes, or means to. A grant that comes late is closed at once, and asked for again: so a writer with long batches, who
reads requests only between two of them, finds one that is young.
"""

import uuid as uuids
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from isotherm.contract.announcement import DAEMON
from isotherm.contract.events import MAX_PARTITIONS, WindowClosed, WindowRequested
from isotherm.contract.identity import TableId
from isotherm.core.model.decisions import Plan, Request
from isotherm.core.model.jobs import ExecutorName
from isotherm.core.model.outside import Outside
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.core.model.writers import UNHEARD
from isotherm.core.observations import TrySoon, WindowAsked, WindowEnd, WindowEnded
from isotherm.core.planner.granted import MARGIN_MS, granters
from isotherm.core.planner.view import Flight
from isotherm.service.jobs.compactions import Compactions
from isotherm.service.jobs.granted_windows import GrantedWindow, GrantedWindows
from isotherm.service.ports import EventSource, Listener, Unavailable
from isotherm.service.rounds.verdicts import Verdicts
from isotherm.service.tables.failing_tables import Barrier
from isotherm.store.fold import Fold, TableRow

REST = 10
"""After a window of a table its writers are left alone for so many times as long as they waited: rows come late for a tenth of
the time at most. Ingest grants no more either."""
MOST_TRIES = 20
"""So often writers are asked in a row, each time once half of the window is over: ten minutes, with windows of a minute."""
COUNTED_TRIES = 3
"""A table whose writers have not answered so many requests in a row takes no place from others: they may be gone."""
NO_SLOT_S = 5.0
"""Writers wait so long at most for a slot, after they have granted."""
CLOSED_AT_ONCE = 20
"""Grants that came in vain and are answered in one turn: each answer waits for the broker."""
TURN_AFTER_S = 60.0
"""Other work has all slots for so long at most while a table waits to be asked for. Then the next slot is left for its window:
cold work that never ends would be all that is ever done. After a turn others have them for as long, or longer."""
LONGEST_TURN_S = 300.0
"""What counts of a turn at the most: nobody may have looked meanwhile."""
MOST_REMEMBERED = 10_000
"""Tables of which it is known when they were asked for last, or that they wait for their turn: some 2 MB each."""
MOST_DOUBLED = 6
"""So often the time is doubled in which writers that did not answer are left alone."""
BEGIN_EVERY_S = 1.0
"""What is left to begin in a window is looked for again after this, or once a job of it has ended: a slot may be free."""


@dataclass(slots=True, kw_only=True)
class Windows:
    """Asks for windows, and leads them to their end."""

    fold: Fold
    events: EventSource
    book: GrantedWindows
    verdicts: Verdicts
    compactions: Compactions
    flights: Callable[[str], tuple[Flight, ...]]
    """What runs for a table, by uuid."""
    confirm: Callable[[str], bool]
    """Brings our row of a table to what the catalog has; whether there is a table of ours under the name."""
    begin: Callable[[Plan], int]
    """Begins what is due in a window, as far as there is room."""
    bytes_left: Callable[[str], int | None]
    """What a job of a table may read now, by uuid, or None where nothing limits it."""
    jobs_at_once: int
    barrier: Barrier
    listen: Listener
    now_ms: Callable[[], int]
    monotonic_s: Callable[[], float]
    _not_before_s: dict[str, float] = field(default_factory=dict)
    """By uuid: when the writers of a table may be asked again."""
    _unanswered: dict[str, int] = field(default_factory=dict)
    """By uuid: how many windows of a table in a row nobody granted."""
    _asked_s: dict[str, float] = field(default_factory=dict)
    """By uuid: when the writers of a table were asked last."""
    _waiting: dict[str, TableId] = field(default_factory=dict)
    """By uuid: tables that were looked at, and whose turn has not come."""
    _no_room_since_s: float | None = None
    """Since when a table waits for a slot that it could be asked for."""
    _in_turn: str = ""
    """The table, by uuid, for whose window a slot is left."""
    _turn_began_s: float = 0.0
    """When a slot was left for it."""
    _others_until_s: float = float("-inf")
    """Until then it is the turn of other work: as long as a slot was left free, and a minute at least."""

    def ask(self, tables: Sequence[TableId]) -> None:
        """Ask for windows where something is due that is hot: of tables that were just looked at, and of those that wait.

        A round looks at tables that were written to just now. Whoever came first is not passed over for that.
        """
        now_s = self.monotonic_s()
        self._not_before_s = {uuid: at_s for uuid, at_s in self._not_before_s.items() if at_s > now_s}
        self._waiting |= {one.uuid: one for one in tables if self._may_ask(one)}
        while len(self._waiting) > MOST_REMEMBERED:
            del self._waiting[next(iter(self._waiting))]
        mine = [
            one
            for one in self._waiting.values()
            if self.book.of(one.uuid) is None and one.uuid not in self._not_before_s
        ]
        is_turn = self._is_turn(now_s)
        for table in sorted(mine, key=lambda one: self._asked_s.get(one.uuid, float("-inf"))):
            if self._room() <= 0:
                # Whoever granted would wait for nothing; those that waited longest come first the next time.
                if self._no_room_since_s is None:
                    self._no_room_since_s = now_s
                return
            del self._waiting[table.uuid]  # where nothing is due, the next look at it says when
            with self.barrier.around(table.name, "asking for a window", f"{table.uuid}/window"):
                if self._ask(table, 1) and is_turn:
                    self._in_turn, self._turn_began_s, self._no_room_since_s = table.uuid, now_s, None
                    return
        self._no_room_since_s = None

    def slots_left(self) -> int:
        """So many slots other work leaves to windows now: one, where a table has waited for long, until its window has a job."""
        now_s = self.monotonic_s()
        window = self.book.of(self._in_turn)
        if self._in_turn and (window is None or not self._waits(window)):
            self._in_turn = ""
            took_s = min(now_s - self._turn_began_s, LONGEST_TURN_S)
            self._others_until_s = now_s + max(TURN_AFTER_S, took_s)
        return int(bool(self._in_turn) or self._is_turn(now_s))

    def _is_turn(self, now_s: float) -> bool:
        """Whether the next slot is a window's."""
        waits_s = 0.0 if self._no_room_since_s is None else now_s - self._no_room_since_s
        return waits_s >= TURN_AFTER_S and now_s >= self._others_until_s and not self._in_turn

    def _waits(self, window: GrantedWindow) -> bool:
        """Whether a window has no job, and its writers may still answer."""
        return not self._jobs(window) and (bool(window.granted) or window.tries <= COUNTED_TRIES)

    def _may_ask(self, table: TableId) -> bool:
        """Whether the policy of a table lets its writers be asked."""
        row = self.fold.table(table.uuid)
        resolved = None if row is None else self.verdicts.policy_of(row)
        return resolved is not None and resolved.policy.compact.ask_writer is not None

    def _room(self) -> int:
        """How many tables more may be asked for now."""
        waiting = sum(self._waits(window) for window in self.book)
        return self.jobs_at_once - self.compactions.slots_taken(ExecutorName.LOCAL) - waiting

    def _ask(self, table: TableId, tries: int) -> bool:
        """Ask the writers of a table; returns whether that was done."""
        row, slots = self.fold.table(table.uuid), self.compactions.slots_taken(ExecutorName.LOCAL)
        resolved = None if row is None else self.verdicts.policy_of(row)
        if row is None or resolved is None or not row.is_trusted or slots >= self.jobs_at_once:
            return False
        left, writers = self.bytes_left(table.uuid), self._writers_of(row)
        # Of what no budget lets begin, its writers would wait for nothing.
        wanted = [
            one
            for one in self.verdicts.asking(row, self.flights(table.uuid))
            if left is None or one.bytes <= left
        ]
        length_ms = resolved.policy.compact.ask_writer
        if not wanted or length_ms is None or not writers or not self.events.owns(table.uuid):
            return False
        keys = frozenset(one.partition for one in wanted[:MAX_PARTITIONS] if one.partition is not None)
        window = GrantedWindow(
            uuids.uuid4().hex,
            row.state.table,
            keys,
            writers,
            length_ms / 1000,
            self.monotonic_s(),
            tries,
            pending=set(keys),
        )
        self.book.ask(window)  # before it is sent: the answer may be quick
        request = WindowRequested(
            table_uuid=table.uuid,
            table=row.state.table.name,
            window_id=window.window_id,
            asked_by=DAEMON,
            at_ms=self.now_ms(),
            length_ms=int(length_ms),
            partitions=tuple(sorted(keys)),
        )
        if not self._publish(request):
            self.book.forget(window)
            self._not_before_s[table.uuid] = self.monotonic_s() + length_ms / 1000
            return False
        self._asked_s.pop(table.uuid, None)
        self._asked_s[table.uuid] = window.sent_s
        if len(self._asked_s) > MOST_REMEMBERED:
            del self._asked_s[next(iter(self._asked_s))]
        self.listen(WindowAsked(window.table, window.window_id, len(keys), int(length_ms)))
        return True

    def _writers_of(self, row: TableRow, *, but: Collection[str] = ()) -> frozenset[str]:
        """The writers of a table, without some. None where one of them grants no windows."""
        resolved = self.verdicts.policy_of(row)
        around = self.verdicts.view(row, (), partitions={}, whole=False).around
        around = replace(around, words=tuple(word for word in around.words if word.writer not in but))
        found = "" if resolved is None else granters(around, resolved.policy, self.now_ms())
        return frozenset() if isinstance(found, str) else frozenset(found)

    def turn(self) -> None:
        """Go on with every window: open it, begin what is due in it, close it, or ask once more."""
        for grant in self.book.granted_in_vain(CLOSED_AT_ONCE):
            table = TableId(grant.table_uuid, grant.table)
            self._heard_late(table.uuid)
            self._publish(self._closing(table, grant.window_id, WindowEnd.LATE))
        for window in self.book:
            uuid, name = window.table.uuid, window.table.name
            with self.barrier.around(name, "going on with a window", f"{uuid}/window"):
                self._go_on(window)
                continue
            window.end = window.end or WindowEnd.NOT_OURS  # it went wrong: nothing is begun in it any more
            if not self._cancel(window):
                self._close(window, window.end)

    def _heard_late(self, uuid: str) -> None:
        """Who answers late is not gone: they are asked again as soon as those who waited for a whole window."""
        row, at_s = self.fold.table(uuid), self._not_before_s.get(uuid)
        resolved = None if row is None else self.verdicts.policy_of(row)
        length_ms = None if resolved is None else resolved.policy.compact.ask_writer
        if self._unanswered.pop(uuid, None) is not None and at_s is not None and length_ms is not None:
            self._not_before_s[uuid] = min(at_s, self.monotonic_s() + REST * length_ms / 1000)

    def _go_on(self, window: GrantedWindow) -> None:
        now_s = self.monotonic_s()
        if not window.is_granted:
            self._wait(window, now_s)
        elif not window.is_open:
            if (end := self._against(window, now_s)) is not None:
                self._close(window, end)
        elif (end := self._why_over(window, now_s)) is not None:
            window.end = end
            if not self._cancel(window):
                self._close(window, end)
        else:
            if self._jobs(window) < window.running or now_s - window.tried_s >= BEGIN_EVERY_S:
                self._begin(window, now_s)
            waited_s = now_s - (window.granted_s or now_s)
            if not self._jobs(window) and (not window.pending or window.is_late(now_s)):
                self._close(window, WindowEnd.OVER if window.pending else WindowEnd.DONE)
            elif not self._jobs(window) and not window.jobs and waited_s >= NO_SLOT_S:
                self._close(window, WindowEnd.NO_SLOT)

    def _wait(self, window: GrantedWindow, now_s: float) -> None:
        """Wait for the writers, and ask them again once a grant would be late."""
        if window.end is not None:
            self._close(window, window.end)
        elif window.is_late(now_s):
            if window.granted:  # one of several goes on to write, the others need not wait
                self._publish(self._closing(window.table, window.window_id, WindowEnd.UNANSWERED))
                window.granted.clear()
            if window.tries >= MOST_TRIES or not self._ask(window.table, window.tries + 1):
                self._close(window, WindowEnd.UNANSWERED)

    def _against(self, window: GrantedWindow, now_s: float) -> WindowEnd | None:
        """What stands against opening a window that every writer has granted. Opens it where nothing does."""
        uuid = window.table.uuid
        if window.end is not None:
            return window.end
        if window.is_late(now_s):
            return WindowEnd.LATE
        if not self.events.owns(uuid) or not self.confirm(window.table.name):
            return WindowEnd.NOT_OURS
        row = self.fold.table(uuid)
        if row is None or not row.is_trusted:
            return WindowEnd.NOT_OURS
        if any(one.snapshot_id != row.state.head for one in window.granted.values()):
            return WindowEnd.OTHER_HEAD
        # Somebody came meanwhile whom nobody has asked. Not an ingest whose event is on its way: its commit is the head that
        # was named, or is below it.
        if self._writers_of(row, but=[UNHEARD + writer for writer in window.writers]) != window.writers:
            return WindowEnd.DISTURBED
        window.foreign_commits = row.state.foreign_commits
        return None

    def _why_over(self, window: GrantedWindow, now_s: float) -> WindowEnd | None:
        """Why an open window is over, or None where it is not."""
        row = self.fold.table(window.table.uuid)
        if window.end is not None:
            return window.end
        if row is None or not self.events.owns(window.table.uuid):
            return WindowEnd.NOT_OURS
        if row.state.foreign_commits != window.foreign_commits:
            return WindowEnd.DISTURBED
        return WindowEnd.OVER if now_s >= window.ends_s else None

    def _begin(self, window: GrantedWindow, now_s: float) -> None:
        """Begin what is due in a window, and forget which of its partitions owe nothing more that would fit into it."""
        window.tried_s = now_s
        requests: list[Request] = []
        row, flights = self.fold.table(window.table.uuid), self.flights(window.table.uuid)
        for key in sorted(window.pending - {flight.partition for flight in flights}):
            request = None if row is None else self.verdicts.compaction_of(row, (), key)
            if request is None or request.decision.window_id != window.window_id:
                window.pending.discard(key)
            else:
                requests.append(request)
        if requests:
            requests.sort(key=lambda one: (-one.decision.score, one.decision.partition or ""))
            self.begin(Plan(window.table, (), (), tuple(requests)))
        window.running = self._jobs(window)

    def _jobs(self, window: GrantedWindow) -> int:
        return self.compactions.in_window(window.window_id)

    def _cancel(self, window: GrantedWindow) -> int:
        """Cancel what runs in a window. Returns how many jobs are left: a request that is on its way is waited for."""
        refusal = Refusal(Reason.WINDOW, f"the window that its writers granted is over ({window.end})")
        self.compactions.cancel_window(window.window_id, refusal)
        return self._jobs(window)

    def _close(self, window: GrantedWindow, end: WindowEnd) -> None:
        """Tell the writers that a window is over, and leave them alone for a while."""
        if window.granted:
            self._publish(self._closing(window.table, window.window_id, end))
        self.book.forget(window)
        now_s = self.monotonic_s()
        uuid = window.table.uuid
        waited_s = window.length_s if window.granted_s is None else now_s - window.granted_s
        # Where this daemon could not ask again, because its slots were taken, that is no fault of the writers; but for those
        # for whom a slot was left free as often as for anybody.
        is_deaf = end is WindowEnd.UNANSWERED and window.tries > COUNTED_TRIES
        if window.is_granted:
            self._unanswered.pop(uuid, None)
        times = self._unanswered.get(uuid, 0) if is_deaf else 0
        if is_deaf:
            self._unanswered[uuid] = min(times + 1, MOST_DOUBLED)
        self._not_before_s[uuid] = now_s + REST * waited_s * 2**times
        late_s = max(now_s - window.ends_s - MARGIN_MS / 1000, 0.0) if window.jobs else 0.0
        self.listen(
            WindowEnded(window.table, window.window_id, end, now_s - window.sent_s, window.jobs, late_s)
        )

    def stop(self) -> None:
        """Let writers go on at once. Jobs were cancelled before."""
        for window in self.book:
            self._close(window, WindowEnd.OVER)

    def _closing(self, table: TableId, window_id: str, end: WindowEnd) -> WindowClosed:
        return WindowClosed(
            table_uuid=table.uuid,
            table=table.name,
            window_id=window_id,
            by="daemon",
            at_ms=self.now_ms(),
            why=end.value,
        )

    def _publish(self, event: WindowRequested | WindowClosed) -> bool:
        """Say something of a window. Who is not told finds out by time."""
        try:
            self.events.publish(event)
        except Unavailable as err:
            self.listen(TrySoon("what is said of a window", str(err), Outside.CONTROL_END))
            return False
        return True
