"""The trade of one story, in a thread of its own: bursts of messages, some in transactions, some to topics that grow."""

import itertools
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from killer.shop import NUMBER, SHAPES, Sent, Trade
from support.daemon_process import eventually

SENT_WITHIN_S = 120
"""Kafka may be down meanwhile."""
PAUSE_S = 0.4
LONGEST_BURST = 6


class Trading:
    """Trades until it is told to hold; `sent` is what was asked of Kafka, `committed` what it must have."""

    def __init__(self, namespace: str, servers: str, seed: int) -> None:
        self.sent: dict[int, Sent] = {}
        self.committed: set[int] = set()
        self.error: BaseException | None = None
        self._dice = random.Random(f"trade {seed}")
        numbers = itertools.count(1)
        self._trades = [Trade(shape, self._dice, numbers) for shape in SHAPES]
        self._namespace = namespace
        self._servers = servers
        self._producer = self._connected()
        self._admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        self._transactions: Producer | None = None
        self._holding = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="trade", daemon=True)
        self._make_topics()

    def topic(self, table: str) -> str:
        return f"{self._namespace}.public.{table}"

    def make_tables(self) -> None:
        """One good change of each table: it is made by the first that comes."""
        self._send([trade.step()[0] for trade in self._trades], self._producer)

    def start(self) -> None:
        """Begin to trade."""
        self._thread.start()

    def hold(self) -> None:
        """No more; when this returns, Kafka has it all."""
        self._holding.set()
        self._thread.join(2 * SENT_WITHIN_S)
        if self.error is not None:
            raise self.error

    def grow(self) -> str:
        """A topic has twice as many partitions from now on; no key goes from one old partition to another then."""
        may_grow = [
            one
            for one in self._trades
            if one.partitions <= 2 and (one.shape.mode == "changelog" or not one.shape.is_truncated)
        ]
        trade = self._dice.choice(may_grow)
        topic = self.topic(trade.shape.name)
        with self._lock:
            self._admin.create_partitions([NewPartitions(topic, 2 * trade.partitions)])[topic].result(60)
            while len(self._producer.list_topics(topic, 30).topics[topic].partitions) < 2 * trade.partitions:
                self._producer = self._connected()
            trade.partitions *= 2
            self._transactions = None  # it would not know them
        return f"{topic} has {trade.partitions} partitions"

    @contextmanager
    def resting(self) -> Iterator[None]:
        """No trade meanwhile; Kafka has all that there was."""
        with self._lock:
            yield

    def send_tombstones(self, table: str, count: int) -> None:
        """Messages that hold nothing for any table; only while trade rests."""
        trade = self._trade(table)
        self._send([trade.tombstone() for _ in range(count)], self._producer)

    def remake(self, table: str) -> None:
        """Delete a topic, and make it again, as large as it was; only while trade rests."""
        topic, trade = self.topic(table), self._trade(table)
        self._admin.delete_topics([topic])[topic].result(60)
        eventually(lambda: topic not in self._admin.list_topics(timeout=30).topics, SENT_WITHIN_S)
        self._admin.create_topics([NewTopic(topic, trade.partitions)])[topic].result(60)
        self._producer, self._transactions = self._connected(), None

    def _trade(self, table: str) -> Trade:
        return next(one for one in self._trades if one.shape.name == table)

    def _run(self) -> None:
        try:
            while not self._holding.wait(PAUSE_S):
                with self._lock:
                    self._burst()
        except BaseException as err:  # noqa: BLE001 (told by `hold`)
            self.error = err

    def _burst(self) -> None:
        (trade,) = self._dice.choices(self._trades, [one.shape.weight for one in self._trades])
        throw = self._dice.random()
        kept = trade.kept()
        messages = [one for _ in range(self._dice.randint(1, LONGEST_BURST)) for one in trade.step()]
        if throw > 0.1:
            self._send(messages, self._producer)
        elif not self._transact(messages, is_aborted=throw < 0.05):
            trade.give_back(kept)

    def _transact(self, messages: list[Sent], *, is_aborted: bool) -> bool:
        """Send in a transaction; whether it was committed."""
        if self._transactions is None:
            self._transactions = self._connected(**{"transactional.id": f"{self._namespace}-source"})
            self._transactions.init_transactions(SENT_WITHIN_S)
        self._transactions.begin_transaction()
        self._send(messages, self._transactions)
        if is_aborted:
            self._transactions.abort_transaction(SENT_WITHIN_S)
            self.committed.difference_update(one.number for one in messages)
        else:
            self._transactions.commit_transaction(SENT_WITHIN_S)
        return not is_aborted

    def _send(self, messages: list[Sent], producer: Producer) -> None:
        failed: list[Any] = []
        for one in messages:
            self.sent[one.number] = one
            headers = [*one.headers, (NUMBER, str(one.number))]
            producer.produce(
                self.topic(one.table), one.value, one.key, one.partition, lambda err, _: err and failed.append(err),
                headers=headers,
            )  # fmt: skip
        left = producer.flush(SENT_WITHIN_S)
        assert not left, "Kafka does not take the messages"
        assert not failed, failed[:3]
        self.committed.update(one.number for one in messages)

    def _make_topics(self) -> None:
        names = {self.topic(trade.shape.name): trade.partitions for trade in self._trades}
        for future in self._admin.create_topics([NewTopic(*one) for one in names.items()]).values():
            future.result(60)

    def _connected(self, **more: str) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self._servers,
                "enable.idempotence": True,
                "message.timeout.ms": SENT_WITHIN_S * 1000,
                "linger.ms": 0,
                "log_level": 0,
                **({"transaction.timeout.ms": SENT_WITHIN_S * 1000} if more else {}),
                **more,
            }
        )
