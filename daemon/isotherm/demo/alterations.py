"""How the shop's tables change while it trades: a column is added, widened, renamed or dropped, and a table is made.

Each alteration is part of one transaction of the workload, so messages of before and after lie close together. When, and
in which order, follows from the seed: other alterations, and the first truncate, come before or after it. All come so
early that a demo of half a minute meets them.
"""

import random
from enum import Enum

from isotherm.demo.shop import REVIEWS

FIRST, LAST = 16, 176
"""Transactions of the trade between which all are made: from one second on, and within eleven where nothing is slow."""


class Alteration(Enum):
    """What the report says of it, and the statement."""

    ADD = "orders.channel added", "ALTER TABLE orders ADD COLUMN channel text"
    WIDEN = (
        "customers.points widened from integer to bigint",
        "ALTER TABLE customers ALTER COLUMN points TYPE bigint",
    )
    RENAME = "orders.note renamed to remark", "ALTER TABLE orders RENAME COLUMN note TO remark"
    DROP = "payments.reference dropped", "ALTER TABLE payments DROP COLUMN reference"
    CREATE = "reviews made", REVIEWS.ddl()

    @property
    def what(self) -> str:
        """For people."""
        return self.value[0]

    @property
    def statement(self) -> str:
        """In PostgreSQL."""
        return self.value[1]


def moments(seed: int) -> dict[int, Alteration]:
    """The alteration that comes with a transaction of the trade, by the number of the transaction."""
    drawn = random.Random(seed)
    numbers = drawn.sample(range(FIRST, LAST), len(Alteration))
    return dict(zip(numbers, Alteration, strict=True))
