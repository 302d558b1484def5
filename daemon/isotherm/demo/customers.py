"""Customers of the shop: the trade of their table, also its truncates, and texts that messages leave out."""

import json
import random
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import psycopg

from isotherm.demo.alterations import Alteration

CUSTOMERS = 300
LARGE = 2_500
"""Characters of a text that PostgreSQL stores apart (TOAST), and that Debezium leaves out where it is unchanged."""
PRODUCTS = ("tea", "coffee", "cup", "kettle", "spoon", "honey", "biscuit", "filter", "jug", "grinder")


class Customers:
    """Their table."""

    def __init__(
        self,
        seeded: random.Random,
        execute: Callable[..., int],
        altered: Sequence[Alteration],
        first: datetime,
    ) -> None:
        """`execute` takes a cursor, a statement and values, and counts the rows; `altered` grows; trade begins at `first`."""
        self.keys_moved = 0
        self.truncates = 0
        self._random = seeded
        self._execute = execute
        self._altered = altered
        self._first = first
        self._next = CUSTOMERS + 1

    def insert_all(self, cursor: "psycopg.Cursor[Any]") -> None:
        """Those who are there from the beginning."""
        for customer_id in range(1, CUSTOMERS + 1):
            self._insert(cursor, customer_id)

    def change_one(self, cursor: "psycopg.Cursor[Any]") -> None:
        """Somebody comes, goes, is given another number, or changes."""
        what = self._random.random()
        if what < 0.2:
            self._insert(cursor, self._next)
            self._next += 1
        elif what < 0.25:
            # Only customers who came during the demo, nobody's orders hang on them.
            self._execute(cursor, "DELETE FROM customers WHERE customer_id = %s", self._newcomer())
        elif what < 0.35:
            # With the key, the text: that of the old row is in no message.
            moved = self._execute(
                cursor,
                "UPDATE customers SET customer_id = %s, about = %s, changed_at = clock_timestamp() "
                "WHERE customer_id = %s",
                self._next,
                self._about(self._next),
                self._newcomer(),
            )
            self.keys_moved += moved
            self._next += 1
        elif what < 0.4:
            customer_id = self._random.randint(1, CUSTOMERS)
            self._execute(
                cursor,
                "UPDATE customers SET about = %s, changed_at = clock_timestamp() WHERE customer_id = %s",
                self._about(customer_id),
                customer_id,
            )
        else:
            self._execute(
                cursor,
                "UPDATE customers SET balance = balance + %s::bigint * 0.01, points = %s, is_member = %s, "
                "changed_at = clock_timestamp() WHERE customer_id = %s",
                self._random.randint(-5000, 5000),
                self._points(),
                self._random.choice((True, False, None)),
                self._random.randint(1, CUSTOMERS),
            )

    def load_anew(self, cursor: "psycopg.Cursor[Any]") -> None:
        """As some systems do each night; those who came during the demo are forgotten."""
        self._execute(cursor, "TRUNCATE customers")
        self.insert_all(cursor)
        self.truncates += 1

    def _newcomer(self) -> int:
        """Somebody who came during the demo, if he is still there: nobody's orders hang on him."""
        return self._random.randint(CUSTOMERS + 1, max(self._next, CUSTOMERS + 1))

    def _about(self, customer_id: int) -> str | None:
        """Mostly more than a row has room for."""
        text = f"What we know of {customer_id}: likes {self._random.choice(PRODUCTS)}. "
        return self._random.choice((None, text, (text * 200)[:LARGE], (text * 200)[: 2 * LARGE]))

    def _points(self) -> int:
        """As many as the column holds."""
        return self._random.getrandbits(62 if Alteration.WIDEN in self._altered else 31)

    def _insert(self, cursor: "psycopg.Cursor[Any]", customer_id: int) -> None:
        chance = self._random.random
        profile = {
            "visits": self._random.randint(0, 99),
            "likes": [self._random.choice(PRODUCTS)],
            "city": None,
        }
        self._execute(
            cursor,
            "INSERT INTO customers VALUES "
            "(%s, %s, %s, %s::bigint * 0.01, %s, %s, %s, %s, clock_timestamp(), %s, %s)",
            customer_id,
            f"Customer {customer_id} Müller" if chance() < 0.3 else f"Customer {customer_id}",
            f"c{customer_id}@example.org" if chance() < 0.9 else None,
            self._random.randint(-10_000, 100_000),
            self._random.choice((True, False, None)),
            self._random.sample(
                ("vip", "b2b", "slow payer", 'quote " and \\ slash'), self._random.randint(0, 3)
            ),
            json.dumps(profile) if chance() < 0.8 else None,
            self._first - timedelta(days=self._random.randint(1, 900)),
            self._about(customer_id),
            self._points(),
        )
