"""Which table a message belongs to, told by its topic and its schema.

A schema is looked at once, in one message of it. What belongs nowhere is sent to the dead letters, with the reason.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from isotherm.runtime import logs
from isotherm_ingest.batches.fan_out import Report, Sample
from isotherm_ingest.batches.owners import why_not
from isotherm_ingest.batches.schemas import Schemas
from isotherm_ingest.batches.table_limits import NoMoreTablesError
from isotherm_ingest.batches.table_names import no_route, table_name
from isotherm_ingest.dead_letter_topic import DeadLetters, Sent, problem_of
from isotherm_ingest.decode.debezium_schema import ChangeSchema, SourceError
from isotherm_ingest.decode.formats import Format
from isotherm_ingest.decode.kinds import SchemaError
from isotherm_ingest.decode.routed import Routed
from isotherm_ingest.plan.shares import Ranges
from isotherm_ingest.plan.topic_partition import Position
from isotherm_ingest.registry import MAX_UNKNOWN, NotKnownYetError, Registry
from isotherm_ingest.streams import Stream, StreamsConfig
from isotherm_ingest.tables.portion import Group
from isotherm_ingest.workers.decoding import UNREADABLE

Named = tuple[str, int]
"""A topic, and the number of a schema."""
NEW_AT_ONCE = 500
"""Schemas of one topic that a batch may bring: each may be a table of its own, which takes a fifth of a second to make."""
NEW_COST_AT_ONCE = 50_000
"""What they may cost together, in columns: each takes a worker a millisecond to plan."""
KEPT = 2_000
"""Routes of one topic between two batches. Of an older one a message is looked at again, and the batch is read twice."""


class TooManyNew(RuntimeError):  # noqa: N818 (of a topic's messages, not a mistake)
    """A batch brings so many new schemas of one topic that it is read in smaller pieces."""


@dataclass(frozen=True, slots=True)
class Route:
    """Where the messages of one topic and schema go, or why they go nowhere."""

    table: str | None
    stream: Stream | None
    """Whose settings the table is written by."""
    schema: ChangeSchema | None
    problem: str | None = None
    passes: bool = False
    """Whether the problem may be none when the next batch is read."""


class Routing:
    """Where the messages of each topic and schema go, learned from one message of each."""

    def __init__(
        self,
        config: StreamsConfig,
        dead_letters: DeadLetters,
        owner: Callable[[str, Stream], Stream],
        registry: Registry | None = None,
    ) -> None:
        """Nothing is known yet; `owner` says whose a table is, where nobody's yet: that of the stream that is given."""
        self._config = config
        self._schemas = Schemas(registry or Registry(config.registry))
        self._owner = owner
        self._dead_letters = dead_letters
        self._routes: dict[Named, tuple[Route, ...]] = {}
        """One for each table that messages go to, or could."""
        self._asked: dict[Named, int] = {}
        """Of those that the registry does not know yet, when it was asked last, counted by `_turns`."""
        self._turns = itertools.count(1)
        self._full: dict[str, frozenset[str]] = {}
        """By the topics of a stream that has as many tables as it may have, those that there are."""
        self._sent = Sent()
        self._begun: dict[tuple[str, Position], int] = {}
        """Of each partition, with the id of its topic, where this driver began to read for all tables."""

    def of(self, topics: Collection[str], met: Collection[Named]) -> Iterator[tuple[Group, str, Stream]]:
        """The messages of some topics that have a table, with the table and its stream; `met` are those that there are.

        Those that came first come first: a table is made for them, where two schemas do not fit together.
        """
        for (topic, number), routes in self._routes.items():
            for route in routes if topic in topics else ():
                if route.table is not None and route.stream is not None and route.schema is not None:
                    is_met = (topic, number) in met
                    yield Group(topic, number, route.schema, is_met), route.table, route.stream

    def told(
        self, topics: Collection[str], wanted: Collection[str]
    ) -> tuple[dict[Named, tuple[str, ...]], dict[Named, str]]:
        """Of the messages of some topics: the tables, as far as they are wanted; and why there is none, or not each of them."""
        mine = {one: routes for one, routes in self._routes.items() if one[0] in topics}
        tables = {one: [route.table for route in routes if route.table] for one, routes in mine.items()}
        return (
            {one: tuple(name for name in names if name in wanted) for one, names in tables.items() if names},
            {one: why for one, routes in mine.items() if (why := _problem_of(routes)) is not None},
        )

    def formats(self, topics: Iterable[str]) -> dict[str, Format]:
        """How the messages of some topics are written."""
        streams = {topic: self._config.stream_of(topic) for topic in topics}
        return {topic: self._format(topic, stream) for topic, stream in streams.items() if stream is not None}

    def _format(self, topic: str, stream: Stream) -> Format:
        form = self._schemas.told(topic, stream.message_format(self._config.registry))
        if not stream.is_routed:
            return form
        return Routed(form, stream.table, topic, self._full.get(stream.topics))

    def learn(self, samples: Collection[Sample], met: set[Named]) -> None:
        """Find out where messages go that were not seen before, from one message of each schema; `met` gets their names.

        Raises:
            TooManyNew: the batch has met too many. What was learned is kept.
            RegistryAwayError: a schema cannot be asked for now. What was learned is kept, too.
        """
        waits: NotKnownYetError | None = None
        best = self._best(samples)
        # A slow registry is asked for some of them only: first for those that it was not asked for, or longest ago.
        for topic, number in sorted(best, key=lambda one: self._asked.get(one, 0)):
            if (topic, number) in self._routes:
                continue
            value, key = best[topic, number]
            try:
                routes = self._of_each(topic, value, key)
            except NotKnownYetError as err:  # the time of all of them begins now, and not one after the other
                waits = err
                self._asked[topic, number] = next(self._turns)
                continue
            self._asked.pop((topic, number), None)
            if routes is None:
                continue
            self._routes[topic, number] = routes
            for route in routes:
                if route.problem is not None:
                    logs.get().error("schema_refused", topic=topic, why=route.problem)
                else:
                    logs.get().info("schema_learned", topic=topic, table=route.table)
        if waits is not None:
            raise waits
        met.update(one for one, _, _ in samples)
        counts, costs = Counter(topic for topic, _ in met), self._costs(met)
        for topic, count in counts.items():
            if count > NEW_AT_ONCE or (count > 1 and costs[topic] > NEW_COST_AT_ONCE):
                raise TooManyNew(
                    f"{topic} brings more than {NEW_AT_ONCE} new schemas at once, or {NEW_COST_AT_ONCE} columns in them: fewer "
                    "messages are read"
                )

    def _best(self, samples: Collection[Sample]) -> dict[Named, tuple[str, str | None]]:
        """Of each kind of messages one sample: of those of several tasks, if there is any, one that says all.

        What it does not say, as the table of its source, all messages of its kind would be refused for.
        """
        found: dict[Named, tuple[str, str | None]] = {}
        for one, value, key in samples:
            if one not in found:
                found[one] = value, key
            elif (stream := self._config.stream_of(one[0])) is not None:
                form = self._format(one[0], stream)
                if not form.says_all(found[one][0]) and form.says_all(value):
                    found[one] = value, key
        return found

    def _costs(self, met: Collection[Named]) -> Counter[str]:
        """Of each topic, what the schemas of some messages cost to decode, in columns."""
        costs: Counter[str] = Counter()
        for topic, number in met:
            for route in self._routes.get((topic, number), ()):
                costs[topic] += 0 if route.schema is None else route.schema.cost
        return costs

    def forget_old(self, topics: Collection[str]) -> None:
        """Keep the newest routes of each of some topics. Not within a batch: it would never end."""
        self._schemas.forget_for_now(topics)
        passing = [one for one, routes in self._routes.items() if any(route.passes for route in routes)]
        for one in [one for one in passing if one[0] in topics]:
            del self._routes[one]
        if len(self._asked) > MAX_UNKNOWN:
            self._asked.clear()
        counts = Counter(topic for topic, _ in self._routes if topic in topics)
        old = {topic: count - KEPT for topic, count in counts.items() if count > KEPT}
        for one in list(self._routes) if old else ():
            if old.get(one[0], 0) > 0:
                old[one[0]] -= 1
                del self._routes[one]

    def _of_each(self, topic: str, value: str, key: str | None) -> tuple[Route, ...] | None:
        """Where messages like a sample go; None where the workers are to be told more, to send another one."""
        streams = self._config.streams_of(topic)
        if not streams:
            return (Route(None, None, None, "no_stream:no stream has this topic"),)
        found = [(one, self._route(one, topic, value, key)) for one in streams]
        routes = [(one, route) for one, route in found if route is not None]
        if (
            len({route.problem is None for _, route in routes}) > 1
        ):  # one table has them, and the other cannot
            routes = [
                (
                    one,
                    route
                    if route.problem is None
                    else replace(route, problem=f"{route.problem} (of {one.table})"),
                )
                for one, route in routes
            ]
        return tuple(route for _, route in routes) or None

    def _route(self, stream: Stream, topic: str, value: str, key: str | None) -> Route | None:
        """The same, of one table."""
        form = self._format(topic, stream)
        try:
            needs_key = stream.mode == "mirror" and not (stream.key and not stream.fields)
            plain, said = (form.inner, form.sample_of(value)) if isinstance(form, Routed) else (form, value)
            if self._schemas.fetch(topic, plain, said, needs_key=needs_key):
                return None
        except SchemaError as err:
            return Route(None, stream, None, problem_of("no_schema", err), passes=True)
        try:
            schema = form.schema(value, key)
            name = table_name(stream.table, topic, schema)
        except SourceError as err:
            # Perhaps of this message alone: another one is looked at in the next batch.
            return Route(None, stream, None, problem_of("no_schema", err), passes=True)
        except SchemaError as err:
            return Route(None, stream, None, problem_of("no_schema", err))
        except Exception as err:  # noqa: BLE001 (a schema that nobody foresaw would keep its topic from being read for ever)
            return Route(None, stream, None, problem_of("no_schema", f"{type(err).__name__}: {err}"))
        if why := no_route(stream, schema):
            return Route(None, stream, None, why)
        try:
            owner = self._owner(name, stream)
        except NoMoreTablesError as err:
            self._full[stream.topics] = err.tables
            return Route(None, stream, None, problem_of("no_route", err))
        if why := why_not(name, owner, stream, topic):
            return Route(None, owner, None, why)
        return Route(name, owner, schema)

    def dead_letter(self, report: Report, batch: int, ids: Mapping[str, str], *, of_all: bool) -> None:
        """Send on what has no table, once: no schema, no envelope, no name.

        Args:
            report: of the batch.
            batch: its number.
            ids: of the topics.
            of_all: whether the batch is for all tables. One for a table that is behind has passed once, then for all.
        """
        if report.letter_count:
            letters = report.letters() if of_all else self._left(report.letters(), ids)
            if count := self._dead_letters.send(self._sent.unsent(letters)):
                logs.get().warning("dead_lettered", table=None, rows=count, batch=batch)

    def _left(self, letters: Iterable[pa.Table], ids: Mapping[str, str]) -> Iterator[pa.Table]:
        """What an earlier driver may have left to the table, because it knew a schema that this one could not learn."""
        for some in letters:
            columns = (some.column(name).to_pylist() for name in ("topic", "partition", "offset", "problem"))
            is_left = [
                problem == UNREADABLE
                and offset < self._begun.get((ids.get(topic, ""), (topic, number)), offset + 1)
                for topic, number, offset, problem in zip(*columns, strict=True)
            ]
            yield some.filter(pa.array(is_left, pa.bool_()))

    def done(self, ranges: Ranges, ids: Mapping[str, str]) -> None:
        """These ranges were written for all tables, and are not read again for them."""
        self._sent.forget(ranges)
        for position, (first, _) in ranges.items():
            self._begun.setdefault((ids.get(position[0], ""), position), first)


def _problem_of(routes: Collection[Route]) -> str | None:
    """Why messages have no table, or lack one of several."""
    return next((route.problem for route in routes if route.problem is not None), None)
