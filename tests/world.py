"""The world of the stories in tests/scripts: one table, its policy, a clock; one `do_<verb>` for each line of a story.

A story is prose, then blocks: commands, a line of dashes, and the answer. Time is said as `10:30` of one day; hours
of partitions are those of the same day. Nothing here decides anything: it feeds the core and prints what it says.
"""

import shlex
from dataclasses import replace

from builders import TABLE, facts, files, snapshots
from isotherm.coldness import Surroundings, Word
from isotherm.commit_event import Intent, OpenWindow
from isotherm.config import parse_yaml
from isotherm.model import (
    Action,
    Change,
    FileKind,
    FileStats,
    Origin,
    PartitionDelta,
    PartitionField,
    partition_key,
)
from isotherm.planner import Flight, View, plan
from isotherm.policy import PolicyFile, parse_span_ms, resolve
from isotherm.simulate import after
from isotherm.state import TableState, apply

DAY_MS = 20_000 * 86_400_000  # 2024-10-04


def clock(text):
    """`10:30`, `10:30:15`, or `+1d 10:30` on a later day."""
    day, _, time = text.rpartition(" ")
    hours, minutes, *seconds = (int(part) for part in time.split(":"))
    days = int(day.removeprefix("+").removesuffix("d")) if day else 0
    return DAY_MS + days * 86_400_000 + (hours * 3600 + minutes * 60 + sum(seconds)) * 1000


class World:
    """One table and what is known of it."""

    def __init__(self):
        self.now = DAY_MS
        self.fields = (PartitionField(1000, "t_hour", "hour", "timestamptz"),)
        self.state = TableState(TABLE, None, boundary_ms=None)
        self.partitions = {}
        self.intents = {}
        self.words = {}
        self.flights = []
        self.snapshots = 0
        self.policy = self._policy("cold: {}")

    def run(self, line):
        verb, *words = shlex.split(line)
        arguments = [word for word in words if "=" not in word]
        options = dict(word.split("=", 1) for word in words if "=" in word)
        return getattr(self, f"do_{verb}")(*arguments, **options)

    @staticmethod
    def _policy(text):
        file = parse_yaml(f"{{tables: '*', {text}}}", "policy", PolicyFile)
        return resolve(TABLE.name, {}, [("policy", file)]).policy

    def do_table(self, kind):
        """The partition spec: `hour`, `day`, `month`, `bucket[4]`, or `none`."""
        self.fields = () if kind == "none" else (PartitionField(1000, f"t_{kind[:6]}", kind, "timestamptz"),)

    def do_policy(self, text):
        self.policy = self._policy(text)

    def do_at(self, time):
        self.now = clock(time)

    def do_snapshots(self, count):
        self.snapshots = int(count)

    def do_commit(
        self, *places, through=None, origin="ingest", operation="append", writer=None, window=None, times=1
    ):
        """Commit to places such as `8` or `8=3` (files); `8:deletes=50` adds a delete file with so many rows."""
        for _ in range(int(times)):
            self._commit(places, through, origin, operation)
        if writer:
            start = None if window in (None, "none") else clock(window)
            self.words[writer] = Word(writer, self.now, OpenWindow(from_ms=start))

    def _commit(self, places, through, origin, operation):
        deltas = {}
        for place in places:
            value, _, what = place.partition(":")
            kind, _, count = what.partition("x")
            key = self._key(value)
            if kind == "deletes":
                stats = FileStats(1, int(count), 1000)
                deltas[key] = PartitionDelta(deletes={FileKind.POSITION_DELETES: stats}, added=stats)
            else:
                number = int(count or 1)
                deltas[key] = PartitionDelta(
                    data=files(number), added=FileStats(number, 100 * number, number * 1024**2)
                )
        snapshot_id = (self.state.head or 0) + 1
        change = Change(
            snapshot_id=snapshot_id,
            parent_id=self.state.head,
            sequence_number=snapshot_id,
            committed_at_ms=self.now,
            operation=operation,
            origin=Origin(origin),
            partitions=deltas,
            valid_through_ms=None if through is None else clock(through),
        )
        applied = apply(self.state, self.partitions, change, self.fields, self.now)
        self.state = applied.state
        self.partitions = {
            k: v for k, v in {**self.partitions, **applied.partitions}.items() if v is not None
        }

    def _key(self, value):
        if not self.fields:
            return partition_key({})
        if self.fields[0].transform == "hour":
            return partition_key({1000: DAY_MS // 3_600_000 + int(value)})
        return partition_key({1000: int(value)})

    def do_intent(self, identity, *places, state="open", holds="15m", writer="shop"):
        keys = None if places == ("all",) else tuple(self._key(place) for place in places)
        self.intents[identity] = Intent(
            table_uuid=TABLE.uuid,
            table=TABLE.name,
            intent_id=identity,
            writer=writer,
            state=state,
            at_ms=self.now,
            expires_at_ms=self.now + parse_span_ms(holds),
            partitions=keys,
        )
        if state == "closed":
            del self.intents[identity]

    def do_job(self, place):
        self.flights.append(Flight("job", Action.COMPACT, self._key(place), self.state.head, self.now))

    def _view(self):
        around = Surroundings(
            self.state, self.fields, tuple(self.intents.values()), tuple(self.words.values())
        )
        known = facts(fields=self.fields, snapshots=self.snapshots)
        return View(
            around=around,
            facts=known,
            partitions=self.partitions,
            snapshots=snapshots(self.snapshots, newest_at_ms=self.now),
            flights=tuple(self.flights),
            announced_sequence_number=10**9,
        )

    def do_plan(self, what="partitions"):
        """Every verdict on partitions; `plan table` the one on the table."""
        decisions = plan(self._view(), self.policy, self.now)
        shown = decisions.of_table[:1] if what == "table" else decisions.of_partitions
        return "".join(f"{d.verdict} {d.score:.2f} {d.label}: {d.why}\n" for d in shown)

    def do_done(self):
        """Everything that is due is done."""
        view = self._view()
        done = after(view, plan(view, self.policy, self.now), self.policy)
        self.partitions = dict(done.partitions)
        self.snapshots = len(done.snapshots)
        self.state = replace(self.state)
