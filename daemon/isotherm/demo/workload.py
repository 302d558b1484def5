"""Trade in the shop: inserts, updates and deletes through an ordinary client, in transactions that span tables.

Order times run faster than the clock, from so far in the past that they never overtake it: hours of the shop go by
in seconds, and its hourly partitions go cold while somebody watches. Most rows are of the present hour, some are a
little late. Every few seconds an order is entered that is many hours old, or an old one is changed: both go into
partitions that are cold by then. Seeded: the same seed trades the same things in the same order
(not at the same times).

Meanwhile its tables are altered (alterations.py), and from then on rows are written as the tables are then.

`changed_at` is the clock when a row was written last; the witness reads from it how long a change took to the lake.
"""

import json
import random
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from isotherm.demo.alterations import Alteration, moments
from isotherm.demo.customers import CUSTOMERS, PRODUCTS, Customers
from isotherm.demo.reviews import Reviews
from isotherm.demo.shop import TABLES
from isotherm.runtime.clock import monotonic_s, now_ms

PAST_ORDERS = 240
"""Orders before the first day of trade: what the connector's own snapshot finds."""
PAST_HOURS = 4
RECENT_HOURS = 2
"""Orders of the last hours change often. So partitions are written by several batches, however slow these are, and go
cold soon after."""
REMEMBERED = 4000
"""Orders that may still be changed; older ones are left alone."""
OLD_HOURS = (4.0, 40.0)
"""How late an order of long ago is entered: up to as old as orders are that still change."""
NEVER_NEARER = timedelta(hours=1)
"""Order time stays this far behind the clock."""
LONGEST_DEMO_S = 3600
"""How long order time may run at full speed; after that it goes on at the pace of the clock."""
CHANNELS = ("web", "shop", "phone")
METHODS = ("card", "invoice", "cash", "voucher")
LOADED_ANEW_EVERY = 150
"""Transactions between two times that all customers are loaded anew, as some systems do each night: TRUNCATE, and INSERTs."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast the shop trades."""

    orders_per_s: float = 16
    """Each order is about five rows in three tables."""
    seconds_per_hour: float = 6
    """Seconds of the clock that an hour of order time takes."""
    late_share: float = 0.03
    """Orders that come up to an hour late."""
    old_changes_per_s: float = 0.15
    """Changes to orders of long ago."""
    old_orders_per_s: float = 0.15
    """Orders of long ago that are entered only now, as from a branch that was offline."""


@dataclass(frozen=True, slots=True)
class Order:
    """What the shop remembers of an order."""

    order_id: int
    at: datetime
    lines: int


class Workload:
    """The trade, in a thread of its own."""

    def __init__(self, dsn: str, seed: int, pace: Pace | None = None) -> None:
        self.pace = pace or Pace()
        self.rows = 0
        """Rows written so far."""
        self.transactions = 0
        self.altered: list[Alteration] = []
        """How the tables were altered so far."""
        self.error: str | None = None
        """Why it ended by itself, or None where it did not."""
        self._dsn = dsn
        self._random = random.Random(seed)
        self._moments = moments(seed)
        self._stopping = threading.Event()
        self._holding = threading.Event()
        self._transaction = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="workload", daemon=True)
        self._orders: list[Order] = []
        self._next_order = 1
        self._next_payment = 1
        self._renumbered = 0
        speed = timedelta(hours=1) / timedelta(seconds=self.pace.seconds_per_hour)
        self._started_s = monotonic_s()
        first = _now() - NEVER_NEARER - timedelta(seconds=LONGEST_DEMO_S * speed)
        self._first = first.replace(minute=0, second=0, microsecond=0)
        self._speed = speed
        self._customers = Customers(self._random, self._execute, self.altered, self._first)
        self._reviews = Reviews(self._random, self._execute)

    @property
    def keys_moved(self) -> int:
        """Rows that were given another primary key."""
        return self._renumbered + self._customers.keys_moved

    @property
    def truncates(self) -> int:
        """Times that a table was emptied by one, and filled again."""
        return self._customers.truncates

    def set_up(self) -> None:
        """The tables, some customers, and the orders of the hours before."""
        with psycopg.connect(self._dsn) as connection, connection.cursor() as cursor:
            for table in TABLES:
                if not table.is_later:
                    cursor.execute(table.ddl())
            self._customers.insert_all(cursor)
            for _ in range(PAST_ORDERS):
                self._new_order(cursor, self._first - timedelta(hours=PAST_HOURS) * self._random.random())

    def start(self) -> None:
        """Begin to trade; order time begins to run."""
        self._started_s = monotonic_s()
        self._thread.start()

    def stop(self) -> None:
        """Close the shop; what was begun is finished."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def hold(self) -> None:
        """Trade nothing for a while; when this returns, the last transaction is committed."""
        self._holding.set()
        with self._transaction:
            pass

    def go_on(self, pace: Pace) -> None:
        """Trade again, at this pace."""
        self.pace = pace
        self._holding.clear()

    def order_time(self) -> datetime:
        """What time it is in the shop."""
        elapsed = timedelta(seconds=(monotonic_s() - self._started_s) * self._speed)
        return min(self._first + elapsed, _now() - NEVER_NEARER)

    def _run(self) -> None:
        try:
            with psycopg.connect(self._dsn, autocommit=True) as connection:
                self._trade(connection)
        except psycopg.Error as err:
            if not self._stopping.is_set():
                self.error = str(err).strip()

    def _trade(self, connection: "psycopg.Connection[Any]") -> None:
        begun_s, done, pace = monotonic_s(), 0, self.pace
        while not self._stopping.is_set():
            ahead_s = begun_s + done / pace.orders_per_s - monotonic_s()
            if ahead_s < -1 or pace is not self.pace:  # what could not be done in time is not made up for
                begun_s, done, pace = monotonic_s(), 0, self.pace
            elif ahead_s > 0:
                self._stopping.wait(min(ahead_s, 0.2))
                continue
            with self._transaction:
                if not self._holding.is_set():
                    with connection.transaction(), connection.cursor() as cursor:
                        self._transact(cursor)
                    self.transactions += 1
            done += 1

    def _transact(self, cursor: "psycopg.Cursor[Any]") -> None:
        """One transaction: an order, and what else happens in a shop meanwhile."""
        chance = self._random.random
        lateness_h = self._random.expovariate(12.0)
        if chance() < self.pace.late_share:
            lateness_h += chance()
        self._new_order(cursor, self.order_time() - timedelta(hours=lateness_h))
        if chance() < 0.5:
            self._change_order(cursor, self._recent_order())
        if chance() < self.pace.old_changes_per_s / self.pace.orders_per_s:
            self._change_order(cursor, self._random.choice(self._orders))
        if chance() < self.pace.old_orders_per_s / self.pace.orders_per_s:
            hours = self._random.uniform(*OLD_HOURS)
            self._new_order(cursor, self.order_time() - timedelta(hours=hours))
        if chance() < 0.08:
            self._cancel_order(cursor, self._recent_order())
        if chance() < 0.15:
            self._customers.change_one(cursor)
        if chance() < 0.03:
            self._renumber_payment(cursor, self._recent_order())
        if self.transactions % LOADED_ANEW_EVERY == LOADED_ANEW_EVERY - 1:
            self._customers.load_anew(cursor)
        self._alter(cursor)

    def _alter(self, cursor: "psycopg.Cursor[Any]") -> None:
        """Alter what is to be altered now; trade with the table that came so."""
        if (alteration := self._moments.pop(self.transactions, None)) is not None:
            cursor.execute(alteration.statement)
            self.altered.append(alteration)
        if Alteration.CREATE in self.altered:
            self._reviews.transact(cursor, self._recent_order().order_id)

    def _new_order(self, cursor: "psycopg.Cursor[Any]", at: datetime) -> None:
        pick, chance = self._random.choice, self._random.random
        order = Order(self._next_order, at, self._random.randint(1, 4))
        self._next_order += 1
        lines = [
            (line, pick(PRODUCTS), self._random.randint(1, 5), self._random.randint(99, 9999))
            for line in range(1, order.lines + 1)
        ]
        cents = sum(quantity * price for _, _, quantity, price in lines)
        coupons = [pick(("SPRING", "TEN", "früh")) for _ in range(self._random.randint(0, 2))]
        # Values by the order of the table's columns; those that come later are at its end, and null where none is given.
        later = [pick(CHANNELS)] if Alteration.ADD in self.altered else []
        self._execute(
            cursor,
            "INSERT INTO orders VALUES (%s, %s, %s, 'new', %s::bigint * 0.01, %s, %s, %s, clock_timestamp()"
            + ", %s" * len(later)
            + ")",
            order.order_id,
            self._random.randint(1, CUSTOMERS),
            at,
            cents,
            pick((True, False, None)),
            coupons if chance() < 0.7 else None,
            "please ring twice ☕" if chance() < 0.2 else None,
            *later,
        )
        for line, product, quantity, price in lines:
            self._execute(
                cursor,
                "INSERT INTO order_lines VALUES (%s, %s, %s, %s, %s, %s::bigint * 0.01, %s, %s, clock_timestamp())",
                order.order_id,
                line,
                at,
                product,
                quantity,
                price,
                json.dumps({"gift": chance() < 0.1, "weight": self._random.randint(1, 900)})
                if chance() < 0.6
                else None,
                [self._random.randint(1, 9) for _ in range(self._random.randint(0, 3))]
                if chance() < 0.5
                else None,
            )
        if chance() < 0.7:
            self._new_payment(cursor, order, cents)
        self._orders.append(order)
        del self._orders[:-REMEMBERED]

    def _new_payment(self, cursor: "psycopg.Cursor[Any]", order: Order, cents: int) -> None:
        reference = f"ref-{self._next_payment:08d}" if self._random.random() < 0.8 else None
        references = [] if Alteration.DROP in self.altered else [reference]
        self._execute(
            cursor,
            "INSERT INTO payments VALUES (%s, %s, %s, %s::bigint * 0.01, %s, %s"
            + ", %s" * len(references)
            + ", clock_timestamp())",
            self._next_payment,
            order.order_id,
            order.at,
            cents,
            self._random.choice(METHODS),
            self._random.choice((True, False, None)),
            *references,
        )
        self._next_payment += 1

    def _recent_order(self) -> Order:
        """One of the last two hours: what a shop still works at."""
        recent = round(RECENT_HOURS * self.pace.seconds_per_hour * self.pace.orders_per_s)
        return self._orders[-self._random.randint(1, min(recent, len(self._orders)))]

    def _change_order(self, cursor: "psycopg.Cursor[Any]", order: Order) -> None:
        status = self._random.choice(("packed", "sent", "delivered", "returned"))
        note = "remark" if Alteration.RENAME in self.altered else "note"
        changes = {"status": status, note: self._random.choice(("ring once", "no bell", None))}
        if Alteration.ADD in self.altered:
            changes["channel"] = self._random.choice(CHANNELS)
        self._execute(
            cursor,
            f"UPDATE orders SET {', '.join(f'{name} = %s' for name in changes)}, changed_at = clock_timestamp() "
            "WHERE order_id = %s",
            *changes.values(),
            order.order_id,
        )
        if status == "delivered":
            self._execute(
                cursor,
                "UPDATE payments SET is_settled = true, changed_at = clock_timestamp() WHERE order_id = %s",
                order.order_id,
            )
        if status == "returned":
            self._execute(
                cursor,
                "UPDATE payments SET is_settled = false, amount = 0, changed_at = clock_timestamp() WHERE order_id = %s",
                order.order_id,
            )

    def _cancel_order(self, cursor: "psycopg.Cursor[Any]", order: Order) -> None:
        """All of an order goes; or a line of it changes, and the order stays."""
        if self._random.random() < 0.5:
            for table in ("payments", "order_lines", "orders"):
                self._execute(cursor, f"DELETE FROM {table} WHERE order_id = %s", order.order_id)
            return
        self._execute(
            cursor,
            "UPDATE order_lines SET quantity = quantity + 1, changed_at = clock_timestamp() "
            "WHERE order_id = %s AND line = 1",
            order.order_id,
        )

    def _renumber_payment(self, cursor: "psycopg.Cursor[Any]", order: Order) -> None:
        self._renumbered += self._execute(
            cursor,
            "UPDATE payments SET payment_id = %s, changed_at = clock_timestamp() WHERE order_id = %s",
            self._next_payment,
            order.order_id,
        )
        self._next_payment += 1

    def _execute(self, cursor: "psycopg.Cursor[Any]", statement: Any, *values: Any) -> int:
        """Gives the rows that were written."""
        cursor.execute(statement, values)
        rows = max(cursor.rowcount, 0)
        self.rows += rows
        return rows


def _now() -> datetime:
    return datetime.fromtimestamp(now_ms() / 1000, UTC)
