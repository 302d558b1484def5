"""What a story trades: tables of a source database, and messages as Debezium makes them, good and bad, drawn by dice.

Each message carries its number in a header. What it asks of the lake is kept beside it (`Sent`), so that the oracle
needs nothing but Kafka's own order to know what the tables must hold.
"""

import json
import random
import zlib
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

from support.changes import COLUMNS, Source, moment

NUMBER = "number"
"""The header with a message's number."""
PLACEHOLDER = "__debezium_unavailable_value"
OLD_KEY, NEW_KEY = "__debezium.oldkey", "__debezium.newkey"
TEXT = {"type": "string", "optional": True}
WIDER = {**COLUMNS["amount"], "parameters": {"scale": "2", "connect.decimal.precision": "14"}}
EXTRA = 60
"""Messages of a table after which it gains a column, and its amounts become wider."""
TRUNCATES = 0.02
"""Of the deeds of a table that is truncated."""
AGAIN = 6
"""How many of the newest messages Debezium may send again after a restart of its own."""


@dataclass(frozen=True)
class Shape:
    """One table of the source, and how it is kept in the lake."""

    name: str
    mode: Literal["mirror", "changelog"]
    spec: tuple[str, ...]
    version: int
    partitions: int = 1
    key: tuple[str, ...] = ("id",)
    is_full: bool = True
    """REPLICA IDENTITY FULL: the old row is in every message. Otherwise PostgreSQL makes one up."""
    weight: int = 4
    is_truncated: bool = False
    """Now and then. Of a mirror the topic does not grow: beyond one partition a truncate has no place."""

    @property
    def columns(self) -> dict[str, Mapping[str, Any]]:
        """As the source begins."""
        line = {"line": {"type": "int32", "optional": False}} if "line" in self.key else {}
        return {
            "id": COLUMNS["id"],
            **line,
            **{name: COLUMNS[name] for name in COLUMNS if name != "id"},
            "body": TEXT,
        }


SHAPES = (
    Shape("orders", "mirror", ("hours(at)",), 2, partitions=2, is_full=False),
    Shape("lines", "mirror", ("bucket(4, id)",), 3, key=("id", "line"), is_truncated=True),
    Shape("payments", "changelog", ("days(at)",), 2, partitions=2, is_full=False),
    Shape("events", "changelog", (), 3, weight=1, is_truncated=True),
)
FAKES = {"name": "", "amount": Decimal(0), "at": moment(-473_352), "tags": None, "paid": False, "body": ""}
"""What PostgreSQL says of NOT NULL columns of an old row that it does not know."""


@dataclass(frozen=True)
class Sent:
    """One message, and what it asks of the lake."""

    number: int
    table: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, str], ...] = ()
    op: str = ""
    """`c`, `u`, `d`, `t`; empty: no row."""
    row: Mapping[str, Any] = field(default_factory=dict)
    """As the message tells it: of a delete the old row."""
    of: tuple[Any, ...] = ()
    """The row's key."""
    reasons: frozenset[str] = frozenset()
    """Where it must go to the dead letters: why that may be."""

    @property
    def is_poison(self) -> bool:
        return bool(self.reasons)


class Trade:
    """One table's changes; `step` gives the messages of one deed, in their order."""

    def __init__(self, shape: Shape, dice: random.Random, numbers: Iterator[int]) -> None:
        self.shape = shape
        self.partitions = shape.partitions
        self.changes = 0
        self.columns: dict[str, Mapping[str, Any]] = shape.columns
        self.rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._dice = dice
        self._numbers = numbers
        self._next = 1
        self._newest: list[Sent] = []

    def kept(self) -> Any:
        """What a transaction that is aborted must give back."""
        return deepcopy((self.rows, self._next, self._newest))

    def give_back(self, kept: Any) -> None:
        self.rows, self._next, self._newest = kept

    def step(self) -> list[Sent]:
        throw = self._dice.random()
        if self.shape.is_truncated and self.rows and self._dice.random() < TRUNCATES:
            sent = [self._truncate()]
        elif not self.rows or throw < 0.35:
            sent = [self._insert()]
        elif throw < 0.72:
            sent = [self._update()]
        elif throw < 0.84:
            sent = self._delete()
        elif throw < 0.90:
            sent = self._move()
        elif throw < 0.95:
            sent = [self._poison()]
        elif throw < 0.97:
            sent = [self._message(self._any_key(), None)]
        else:
            sent = [self._again(one) for one in self._newest[-self._dice.randint(1, AGAIN) :]]
        self._newest = [*self._newest, *sent][-AGAIN:]
        self.changes += len(sent)
        if self.changes > EXTRA and "extra" not in self.columns:
            self.columns = {**self.columns, "amount": WIDER, "extra": TEXT}
        return sent

    def tombstone(self) -> Sent:
        """A message that holds nothing."""
        return self._message(self._any_key(), None)

    # Good changes

    def _insert(self) -> Sent:
        return self._put("c", self._new_key(), self._values())

    def _values(self) -> dict[str, Any]:
        dice = self._dice
        values = {
            "name": dice.choice(["a", "grüße", 'quote " \\', "x" * 50, None]),
            "amount": Decimal(dice.randint(-99_999, 99_999)) / 100,
            "at": moment(dice.randint(0, 5) + round(dice.random(), 3)),
            "tags": dice.choice([None, [], ["a", None]]),
            "paid": dice.choice([True, False, None]),
            "body": dice.choice([None, "", "large " * dice.randint(1, 40)]),
            "extra": dice.choice([None, "more"]),
        }
        return {name: values[name] for name in self.columns if name in values}

    def _update(self) -> Sent:
        key = self._dice.choice(list(self.rows))
        chosen = self._dice.sample(["name", "amount", "at", "paid"], 2)
        new = self._values()
        values = {name: new[name] for name in (*chosen, "extra") if name in new}
        if self._dice.random() < 0.2:
            values["body"] = new["body"]
        return self._put("u", key, values)

    def _put(
        self, op: str, key: tuple[Any, ...], values: Mapping[str, Any], old_key: bytes | None = None
    ) -> Sent:
        before = self.rows.get(key)
        row = {**(before or {}), **dict(zip(self.shape.key, key, strict=True)), **values}
        self.rows[key] = row
        told = {name: row.get(name) for name in self.columns}
        if not self.shape.is_full and op == "u" and row.get("body") and "body" not in values:
            told["body"] = PLACEHOLDER
        if not self.shape.is_full and old_key is not None and row.get("body"):
            told["body"] = PLACEHOLDER
        headers = () if old_key is None else ((OLD_KEY, old_key.decode()),)
        return self._change(op, key, before if op == "u" and self.shape.is_full else None, told, headers)

    def _delete(self) -> list[Sent]:
        key = self._dice.choice(list(self.rows))
        return [self._gone(key), self._message(self.key(key), None)]

    def _truncate(self) -> Sent:
        self.rows.clear()
        return self._message(None, self._change_of(None, None, "t"), op="t")

    def _gone(self, key: tuple[Any, ...], new_key: bytes | None = None) -> Sent:
        row = self.rows.pop(key)
        told = {
            name: row.get(name) if self.shape.is_full or name in self.shape.key else FAKES.get(name)
            for name in self.columns
        }
        headers = () if new_key is None else ((NEW_KEY, new_key.decode()),)
        return self._change("d", key, told, None, headers)

    def _move(self) -> list[Sent]:
        """An UPDATE of the primary key, also to one that was somebody's before."""
        old, new = self._dice.choice(list(self.rows)), self._new_key()
        row = dict(self.rows[old])
        gone = self._gone(old, self.key(new))
        values = {name: value for name, value in row.items() if name not in self.shape.key}
        return [gone, self._message(self.key(old), None), self._put("c", new, values, self.key(old))]

    def _again(self, sent: Sent) -> Sent:
        return Sent(
            next(self._numbers), sent.table, self._partition(sent.key), sent.key, sent.value, sent.headers, sent.op,
            sent.row, sent.of, sent.reasons,
        )  # fmt: skip

    # Bad ones

    def _poison(self) -> Sent:
        key = self._new_key()
        good = self._change_of(None, self._wire(key))
        kinds = {
            "garbage": (b"\xff\xfe\x00 no JSON", {"no_schema"}),
            "no schema": (b'{"payload": {"op": "c"}}', {"no_schema"}),
            "cut": (good[:-30], {"undecodable", "no_schema"}),
            "value": (good.replace(b'"paid":null', b'"paid":"perhaps"'), {"undecodable_value"}),
            "truncate": (good.replace(b'"op":"c"', b'"op":"t"'), {"unsupported_op", "no_row"}),
            "type": (self._other_type(key), {"incompatible_schema"}),
        }
        value, reasons = kinds[self._dice.choice(sorted(kinds))]
        return self._message(self.key(key), value, reasons=frozenset(reasons))

    def _wire(self, key: tuple[Any, ...]) -> dict[str, Any]:
        return dict.fromkeys(self.columns) | dict(zip(self.shape.key, key, strict=True))

    def _other_type(self, key: tuple[Any, ...]) -> bytes:
        columns = {**self.columns, "paid": TEXT}
        return Source(self.shape.name, columns).value("c", None, self._wire(key) | {"paid": "perhaps"})

    # Messages

    def key(self, key: tuple[Any, ...]) -> bytes:
        kinds = ("int64", "int32")
        fields = [
            {"type": kind, "optional": False, "field": name}
            for name, kind in zip(self.shape.key, kinds, strict=False)
        ]
        schema = {"type": "struct", "fields": fields, "optional": False}
        payload = dict(zip(self.shape.key, key, strict=True))
        return json.dumps({"schema": schema, "payload": payload}, separators=(",", ":")).encode()

    def _new_key(self) -> tuple[Any, ...]:
        """Mostly one that nobody had."""
        number = self._next
        if self._dice.random() < 0.3:
            number = self._dice.randint(1, self._next)
        key = (number, self._dice.randint(1, 3))[: len(self.shape.key)]
        if key in self.rows:
            key = (self._next, 1)[: len(self.shape.key)]
        self._next = max(self._next, key[0] + 1)
        return key

    def _any_key(self) -> bytes | None:
        return None if self._dice.random() < 0.3 else self.key(self._new_key())

    def _change_of(self, before: Any, after: Any, op: str = "c") -> bytes:
        return Source(self.shape.name, self.columns).value(op, before, after)

    def _change(self, op: str, key: tuple[Any, ...], before: Any, after: Any, headers: Any = ()) -> Sent:
        before = None if before is None else {name: before.get(name) for name in self.columns}
        row = before if after is None else after
        return self._message(self.key(key), self._change_of(before, after, op), headers, op, row, key)

    def _message(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Any = (),
        op: str = "",
        row: Any = None,
        of: tuple[Any, ...] = (),
        reasons: frozenset[str] = frozenset(),
    ) -> Sent:
        number = next(self._numbers)
        return Sent(
            number,
            self.shape.name,
            self._partition(key),
            key,
            value,
            tuple(headers),
            op,
            row or {},
            of,
            reasons,
        )

    def _partition(self, key: bytes | None) -> int:
        return zlib.crc32(key or b"") % self.partitions
