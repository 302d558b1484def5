"""Messages of one topic and one schema become rows: Arrow in, Arrow out, in the same order and number.

Whatever the bytes are, each message comes out once: with its row, or with the problem that it has. Nothing here
raises for what a message says.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from isotherm_ingest.decode.database import UnplannedError, UnreadError, plan, run
from isotherm_ingest.decode.debezium_schema import TRUNCATE, ChangeSchema
from isotherm_ingest.decode.statement import (
    Wanted,
    hidden_keys,
    left_statement,
    matched,
    may_be_kept,
    statement,
)

_MOMENT = pa.timestamp("us", "UTC")
MESSAGES = pa.schema(
    [
        ("text", pa.binary()),
        ("key_text", pa.binary()),
        ("moved", pa.bool_()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
    ]
)
"""What is decoded: a message, with or without its schema; its key, where it is a delete; and whether it is the insert
by which a row gets another key."""
KEPT = pa.dictionary(pa.int32(), pa.string())
"""Names of columns, as JSON. Each set of them is there once: of 2,000 columns a message may have ten, and names of all
others in each row were many times its size."""
CHANGE = pa.struct(
    [
        ("op", pa.string()),
        ("ts", _MOMENT),
        ("lsn", pa.int64()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("kept", KEPT),
        ("untold", pa.list_(pa.string())),
        ("problem", pa.string()),
        ("elsewhere", pa.bool_()),
    ]
)
"""What is known of a change beside its row.

`kept` names the columns whose value the message does not tell, so that the row keeps the one it has: an unchanged
large value, or a column that the message's schema lacks. `untold` names those where null may mean "unchanged", whose
unchanged value is that of another key, or which may have been another key. Both are null for "none".
`elsewhere` says that the change is of another source than the rows that the table has (`Wanted.source`).
"""


class OwnColumn(NamedTuple):
    """A column that a changelog has beside those of the row."""

    field: str
    """Of `CHANGE`."""
    type: str
    """In Spark's words."""


CHANGELOG_COLUMNS = {
    "_op": OwnColumn("op", "STRING"),
    "_ts": OwnColumn("ts", "TIMESTAMP"),
    "_topic": OwnColumn("topic", "STRING"),
    "_topic_partition": OwnColumn("partition", "INT"),
    "_offset": OwnColumn("offset", "BIGINT"),
    "_lsn": OwnColumn("lsn", "BIGINT"),
}
"""What a changelog says of each change. (`_partition` is Iceberg's own: such a table cannot be read.)"""
NO_ROWS = pa.array(["d", TRUNCATE])
"""Operations that leave no row."""
MAX_MS = 253_402_300_799_999


@dataclass(frozen=True)
class Decoder:
    """Decodes the messages of one schema for one table. Plain data, so that it can travel to a worker."""

    sql: str
    columns: pa.Schema
    """The table's columns, in its types."""
    there: frozenset[int]
    """Numbers of the columns that the messages have."""
    may_be_kept: tuple[int, ...]
    absent: tuple[str, ...]
    """Columns that the messages do not have, and the table keeps."""
    emptied: tuple[tuple[str, int], ...]
    """Columns that the messages do not have because they have another one instead, with the number of that. They are null, and
    the table keeps them only where it keeps the other."""
    untold: tuple[int, ...]
    """Columns where an unchanged large value is sent as null."""
    hidden: tuple[int, ...]
    """Columns of the key that an update may change."""
    left_sql: str | None
    """Of such updates, what deletes the old row."""
    cost: int = 1
    """Of planning a statement, in columns."""
    _row: pa.StructType = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """The type of the rows."""
        object.__setattr__(self, "_row", pa.struct(list(self.columns)))

    @property
    def schema(self) -> pa.Schema:
        """What `decode` gives."""
        return pa.schema([("row", self._row), ("change", CHANGE)])

    def decode(self, messages: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of some messages, which have the columns of `MESSAGES`."""
        try:
            plan(self.sql, messages, self.cost)
            if self.left_sql is not None:  # none is written whose old row nobody could delete
                plan(self.left_sql, messages, self.cost)
        except UnplannedError as err:
            return self._broken(messages, err)
        return self._parted(self.sql, messages)

    def left(self, messages: pa.RecordBatch) -> pa.RecordBatch:
        """Deletes of the rows that updates took to another key of the table, in any number."""
        none = pa.RecordBatch.from_arrays([pa.nulls(0, one.type) for one in self.schema], schema=self.schema)
        if self.left_sql is None:
            return none
        try:
            plan(self.left_sql, messages, self.cost)
        except UnplannedError:
            return none
        found = self._parted(self.left_sql, messages)
        return found.filter(pc.is_null(pc.struct_field(found.column("change"), "problem")))

    def _parted(self, sql: str, messages: pa.RecordBatch) -> pa.RecordBatch:
        """What a statement gives; where it stops at a message that nobody foresaw, that one alone is a problem."""
        try:
            return self._decode(sql, messages)
        except (UnreadError, pa.ArrowInvalid) as err:
            if messages.num_rows == 1:
                return self._broken(messages, err)
            half = messages.num_rows // 2
            return pa.concat_batches(
                [self._parted(sql, messages.slice(0, half)), self._parted(sql, messages.slice(half))]
            )

    def _broken(self, messages: pa.RecordBatch, err: Exception) -> pa.RecordBatch:
        """Each of the messages is a problem, for one reason."""
        size = messages.num_rows
        problem = f"undecodable:{' '.join(str(err).split())[:300]}"
        told = {name: messages.column(name) for name in ("topic", "partition", "offset")}
        told["problem"] = pa.array([problem] * size, pa.string())
        change = pa.StructArray.from_arrays(
            [told.get(one.name, pa.nulls(size, one.type)) for one in CHANGE], fields=list(CHANGE)
        )
        return pa.RecordBatch.from_arrays([pa.nulls(size, self._row), change], schema=self.schema)

    def _decode(self, sql: str, messages: pa.RecordBatch) -> pa.RecordBatch:
        found = run(sql, messages)
        size = messages.num_rows
        problem = self._with_uuids(found)
        broken = pc.is_valid(problem)
        values = [
            as_type(found[f"v{number}"], column.type) if number in self.there else pa.nulls(size, column.type)
            for number, column in enumerate(self.columns)
        ]
        op = found["op"]
        is_row = pc.and_(pc.invert(broken), pc.invert(pc.is_in(op, value_set=NO_ROWS)))
        names = self.columns.names
        masks = {names[one]: pc.and_(is_row, found[f"k{one}"]) for one in self.may_be_kept}
        for number in self.may_be_kept:
            values[number] = _without(values[number], found[f"k{number}"])
        masks |= {name: masks[names[one]] for name, one in self.emptied if names[one] in masks}
        groups = [*([name] for name in masks), *([self.absent] if self.absent else [])]
        kept = _kept(groups, [*masks.values(), is_row], size)
        updated = pc.and_(is_row, pc.and_(pc.equal(op, "u"), pc.invert(found["old"])))
        moved = pc.and_(is_row, messages.column("moved"))
        untold = {names[one]: pc.and_(updated, pc.is_null(found[f"v{one}"])) for one in self.untold}
        untold |= {names[one]: updated for one in self.hidden}
        for name, mask in masks.items():  # the value is with the key of before, whose row is gone
            gone = pc.and_(moved, mask)
            untold[name] = pc.or_(untold[name], gone) if name in untold else gone
        told = {
            "op": op,
            "ts": _moments(found["ts_ms"]),
            "lsn": found["lsn"],
            **{name: messages.column(name) for name in ("topic", "partition", "offset")},
            "kept": kept,
            "untold": _names([*untold], [*untold.values()], size),
            "problem": problem,
            "elsewhere": found["elsewhere"],
        }
        row = pa.StructArray.from_arrays(values, fields=list(self.columns), mask=broken)
        change = pa.StructArray.from_arrays(
            [as_type(told[one.name], one.type) for one in CHANGE], fields=list(CHANGE)
        )
        return pa.RecordBatch.from_arrays([row, change], schema=self.schema)

    def _with_uuids(self, found: dict[str, pa.Array]) -> pa.Array:
        """The problems; texts that are no UUIDs, of columns that hold those, are some too, and become null."""
        problem = found["problem"]
        for number, column in enumerate(self.columns):
            if number in self.there and isinstance(column.type, pa.UuidType):
                texts = found[f"v{number}"]
                bad = pa.array(
                    [one is not None and not _is_uuid(one) for one in texts.to_pylist()], pa.bool_()
                )
                why = pa.scalar(f"undecodable_value:{column.name}")
                problem = pc.if_else(pc.and_(bad, pc.is_null(problem)), why, problem)
                found[f"v{number}"] = _without(texts, bad)
        return problem


def decoder(schema: ChangeSchema, columns: pa.Schema, wanted: Wanted) -> Decoder:
    """The decoder of one schema for a table with these columns."""
    there = matched(schema, wanted)
    numbers = frozenset(one.number for one in there)
    lacking = [name for number, name in enumerate(wanted.columns) if number not in numbers]
    meant = {wanted.instead_of.get(one.name, one.name): one.number for one in there}
    emptied = tuple(
        (name, meant[other])
        for name in lacking
        if (other := wanted.instead_of.get(name, name)) in meant and wanted.instead_of
    )
    return Decoder(
        statement(schema, wanted),
        columns,
        numbers,
        tuple(one.number for one in there if may_be_kept(one, wanted)),
        tuple(name for name in lacking if name not in dict(emptied)) if wanted.keeps else (),
        emptied if wanted.keeps else (),
        tuple(one.number for one in there if not one.column.kind.tells) if wanted.keeps else (),
        tuple(one.number for one in hidden_keys(schema, wanted)),
        left_statement(schema, wanted),
        schema.cost,
    )


# Columns of what was found


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def as_type(values: pa.Array, to: pa.DataType) -> pa.Array:
    """Values in the type of a table; texts of UUIDs must be UUIDs."""
    if values.type == to:
        return values
    if isinstance(to, pa.UuidType):
        uuids = [None if one is None else UUID(one).bytes for one in values.to_pylist()]
        return pa.ExtensionArray.from_storage(to, pa.array(uuids, pa.binary(16)))
    return values.cast(to)


def _without(values: pa.Array, mask: pa.Array) -> pa.Array:
    return pc.if_else(mask, pa.scalar(None, values.type), values) if pc.any(mask).as_py() else values


def _where(mask: pa.Array, values: pa.Array) -> pa.Array:
    return pc.if_else(mask, values, pa.scalar(None, values.type))


def _moments(milliseconds: pa.Array) -> pa.Array:
    """Times of changes; null beyond the years that a reader takes."""
    fine = pc.and_(pc.greater_equal(milliseconds, 0), pc.less_equal(milliseconds, MAX_MS))
    return _where(fine, milliseconds).cast(pa.timestamp("ms", "UTC")).cast(_MOMENT)


def kept_names(kept: pa.Array) -> list[frozenset[str]]:
    """What texts of `KEPT` name, each of them."""
    return [frozenset(json.loads(text)) for text in kept.to_pylist() if text is not None]


def _kept(groups: Sequence[Sequence[str]], masks: Sequence[pa.Array], size: int) -> pa.Array:
    """Of each row the names of the groups whose mask is true, as `KEPT`; null where none is."""
    if not groups or not size:
        return pa.nulls(size, KEPT)
    chosen = _stacked(masks[: len(groups)])
    sets, which = np.unique(chosen, axis=0, return_inverse=True)
    texts = [
        json.dumps([name for group, is_in in zip(groups, one, strict=True) if is_in for name in group])
        for one in sets
    ]
    indices = pa.array(which.reshape(-1).astype(np.int32), mask=~chosen.any(axis=1))
    return pa.DictionaryArray.from_arrays(indices, pa.array(texts, pa.string()))


def _stacked(masks: Sequence[pa.Array]) -> "np.ndarray[Any, Any]":
    return np.stack(
        [pc.fill_null(one, fill_value=False).to_numpy(zero_copy_only=False) for one in masks], axis=1
    )


def _names(names: list[str], masks: list[pa.Array], size: int) -> pa.Array:
    """Of each row the names whose mask is true; null where none is."""
    kind = pa.list_(pa.string())
    if not names:
        return pa.nulls(size, kind)
    chosen = _stacked(masks)
    counts = chosen.sum(axis=1)
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    picked = pa.array(np.array(names, dtype=object)[np.nonzero(chosen)[1]], pa.string())
    return pa.ListArray.from_arrays(pa.array(ends), picked, mask=pa.array(counts == 0))
