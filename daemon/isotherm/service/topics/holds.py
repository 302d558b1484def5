"""Halts, pauses and quarantines: what holds tables back, wherever they are maintained.

They stand on a compacted topic of their own, which every daemon reads to its end before it begins or commits anything;
so a table that moves to another daemon takes them along, and a person can set and lift them from anywhere. The ledger
keeps a copy, and what the broker would not take yet: a halt holds here at once, and everywhere as soon as it is told.

What this ledger knows and the topic does not (a topic that was lost, or that nobody could write to) is told again. A
hold that was lifted while this daemon was away longer than the topic keeps tombstones comes back that way: a person
lifts it once more, which is better than the other mistake.
"""

from collections.abc import Callable
from dataclasses import replace

import pydantic_core

from isotherm.contract.events import END_MS
from isotherm.contract.identity import PartitionKey, TableId
from isotherm.core.model.holds import Hold, HoldKind
from isotherm.core.model.jobs import NOTHING_READ, JobRead
from isotherm.core.model.outside import Outside
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.core.observations import HoldChanged, HoldRejected, LedgerLost, TableHalted, TrySoon
from isotherm.core.part_size import after_success, allowed_bytes
from isotherm.core.partition_backoff import setback
from isotherm.runtime.secrets import without_secrets
from isotherm.service.ports import KeyedReading, KeyedTopic, Listener, NotAsked, Refused, Unavailable
from isotherm.service.tables.failing_tables import FATAL
from isotherm.service.topics.ledger_age import SUFFIX, LedgerAge
from isotherm.store.database import StoreError, from_json
from isotherm.store.ledger import Ledger


def read_hold(key: str, value: bytes) -> Hold:
    """What a record of the topic holds back.

    A record that only a newer version can read holds its whole table back: during a rolling update, what that version
    halts must not go on here. So does one with a number that is no time and no count.

    Raises:
        ValueError: the record is none of ours.
    """
    try:
        hold = _within_bounds(from_json(Hold, value.decode()))
        # As the ledger keeps it, or each reading of the topic would find another one there.
        hold = replace(hold, why=without_secrets(hold.why))
    except ValueError as err:
        return _of_a_newer_version(key, value, err)
    if hold.key != key:
        raise ValueError(f"it speaks of {hold.key}")
    return hold


def _within_bounds(hold: Hold) -> Hold:
    """Itself, if others can count with its numbers."""
    part = () if hold.part is None else (hold.part.bytes, hold.part.at_ms)
    numbers = (hold.at_ms, hold.until_ms or 0, hold.failures, *part)
    if not all(0 <= number < END_MS for number in numbers):
        raise ValueError("a time or a count in it is beyond all bounds")
    return hold


def _of_a_newer_version(key: str, value: bytes, error: ValueError) -> Hold:
    try:
        # Unlike the standard library's, this reader refuses half a surrogate pair, which nobody can store or send.
        record = pydantic_core.from_json(value)
    except ValueError:
        raise error from None
    uuid = record.get("uuid") if isinstance(record, dict) else None
    if not isinstance(uuid, str) or not uuid or not key.startswith(f"{uuid}/"):
        raise error
    kind, why, name = (str(record.get(field, ""))[:MOST_SHOWN] for field in ("kind", "why", "name"))
    text = f"a newer version of Isotherm holds it back ({kind}: {why}); this one cannot tell what that means"
    at_ms = record.get("at_ms")
    is_time = isinstance(at_ms, int) and 0 <= at_ms < END_MS
    return Hold(HoldKind.HALT, uuid, name, text, at_ms if is_time else 0, under=key)


MOST_SHOWN = 200
"""Characters of a record that we cannot read which are repeated."""
REFUSED_FOR_MS = 3_600_000
"""What the broker did not take is tried again after this, or once it is another."""
LIFTED_AFTER_MS = 7 * 86_400_000
"""A partition's wait that has been over for so long says nothing of it any more, but for how much its jobs may read."""
LIFTED_AT_ONCE = 100
"""Such waits that one round lifts."""
TELL_FOR_S = 2.0
"""No further record is written after so long: a topic that was lost may miss thousands, each some milliseconds. What is
left is written with the next look."""


class Holds:
    """What this daemon knows of them."""

    def __init__(
        self,
        topic: KeyedTopic,
        ledger: Ledger,
        listen: Listener,
        now_ms: Callable[[], int],
        on_change: Callable[[Hold], None],
        monotonic_s: Callable[[], float],
    ) -> None:
        """Nothing is read yet.

        Args:
            topic: where they stand.
            ledger: where their copy stands.
            listen: told of every change.
            now_ms: the clock.
            on_change: told of every hold because of which verdicts may be others now.
            monotonic_s: a clock that nobody sets.
        """
        self._topic = topic
        self._ledger = ledger
        self._listen = listen
        self._now_ms = now_ms
        self._on_change = on_change
        self._monotonic_s = monotonic_s
        self._age = LedgerAge(topic, ledger)
        self._refused: dict[str, tuple[bytes | None, int]] = {}
        """Records that the broker did not take, by key, and when that was."""

    def act(self) -> None:
        """Count something that cannot be undone, before it is done. Raises Unavailable: then it must not be done."""
        self._age.act()

    def doubt_ledger(self, why: str) -> None:
        """Let nothing be deleted until a person says so, because this daemon's ledger does not know what was done."""
        text = f"{why}; `isotherm resume` lets it delete again"
        self.put(Hold(HoldKind.LEDGER, self._ledger.id, "", text, self._now_ms()))
        self._listen(LedgerLost(text))

    def refresh(self, timeout_s: float) -> bool:
        """Take in what is new on the topic, and tell it what it does not know; whether its end was reached in time.

        Where it was not, somebody may have halted any table: nothing may begin.
        """
        reading = self._topic.read(timeout_s)
        if reading is None:
            return False
        with self._ledger.transaction():
            waiting = dict(self._ledger.untold())
            for key, value in reading.records.items():
                # What we said and could not tell yet is newer than what stands there.
                if key not in waiting and not key.endswith(f"/{SUFFIX}"):
                    self._take_or_reject(key, value)
            if reading.is_whole:
                self._ledger.tell_again(but=reading.records.keys())
        if self._ledger.is_hold_damaged():
            # Written again, so that a person can lift it.
            self.doubt_ledger("why the ledger of this daemon was doubted cannot be read any more")
        self._compare_age(reading)
        self._tell()
        return True

    def _compare_age(self, reading: KeyedReading) -> None:
        """Hold this ledger's count of acts against the topic's."""
        said = reading.records.get(self._age.key)
        doubt = None if said is None else self._age.heard(said)
        if doubt is not None:
            self.doubt_ledger(doubt)
        if doubt is not None or (reading.is_whole and said is None):
            try:
                self._age.tell()
            except Unavailable as err:
                self._listen(TrySoon("telling the count of this ledger's acts", str(err), Outside.BROKER))

    def put(self, hold: Hold) -> None:
        """Hold something back, from now on and everywhere."""
        self._ledger.hold(hold, told=False)
        self._changed(hold, is_held=True)
        self._tell()

    def halt(self, table: TableId, refusal: Refusal) -> None:
        """Stop a table until a person has looked."""
        self.put(Hold(HoldKind.HALT, table.uuid, table.name, str(refusal), self._now_ms()))
        self._listen(TableHalted(table, refusal.reason, refusal.why))

    def set_back(
        self,
        table: TableId,
        partition: PartitionKey | None,
        refusal: Refusal,
        rest_ms: int,
        read: JobRead = NOTHING_READ,
    ) -> None:
        """Have a partition wait after a job of it failed, where this end says so.

        Args:
            table: the table.
            partition: the partition, if the job was about one.
            refusal: why it failed.
            rest_ms: the policy's `compact.rest`.
            read: what it was to read.
        """
        if partition is None:
            return
        before = self._wait_of(table.uuid, partition)
        hold = setback(table, partition, refusal, before, rest_ms, self._now_ms(), read)
        if hold is not None:
            self.put(hold)

    def went_well(self, uuid: str, partition: PartitionKey) -> None:
        """Let a partition of which a job was done wait no longer; how large its jobs may be is kept (`core.part_size`)."""
        before = self._wait_of(uuid, partition)
        if before is None:
            return
        kept = after_success(before, self._now_ms())
        if kept is None:
            self._lift(before)
        else:
            self._ledger.hold(kept, told=False)
            self._changed(kept, is_held=False)
        self._tell()

    def _wait_of(self, uuid: str, partition: PartitionKey) -> Hold | None:
        holds = self._ledger.holds_of(uuid, (partition,))
        return next((one for one in holds if one.kind is HoldKind.QUARANTINE), None)

    def lift(self, uuid: str, kind: HoldKind, partition: PartitionKey | None = None) -> None:
        """Let it go again, where it is held."""
        for hold in self._ledger.holds_of(uuid, () if partition is None else (partition,)):
            if (hold.kind, hold.partition) == (kind, partition):
                self._lift(hold)
                self._tell()

    def lift_old(self, owns: Callable[[str], bool]) -> None:
        """Lift waits of partitions of our tables that were over long ago: nobody has tried those partitions since.

        They may be gone for good, and their records would stay on the topic for ever.
        """
        now_ms = self._now_ms()
        over = [
            hold
            for hold in self._ledger.over(now_ms - LIFTED_AFTER_MS)
            if owns(hold.uuid) and allowed_bytes(hold.part, now_ms) is None
        ]
        for hold in over[:LIFTED_AT_ONCE]:
            self._lift(hold)
        if over:
            self._tell()

    def _lift(self, hold: Hold) -> None:
        self._ledger.lift(hold.key, told=False)
        self._changed(hold, is_held=False)

    def stops(self, uuid: str) -> Refusal | None:
        """Why nothing may be committed to a table now, or None where commits may go ahead."""
        halted = self._ledger.halted(uuid)
        if halted is not None:
            return Refusal(Reason.HALTED, halted)
        pause = self._ledger.paused(uuid)
        if pause is None or not pause.holds(self._now_ms()):
            return None
        return Refusal(Reason.PAUSED, pause.why)

    def _take_or_reject(self, key: str, value: bytes | None) -> None:
        """Take one record in; one that makes us fail keeps no other back."""
        try:
            self._take(key, value)
        except FATAL:
            raise
        except ValueError as err:
            self._listen(HoldRejected(key, str(err)))
        except Exception as err:  # noqa: BLE001 (whoever may write to the topic must not be able to end all daemons)
            self._listen(HoldRejected(key, f"it could not be taken in: {type(err).__name__}: {err}"))

    def _take(self, key: str, value: bytes | None) -> None:
        known = self._known(key)
        if value is None:
            self._ledger.lift(key, told=True)
            if known is not None:
                self._changed(known, is_held=False)
            return
        hold = read_hold(key, value)
        if hold != known:
            self._ledger.hold(hold, told=True)
            # Where jobs of a partition go well in parts, their size is said again with each of them, and holds nothing.
            self._changed(hold, is_held=hold.holds(self._now_ms()))

    def _known(self, key: str) -> Hold | None:
        """What was held under this key. Of a row that cannot be read its key alone counts, so that it is mended."""
        try:
            return self._ledger.hold_under(key)
        except StoreError as err:
            return Hold(HoldKind.HALT, key.partition("/")[0], "", str(err), 0, under=key)

    def _changed(self, hold: Hold, *, is_held: bool) -> None:
        self._on_change(hold)
        table = TableId(hold.uuid, hold.name)
        self._listen(HoldChanged(table, hold.kind, hold.partition or "", is_held, hold.why, hold.until_ms))

    def _tell(self) -> None:
        """Write what the topic does not know. Waits of partitions come last: what stops a table is known first."""
        deadline_s = self._monotonic_s() + TELL_FOR_S
        for key, value in sorted(self._ledger.untold(), key=lambda one: f"/{HoldKind.QUARANTINE}/" in one[0]):
            if self._monotonic_s() >= deadline_s:
                return
            refused, at_ms = self._refused.get(key, (b"", 0))
            if key in self._refused and refused == value and 0 <= self._now_ms() - at_ms < REFUSED_FOR_MS:
                continue
            try:
                self._topic.write(key, value)
            except Unavailable as err:
                if not isinstance(err, NotAsked):
                    what = "telling the other daemons what is held back"
                    self._listen(TrySoon(what, str(err), Outside.BROKER))
                if isinstance(err, Refused):
                    # This record alone; those behind it are other tables'.
                    self._refused[key] = value, self._now_ms()
                    continue
                return
            self._refused.pop(key, None)
            self._ledger.told(key, value)
