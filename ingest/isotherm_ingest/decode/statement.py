"""The DuckDB SQL that decodes the messages of one schema: text only; `debezium_messages` runs it.

It reads a relation `messages` of the columns `text` and `key_text` (bytes) and `moved`, true for a row that came by a
change of its key. It gives, in the same order, `op`, `ts_ms`, `lsn`, `problem`, `old` (whether there is an old row),
and for the column with number n in the table `v<n>`, its value, and `k<n>`, whether that is the placeholder of an
unchanged large value.
"""

# ruff: noqa: S608 (every name in the SQL is quoted, every value a literal)
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from isotherm_ingest.decode import documents
from isotherm_ingest.decode.bare_json import payloads
from isotherm_ingest.decode.debezium_schema import TRUNCATE, ChangeSchema, Column
from isotherm_ingest.decode.kinds import OutOfRange
from isotherm_ingest.decode.numbers import MAX_GROWTH, MAX_PADDING
from isotherm_ingest.decode.source_conditions import elsewhere, other_table
from isotherm_ingest.decode.sql_text import literal_in_sql, name_in_sql
from isotherm_ingest.plan.truncates import UNORDERED

ROW_OPS = "('r', 'c', 'u', 'd')"
MADE_UP = r'^"?(|0+([.]0+)?|false|AA==|[{][}]|\[\]|[0-]{36}|1970|1970-01-01.*|00:00:00.*|P0Y.*|[{]"scale":0,"value":"AA=="[}])"?$'
"""What Debezium writes for a column that takes no null, has no default, and that the source has not told."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a table asks of its messages."""

    columns: tuple[str, ...]
    """The table's columns."""
    key: tuple[str, ...]
    """Columns that must not be null."""
    keeps: bool
    """Whether the table keeps the value that a placeholder stands for: a mirror does."""
    source_parts: frozenset[str] = frozenset({"table", "schema"})
    """What must be the same in each message, because it is in the table's name."""
    out_of_range: OutOfRange = "dead_letter"
    required: frozenset[str] = frozenset()
    """Columns of which the table takes no null."""
    instead_of: Mapping[str, str] = field(default_factory=dict)
    """Columns that hold what did not fit into another one, and that one: a row has a value in one of them."""
    source: tuple[str, ...] | None = None
    """What the table says that its rows are of, as `ChangeSchema.source`: a change of another one is told. Empty where each
    is of another one, and None where nobody asks."""

    def is_key(self, name: str) -> bool:
        """Whether a column is one of the key, whatever the case of its letters."""
        return name.lower() in {one.lower() for one in self.key}

    def policy(self, name: str) -> OutOfRange:
        """What becomes of a time out of range in a column. A key is never emptied: no row would be found by it."""
        return "dead_letter" if self.out_of_range == "null" and self.is_key(name) else self.out_of_range


@dataclass(frozen=True, slots=True)
class Matched:
    """A column of the table that the messages have."""

    number: int
    name: str
    """In the table."""
    column: Column

    def wire(self, image: str) -> str:
        """SQL of its text in a row image."""
        return f"{image}.{name_in_sql(self.column.name)}"


def matched(schema: ChangeSchema, wanted: Wanted) -> tuple[Matched, ...]:
    """The columns of the table that the messages have, whatever the case of their letters."""
    by_name = {schema.in_table(column.name).lower(): column for column in schema.columns}
    return tuple(
        Matched(number, name, by_name[name.lower()])
        for number, name in enumerate(wanted.columns)
        if name.lower() in by_name
    )


def statement(schema: ChangeSchema, wanted: Wanted) -> str:
    """The SQL for one schema and one table."""
    return _statement(schema, wanted, "p", _made_up(schema, wanted))


def hidden_keys(schema: ChangeSchema, wanted: Wanted) -> tuple[Matched, ...]:
    """Columns of a mirror's key that are not in the messages' keys.

    Debezium makes a delete and an insert of an update that changes a message's key. One that changes another column stays
    an update, though the row goes from one key of the table to another.
    """
    told = {schema.in_table(name).lower() for name in schema.key}
    keys = (one for one in matched(schema, wanted) if wanted.is_key(one.name))
    return tuple(one for one in keys if wanted.keeps and one.name.lower() not in told)


def left_statement(schema: ChangeSchema, wanted: Wanted) -> str | None:
    """The SQL that gives, of each update that changes the table's key, the delete of the old row; a problem of all else.

    None where there can be no such update, or no message has the old row.
    """
    hidden = hidden_keys(schema, wanted)
    if not hidden or set(schema.images) != {"before", "after"}:
        return None
    differs = " OR ".join(
        # What is large and unchanged is left out of the new row: there it is the same.
        f"({one.wire('p.before')} IS DISTINCT FROM {one.wire('p.after')} AND NOT {_is_left_out(one, 'p.after')})"
        for one in hidden
    )
    is_left = f"p.op = 'u' AND p.before IS NOT NULL AND p.after IS NOT NULL AND ({differs})"
    return _statement(schema, wanted, f"CASE WHEN {is_left} THEN struct_update(p, op := 'd') END")


def _statement(schema: ChangeSchema, wanted: Wanted, payload: str, made_up: str | None = None) -> str:
    """The SQL, with something in place of each payload `p`; of a row that is made up, the problem is said."""
    columns = matched(schema, wanted)
    padding = _padding(columns)
    flags = [f"k{one.number}" for one in columns if may_be_kept(one, wanted)]
    before = "p.before" if "before" in schema.images else "NULL"
    ts_ms, lsn = (
        f"whole(p.source.{name})" if name in schema.source_fields else "NULL::BIGINT"
        for name in ("ts_ms", "lsn")
    )
    told = [
        "p.op AS op",
        f"{ts_ms} AS ts_ms",
        f"{lsn} AS lsn",
        f"{_problem(schema, wanted, columns, made_up, padding)} AS problem",
        f"{before} IS NOT NULL AS old",
        f"coalesce({elsewhere(schema, wanted.source)}, true) AS elsewhere",
        *(f"v{one.number}" for one in columns),
    ]
    images = f"""
        SELECT *, {_image(schema)} AS image
        FROM (SELECT * REPLACE ({payload} AS p) FROM ({_payloads(schema)}))"""
    return f"SELECT {', '.join([*told, *flags])} FROM ({_with_values(columns, wanted, images, padding)})"


def _payloads(schema: ChangeSchema) -> str:
    """SQL of the messages with their payloads `p`; of bare JSON and documents with `flaw` too, what else is wrong with one."""
    if schema.shape == "document":
        return documents.payloads(schema)
    if schema.shape != "with schema":
        return payloads(schema)
    shape = literal_in_sql(json.dumps(_shape(schema)))
    return f"""
        SELECT *, TRY(json_transform_strict(written, {shape})).payload AS p
        FROM (SELECT TRY(decode(text)) AS written, key_text, moved FROM messages)"""


def _with_values(columns: Iterable[Matched], wanted: Wanted, images: str, padding: str | None) -> str:
    """SQL of the columns' values beside the row images, and of whether they are placeholders: a SELECT for each step."""
    images = _rated(images, padding)
    passes: dict[int, list[str]] = {}
    for one in columns:
        steps = one.column.kind.steps(wanted.policy(one.name)) or (str,)
        between = [f"r{one.number}_{number}" for number in range(len(steps) - 1)]
        names = [one.wire("image"), *between, f"v{one.number}"]
        for number, step in enumerate(steps):
            value = step(names[number])
            value = value if number else _bounded(one, padding, value)
            passes.setdefault(number, []).append(f"{value} AS {names[number + 1]}")
        if may_be_kept(one, wanted):
            passes[0].append(f"{_is_kept(one)} AS k{one.number}")
    for _, given in sorted(passes.items()):
        images = f"SELECT {', '.join(['*', *given])} FROM ({images})"
    return images


def _read(one: Matched, wanted: Wanted, padding: str | None) -> str | None:
    """SQL that is null where the text of a column, which is not null, cannot be read. None if every text can."""
    kind, policy = one.column.kind, wanted.policy(one.name)
    if kind.item is not None:
        return _bounded(one, padding, kind.check(one.wire("image"), policy))
    if kind.read is None:
        return None
    return f"r{one.number}_0" if kind.may_be_null(policy) else f"v{one.number}"


def may_be_kept(one: Matched, wanted: Wanted) -> bool:
    """Whether the messages may hold a placeholder in place of a value."""
    return wanted.keeps and bool(one.column.kind.placeholders) and not wanted.is_key(one.name)


def _shape(schema: ChangeSchema) -> Mapping[str, object]:
    """What a message must look like. All values are read as text: each is judged by itself."""
    row = {column.name: column.kind.text for column in schema.columns}
    told = [
        name for name in ("schema", "db", "table", "ts_ms", "lsn", "name") if name in schema.source_fields
    ]
    payload: dict[str, object] = dict.fromkeys(schema.images, row)
    if told:
        payload["source"] = dict.fromkeys(told, "VARCHAR")
    return {"payload": {**payload, "op": "VARCHAR"}}


def _image(schema: ChangeSchema) -> str:
    """The row: after a change; of a delete the old row, or what its key says where it has none."""
    before = "p.before" if "before" in schema.images else "NULL"
    after = "p.after" if "after" in schema.images else "NULL"
    fields = _key_fields(schema)
    if not fields:
        return f"CASE WHEN p.op = 'd' THEN {before} ELSE {after} END"
    of_row = ", ".join(
        f"{name_in_sql(column.name)} := {_told_by_key(column, fields.get(column.name))}"
        for column in schema.columns
    )
    key = {fields[column.name]: column.kind.text for column in schema.columns if column.name in fields}
    told = f"k := {_key(schema, 'TRY(decode(key_text))', key)}"
    exact = {
        fields[one.name]: one.kind.text for one in schema.columns if one.name in fields and one.kind.is_exact
    }
    if exact:  # its numbers are read as those of a row are, or they would name another one
        told += f", x := {_key(schema, 'exactly(TRY(decode(key_text)))', exact)}"
    of_key = f"list_transform([struct_pack({told})], lambda z: CASE WHEN z.k IS NOT NULL THEN struct_pack({of_row}) END)[1]"
    return f"CASE WHEN p.op <> 'd' THEN {after} WHEN {before} IS NULL THEN {of_key} ELSE {before} END"


def _key(schema: ChangeSchema, text: str, fields: Mapping[str, str]) -> str:
    """SQL of the fields of a message key, from SQL of its text."""
    payload = f"TRY(json_transform_strict({text}, {literal_in_sql(json.dumps({'payload': fields}))})).payload"
    if schema.shape != "envelope":
        return payload
    # Its key may have a schema all the same.
    return f"coalesce({payload}, TRY(json_transform_strict({text}, {literal_in_sql(json.dumps(fields))})))"


def _told_by_key(column: Column, field: str | None) -> str:
    if field is None:
        return f"NULL::{column.kind.text}"
    told = f"z.k.{name_in_sql(field)}"
    return f"coalesce(z.x.{name_in_sql(field)}, {told})" if column.kind.is_exact else told


def _key_fields(schema: ChangeSchema) -> dict[str, str]:
    """By column, the field of the message key that tells it, whatever the case of their letters.

    Empty where none does, as where a transform renames columns of the value alone.
    """
    folded = {schema.in_table(name).lower(): name for name in schema.key}
    named = {
        one.name: one.name if one.name in schema.key else folded.get(schema.in_table(one.name).lower())
        for one in schema.columns
    }
    return {column: field for column, field in named.items() if field is not None}


def _padding(columns: Iterable[Matched]) -> str | None:
    """SQL of the letters by which the numbers of a message are longer than its text. None where it cannot have too many."""
    padded = [one for one in columns if one.column.kind.may_pad]
    if sum(one.column.kind.may_pad for one in padded) <= MAX_PADDING:
        return None
    # Not a sum of a thousand terms, which DuckDB plans no more.
    each = ", ".join(one.column.kind.padding(one.wire("image")) for one in padded)
    return f"coalesce(list_sum([{each}]), 0)"


def _rated(images: str, padding: str | None) -> str:
    """SQL of the messages with their row images, and whether numbers in them become no longer than they may."""
    if padding is None:
        return images
    most = f"greatest({MAX_PADDING}, {MAX_GROWTH} * strlen(written))"
    return f"SELECT *, ({padding}) <= {most} AS is_bounded FROM ({images})"


def _bounded(one: Matched, padding: str | None, value: str) -> str:
    """A value; null where the numbers of its message, and it is one of them, become longer than they may."""
    if padding is None or not one.column.kind.may_pad:
        return value
    return f"CASE WHEN is_bounded THEN {value} END"


def _problem(
    schema: ChangeSchema,
    wanted: Wanted,
    columns: Iterable[Matched],
    made_up: str | None,
    padding: str | None,
) -> str:
    is_truncate = _is_truncate(schema)
    cases = [
        ("written IS NULL", "'not_utf8'"),
        *([("flaw IS NOT NULL", "flaw")] if schema.shape != "with schema" else []),
        ("p IS NULL OR p.op IS NULL", "'undecodable:the payload does not fit its schema'"),
        (f"p.op NOT IN {ROW_OPS} AND NOT {is_truncate}", "'unsupported_op:' || p.op"),
    ]
    if differs := other_table(schema, wanted.source_parts):
        cases.append((differs, "'other_table:the topic holds changes of two tables with one schema'"))
    cases.append((is_truncate, _problem_of_truncate(schema, wanted)))
    cases.append(("image IS NULL", "'no_row:the change has no row image'"))
    if made_up:
        why = "'no_row:the old row tells no more than the message key; say REPLICA IDENTITY FULL'"
        cases.append((made_up, why))
    for one in columns:
        if (read := _read(one, wanted, padding)) is not None:
            unread = f"{one.wire('image')} IS NOT NULL AND ({read}) IS NULL"
            if may_be_kept(one, wanted):
                unread = f"{unread} AND NOT k{one.number}"
            if wanted.keeps and not wanted.is_key(one.name):
                unread = f"p.op <> 'd' AND {unread}"  # of a row that goes, its key is all that matters
            cases.append((unread, literal_in_sql(f"undecodable_value:{one.name}")))
    untold = "no_row:an unchanged large value stands in the key; say REPLICA IDENTITY FULL"
    cases += [
        (_is_kept(one), literal_in_sql(untold))
        for one in columns
        if wanted.keeps and wanted.is_key(one.name) and one.column.kind.placeholders
    ]
    cases += [
        (f"{one.wire('image')} IS NULL", literal_in_sql(f"null_key:{one.name}"))
        for one in columns
        if wanted.is_key(one.name)
    ]
    for one in columns:
        if _is_required(one, schema, wanted) and not wanted.is_key(one.name):
            is_null = f"v{one.number} IS NULL"
            if may_be_kept(one, wanted):
                is_null = f"{is_null} AND NOT k{one.number}"
            is_null = f"p.op <> 'd' AND {is_null}" if wanted.keeps else is_null
            cases.append((is_null, literal_in_sql(f"null_value:{one.name}")))
    return f"CASE {' '.join(f'WHEN {condition} THEN {reason}' for condition, reason in cases)} END"


def _is_truncate(schema: ChangeSchema) -> str:
    """SQL of whether a change takes all rows away. One that names a row, be it an old one, is of that row, and no truncate."""
    return " AND ".join([f"(p.op = '{TRUNCATE}'", *(f"p.{name} IS NULL" for name in schema.images)]) + ")"


def _problem_of_truncate(schema: ChangeSchema, wanted: Wanted) -> str:
    """SQL of what keeps a truncate from a mirror, or from being a row of a changelog."""
    if not wanted.keeps:
        required = [name for name in wanted.columns if name in wanted.required]
        return literal_in_sql(f"null_value:{required[0]}") if required else "NULL"
    differs = other_table(schema, {"table", "schema"})
    if wanted.source is not None:
        differs = elsewhere(schema, wanted.source)
    why = literal_in_sql(f"{UNORDERED}:the topic holds changes of two tables with one schema")
    return f"CASE WHEN {differs} THEN {why} END" if differs else "NULL"


def _is_required(one: Matched, schema: ChangeSchema, wanted: Wanted) -> bool:
    """Whether a change has to tell a column. Where a source says that its own takes no null, nobody has to check."""
    return one.name in wanted.required or (schema.shape != "with schema" and not one.column.is_optional)


def _made_up(schema: ChangeSchema, wanted: Wanted) -> str | None:
    """SQL of whether the old row of a delete is no row: beyond the message key it has nothing but what Debezium makes up.

    So it is where the source has REPLICA IDENTITY DEFAULT. Where the table's key has other columns, a row of that key may be
    another one. A row that has nothing but defaults looks the same. None where the message key has all of the table's. The
    updates of `left_statement` have whole rows.
    """
    if not hidden_keys(schema, wanted) or "before" not in schema.images:
        return None
    told = {schema.in_table(name).lower() for name in schema.key}
    is_told = schema.shape == "with schema"
    made_up = [
        _may_be_made_up(column, is_told=is_told)
        for column in schema.columns
        if schema.in_table(column.name).lower() not in told
    ]
    return " AND ".join(["p.op = 'd'", "p.before IS NOT NULL", *made_up])


def _may_be_made_up(column: Column, *, is_told: bool) -> str:
    """SQL of whether an old row has in a column what Debezium writes where the source has not told it.

    Where the messages do not tell whether the source takes null there, it may be either.
    """
    text = f"p.before.{name_in_sql(column.name)}::VARCHAR"
    is_null = f"{text} IS NULL" if column.is_optional else "false"
    if not is_told:
        return f"({is_null} OR coalesce(regexp_matches({text}, {literal_in_sql(MADE_UP)}), false))"
    if column.default is not None:
        default = literal_in_sql(column.default)  # Java and Python spell numbers in their own ways
        is_it = f"{text} = {default} OR TRY_CAST({text} AS DOUBLE) = TRY_CAST({default} AS DOUBLE)"
        return f"({is_null} OR coalesce({is_it}, false))"
    if column.is_optional:
        return f"({is_null})"
    return f"coalesce(regexp_matches({text}, {literal_in_sql(MADE_UP)}), false)"


def _is_kept(one: Matched) -> str:
    return f"((p.op = 'u' OR (p.op = 'c' AND moved)) AND {_is_left_out(one, 'image')})"


def _is_left_out(one: Matched, row: str) -> str:
    """SQL of whether a row has a placeholder in a column, as PostgreSQL leaves out what is large and unchanged."""
    if not one.column.kind.placeholders:
        return "false"
    texts = ", ".join(map(literal_in_sql, one.column.kind.placeholders))
    return f"coalesce({one.wire(row)} IN ({texts}), false)"
