"""Debezium messages made by hand, as Connect's JSON converter writes them, and what a table must hold after them."""

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

START = datetime(2024, 1, 1, tzinfo=UTC)
COLUMNS: dict[str, dict[str, Any]] = {
    "id": {"type": "int64", "optional": False},
    "name": {"type": "string", "optional": True},
    "amount": {
        "type": "bytes",
        "optional": True,
        "name": "org.apache.kafka.connect.data.Decimal",
        "version": 1,
        "parameters": {"scale": "2", "connect.decimal.precision": "10"},
    },
    "at": {"type": "string", "optional": True, "name": "io.debezium.time.ZonedTimestamp", "version": 1},
    "tags": {"type": "array", "items": {"type": "string", "optional": True}, "optional": True},
    "paid": {"type": "boolean", "optional": True},
}


def decimal_bytes(value: Decimal, scale: int) -> str:
    whole = int(value.scaleb(scale))
    return base64.b64encode(whole.to_bytes((whole.bit_length() + 8) // 8, "big", signed=True)).decode()


def moment(hours: float) -> datetime:
    """Event time, in hours from the beginning."""
    return START + timedelta(hours=hours)


@dataclass
class Source:
    """One table of a source database; each change is a message, and an entry for the oracle."""

    table: str
    columns: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: COLUMNS)
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    log: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    lsn: int = 1000

    def insert(self, key: int, at_hours: float = 0.0, **values: Any) -> tuple[bytes, bytes]:
        row = {
            "id": key,
            "name": f"n{key}",
            "amount": Decimal(key) / 4,
            "at": moment(at_hours),
            "tags": ["a", None],
            "paid": None,
        }
        row = {**{name: row.get(name) for name in self.columns}, **values}
        self.rows[key] = row
        return self._message("c", None, row)

    def update(self, key: int, **values: Any) -> tuple[bytes, bytes]:
        before = self.rows[key]
        self.rows[key] = {**before, **values}
        return self._message("u", before, self.rows[key])

    def delete(self, key: int) -> tuple[bytes, bytes]:
        return self._message("d", self.rows.pop(key), None)

    def truncate(self) -> tuple[None, bytes]:
        """As Debezium sends it, where the connector says `skipped.operations=none`: without a key."""
        self.rows.clear()
        self.lsn += 8
        self.log.append(("t", dict.fromkeys(self.columns)))
        return None, self.value("t", None, None)

    def key(self, key: int) -> bytes:
        schema = {
            "type": "struct",
            "fields": [{"type": "int64", "optional": False, "field": "id"}],
            "optional": False,
        }
        return _text({"schema": schema, "payload": {"id": key}})

    def _message(self, op: str, before: Any, after: Any) -> tuple[bytes, bytes]:
        self.lsn += 8
        self.log.append((op, dict(after if after is not None else before)))
        key = (after if after is not None else before)["id"]
        return self.key(key), self.value(op, before, after)

    def value(self, op: str, before: Any, after: Any) -> bytes:
        payload = {
            "before": self._wire(before),
            "after": self._wire(after),
            "source": {
                "version": "3.6.1.Final",
                "connector": "postgresql",
                "name": "shop",
                "ts_ms": self.lsn,
                "snapshot": "false",
                "db": "shop",
                "schema": "public",
                "table": self.table,
                "lsn": self.lsn,
            },
            "op": op,
            "ts_ms": self.lsn,
        }
        return _text({"schema": self._schema(), "payload": payload})

    def _wire(self, row: Mapping[str, Any] | None) -> dict[str, Any] | None:
        if row is None:
            return None
        return {name: _wire_value(value, self.columns[name]) for name, value in row.items()}

    def _schema(self) -> dict[str, Any]:
        fields = [{**schema, "field": name} for name, schema in self.columns.items()]
        image = {
            "type": "struct",
            "fields": fields,
            "optional": True,
            "name": f"shop.public.{self.table}.Value",
        }
        texts = [
            {"type": "string", "optional": False, "field": name}
            for name in ("connector", "db", "schema", "table")
        ]
        numbers = [{"type": "int64", "optional": True, "field": name} for name in ("ts_ms", "lsn")]
        return {
            "type": "struct",
            "fields": [
                {**image, "field": "before"},
                {**image, "field": "after"},
                {"type": "struct", "fields": [*texts, *numbers], "optional": False, "field": "source"},
                {"type": "string", "optional": False, "field": "op"},
                {"type": "int64", "optional": True, "field": "ts_ms"},
            ],
            "optional": False,
            "name": f"shop.public.{self.table}.Envelope",
        }


def _wire_value(value: Any, schema: Mapping[str, Any]) -> Any:
    if isinstance(value, Decimal):
        return decimal_bytes(value, int(schema["parameters"]["scale"]))
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return value


def _text(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def latest(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Rows in a form that compares: by column name, sorted."""
    return sorted(str(sorted((name, _plain(value)) for name, value in row.items())) for row in rows)


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return str(value.quantize(Decimal("0.01")))
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(one) for one in value]
    return value
