"""What the tables must hold, in plain Python: Kafka is read by a consumer of our own, and folded in the order of sending.

Nothing of ingest is used. A table is read by PyIceberg, and every version of it that there ever was by its metadata files.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table

from isotherm.contract.events import CommitEvent, decode
from killer.shop import NUMBER, PLACEHOLDER, SHAPES, Sent, Shape
from support.changes import latest

PLACE = ("_topic", "_topic_partition", "_offset")


@dataclass(frozen=True)
class Read:
    """A message as Kafka has it."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Mapping[str, bytes | None]
    at: str
    """When it was sent. It tells messages of two topics apart that had one name."""


def read(servers: str, topics: list[str]) -> list[Read]:
    """All committed messages of some topics, up to where they end now."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "oracle",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    try:
        there = consumer.list_topics(timeout=30).topics
        places = [
            TopicPartition(name, number, 0)
            for name in topics
            if name in there
            for number in there[name].partitions
        ]
        consumer.assign(places)
        return list(_messages(consumer, len(places)))
    finally:
        consumer.close()


def _messages(consumer: Consumer, left: int) -> Iterator[Read]:
    while left:
        message = consumer.poll(30)
        assert message is not None, "a topic cannot be read to its end"
        if message.error() is not None:
            left -= 1  # the end of a partition
            continue
        headers = dict(message.headers() or [])
        yield Read(
            message.topic(), message.partition(), message.offset(), message.key(), message.value(), headers,
            str(datetime.fromtimestamp(message.timestamp()[1] / 1000, UTC).replace(tzinfo=None)),
        )  # fmt: skip


class Oracle:
    """What one story's tables must be."""

    def __init__(
        self, namespace: str, servers: str, sent: Mapping[int, Sent], gone: Sequence[Read] = ()
    ) -> None:
        """`gone` was in topics that were deleted."""
        self._namespace = namespace
        topics = [f"{namespace}.public.{shape.name}" for shape in SHAPES]
        self._known = sent
        found = [(sent[int(one.headers[NUMBER] or b"")], one) for one in [*gone, *read(servers, topics)]]
        self._found = sorted(found, key=lambda pair: pair[0].number)
        self._servers = servers

    def wrong_in_kafka(self, committed: set[int]) -> list[str]:
        """Whether Kafka holds what was sent, once: else the story itself is broken."""
        counts = Counter(sent.number for sent, _ in self._found)
        return [f"message {one} is {counts[one]} times in Kafka" for one in committed if counts[one] != 1]

    def rows(self, shape: Shape) -> list[str]:
        """Of a mirror, or of a changelog."""
        mine = [pair for pair in self._found if pair[0].table == shape.name and pair[0].op]
        return latest(_full(one) for one in (_fold(mine) if shape.mode == "mirror" else map(_logged, mine)))

    def wrong_rows(self, catalog: Catalog, shape: Shape) -> list[str]:
        """How a table differs, in words; nothing where it does not."""
        expected = Counter(self.rows(shape))
        try:
            found = catalog.load_table((self._namespace, shape.name)).scan().to_arrow().to_pylist()
        except (NoSuchTableError, NoSuchNamespaceError):
            return [] if not expected else [f"{shape.name} is not there"]
        ours = (*PLACE, "_op") if shape.mode == "changelog" else ()
        told = Counter(
            latest(
                _full({name: row[name] for name in row if name[0] != "_" or name in ours}) for row in found
            )
        )
        missing, many = expected - told, told - expected
        if not missing and not many:
            return []
        sums = f"{shape.name}: {missing.total()} rows are missing, {many.total()} too many, of {expected.total()}"
        return [
            sums,
            *(f"  missing {one[:300]}" for one in list(missing)[:2]),
            *(f"  too many {one[:300]}" for one in list(many)[:2]),
        ]

    def wrong_letters(self, topic: str, of: str | None = None) -> list[str]:
        """Poison that was not sent on, and good messages that were; of all topics, or of one."""
        reasons: dict[tuple[str, int, int, str], set[str]] = {}
        for one in read(self._servers, [topic]):
            told = {
                name: (text or b"").decode()
                for name, text in one.headers.items()
                if name.startswith("isotherm.")
            }
            place = (
                told["isotherm.topic"],
                int(told["isotherm.partition"]),
                int(told["isotherm.offset"]),
                told["isotherm.timestamp"],
            )
            if of not in {None, place[0]}:
                continue
            reasons.setdefault(place, set()).add(told["isotherm.reason"])
        wrong = []
        for sent, one in self._found:
            if of not in {None, one.topic}:
                continue
            said = reasons.pop((one.topic, one.partition, one.offset, one.at), set())
            if bool(said) != sent.is_poison or not said <= sent.reasons:
                wrong.append(
                    f"{one.topic}/{one.partition}/{one.offset}: dead letter {said}, not {set(sent.reasons)}"
                )
        return wrong[:5] + [
            f"a dead letter of nothing that was committed: {place}" for place in list(reasons)[:5]
        ]

    def wrong_events(self, catalog: Catalog, topic: str) -> list[str]:
        """Snapshots that were not announced, and those that came too late."""
        told: dict[str, list[int]] = {}
        for one in read(self._servers, [topic]):
            event = decode(one.value)
            if isinstance(event, CommitEvent):
                told.setdefault(event.table, []).append(event.snapshot_id)
        wrong = []
        for shape in SHAPES:
            name = f"{self._namespace}.{shape.name}"
            try:
                made = history(catalog.load_table(name))
            except (NoSuchTableError, NoSuchNamespaceError):
                continue
            first = list(dict.fromkeys(told.get(name, [])))
            if made != first:
                missing = [one for one in made if one not in first]
                wrong.append(
                    f"{name}: {len(missing)} of {len(made)} snapshots are not announced: {missing[:3]}, or not in order"
                )
        return wrong


def history(table: Table) -> list[int]:
    """Every snapshot that main ever had, in order, also those that have expired: told by all versions of the metadata."""
    found: dict[int, int] = {}
    seen: set[str] = set()
    waiting = [table.metadata_location]
    while waiting:
        location = waiting.pop()
        if location in seen:
            continue
        seen.add(location)
        metadata = FromInputFile.table_metadata(table.io.new_input(location))
        by_id = {one.snapshot_id: one for one in metadata.snapshots}
        now = metadata.current_snapshot_id
        while now is not None and now in by_id:
            found[now] = by_id[now].sequence_number or 0
            now = by_id[now].parent_snapshot_id
        # The log is cut: the oldest version that it names knows more.
        waiting += [entry.metadata_file for entry in metadata.metadata_log[:1]]
        if location == table.metadata_location:
            waiting += [entry.metadata_file for entry in metadata.metadata_log]
    return sorted(found, key=lambda one: found[one])


def _fold(pairs: list[tuple[Sent, Read]]) -> list[dict[str, Any]]:
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for sent, _ in pairs:
        if sent.op == "t":
            rows.clear()
            continue
        if sent.op == "d":
            rows.pop(sent.of, None)
            continue
        old = rows.get(sent.of, {})
        told = {name: old.get(name) if value == PLACEHOLDER else value for name, value in sent.row.items()}
        rows[sent.of] = {**old, **told}
    return list(rows.values())


def _logged(pair: tuple[Sent, Read]) -> dict[str, Any]:
    sent, one = pair
    return {
        **sent.row,
        "_op": sent.op,
        **dict(zip(PLACE, (one.topic, one.partition, one.offset), strict=True)),
    }


def _full(row: Mapping[str, Any]) -> dict[str, Any]:
    """Without nulls: a column that came later is null in older rows."""
    return {name: value for name, value in row.items() if value is not None}
