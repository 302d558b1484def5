"""What customers write in a table that the shop has only since some moment of the trade."""

import random
from collections.abc import Callable
from typing import Any

import psycopg

WORDS = ("gladly again", "too sweet", "früher war alles besser", None)


class Reviews:
    """The trade of that table; its rows change and go as well."""

    def __init__(self, seeded: random.Random, execute: Callable[..., int]) -> None:
        """`execute` takes a cursor, a statement and values, and counts the rows."""
        self._random = seeded
        self._execute = execute
        self._written = 0

    def transact(self, cursor: "psycopg.Cursor[Any]", order_id: int) -> None:
        """One or none of each, beside whatever else the transaction does."""
        pick, chance = self._random.choice, self._random.random
        if self._written == 0 or chance() < 0.4:
            self._written += 1
            self._execute(
                cursor,
                "INSERT INTO reviews VALUES (%s, %s, %s, %s, clock_timestamp())",
                self._written,
                order_id,
                self._random.randint(1, 5),
                pick(WORDS),
            )
        if chance() < 0.2:
            self._execute(
                cursor,
                "UPDATE reviews SET stars = %s, words = %s, changed_at = clock_timestamp() WHERE review_id = %s",
                self._random.randint(1, 5),
                pick(WORDS),
                self._some(),
            )
        if chance() < 0.05:
            self._execute(cursor, "DELETE FROM reviews WHERE review_id = %s", self._some())

    def _some(self) -> int:
        return self._random.randint(1, self._written)
