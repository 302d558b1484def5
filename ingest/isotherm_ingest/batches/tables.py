"""The tables of a pipeline: written side by side, each failing for itself, each with where it stands.

A table in step needs next what a batch begins with. One that failed, came later or was rolled back is behind: it
takes part in no batch of the front until it was brought up to it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from pyspark.sql import SparkSession

from isotherm.runtime import logs
from isotherm_ingest.announce.outbox import Outbox
from isotherm_ingest.batches.cut_back_topics import CutTopics
from isotherm_ingest.batches.owners import Owners
from isotherm_ingest.batches.table_state import Front, TableState, least, needs
from isotherm_ingest.failures import CatalogAway, TableRefused, brief, was_too_much
from isotherm_ingest.plan.holes import Hole
from isotherm_ingest.plan.known import Known
from isotherm_ingest.plan.resume_or_halt import Place
from isotherm_ingest.plan.retries import less, more, pause_s
from isotherm_ingest.plan.shares import count_of
from isotherm_ingest.plan.topic_metadata import Kafka
from isotherm_ingest.plan.topic_partition import Position
from isotherm_ingest.streams import Stream, StreamsConfig
from isotherm_ingest.tables.portion import Behind, Done, Halted, Portion, Ready
from isotherm_ingest.tables.sessions import Sessions
from isotherm_ingest.tables.tools import Tools
from isotherm_ingest.tables.writer import TableWriter, Written
from isotherm_ingest.threads import context

Outcome = TypeVar("Outcome")
LOOK = -1
"""Stands for the number of a batch where a table is only looked at, or nothing could be read for it."""


class Tables:
    """Every table that this driver has met."""

    def __init__(
        self,
        config: StreamsConfig,
        spark: SparkSession,
        tools: Tools,
        outbox: Outbox,
        make_writer: Callable[[str, Stream, Sessions, Tools], TableWriter],
        cuts: CutTopics,
        keep_cuts: Callable[[], None],
    ) -> None:
        self._sessions = Sessions(spark)
        self._tools = tools
        self._outbox = outbox
        self._make_writer = make_writer
        self._cuts, self._keep_cuts = cuts, keep_cuts
        self.states: dict[str, TableState] = {}
        self._readers: dict[str, set[str]] = {}
        """By topic, the tables that have rows from it."""
        self.owners = Owners(config, tools.lake, tools.pipeline)
        self._pool = ThreadPoolExecutor(
            config.tables_at_once, thread_name_prefix="table", initializer=context()
        )

    def begin(self, name: str, known: Known | None, there: Collection[str]) -> None:
        """Take up a table that was written before, with those of its topics that are there: none of them is new to it."""
        had = set() if known is None else {topic for topic, _ in (*known.through, *known.by_others)}
        mine = self.owners.giving(name, self.owners.begin(name, had) & set(there))
        if (owner := self.owners.known(name)) is not None and mine:
            self.meet(name, owner, mine, lambda _: known)
            self.states[name].new_topics.clear()

    def meet(
        self, name: str, stream: Stream, topics: Collection[str], known: Callable[[str], Known | None]
    ) -> None:
        """Take up a table, with what is known of it, or another topic of one."""
        state = self.states.get(name)
        if state is None:
            was = known(name)
            writer = self._make_writer(name, stream, self._sessions, self._tools)
            state = self.states[name] = TableState(
                writer, stream.on_hole, known=None if was is None else was.of(topics)
            )
        for topic in topics:
            state.links(topic)
            self._readers.setdefault(topic, set()).add(name)

    def recall(self, name: str, said: Known, came: Collection[str]) -> None:
        """Take up what marks say of a table in topics that were not listed when this driver began."""
        state = self.states.get(name)
        if state is None:
            self.begin(name, said, came)
            return
        state.recalls(said, came)
        topics = {topic for topic, _ in (*said.through, *said.by_others)} & set(came)
        for topic in self.owners.giving(name, topics):
            state.links(topic)
            self._readers.setdefault(topic, set()).add(name)

    def names(self) -> list[str]:
        """Every table that was met."""
        return list(self.states)

    def topics_of(self, names: Iterable[str]) -> set[str]:
        """The topics of some tables."""
        return {topic for name in names for topic in self.states[name].topics}

    def fail(self, name: str, tried: int, err: Exception, now_s: float) -> None:
        """So many messages could not be read, for this table alone; 0 where fewer would not have been, either."""
        self.states[name].at_most = less(tried) if tried else self.states[name].at_most
        self._failed(name, LOOK, err, now_s)

    def takes(self, name: str, messages: int) -> int:
        """How many of the messages that it lacks are brought to a table at once."""
        at_most = self.states[name].at_most
        return messages if at_most is None else min(messages, at_most)

    def known(self) -> dict[str, Known]:
        """What is known of each table."""
        return {name: state.known for name, state in self.states.items() if state.known is not None}

    def of_topic(self, topic: str) -> set[str]:
        """The tables that have rows from a topic."""
        return self._readers.get(topic, set())

    def least(self, topic: str, topic_id: str) -> dict[Position, int]:
        """The least offset that a table of the topic needs, of each partition that one has read."""
        return least(self._known_of(topic), topic, topic_id)

    def needs(self, topic: str, topic_id: str) -> dict[Position, int]:
        """The least that any table of a topic needs next of each partition, also one that is left out."""
        return needs(self._known_of(topic), topic, topic_id)

    def _known_of(self, topic: str) -> list[Known]:
        return [known for name in self.of_topic(topic) if (known := self.states[name].known) is not None]

    def look_soon(self, names: Iterable[str]) -> None:
        """Have these say where they stand: somebody has seen that they are not what they were."""
        for name in self.states.keys() & set(names):
            self.states[name].must_look = True

    def doubted(self, kafka: Kafka, now_s: float) -> list[str]:
        """Those that are looked at now that what could not be judged before can be."""
        return [name for name, state in self.states.items() if state.is_doubted(kafka, now_s)]

    def tell_recovered(self, front: Front) -> None:
        """Tell which tables failed and have all that they lacked by now."""
        for name, state in self.states.items():
            is_behind = any(state.is_behind(front.get(topic, {})) for topic in state.topics)
            if not is_behind:  # but for what it is still to be brought of topics that are not listed now
                state.passed = {one: end for one, end in state.passed.items() if one[0] not in front}
            if state.untold and not state.failures and not is_behind:
                logs.get().info("table_recovered", table=name, after=state.untold)
                state.untold = 0

    def must_wait(self, topic: str, now_s: float) -> bool:
        """Whether every table of a topic is left out now, so that reading it would serve nobody."""
        mine = self.of_topic(topic)
        return bool(mine) and all(self.states[name].is_left_out(now_s) for name in mine)

    def behind(self, front: Front, now_s: float) -> dict[str, dict[Position, tuple[int, int]]]:
        """What each table lacks below the front of its topics; those that were served longest ago come first."""
        found = {}
        for name, state in sorted(self.states.items(), key=lambda item: (item[1].served_s, item[0])):
            if (lacks := state.lacks_below(front)) and not state.is_left_out(now_s):
                found[name] = lacks
        return found

    def served(self, names: Iterable[str], now_s: float) -> None:
        """These were brought forward just now."""
        for name in names:
            self.states[name].served_s = now_s

    def look_again(
        self, names: Iterable[str], kafka: Kafka, cluster: str, now_s: float, *, recovers: bool = True
    ) -> None:
        """Have some tables say where they stand; nothing is written.

        With `recovers`, a table that failed before counts as recovered where nothing is wrong with it now.
        """
        by_topic = kafka.by_topic()
        portions = {}
        for name in names:
            self.states[name].must_look &= not recovers  # then not all of its topics may be asked
            mine = Kafka()
            for topic in self.states[name].topics & by_topic.keys():
                mine = mine.also(by_topic[topic])
            spans = {position: (end, end) for position, end in mine.ends.items()}
            portions[name] = Portion(LOOK, (), spans, mine, cluster)
        try:
            self.prepare(portions, now_s, only_look=True, recovers=recovers)
        except BaseException:
            for name in portions:
                self.states[name].must_look = True
            raise

    def doubtful(self, lacks: Mapping[str, Collection[Position]]) -> list[str]:
        """Those that must say where they stand before they get what they lack of some partitions.

        They failed when they were tried last, a hole has halted them before this driver began, or there was a cut since.
        """
        return [
            name
            for name, positions in lacks.items()
            if (state := self.states[name]).failures
            or state.is_halted
            or not self._cuts.are_known({} if state.known is None else state.known.cuts, positions)
        ]

    def is_left_out(self, name: str, now_s: float) -> bool:
        """Whether a table failed, and is not to be tried yet."""
        return self.states[name].is_left_out(now_s)

    def must_look(self, name: str) -> bool:
        """Whether a table is to be looked at, whatever it has to be brought."""
        return self.states[name].must_look

    def due_again(self, now_s: float) -> list[str]:
        """Tables that failed and are to be tried again, or whose other topics are to be judged."""
        return [name for name, state in self.states.items() if state.is_due_again(now_s)]

    def prepare(
        self,
        portions: Mapping[str, Portion],
        now_s: float,
        *,
        front: Front | None = None,
        only_look: bool = False,
        recovers: bool = True,
    ) -> dict[str, Ready]:
        """Have tables look at themselves, side by side; gives what is to be written to those that lack something.

        A table that is not in step, or left out, takes no part. `front` is that of the topics in a batch for all tables. With
        `only_look` the portions hold nothing, and say where the table is asked to stand; with `recovers`, a table
        that failed before counts as recovered where nothing is wrong with it now.

        Raises:
            CatalogAway: no table could be looked at, because the catalog does not answer; nobody is to blame.
        """
        futures = {}
        for name, portion in portions.items():
            state = self.states[name]
            state.meets(front or {})
            if lost := state.lost(portion.kafka):
                self._tell(name, lost)
                state.lacks(portion.kafka)
            if not state.is_left_out(now_s) and (only_look or state.is_in_step(portion, front or {})):
                mine = replace(portion, known=state.known, passed=state.passed)
                futures[name] = self._pool.submit(self._prepare, name, mine)
            else:
                state.lacks(portion.kafka)
        found = self._outcomes(futures, portions, now_s)
        for name, one in found.items():
            if isinstance(one, Place):
                self._tell(name, one.told)
                self._succeeded(name, portions[name], Written(0, one), recovers=recovers)
            else:
                self._hear(one.look.place)
        self._keep_cuts()
        ready = {name: one for name, one in found.items() if isinstance(one, Ready)}
        for name, one in list(ready.items()):
            # Another table has just shown a cut: what this one would write knows nothing of it.
            if not self._cuts.are_known(one.look.place.cuts, one.portion.ranges):
                self.states[name].lacks(one.portion.kafka)
                del ready[name]
        return ready

    def _prepare(self, name: str, portion: Portion) -> Ready | Place:
        state = self.states[name]
        self.owners.check(name, state.topics)
        return state.writer.prepare(portion)

    def write(self, ready: Mapping[str, Ready], done: Mapping[str, Done], now_s: float) -> int:
        """Commit what was written for tables, side by side; gives the rows.

        Raises:
            CatalogAway: as `prepare`.
        """
        for name, one in ready.items():
            # Before the table says that it goes on behind them: nobody would tell of them after a crash.
            self._tell(name, one.look.place.told)
        futures = {
            name: self._pool.submit(self.states[name].writer.write, one, done[name])
            for name, one in ready.items()
        }
        portions = {name: one.portion for name, one in ready.items()}
        found = self._outcomes(futures, portions, now_s)
        for name, written in found.items():
            self._tell(name, [hole for hole in written.place.told if hole not in ready[name].look.place.told])
            self._succeeded(name, portions[name], written)
        return sum(written.rows for written in found.values())

    def forget(self, ready: Mapping[str, Ready], done: Mapping[str, Done]) -> None:
        """Delete what was written and will not be committed."""
        for name, one in ready.items():
            self.states[name].writer.forget(one, done[name])

    def _outcomes(
        self, futures: Mapping[str, Future[Outcome]], portions: Mapping[str, Portion], now_s: float
    ) -> dict[str, Outcome]:
        """What came of each; who failed is told, and left out for a while."""
        found: dict[str, Outcome] = {}
        errors: dict[str, Exception] = {}
        for name, future in futures.items():
            try:
                found[name] = future.result()
            except Behind as behind:
                self._hear(behind.place)
                self._tell(name, behind.place.told)
                self.states[name].stands_at(behind.place, {})
            except Exception as err:  # noqa: BLE001 (isolated here, counted, told, and tried again)
                errors[name] = err
                if isinstance(err, Halted):
                    self._hear(err.place)
        if (
            errors
            and len(errors) == len(futures)
            and not all(isinstance(one, TableRefused) for one in errors.values())
        ):
            self._probe()
        for name, error in errors.items():
            state = self.states[name]
            if isinstance(error, Halted):
                state.halts(error.place, portions[name].kafka)
            else:
                state.lacks(portions[name].kafka)
            if was_too_much(error):
                state.at_most = less(count_of(portions[name].ranges))
            self._failed(name, portions[name].batch, error, now_s)
        if errors:
            self._tools.metrics.batches_failed.inc()
        return found

    def pass_by(self, ranges: Mapping[Position, tuple[int, int]], names: Iterable[str], front: Front) -> None:
        """Nothing in these ranges was for these tables: those that were in step still are."""
        for name in names:
            self.states[name].passes_by(ranges, front, self._cuts.are_known)

    def stop(self) -> None:
        """No write begins any more."""
        self._pool.shutdown()

    def _succeeded(self, name: str, portion: Portion, written: Written, *, recovers: bool = True) -> None:
        state = self.states[name]
        self._hear(written.place)
        if portion.batch != LOOK:
            state.at_most = more(state.at_most)
        if written.rows:
            self._outbox.wake(name, written.now)
        state.stands_at(written.place, {position: end for position, (_, end) in portion.ranges.items()})
        if not recovers:
            return
        state.failures = 0
        self._tools.metrics.quarantined.labels(name).set(0)

    def _hear(self, place: Place) -> None:
        """Keep of which cuts a table knows. Where it is the first to show one, all tables of the topic must look."""
        self._cuts.heard(place.cuts)
        for topic in self._cuts.note(place.seen):
            self.look_soon(self.of_topic(topic))

    def _failed(self, name: str, batch: int, err: Exception, now_s: float) -> None:
        state = self.states[name]
        state.fails()
        wait_s = pause_s(state.failures)
        state.retry_at_s = now_s + wait_s
        self._tools.metrics.quarantined.labels(name).set(1)
        self._count(name, err.place.halted if isinstance(err, Halted) else ())
        logs.get().error(
            "batch_failed",
            table=name,
            batch=batch,
            attempts=state.failures,
            retry_in_s=wait_s,
            error=brief(err),
            refused=isinstance(err, TableRefused),
        )

    def _tell(self, name: str, holes: Sequence[Hole]) -> None:
        """What is missing, and is filled or accepted by the stream's `on_hole`."""
        self._count(name, holes)
        for hole in holes:
            logs.get().error("changes_missing", table=name, hole=str(hole))

    def _count(self, name: str, holes: Sequence[Hole]) -> None:
        for why in {hole.why for hole in holes}:
            self._tools.metrics.holes.labels(name, why).inc()

    def _probe(self) -> None:
        """Ask the catalog something that no table can be blamed for."""
        try:
            self._tools.lake.ask()
        except Exception as err:
            raise CatalogAway(brief(err)) from err
