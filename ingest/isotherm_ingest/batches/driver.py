"""The driver's turn: what is due is read from Kafka, written to its tables, and marked as seen.

There is no cursor beside the tables and Kafka. The front of each topic is where the next batch begins; a table that
is in step takes part in it. A table that failed, came later or was rolled back is behind, and is brought up to the front
in slices of its own, while the others go on. Whatever befalls one topic or one table is its own.
"""

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession

from isotherm.runtime import logs
from isotherm_ingest.announce.outbox import Outbox
from isotherm_ingest.batches.batches import Batches, Reader
from isotherm_ingest.batches.cut_back_topics import CutTopics, seen_of
from isotherm_ingest.batches.damage import Damage
from isotherm_ingest.batches.fan_out import fan_out
from isotherm_ingest.batches.marking import Marking
from isotherm_ingest.batches.old_names import tell_old_names
from isotherm_ingest.batches.partition_counts import PartitionCounts
from isotherm_ingest.batches.tables import Tables
from isotherm_ingest.batches.windows import Windows
from isotherm_ingest.failures import CatalogAway, brief
from isotherm_ingest.kafka import Broker
from isotherm_ingest.known_in_marks import of_others
from isotherm_ingest.mark_text import names_of
from isotherm_ingest.marks import Marks, TakenOver
from isotherm_ingest.plan.catching_up import CatchingUp, Lacks
from isotherm_ingest.plan.holes import Hole, Lost
from isotherm_ingest.plan.shares import Ranges, batch, count_of, shares
from isotherm_ingest.plan.stretches import goes_on
from isotherm_ingest.plan.topic_metadata import Kafka
from isotherm_ingest.plan.topic_partition import Position
from isotherm_ingest.plan.topics import COMPACTED, Topic
from isotherm_ingest.registry import RegistryAwayError
from isotherm_ingest.streams import StreamsConfig
from isotherm_ingest.tables.tools import Tools
from isotherm_ingest.tables.writer import TableWriter

LONGEST_PAUSE_S = 5.0
"""A window may begin so much late. A thousand topics without messages cost some hundredths of a core then."""
LIST_EVERY_S = 10.0
"""New topics are looked for this often, or once in the shortest window."""


class Driver:
    """Turns until it is stopped; one thread."""

    def __init__(
        self,
        config: StreamsConfig,
        spark: SparkSession,
        broker: Broker,
        marks: Marks,
        tools: Tools,
        outbox: Outbox,
        make_writer: Callable[..., TableWriter] = TableWriter,
        read: Reader = fan_out,
        windows: Windows | None = None,
    ) -> None:
        """Nothing is read before `begin`.

        Args:
            config: streams.yaml.
            spark: the session that reads Kafka.
            broker: says which topics there are, and where they begin and end.
            marks: how far topics were seen through.
            tools: what every writer uses.
            outbox: told of each commit, and the names of the tables that are there.
            make_writer: makes the writer of a table.
            read: reads ranges, and writes the files of all tables.
            windows: in which tables are left alone, as the daemon asks. None: nobody grants any.
        """
        self._config = config
        self._broker = broker
        self._tools = tools
        self._outbox = outbox
        self._topics: dict[str, Topic] = {}
        self._cluster = broker.cluster_id()
        self._cuts = CutTopics(tools.ask)
        self._marking = Marking(marks, self._cuts, outbox.announced, self._names)
        self._tables = Tables(config, spark, tools, outbox, make_writer, self._cuts, self._marking.keep_cuts)
        self._damage = Damage(broker.first_readable)
        self._batches = Batches(
            config, spark, tools, self._tables, self._cluster, broker.topic_ids, broker.partition_count, read
        )
        every_s = min(config.window_of(stream).every_s for stream in config.streams)
        self.pause_s = min(LONGEST_PAUSE_S, every_s / 5)
        """Between two turns, where nothing is left to do."""
        self._list_every_s = min(LIST_EVERY_S, every_s)
        self._listed_s = float("-inf")
        self._counts = PartitionCounts(tools.metrics)
        self._catching_up = CatchingUp()
        self._windows = windows
        self._starts: dict[Position, int] = {}
        """Where Kafka's partitions began when that was last asked."""

    def begin(self, now_s: float) -> None:
        """Take the pipeline over, and find out where every table stands that was written before.

        Raises:
            TakenOver: another driver has begun meanwhile.
            BrokerError: Kafka does not answer.
            CatalogAway: the catalog does not.
        """
        self._marking.take_over()
        self._tools.lake.ask()
        self._topics.clear()
        kafka = self._list_topics(now_s)
        self._marking.repeat()  # the marks name this driver from now on
        for name in sorted({*self._outbox.names, *self._marking.names()}):
            self._tables.begin(
                name, self._marking.known(name), self._topics
            )  # also those that have no leader now
        self._tables.look_again(self._tables.names(), kafka, self._cluster, now_s)
        self._meet(list(self._topics), kafka, are_new=True)
        if unmarked := self._cuts.unmarked(self._marking.marked):  # the marks are lost, and tables show a cut
            self._marking.remember({topic for topic, _ in unmarked}, self._topics, self._tables, now_s)

    def turn(self, now_s: float) -> bool:
        """One look at Kafka, and a batch of what is due; gives whether something is left to do at once.

        Args:
            now_s: monotonic; windows and waits are measured by it.

        Raises:
            TakenOver: another driver has begun.
            BrokerError: Kafka does not answer.
            CatalogAway: the catalog does not.
        """
        if self._windows is not None:
            self._windows.turn(self._tables.states, self._front())
        if now_s - self._listed_s >= self._list_every_s:
            before = set(self._topics)
            new = self._list_topics(now_s)
            self._recall(self._topics.keys() - before)
            self._meet(list(self._topics), new, are_new=True)
        ends = Kafka(ends=self._broker.ends(self._topics), damaged=self._damage.stretches())
        self._tables.look_soon({*self._outbox.changed(), *self._tables.doubted(ends, now_s)})
        behind = self._tables.behind(self._front(), now_s)
        # Also one that is behind, and cannot be brought what it lacks: a rollback is told all the same.
        again = [
            name
            for name in self._tables.due_again(now_s)
            if name not in behind or self._tables.must_look(name)
        ]
        topics = {topic for topic, _ in self._due(ends, now_s)} | self._tables.topics_of({*behind, *again})
        each = ends.by_topic()
        topics |= {name for name in each if self._topics[name].has_changed(each[name])}
        if topics:
            known = self._tables.known()
            self._damage.try_again(
                known[name].through for name in self._tables.due_again(now_s) if name in known
            )
            kafka = self._ask(topics, ends)
            self._read_front(self._due(kafka, now_s), kafka, now_s)
            self._bring(self._tables.behind(self._front(), now_s), kafka, now_s)
            self._tables.look_again(again, kafka, self._cluster, now_s)
        # Where a table was replaced, what is known of its other topics counts for the new one now.
        seen = topics | self._tables.topics_of(self._tables.due_again(now_s))
        self._marking.remember(seen, self._topics, self._tables, now_s)
        self._measure(ends)
        self._tables.tell_recovered(self._front())
        behind = self._tables.behind(self._front(), now_s)
        return bool(self._due(ends, now_s) or self._catching_up.next(behind, ends))

    def stop(self) -> None:
        """End, after a turn."""
        self._tables.stop()
        if self._windows is not None:
            self._windows.stop()
        self._marking.close()

    def _due(self, kafka: Kafka, now_s: float) -> Ranges:
        """What the next batch of the front reads. A topic of which every table is left out would serve nobody."""
        ready = [
            one.waiting(kafka)
            for one in self._topics.values()
            if now_s >= one.retry_at_s and not self._tables.must_wait(one.name, now_s)
        ]
        return batch(ready, now_s, self._config.batch_messages)

    # What there is

    def _list_topics(self, now_s: float) -> Kafka:
        """Take up the topics that there are; gives what the broker says of the new ones, which are still to be met."""
        found = self._broker.topics(self._config.topic_pattern)
        for gone in self._topics.keys() - found.keys():
            logs.get().error("topic_gone", topic=gone)
            del self._topics[gone]
            self._counts.forget(gone)
            for gauge in (self._tools.metrics.unread, self._tools.metrics.unread_share):
                with contextlib.suppress(KeyError):
                    gauge.remove(gone)
            self._marking.forget(gone)
        for name in found:
            self._counts.seen(name, found[name], self._config.stream_of(name))
        new = {name for name in found.keys() - self._topics.keys() if self._config.stream_of(name)}
        # Of all partitions: one that has no leader now is no new one when it has. And before the ends are asked: another
        # driver may mark meanwhile what it reads.
        marks = self._marking.read([(name, number) for name in sorted(new) for number in found[name]])
        kafka = Kafka(self._broker.starts(new), self._broker.ends(new), self._broker.topic_ids(new))
        self._marking.take_up(marks, kafka.ids)
        kafka = self._with_cuts(kafka)
        compacted = self._broker.compacted(new)
        marked = {topic for topic, _ in self._marking.marked}
        for name in sorted(new):
            stream = self._config.stream_of(name)
            if stream is not None:
                unmarked = {(name, one) for one in found[name]} if name not in marked else set()
                self._topics[name] = Topic(name, self._config.window_of(stream), at_first=frozenset(unmarked))
                if name in compacted and stream.mode == "mirror":
                    logs.get().warning("topic_compacted", topic=name, hint=COMPACTED)
                tell_old_names(name, stream.table, self._marking.marked)
        self._listed_s = now_s
        return kafka

    def _recall(self, came: Collection[str]) -> None:
        """Have tables take up what the marks of topics that were not listed before say of them."""
        for name in sorted(self._marking.names(came)):
            if (said := self._marking.known(name, came)) is not None:
                self._tables.recall(name, said, came)

    def _meet(self, names: Iterable[str], kafka: Kafka, *, are_new: bool = False) -> None:
        """Have topics take up what the broker says of them now, and where they were marked."""
        each = kafka.by_topic()
        for name in each.keys() & set(names) & self._topics.keys():
            topic, now = self._topics[name], each[name]
            marked = self._front_of(name, kafka.ids.get(name, ""), by_tables=are_new or not topic.through)
            topic.at_first |= of_others(self._marking.marked, name, self._tables.of_topic(name))
            listed = self._counts.listed(name)
            self._tell(name, topic.meet(now, marked, listed), now)
            if topic.wants_later_ends:
                self._tell(name, topic.meet(now.until(self._broker.ends([name])), {}, listed), now)

    def _tell(self, name: str, lost: Mapping[Position, tuple[int, int]], kafka: Kafka) -> None:
        """Tell what Kafka lost before it was read. What a table lacks of what it has read it tells itself."""
        for position, (needs, start) in sorted(lost.items()):
            mark = self._marking.marked.get(position)
            noted = set() if mark is None else mark.tables.keys()
            if noted and not self._tables.of_topic(name) - noted:
                continue
            # Of a topic without a table nobody knows whether it had a change; of a partition that no table has read, it had.
            why = Lost.RETENTION if needs < kafka.starts.get(position, 0) else Lost.DAMAGED
            hole = Hole(why, position, needs, start)
            logs.get().error("changes_missing", table=None, topic=name, hole=str(hole))
            for table in self._tables.of_topic(name) - noted:
                self._tools.metrics.holes.labels(table, hole.why.value).inc()

    def _ask(self, topics: set[str], ends: Kafka) -> Kafka:
        """What the broker says of some topics; those of another id begin again."""
        kafka = Kafka(self._broker.starts(topics), ends.of(topics).ends, self._broker.topic_ids(topics))
        kafka = self._with_cuts(replace(kafka, damaged=self._damage.of(kafka)))
        self._meet(topics, kafka)
        self._starts |= kafka.starts
        return kafka

    def _with_cuts(self, kafka: Kafka) -> Kafka:
        """What the broker says, with the cuts of its topics. A new one is marked before anybody writes behind it."""
        kafka, new = self._cuts.told(kafka, seen_of(kafka, self._marking.marked, self._topics))
        self._marking.keep_cuts()
        self._tables.look_soon({name for topic, _ in new for name in self._tables.of_topic(topic)})
        return kafka

    def _front_of(self, name: str, topic_id: str, *, by_tables: bool) -> dict[Position, int]:
        """Where a topic goes on that this driver has not read yet: at its marks, or where its tables are.

        Marks of other tables alone are none: the streams name another one now, which is to be built. Each by itself: one of a
        partition without a leader is of before the names were changed.
        """
        # Also of partitions without a leader: they were there, and what they hold is older than what comes to new ones.
        there = [(name, number) for number in range(self._counts.of(name))]
        marks = {one: self._marking.marked[one] for one in there if one in self._marking.marked}
        others = of_others(marks, name, self._tables.of_topic(name))
        # Of a topic that was made again smaller, where brokers give no ids, tables name partitions that are gone.
        least = self._tables.least(name, topic_id) if by_tables else {}
        front = {one: least[one] for one in there if one in least}
        for position, mark in marks.items():
            if mark.topic_id in {"", topic_id} and position not in others:
                front[position] = mark.through
        return front

    def _names(self, topic: str) -> str:
        stream = self._config.stream_of(topic)
        return "" if stream is None else names_of(stream.table)

    def _front(self) -> dict[str, dict[Position, int]]:
        return {one.name: one.through for one in self._topics.values()}

    # A turn

    def _read_front(self, ranges: Ranges, kafka: Kafka, now_s: float) -> None:
        """Read what is due, all topics in one batch; where that fails, by halves. Who failed is read by itself."""
        # A driver that begins after a crash would begin where the first table is that has written, and not the others.
        new = {one[0] for one in ranges if not self._marking.is_of(one, self._topics[one[0]].topic_id)}
        self._marking.remember(new, self._topics, self._tables, now_s)
        topics = sorted({topic for topic, _ in ranges})
        failing = [topic for topic in topics if self._topics[topic].failures]
        waiting = [[topic] for topic in failing]
        if healthy := [topic for topic in topics if topic not in failing]:
            waiting.append(healthy)
        while waiting:
            some = waiting.pop()
            if not self._is_read(some, ranges, kafka, now_s) and len(some) > 1:
                middle = len(some) // 2
                waiting += [some[middle:], some[:middle]]

    def _is_read(self, topics: list[str], ranges: Ranges, kafka: Kafka, now_s: float) -> bool:
        mine = {position: span for position, span in ranges.items() if position[0] in topics}
        try:
            self._batches.run(mine, kafka, self._marking.known, now_s, front=self._front())
        except (CatalogAway, TakenOver, Py4JNetworkError, ConnectionError):
            raise
        except Exception as err:  # noqa: BLE001 (a topic that cannot be read is its own trouble, told and tried again)
            self._broker.cluster_id()  # raises where no topic can be blamed
            if len(topics) == 1 and not self._damage.explains(err, mine, kafka):
                self._topics[topics[0]].fail(_too_many(err, mine), now_s)
            self._tools.metrics.batches_failed.inc()
            logs.get().error("read_failed", topics=topics[:5], of=len(topics), error=brief(err))
            return False
        for topic in topics:
            self._topics[topic].was_read(mine, kafka, now_s)
        return True

    def _bring(self, behind: Lacks, kafka: Kafka, now_s: float) -> None:
        """Bring tables that are behind forward, by one slice; of those that share a topic, one at a time."""
        self._catching_up.note(behind, self._front(), kafka.starts, self._tables.known().values())
        behind = self._catching_up.next(behind, kafka)
        lost = [
            name
            for name, spans in behind.items()
            if any(
                first < goes_on(kafka.damaged, position, max(first, kafka.starts.get(position, 0)))
                for position, (first, _) in spans.items()
            )
        ]
        # One that failed is looked at with all of its topics: what one of them lacks is not mended by another.
        doubtful = [*lost, *(name for name in self._tables.doubtful(behind) if name not in lost)]
        self._tables.look_again(doubtful, kafka, self._cluster, now_s, recovers=False)
        behind = {name: spans for name, spans in behind.items() if not self._tables.is_left_out(name, now_s)}
        some: dict[str, Mapping[Position, tuple[int, int]]] = {}
        taken: set[str] = set()
        for name, spans in behind.items():
            topics = {topic for topic, _ in spans}
            if name not in lost and not topics & taken:
                some[name] = spans
                taken |= topics
        if not some or self._is_brought(some, kafka, now_s):
            return
        for name, spans in some.items() if len(some) > 1 else ():
            self._is_brought({name: spans}, kafka, now_s)

    def _is_brought(self, some: Lacks, kafka: Kafka, now_s: float) -> bool:
        lacks = {position: span for spans in some.values() for position, span in spans.items()}
        wanted = {position: end - first for position, (first, end) in lacks.items()}
        taken = shares(
            {name: self._tables.takes(name, count_of(spans)) for name, spans in some.items()},
            self._config.batch_messages,
        )
        counts = {
            position: count
            for name, spans in some.items()
            for position, count in shares({one: wanted[one] for one in spans}, taken[name]).items()
        }
        ranges = {one: (lacks[one][0], lacks[one][0] + count) for one, count in counts.items() if count}
        only = {position[0]: name for name, spans in some.items() for position in spans}
        logs.get().info("catching_up", tables=sorted(some)[:5], messages=count_of(ranges))
        self._tables.served(some, now_s)
        try:
            self._batches.run(ranges, kafka, self._marking.known, now_s, only)
        except (CatalogAway, TakenOver, Py4JNetworkError, ConnectionError):
            raise
        except Exception as err:  # noqa: BLE001 (they are behind still, and told; the front goes on)
            self._broker.cluster_id()  # as above
            if len(some) == 1 and not self._damage.explains(err, ranges, kafka):
                (name,) = some
                self._tables.fail(name, _too_many(err, ranges), err, now_s)
            else:
                logs.get().error("read_failed", topics=sorted(only)[:5], of=len(only), error=brief(err))
            return False
        return True

    def _measure(self, ends: Kafka) -> None:
        """What waits; and of what was asked in this turn, how much of what Kafka holds."""
        for name, topic in self._topics.items():
            needs = self._tables.needs(name, topic.topic_id)
            self._tools.metrics.unread.labels(name).set(topic.unread(ends, needs))
            share = topic.unread_share(Kafka(self._starts, ends.ends), needs)
            self._tools.metrics.unread_share.labels(name).set(share)
        self._tools.metrics.turned.set_to_current_time()


def _too_many(error: Exception, ranges: Ranges) -> int:
    """How many messages may have been too many. Those that wait for the registry wait together, and not one after the other."""
    return 0 if isinstance(error, RegistryAwayError) else count_of(ranges)
