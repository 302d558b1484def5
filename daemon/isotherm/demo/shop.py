"""The shop: its tables in PostgreSQL, and how ingest keeps each of them in the lake.

What follows from one list of tables: the DDL, ingest's streams, and the tables that the referee compares. What becomes
of them while the shop trades is in alterations.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

SCHEMA = "public"
TOPIC_PREFIX = "shop"
NAMESPACE = "shop"
PIPELINE = "shop"


@dataclass(frozen=True, slots=True)
class ShopTable:
    """One table of the shop."""

    name: str
    mode: Literal["mirror", "changelog"]
    key: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    """Name and PostgreSQL type, as the table is made."""
    partition_by: tuple[str, ...]
    event_time: str | None = None
    is_full: bool = True
    """REPLICA IDENTITY FULL: messages have the old row. By PostgreSQL's default they have its key, and no large value
    that an update left alone."""
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Column in the lake → the other names that the source has for it, at any time."""
    is_later: bool = False
    """Made while the shop trades. Ingest takes it up by the stream of all tables that have none of their own."""

    @property
    def lake_name(self) -> str:
        """The table's name in the catalog."""
        return f"{NAMESPACE}.{self.name}"

    def lake_column(self, name: str) -> str:
        """What the lake calls a column of the source."""
        return next((column for column, others in self.names.items() if name in others), name)

    def ddl(self) -> str:
        """The statements that make it."""
        columns = ", ".join(f"{name} {kind}" for name, kind in self.columns)
        identity = "FULL" if self.is_full else "DEFAULT"
        return (
            f"CREATE TABLE {self.name} ({columns}, PRIMARY KEY ({', '.join(self.key)})); "
            f"ALTER TABLE {self.name} REPLICA IDENTITY {identity}"
        )


REVIEWS = ShopTable(
    "reviews",
    "mirror",
    ("review_id",),
    (
        ("review_id", "bigint"),
        ("order_id", "bigint not null"),
        ("stars", "smallint not null"),
        ("words", "text"),
        ("changed_at", "timestamptz not null"),
    ),
    (),
    is_full=False,
    is_later=True,
)

TABLES = (
    ShopTable(
        "customers",
        "mirror",
        ("customer_id",),
        (
            ("customer_id", "bigint"),
            ("name", "text not null"),
            ("email", "text"),
            ("balance", "numeric(12,2) not null"),
            ("is_member", "boolean"),
            ("tags", "text[]"),
            ("profile", "jsonb"),
            ("joined_at", "timestamptz not null"),
            ("changed_at", "timestamptz not null"),
            ("about", "text storage external"),
            ("points", "integer not null"),
        ),
        ("bucket(4, customer_id)",),
        is_full=False,
    ),
    ShopTable(
        "orders",
        "mirror",
        ("order_id",),
        (
            ("order_id", "bigint"),
            ("customer_id", "bigint not null"),
            ("order_time", "timestamptz not null"),
            ("status", "text not null"),
            ("total", "numeric(12,2) not null"),
            ("is_gift", "boolean"),
            ("coupons", "text[]"),
            ("note", "text"),
            ("changed_at", "timestamptz not null"),
        ),
        ("hours(order_time)",),
        event_time="order_time",
        names={"remark": ("note",)},
    ),
    ShopTable(
        "order_lines",
        "changelog",
        ("order_id", "line"),
        (
            ("order_id", "bigint"),
            ("line", "integer"),
            ("order_time", "timestamptz not null"),
            ("product", "text not null"),
            ("quantity", "integer not null"),
            ("price", "numeric(10,2) not null"),
            ("options", "jsonb"),
            ("sizes", "integer[]"),
            ("changed_at", "timestamptz not null"),
        ),
        ("hours(order_time)",),
        event_time="order_time",
    ),
    ShopTable(
        "payments",
        "changelog",
        ("payment_id",),
        (
            ("payment_id", "bigint"),
            ("order_id", "bigint not null"),
            ("paid_at", "timestamptz not null"),
            ("amount", "numeric(12,2) not null"),
            ("method", "text not null"),
            ("is_settled", "boolean"),
            ("reference", "text"),
            ("changed_at", "timestamptz not null"),
        ),
        ("hours(paid_at)",),
        event_time="paid_at",
    ),
    REVIEWS,
)


def table_named(lake_name: str) -> ShopTable | None:
    """The table of the shop behind a table of the lake."""
    return next((table for table in TABLES if table.lake_name == lake_name), None)
