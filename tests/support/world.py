"""The world of the stories in tests/stories: one table, its policy, a clock; one `do_<verb>` for each line of a story.

A story is prose, then blocks: commands, a line of dashes, and the answer. Time is said as `10:30` of one day; hours
of partitions are those of the same day. Nothing here decides anything: it feeds the core and prints what it says.
"""

import shlex
from dataclasses import replace

from isotherm.contract.events import Intent, OpenWindow
from isotherm.contract.identity import partition_key
from isotherm.contract.summary import Origin
from isotherm.core.model.changes import Change, PartitionDelta
from isotherm.core.model.decisions import Verdict
from isotherm.core.model.files import FileKind, FileStats
from isotherm.core.model.holds import Quarantine
from isotherm.core.model.jobs import Action
from isotherm.core.model.tables import PartitionField
from isotherm.core.model.writers import Word
from isotherm.core.partitions import with_epochs
from isotherm.core.planner.backlog import after
from isotherm.core.planner.plan import plan
from isotherm.core.planner.view import Flight, Surroundings, View
from isotherm.core.policy.precedence import PolicyFile, resolve
from isotherm.core.state import TableState, apply
from isotherm.core.units import parse_span_ms
from isotherm.runtime.yaml_reader import parse_yaml
from support.builders import TABLE, facts, files, snapshots

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
        self.quarantined = {}
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

    def do_table(self, *kinds, source="timestamptz", now=None):
        """The fields of all partition specs, ever: `hour`, `day`, `month`, `bucket[4]`, `identity`, or `none`.

        With `now=day` that is the only one of the current spec; without it, all are.
        """
        self.fields = tuple(
            PartitionField(
                1000 + place,
                f"t_{kind.partition('[')[0]}",
                kind,
                source,
                is_current=now in (None, kind),
                source_id=1,
            )
            for place, kind in enumerate(kinds)
            if kind != "none"
        )

    def do_policy(self, text):
        self.policy = self._policy(text)
        self.fields = with_epochs(self.fields, self.policy.cold.epochs)

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
            valid_through_ms=clock(through) if isinstance(through, str) else through,
        )
        applied = apply(self.state, self.partitions, change, self.fields, self.now)
        self.state = applied.state
        self.partitions = {
            k: v for k, v in {**self.partitions, **applied.partitions}.items() if v is not None
        }

    def _key(self, value):
        """`8`, of several fields `8/2`; a dash for a field that the file's spec does not have."""
        values = {}
        for field, text in zip(self.fields, value.split("/"), strict=bool(self.fields)):
            if text != "-":
                number = int(text) if field.source_type != "string" else text
                values[field.field_id] = DAY_MS // 3_600_000 + number if field.transform == "hour" else number
        return partition_key(values)

    def do_stream(self, hours, late="", every="10", per_hour="6"):
        """Hours of steady commits, `per_hour` of them, into the hour that is now; each `every`-th also `late` hours back."""
        for number in range(int(hours) * int(per_hour)):
            hour = (self.now - DAY_MS) // 3_600_000
            places = [str(hour), str(hour - int(late))] if late and number % int(every) == 0 else [str(hour)]
            self._commit(places, self.now, "ingest", "append")
            self.now += 3_600_000 // int(per_hour)

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

    def do_failed(self, place, times="1", holds="1m"):
        """Jobs of a partition failed, so many in a row."""
        until_ms = self.now + parse_span_ms(holds)
        self.quarantined[self._key(place)] = Quarantine(until_ms, int(times), "missing_file: gone")

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
            quarantined=self.quarantined,
            announced_sequence_number=10**9,
            outputs=self.partitions,
        )

    def do_plan(self, what="partitions"):
        """Every verdict on partitions, `plan hot` those alone; `plan table` the one on the table's snapshots."""
        decisions = plan(self._view(), self.policy, self.now)
        shown = decisions.of_table[:1] if what == "table" else decisions.of_partitions
        if what in set(Verdict):
            shown = [decision for decision in shown if decision.verdict == what]
        return "".join(f"{d.verdict} {d.score:.2f} {d.label}: {d.why}\n" for d in shown)

    def do_done(self):
        """Everything that is due is done."""
        view = self._view()
        done = after(view, plan(view, self.policy, self.now), self.policy, self.now)
        self.partitions = dict(done.partitions)
        self.snapshots = len(done.snapshots)
        self.state = replace(self.state)
