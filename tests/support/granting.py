"""A writer that grants windows, on the tables and the topic of a lab."""

from isotherm.contract.events import (
    Intent,
    WindowClosed,
    WindowGranted,
    WindowRequested,
    decode,
    encode,
)
from isotherm.contract.summary import INGEST_PIPELINE, INGEST_TOKEN, JOB_ID
from isotherm.core import observations as seen
from support.in_process import InProcess
from support.lab import EAGER, Lab, event_of, of, uuid_of

ASKING = EAGER.replace("quiet_for: 0s", "quiet_for: 1h").replace(
    "min_files: 3", "min_files: 3, rest: 0s, ask_writer: 60s"
)
"""A table that is hot for an hour after each write, and whose writers may be asked."""


class Shop:
    """Writes a table of one hour, and grants what it is asked for, as a test says."""

    def __init__(self, root, policy=ASKING, *, writer="shop", lab=None, table=None, **more):
        self.lab = lab or Lab(root, policy, **more)
        self.table = table or self.lab.create()
        self.writer = writer
        self.heard = 0

    def append(self, *hours, announce=True, grants=True):
        """One commit, whose event may come later."""
        said = {INGEST_PIPELINE: self.writer, INGEST_TOKEN: "{}"}
        self.lab.append(self.table, *(hours or (1,)), announce=False, snapshot_properties=said)
        event = event_of(self.table.refresh(), writer=self.writer, grants=grants)
        if announce:
            self.lab.announce(event)
        return event

    def said(self, kind):
        """What is on the topic, of one kind, in order."""
        events = (decode(value) for value in self.lab.topic.messages)
        return [one for one in events if isinstance(one, kind)]

    def requests(self):
        """Those that came since the last call."""
        found = self.said(WindowRequested)
        new, self.heard = found[self.heard :], len(found)
        return new

    def closed(self):
        """Why windows were closed, in order."""
        return [one.why for one in self.said(WindowClosed)]

    def grant(self, request, **changes):
        """Say that nothing will be committed."""
        values = {
            "table_uuid": request.table_uuid,
            "table": request.table,
            "window_id": request.window_id,
            "writer": self.writer,
            "at_ms": request.at_ms,
            "length_ms": request.length_ms,
            "snapshot_id": self.table.refresh().current_snapshot().snapshot_id,
        }
        self.say(WindowGranted(**(values | changes)))

    def take_back(self, request):
        """Say that it goes on."""
        self.say(
            WindowClosed(
                table_uuid=request.table_uuid,
                table=request.table,
                window_id=request.window_id,
                by="writer",
                writer=self.writer,
                at_ms=request.at_ms,
            )
        )

    def intend(self, partitions=None):
        """Say that it means to write."""
        now_ms = self.lab.now_ms()
        self.say(
            Intent(
                table_uuid=uuid_of(self.table),
                table="shop.orders",
                intent_id="i",
                writer=self.writer,
                state="open",
                at_ms=now_ms,
                expires_at_ms=now_ms + 60_000,
                partitions=partitions,
            )
        )

    def say(self, event):
        self.lab.topic.messages.append(encode(event)[1])


class Held(InProcess):
    """A rewrite that goes on until a test lets it end."""

    is_held = False

    def poll(self):
        return [] if self.is_held else super().poll()


def turns(service, count=6):
    for _ in range(count):
        service.step(0)


def asked(shop, service):
    """The request that the daemon has just made."""
    shop.append()
    turns(service, 3)
    (request,) = shop.requests()
    return request


def ours(shop):
    return [one for one in shop.table.refresh().snapshots() if JOB_ID in one.summary.additional_properties]


def rows(shop):
    return sorted(shop.table.refresh().scan().to_arrow()["id"].to_pylist())


def ends(shop):
    return [one.end for one in of(shop.lab, seen.WindowEnded)]
