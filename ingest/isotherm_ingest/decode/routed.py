"""Messages that are read for where each of them goes: by a field of the row, or by the source that it says.

Elsewhere the schema of a message is enough, because one message tells where all of its schema go. Here what a message says
becomes a part of its identity, beside the schema, so that behind this door nothing is new: each table is a route of its own.
DuckDB reads the few texts that are wanted, of many messages at once; each set of them is understood once.
"""

# ruff: noqa: S608 (paths are made of checked names)
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pyarrow as pa

from isotherm_ingest.decode.database import UnreadError, run
from isotherm_ingest.decode.debezium_messages import MESSAGES
from isotherm_ingest.decode.debezium_schema import TRUNCATE, ChangeSchema
from isotherm_ingest.decode.declared_json import DeclaredJson
from isotherm_ingest.decode.formats import Apart, Format, Identity, Message, Sample
from isotherm_ingest.decode.kinds import UNAVAILABLE, SchemaError
from isotherm_ingest.decode.sql_text import literal_in_sql
from isotherm_ingest.name_template import (
    LONGEST,
    PLACEHOLDER,
    SOURCE_PARTS,
    field_in,
    fields_of,
    filled,
    of_topic,
    of_value,
)

Values = tuple[tuple[str, str], ...]
"""By placeholder of the table's name, what a message says."""
NO_MORE = "no_route:no further table is made: the stream has as many as its `tables_at_most`"
_ROW_OPS = ("r", "c", "u", "d")


class Part(NamedTuple):
    """Some of the messages of one identity, which go to one table, or nowhere for one reason."""

    identity: Identity
    places: list[int]
    """Which they are."""
    bodies: list[bytes]
    keys: list[bytes | None]
    format: "Routed"
    problem: str | None


@dataclass(frozen=True)
class Routed:
    """Messages in some format, told apart by what the table's name asks of them."""

    inner: Format
    template: str
    """Of the table's name."""
    topic: str
    tables: frozenset[str] | None = None
    """Those that there are, where no further one is to be made."""
    values: Values | None = None
    """Of the messages of one part, what they say. Their bodies are JSON already."""

    def apart(self, value: bytes, key: bytes | None, headers: str | None) -> Apart:
        """By the schema alone; `parts` does the rest, for many at once."""
        return self.inner.apart(value, key, headers)

    def parts(
        self, identity: Identity, bodies: Sequence[bytes], keys: Sequence[bytes | None]
    ) -> Iterator[Part]:
        """Messages of one schema, told apart by what they say."""
        try:
            bodies, keys = self.inner.texts(identity, bodies, keys)
        except LookupError:  # their schema is not known yet: they are asked for it first
            yield Part(identity, list(range(len(bodies))), list(bodies), list(keys), self, None)
            return
        found: dict[Values | str, list[int]] = {}
        understood: dict[tuple[str | None, ...], Values | str] = {}
        for place, said in enumerate(self._said(bodies, keys)):
            if said not in understood:
                understood[said] = self._understood(said)
            found.setdefault(understood[said], []).append(place)
        for what, places in found.items():
            problem, values = (what, None) if isinstance(what, str) else (None, what)
            name = () if values is None else (b"named", json.dumps(values).encode())
            yield Part(
                (*identity, *name),
                places,
                [bodies[place] for place in places],
                [keys[place] for place in places],
                replace(self, values=values or ()),
                problem,
            )

    def texts(
        self, identity: Identity, bodies: Sequence[bytes], keys: Sequence[bytes | None]
    ) -> tuple[Sequence[bytes], Sequence[bytes | None]]:
        """As they are: a part has texts."""
        return (bodies, keys) if self.values is not None else self.inner.texts(identity, bodies, keys)

    def sample(self, messages: Iterable[Message]) -> Sample | None:
        """That of the format, with what all of them say."""
        found = self.inner.sample(messages)
        return None if found is None else (json.dumps({"of": found[0], "named": self.values}), found[1])

    def says_all(self, value: str) -> bool:
        """As the format has it."""
        return self.inner.says_all(self.sample_of(value))

    def is_bookkeeping(self, messages: Iterable[Message]) -> bool:
        """As the format has it."""
        return self.inner.is_bookkeeping(messages)

    def sample_of(self, value: str) -> str:
        """The format's own sample in one of `sample`."""
        return str(json.loads(value)["of"])

    def schema(self, value: str, key: str | None) -> ChangeSchema:
        """As the format has it, with what all of them say. Raises SchemaError."""
        told = json.loads(value)
        if told["named"] is None:
            raise SchemaError("messages that were not read for where they go")
        schema = self.inner.schema(told["of"], key)
        return replace(schema, named=tuple((part, text) for part, text in told["named"]))

    # What they say

    @property
    def _paths(self) -> dict[str, list[str]]:
        """Of the text of a message and of its key, where what is wanted of it stands."""
        root = "$" if isinstance(self.inner, DeclaredJson) else "$.payload"
        fields = fields_of(self.template)
        if self._is_row:
            return {"text": [f'{root}."{one}"' for one in fields], "key_text": []}
        source = [f"{root}.source.{one}" for one in ("table", "collection", "schema", "db")]
        rows = [f'{root}.{image}."{one}"' for one in fields for image in ("after", "before")]
        keys = [f'{root}."{one}"' for one in fields for root in ("$.payload", "$")]
        return {"text": [f"{root}.op", *source, *rows], "key_text": keys}

    @property
    def _is_row(self) -> bool:
        return isinstance(self.inner, DeclaredJson) and not self.inner.has_envelope

    def _said(
        self, bodies: Sequence[bytes], keys: Sequence[bytes | None]
    ) -> Iterator[tuple[str | None, ...]]:
        """Of each message: what is wrong with its text, and the JSON of what is wanted."""
        messages = pa.RecordBatch.from_arrays(
            [
                pa.array(bodies, pa.binary()),
                pa.array(keys, pa.binary()),
                *(pa.nulls(len(bodies), one.type) for one in list(MESSAGES)[2:]),
            ],
            schema=MESSAGES,
        )
        for some in self._run(messages):
            yield from some

    def _run(self, messages: pa.RecordBatch) -> Iterator[Iterator[tuple[str | None, ...]]]:
        paths = self._paths
        size = len(paths["text"]) + len(paths["key_text"])
        try:
            found = run(_statement(paths, self._old_row), messages)
        except (UnreadError, pa.ArrowInvalid):
            if messages.num_rows == 1:  # of which nobody foresaw it
                yield iter([("undecodable:no JSON", *[None] * (size + 1))])
                return
            half = messages.num_rows // 2
            yield from self._run(messages.slice(0, half))
            yield from self._run(messages.slice(half))
            return
        nothing = {what: [None] * len(some) for what, some in paths.items()}
        columns = (found[name].to_pylist() for name in ("flaw", "old", "told", "by_key"))
        yield (
            (flaw, old, *(told or nothing["text"]), *(by_key or nothing["key_text"]))
            for flaw, old, told, by_key in zip(*columns, strict=True)
        )

    @property
    def _old_row(self) -> str:
        """Where the old row of a change stands in its text."""
        return "$.before" if isinstance(self.inner, DeclaredJson) else "$.payload.before"

    def _understood(self, said: tuple[str | None, ...]) -> Values | str:
        """What a message says, or why it goes nowhere."""
        flaw, old_type, *texts = said
        if flaw is not None:
            return flaw
        told = [None if one is None else json.loads(one) for one in texts]
        fields = fields_of(self.template)
        if self._is_row:
            row = dict(zip(fields, zip(texts, told, strict=True), strict=True))
            return self._named(row, {})
        op, table, collection, schema, database, *rest = told
        if op == TRUNCATE and fields:
            return "truncate_unordered:a truncate has no field that would say its table"
        if op not in (*_ROW_OPS, TRUNCATE):
            return (
                "undecodable:no change event: it has no `op`"
                if op is None
                else f"unsupported_op:{op}"[:LONGEST]
            )
        pairs = list(zip(texts[5:], rest, strict=True))
        row = {}
        for place, field in enumerate(fields):
            after, old = pairs[2 * place : 2 * place + 2]
            by_key = pairs[2 * len(fields) + 2 * place : 2 * len(fields) + 2 * place + 2]
            if op != "d":
                row[field] = old if after[1] == UNAVAILABLE and old[1] is not None else after
            elif old_type not in {None, "NULL"}:
                row[field] = old
            else:
                row[field] = by_key[0] if by_key[0][0] is not None else by_key[1]
        names = {"table": table or collection, "schema": schema or database}
        return self._named(row, {part: one if isinstance(one, str) else "" for part, one in names.items()})

    def _named(self, row: dict[str, tuple[str | None, Any]], source: dict[str, str]) -> Values | str:
        values: dict[str, str] = {}
        for part in PLACEHOLDER.findall(self.template):
            field = field_in(part)
            if field is not None:
                text, why = _name_in(*row[field])
                if why:
                    return f"no_route:field {field!r} {why}"
                values[part] = text
            elif part in SOURCE_PARTS:
                values[part] = source[part]
        if self.tables is not None:
            name = filled(self.template, {"topic": of_topic(self.topic), **values})
            if name not in self.tables:
                return NO_MORE
        return tuple(sorted(values.items()))


def _statement(paths: dict[str, list[str]], old_row: str) -> str:
    """SQL of what is wanted of the relation `messages`."""
    lists = {what: f"[{', '.join(map(literal_in_sql, some))}]" for what, some in paths.items()}
    by_key = "NULL" if not paths["key_text"] else f"json_extract(k, {lists['key_text']})"
    return f"""
        SELECT CASE WHEN written IS NULL THEN 'not_utf8' WHEN NOT is_json THEN 'undecodable:no JSON' END AS flaw,
               CASE WHEN is_json THEN json_type(written, {literal_in_sql(old_row)}) END AS old,
               CASE WHEN is_json THEN json_extract(written, {lists["text"]}) END AS told,
               CASE WHEN json_valid(k) THEN {by_key} END AS by_key
        FROM (SELECT *, coalesce(json_valid(written), false) AS is_json
              FROM (SELECT TRY(decode(text)) AS written, TRY(decode(key_text)) AS k FROM messages))"""


def _name_in(text: str | None, value: Any) -> tuple[str, str]:
    """What a value becomes in a name, or why it becomes nothing."""
    if value is None:
        return "", "is missing" if text is None else "is null"
    if isinstance(value, dict | list):
        return "", f"is {'an object' if isinstance(value, dict) else 'a list'}"
    if value == UNAVAILABLE:
        return "", "is large and unchanged, and was not told; say REPLICA IDENTITY FULL"
    name = of_value(value if isinstance(value, str) else str(text))
    if not name:
        return "", "is empty"
    return ("", f"has more than {LONGEST} letters") if len(name) > LONGEST else (name, "")
