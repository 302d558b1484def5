"""Rows of a query go to a topic of Kafka too: before they are committed, or once they are final.

At least once: what was sent before a crash is computed, and sent, again. A row that is sent with the same values has the same
id. One that is sent before its commit was refused is corrected by the next.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice

from pyspark.sql import DataFrame, SparkSession

from isotherm_ingest.kafka import Broker, Record
from isotherm_ingest.queries.progress import Progress
from isotherm_ingest.query_config import Emit
from isotherm_ingest.span import seconds
from isotherm_ingest.sql.text import quoted

ID = "isotherm.id"
"""A header: the same for the same row of the same table with the same values."""
AT_ONCE = 1_000


class Emitter:
    """Sends on the rows of one query."""

    def __init__(self, emit: Emit, table: str, key: tuple[str, ...], broker: Broker) -> None:
        """Nothing is sent before the first row."""
        self._emit = emit
        self._table = table
        self._key = key
        self._broker = broker
        self._sent_ms: int | None = None
        """Rows that were over by then have been sent by this driver."""
        self._is_there = False

    def changed(
        self, rows: DataFrame, touched: str, table: str, since: Progress | None, reached: Progress
    ) -> Progress:
        """Before a commit: send what is to be seen at once; gives what the commit is to say.

        Args:
            rows: that are written.
            touched: a view of their keys, and of those of rows that are gone.
            table: as SQL names it.
            since: what it says.
            reached: what the commit would say.
        """
        session, key, sent_ms = rows.sparkSession, list(self._key), self._sent(since)
        gone = (
            session.table(table).join(session.table(touched), key, "left_semi").join(rows, key, "left_anti")
        )
        if self._emit.when == "final":
            if sent_ms is None:
                return reached
            # It was final, and is another one now.
            rows, gone = (some.where(self._is_over(some, sent_ms)) for some in (rows, gone))
        self._send(self._texts(rows))
        self._send((key_text, None) for key_text, _ in self._texts(gone))
        return replace(reached, final_ms=sent_ms)

    def final(self, session: SparkSession, table: str, since: Progress | None, reached_ms: int) -> None:
        """Once all is committed: send the rows that are final now and were not.

        Args:
            session: of the thread.
            table: as SQL names it.
            since: what the table said before.
            reached_ms: the event time that all sources have reached.
        """
        if self._emit.when != "final":
            return
        sent_ms, upto_ms = self._sent(since), reached_ms - int(seconds(self._emit.after) * 1000)
        if sent_ms is not None and upto_ms <= sent_ms:
            return
        rows = session.table(table)
        over = rows.where(self._is_over(rows, upto_ms))
        if sent_ms is not None:
            over = over.where(f"NOT ({self._is_over(rows, sent_ms)})")
        self._send(self._texts(over))
        self._sent_ms = upto_ms

    def _sent(self, since: Progress | None) -> int | None:
        return self._sent_ms if self._sent_ms is not None or since is None else since.final_ms

    def _is_over(self, rows: DataFrame, ms: int) -> str:
        """SQL of whether a row is over by a time."""
        name = quoted(self._emit.time)
        kinds = {column.lower(): kind for column, kind in rows.dtypes}
        if kinds.get(self._emit.time.lower()) == "timestamp":  # compared as it is, files are skipped
            return f"{name} <= timestamp_millis({ms})"
        return f"unix_millis(CAST({name} AS TIMESTAMP)) <= {ms}"

    def _texts(self, rows: DataFrame) -> Iterator[tuple[str, str]]:
        key = ", ".join(map(quoted, self._key))
        options = "map('ignoreNullFields', 'false')"
        told = rows.selectExpr(
            f"to_json(struct({key}), {options}) AS k", f"to_json(struct(*), {options}) AS v"
        )
        for row in told.toLocalIterator():
            yield row["k"], row["v"]

    def _send(self, rows: Iterable[tuple[str, str | None]]) -> None:
        """Send, and wait until every replica has them all. Raises BrokerError."""
        left = iter(rows)
        while some := list(islice(left, AT_ONCE)):
            if not self._is_there:
                self._broker.ensure_topic(self._emit.topic, {})
                self._is_there = True
            self._broker.send([self._record(key, value) for key, value in some])

    def _record(self, key: str, value: str | None) -> Record:
        told = "\n".join((self._table, key, value or ""))
        number = hashlib.sha256(told.encode()).hexdigest()[:32]
        body = None if value is None else value.encode()
        return Record(self._emit.topic, key.encode(), body, ((ID, number.encode()),))
