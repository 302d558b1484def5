"""Intents: what a mirror's write will touch, said on the control topic before it is committed, and closed afterwards.

The daemon keeps its hands off the partitions that an open intent names. An intent that is not renewed runs out by
itself, so a driver that dies holds nothing for long.
"""

import threading
import uuid
from dataclasses import dataclass, replace

from isotherm.contract.events import MAX_PARTITIONS, Intent, encode
from isotherm.contract.identity import PartitionKey, TableId
from isotherm.runtime import clock, logs
from isotherm_ingest.kafka import Broker, BrokerError, Record
from isotherm_ingest.threads import context

RENEW_EVERY_S = 5.0
LASTS_MS = 60_000
"""Twelve renewals: a pause of the driver for garbage or a slow broker does not end an intent under a write."""


@dataclass(frozen=True, slots=True)
class Open:
    """An intent that stands."""

    table: TableId
    intent_id: str
    partitions: tuple[PartitionKey, ...] | None
    attempt: int
    at_ms: int
    """When it was first acknowledged for this attempt."""
    since_ms: int
    """When it was opened, for the first attempt."""


class Intents:
    """The open intents of this driver."""

    def __init__(self, broker: Broker, topic: str, pipeline: str) -> None:
        """Nothing is sent before the first intent."""
        self._broker = broker
        self._topic = topic
        self._pipeline = pipeline
        self._open: dict[str, Open] = {}
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._context = context()
        self._renewer = threading.Thread(target=self._go_on, name="intents", daemon=True)
        self._renewer.start()

    def open(
        self,
        table: TableId,
        partitions: tuple[PartitionKey, ...] | None,
        previous: Open | None = None,
    ) -> Open:
        """Say what a write touches; returns when every replica has it. A write that is computed again keeps its intent.

        Raises:
            BrokerError: it was not acknowledged; the write must not be committed.
        """
        now_ms = clock.now_ms()
        return self._stand(
            Open(
                table,
                uuid.uuid4().hex if previous is None else previous.intent_id,
                _few(partitions),
                1 if previous is None else previous.attempt + 1,
                now_ms,
                now_ms if previous is None else previous.since_ms,
            )
        )

    def widen(self, intent: Open, partitions: tuple[PartitionKey, ...]) -> Open:
        """Say that the same attempt touches these partitions.

        Raises:
            BrokerError: it was not acknowledged; the write must not be committed.
        """
        return self._stand(replace(intent, partitions=_few(partitions)))

    def _stand(self, intent: Open) -> Open:
        with self._lock:  # what it said before must not be said again after this
            self._open.pop(intent.intent_id, None)
        self._send(intent, "open", "")
        with self._lock:
            self._open[intent.intent_id] = intent
        return replace(intent, at_ms=clock.now_ms())

    def close(self, intent: Open, outcome: str) -> None:
        """Say that the write is over. An intent that cannot be closed runs out."""
        with self._lock:  # no renewal may follow the closing
            self._open.pop(intent.intent_id, None)
            try:
                self._send(intent, "closed", outcome)
            except BrokerError as err:
                logs.get().warning("intent_not_closed", table=intent.table.name, error=str(err))

    def stop(self) -> None:
        """End the renewing."""
        self._done.set()
        self._renewer.join()

    def renew(self) -> None:
        """Say once more what stands."""
        with self._lock:
            standing = list(self._open)
        for intent_id in standing:
            with self._lock:
                intent = self._open.get(intent_id)
                if intent is None:
                    continue
                try:
                    self._send(intent, "open", "")
                except BrokerError as err:
                    logs.get().warning("intent_not_renewed", table=intent.table.name, error=str(err))

    def _go_on(self) -> None:
        self._context()
        while not self._done.wait(RENEW_EVERY_S):
            self.renew()

    def _send(self, intent: Open, state: str, outcome: str) -> None:
        now_ms = clock.now_ms()
        event = Intent(
            table_uuid=intent.table.uuid,
            table=intent.table.name,
            intent_id=intent.intent_id,
            writer=self._pipeline,
            state="closed" if state == "closed" else "open",
            at_ms=now_ms,
            expires_at_ms=now_ms + LASTS_MS,
            partitions=intent.partitions,
            attempt=intent.attempt,
            outcome=outcome,
            since_ms=intent.since_ms,
        )
        key, value, headers = encode(event)
        self._broker.send([Record(self._topic, key, value, tuple(headers.items()))])


def _few(partitions: tuple[PartitionKey, ...] | None) -> tuple[PartitionKey, ...] | None:
    """None, which is the whole table, where they are too many to be named."""
    return None if partitions is None or len(partitions) > MAX_PARTITIONS else partitions
