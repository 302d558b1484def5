"""Windows: between two batches the daemon's requests are read, and a table is left alone for a while.

It takes part in no batch then, as one that failed before; it catches up afterwards, as that one does. The window begins
when the grant is sent, by this driver's monotonic clock, and lasts as long as is granted. The daemon's part began when it
asked, which was earlier, so it never ends later. A driver that dies knows nothing of it when it begins again, and writes;
the daemon hears of that and stops.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from isotherm.contract.events import (
    EventError,
    WindowClosed,
    WindowGranted,
    WindowRequested,
    decode,
    encode,
)
from isotherm.runtime import clock, logs
from isotherm_ingest.batches.table_state import Front, TableState
from isotherm_ingest.failures import brief
from isotherm_ingest.kafka import BrokerError, Record
from isotherm_ingest.metrics import Metrics
from isotherm_ingest.plan.known import is_table
from isotherm_ingest.tables.lake import Lake

GRANT_FOR_S = 2.0
"""In one turn, tables are looked at and grants are sent for so long; batches wait meanwhile. The daemon asks again for the rest."""
REST = 10
"""A table that was left alone is not so again before so many times as long has passed."""


class Tail(Protocol):
    """What is new on the control topic."""

    def read(self) -> list[bytes]: ...  # noqa: D102 (as `ControlTail`)
    def close(self) -> None: ...  # noqa: D102


class Sender(Protocol):
    """Sends messages."""

    def send(self, records: list[Record]) -> None: ...  # noqa: D102 (as `Broker`)


@dataclass(frozen=True, slots=True)
class _Open:
    """A window that was granted."""

    name: str
    state: TableState
    request: WindowRequested
    began_s: float


class Windows:
    """The windows of one driver, one for each table at most."""

    def __init__(
        self,
        tail: Tail,
        broker: Sender,
        lake: Lake,
        metrics: Metrics,
        *,
        topic: str,
        pipeline: str,
        longest_s: float,
        monotonic_s: Callable[[], float] = clock.monotonic_s,
    ) -> None:
        """Nothing is read before the first turn.

        Args:
            tail: the newest messages of the control topic.
            broker: sends grants.
            lake: says what a table's head is.
            metrics: counts windows.
            topic: the control topic.
            pipeline: who grants.
            longest_s: no table is left alone for longer, however long is asked for.
            monotonic_s: the clock by which windows end.
        """
        self._tail, self._broker, self._lake, self._metrics = tail, broker, lake, metrics
        self._topic, self._pipeline, self._longest_s = topic, pipeline, longest_s
        self._monotonic_s = monotonic_s
        self._open: dict[str, _Open] = {}
        """By uuid of the table."""
        self._rests_until_s: dict[str, float] = {}

    def turn(self, states: Mapping[str, TableState], front: Front) -> None:
        """Read what was asked for and closed; end what is over, and grant what can be."""
        wanted: dict[str, WindowRequested] = {}
        for value in self._tail.read():
            try:
                event = decode(value)
            except EventError:
                continue
            match event:
                case WindowRequested():
                    wanted[event.table_uuid] = event
                case WindowClosed(by="daemon"):
                    self._closed(event, wanted)
                case _:
                    pass
        for uuid, one in list(self._open.items()):
            # Who asks anew has given up what it asked for before.
            if uuid in wanted or self._monotonic_s() >= one.state.window_until_s:
                self._end(uuid)
        until_s, is_well = self._monotonic_s() + GRANT_FOR_S, True
        for request in wanted.values():
            mine = [
                (name, state)
                for name, state in states.items()
                if state.known is not None and is_table(state.known.uuid, request.table_uuid)
            ]
            for name, state in mine[:1]:
                is_granted = False
                if (
                    is_well
                    and self._monotonic_s() < until_s
                    and self._may_grant(request.table_uuid, state, front)
                ):
                    # Where the catalog or the broker is away, the next table would wait for it, too.
                    is_granted, is_well = self._grant(request, name, state)
                self._metrics.windows.labels(name, "granted" if is_granted else "refused").inc()

    def _closed(self, event: WindowClosed, wanted: dict[str, WindowRequested]) -> None:
        uuid = event.table_uuid
        if uuid in wanted and wanted[uuid].window_id == event.window_id:
            del wanted[uuid]
        if uuid in self._open and self._open[uuid].request.window_id == event.window_id:
            self._end(uuid)

    def _may_grant(self, uuid: str, state: TableState, front: Front) -> bool:
        """Whether a table is in step, and was not left alone a moment ago."""
        if self._monotonic_s() < self._rests_until_s.get(uuid, float("-inf")):
            return False
        is_well = not (state.failures or state.untold or state.is_halted or state.must_look)
        return is_well and not state.lacks_below(front)

    def _grant(self, request: WindowRequested, name: str, state: TableState) -> tuple[bool, bool]:
        """Leave a table alone from now on, and say so. Returns whether it is, and whether catalog and broker answered."""
        try:
            table = self._lake.newest(name, lambda _: True)
        except Exception as err:  # noqa: BLE001 (whatever keeps it from being read: then nothing is granted)
            logs.get().warning("window_refused", table=name, error=brief(err))
            return False, False
        if table is None or table.uuid != request.table_uuid:
            return False, True
        length_s = min(request.length_ms / 1000, self._longest_s)
        began_s = self._monotonic_s()
        state.window_until_s = began_s + length_s
        self._open[request.table_uuid] = _Open(name, state, request, began_s)
        granted = WindowGranted(
            table_uuid=request.table_uuid,
            table=request.table,
            window_id=request.window_id,
            writer=self._pipeline,
            at_ms=clock.now_ms(),
            length_ms=int(length_s * 1000),
            snapshot_id=table.head,
        )
        # Where nobody knows whether that has arrived, the table is left alone as if it had.
        is_said = self._say(granted, name)
        logs.get().info("window_granted", table=name, window=request.window_id, length_s=length_s)
        return True, is_said

    def _end(self, uuid: str) -> None:
        """Go on with a table."""
        one, now_s = self._open.pop(uuid), self._monotonic_s()
        took_s = max(now_s - one.began_s, 0.0)
        one.state.window_until_s = 0.0
        self._rests_until_s[uuid] = now_s + REST * took_s
        self._metrics.window_seconds.labels(one.name).inc(took_s)
        logs.get().info("window_over", table=one.name, window=one.request.window_id, took_s=round(took_s, 1))

    def stop(self) -> None:
        """End all windows: nobody knows who writes next."""
        for uuid, one in list(self._open.items()):
            self._end(uuid)
            closed = WindowClosed(
                table_uuid=uuid,
                table=one.request.table,
                window_id=one.request.window_id,
                by="writer",
                writer=self._pipeline,
                at_ms=clock.now_ms(),
                why="ingest was stopped",
            )
            self._say(closed, one.name)
        self._tail.close()

    def _say(self, event: WindowGranted | WindowClosed, name: str) -> bool:
        """Send it; whether the broker has it."""
        key, value, headers = encode(event)
        try:
            self._broker.send([Record(self._topic, key, value, tuple(headers.items()))])
        except BrokerError as err:
            logs.get().warning("window_not_told", table=name, error=str(err))
            return False
        return True
