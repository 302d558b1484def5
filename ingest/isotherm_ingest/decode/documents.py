"""Changes of documents, as Debezium's connector for MongoDB tells them: what is before and after is the text of a document.

A row is the id of a document, and its text. Both are extended JSON, because a field of a document may be of any type, and of
another one in the next document: what is within is the reader's affair. The id is taken from the message's key and never from
the document, because the two are spelled differently: the key says 1004 where the document says {"$numberLong": "1004"}. So
deletes, which often have nothing but the key, find the row.
"""

# ruff: noqa: S608 (every name in the SQL is quoted, every value a literal)
import json
from typing import TYPE_CHECKING

from isotherm_ingest.decode.sql_text import literal_in_sql

if TYPE_CHECKING:
    from isotherm_ingest.decode.debezium_schema import ChangeSchema

ID, DOCUMENT = "_id", "document"
"""The columns. MongoDB has a field `_id` in every document."""
KEY_FIELD = "id"
"""What Debezium calls it in the key."""
OF_DOCUMENTS = b"io.debezium.connector.mongo.Source"
"""The name of what such changes say of their source."""
_KEY_SHAPE = literal_in_sql(json.dumps({"payload": {KEY_FIELD: "VARCHAR"}}))


def payloads(schema: "ChangeSchema") -> str:
    """SQL of the messages with their payloads `p`, as those of rows are, and `flaw`, where a message says no document."""
    shape = {"payload": {**dict.fromkeys(schema.images, "VARCHAR"), "source": "JSON", "op": "VARCHAR"}}
    fields = {"name": "name", "db": "db", "table": "collection", "ts_ms": "ts_ms"}
    # Any of them may be missing, as a name where nobody said one.
    of_source = ", ".join(
        f'"{name}" := e.source->>{literal_in_sql(f"$.{said}")}' for name, said in fields.items()
    )
    packed = f"struct_pack({', '.join(map(_image, schema.images))}, source := struct_pack({of_source}), op := e.op)"
    read = f"""
        SELECT *, TRY(json_transform_strict(written, {literal_in_sql(json.dumps(shape))})).payload AS e,
            TRY(json_transform_strict(TRY(decode(key_text)), {_KEY_SHAPE})).payload.{KEY_FIELD} AS id
        FROM (SELECT TRY(decode(text)) AS written, key_text, moved FROM messages)"""
    return f"""
        SELECT *, CASE WHEN e.op IS NOT NULL THEN {packed} END AS p,
            CASE WHEN e.op IS NOT NULL AND id IS NULL THEN 'null_key:{ID}' END AS flaw
        FROM ({read})"""


def _image(name: str) -> str:
    """SQL of a row. A delete has an old one, whatever else it tells: that of its id."""
    is_there = f"e.{name} IS NOT NULL" + (" OR e.op = 'd'" if name == "before" else "")
    return f'{name} := CASE WHEN {is_there} THEN struct_pack("{ID}" := id, {DOCUMENT} := e.{name}) END'
