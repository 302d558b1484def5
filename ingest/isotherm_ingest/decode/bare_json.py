"""The DuckDB SQL that takes apart JSON without a schema, of columns that a stream declares.

Of each message it gives the payload `p`, as that of a change with its schema is, and `flaw`, the problem of a message that
is no such JSON. A field may be missing: then it is null. A field that stands twice is a flaw, since readers take either.

A row is read from its *document*, the text of the JSON object that it is: the whole message, or what stands in `before`
and `after`. DuckDB reads numbers as doubles; where a column is a decimal, a message with longer ones is read once more, from
a text in which each number is a string.
"""

# ruff: noqa: S608 (every name in the SQL is quoted, every value a literal)
import json
from collections.abc import Mapping

from isotherm_ingest.decode.debezium_schema import OTHERS_COLUMN, ChangeSchema
from isotherm_ingest.decode.sql_text import literal_in_sql, name_in_sql

SOURCE_FIELDS = ("name", "schema", "db", "table", "ts_ms", "lsn")
"""What is read of the source of a bare change event."""
NAMED = 1_000
"""Fields of a message up to which the one that stands twice is named: to find it takes the square of their number."""
_WRITTEN = "SELECT TRY(decode(text)) AS written, key_text, moved FROM messages"
_IS_OBJECT = "starts_with(ltrim({}, E' \\t\\r\\n'), '{{')"


def payloads(schema: ChangeSchema) -> str:
    """SQL of the messages with `p` and `flaw`."""
    if schema.shape == "row":
        # What DuckDB makes of another value than an object is a row of nulls.
        documents, doc = {"after": "written"}, "written"
        said, told = _WRITTEN, "'c' AS op"
        exact = {"after": "TRY(json_transform(exactly(written), {}))"}
    else:
        documents = {name: f"e.{name}" for name in schema.images}
        doc = "CASE WHEN e.op = 'd' THEN e.before ELSE e.after END"
        said, told = _events(schema), "e.op AS op"
        exact = {name: f"json_transform(x.{name}, {{}})" for name in schema.images}
    rows = [f"{_row(schema, document)} AS t_{name}" for name, document in documents.items()]
    if of_exact := _exact_columns(schema):
        rows += [
            f"{exact[name].format(literal_in_sql(json.dumps(of_exact)))} AS x_{name}" for name in documents
        ]
    found = f"SELECT *, {doc} AS doc, {told}, {', '.join(rows)} FROM ({said})"
    is_there = " OR ".join(f"t_{name} IS NOT NULL" for name in documents)
    with_keys = f"SELECT *, CASE WHEN {is_there} THEN json_keys(doc) END AS fields FROM ({found})"
    of_objects = f"SELECT *, {_first_doubled(schema)} AS doubled FROM ({with_keys})"
    images = [f"{name} := {_image(schema, name, document)}" for name, document in documents.items()]
    source = [] if schema.shape == "row" else ["source := e.source"]
    packed = f"struct_pack({', '.join([*images, *source])}, op := op)"
    return f"SELECT *, {packed} AS p, {_flaw(schema, documents)} AS flaw FROM ({of_objects})"


def _events(schema: ChangeSchema) -> str:
    """SQL of change events, `e`: rows as JSON, the rest as texts; and where numbers must be exact and are long, `x`."""
    rows = dict.fromkeys(schema.images, "JSON")
    shape = {**rows, "source": dict.fromkeys(SOURCE_FIELDS, "VARCHAR"), "op": "VARCHAR"}
    is_object = _IS_OBJECT.format("written")
    found = f"CASE WHEN {is_object} THEN TRY(json_transform(written, {literal_in_sql(json.dumps(shape))})) END AS e"
    if _exact_columns(schema):
        of_rows = literal_in_sql(json.dumps(rows))
        found += f", TRY(json_transform(exactly(written), {of_rows})) AS x"
    return f"SELECT *, {found} FROM ({_WRITTEN})"


def _first_doubled(schema: ChangeSchema) -> str:
    """SQL of the fields of the first object with a field that stands twice, of those which a message is read from."""
    objects = ["fields"]
    if schema.shape != "row":
        key, is_by_key = "TRY(decode(key_text))", "e.op = 'd' AND e.before IS NULL"
        objects = [
            "CASE WHEN e IS NOT NULL THEN json_keys(written) END",
            "fields",
            "CASE WHEN e.op <> 'd' AND t_before IS NOT NULL THEN json_keys(e.before) END",
            f"CASE WHEN {is_by_key} THEN TRY(json_keys({key})) END",
            f"CASE WHEN {is_by_key} THEN TRY(json_keys({key}, '$.payload')) END",
        ]
    return f"list_filter([{', '.join(objects)}], lambda o: len(o) > len(list_distinct(o)))[1]"


def _row(schema: ChangeSchema, document: str) -> str:
    """SQL of a row's texts; null where its document is no object."""
    shape = {
        column.name: column.kind.text for column in schema.columns if not _is_others(schema, column.name)
    }
    text = f"{document}::VARCHAR"
    return (
        f"CASE WHEN {_IS_OBJECT.format(text)} "
        f"THEN TRY(json_transform({text}, {literal_in_sql(json.dumps(shape))})) END"
    )


def _exact_columns(schema: ChangeSchema) -> Mapping[str, str]:
    """Columns whose numbers are read as they are written."""
    return {column.name: column.kind.text for column in schema.columns if column.kind.is_exact}


def _image(schema: ChangeSchema, name: str, document: str) -> str:
    """SQL of a row as the columns want it."""
    row = f"t_{name}"
    if exact := _exact_columns(schema):
        updates = ", ".join(f"{name_in_sql(one)} := x_{name}.{name_in_sql(one)}" for one in exact)
        row = f"CASE WHEN x_{name} IS NULL THEN {row} ELSE struct_update({row}, {updates}) END"
    if schema.others == "text":
        known = json.dumps(dict.fromkeys(_declared(schema)))
        rest = f"json_merge_patch({document}::VARCHAR, {literal_in_sql(known)})::VARCHAR"
        is_more = f"len({_undeclared(schema)}) > 0"
        row = f"struct_insert({row}, {name_in_sql(OTHERS_COLUMN)} := CASE WHEN {is_more} THEN {rest} END)"
    # Else what is null would be a row of nulls.
    return f"CASE WHEN t_{name} IS NOT NULL THEN {row} END"


def _flaw(schema: ChangeSchema, documents: Mapping[str, str]) -> str:
    """SQL of the problem of a message that is no such JSON, or null."""
    if schema.shape == "row":
        cases = [("t_after IS NULL", "'undecodable:no JSON object'")]
    else:
        cases = [("e IS NULL OR e.op IS NULL", "'undecodable:no change event: it has no `op`'")]
        cases += [
            (f"t_{name} IS NULL AND {document} IS NOT NULL", f"'undecodable:`{name}` is no JSON object'")
            for name, document in documents.items()
        ]
    twice = "list_filter(doubled, lambda f: len(list_filter(doubled, lambda g: g = f)) > 1)"
    name = f"CASE WHEN len(doubled) <= {NAMED} THEN ({twice})[1] ELSE 'of so many' END"
    cases.append(("doubled IS NOT NULL", f"'undecodable:field ' || {name} || ' stands twice'"))
    if schema.others == "dead_letter":
        more = _undeclared(schema)
        cases.append((f"len({more}) > 0", f"'undecodable:field ' || ({more})[1] || ' is not declared'"))
    return f"CASE {' '.join(f'WHEN {condition} THEN {why}' for condition, why in cases)} END"


def _undeclared(schema: ChangeSchema) -> str:
    known = ", ".join(map(literal_in_sql, _declared(schema)))
    return f"list_filter(fields, lambda f: f NOT IN ({known}))"


def _declared(schema: ChangeSchema) -> list[str]:
    return [column.name for column in schema.columns if not _is_others(schema, column.name)]


def _is_others(schema: ChangeSchema, name: str) -> bool:
    return schema.others == "text" and name == OTHERS_COLUMN
