"""Change events, and what Debezium's JSON tells of them with its schema: which columns a message has, what its key is, and which table it comes from."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

from isotherm_ingest.decode import documents
from isotherm_ingest.decode.kinds import Kind, SchemaError, kind_of

SCHEMA, PAYLOAD = '{"schema":{', ',"payload":'
"""Connect's converter writes the schema first. It is most of a message, and the same in each of them."""
TRUNCATE = "t"
"""The operation of a change that takes all rows away: it has neither a row nor a key."""
MAX_COST = 2_000
"""Columns of a schema (`Kind.cost`). PostgreSQL's tables have 1,600 at most, those of others fewer. Each takes DuckDB a
millisecond to plan, in every worker, and two thirds of a megabyte to decode."""


Shape = Literal["with schema", "document", "envelope", "row"]
"""How a message is written: as Debezium's change event beside its schema, of a row or of a document; as the bare event; or as
a bare row."""
Others = Literal["ignore", "dead_letter", "text"]
"""What becomes of fields that no column is declared for: nothing, the whole change is a dead letter, or they are one text."""
OTHERS_COLUMN = "_others"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a change event."""

    name: str
    kind: Kind
    is_optional: bool = True
    """Whether it takes null."""
    default: str | None = None
    """What stands in it where nothing is said, as the text of its JSON; None where it has none."""
    aliases: tuple[str, ...] = ()
    """Names that it had before, as a schema of Avro tells them."""


@dataclass(frozen=True, slots=True)
class ChangeSchema:
    """What the messages of one schema look like."""

    columns: tuple[Column, ...]
    key: tuple[str, ...]
    """Fields of the message key, or empty if the messages have none."""
    source_schema: str | None
    """As the change says it that the rest was learned from: empty where it says none, and None where that is no name."""
    source_table: str | None
    source_fields: frozenset[str]
    """What the messages say of their source: `schema`, `db`, `table`, `ts_ms`, `lsn`, …"""
    images: tuple[str, ...]
    """Of `before` and `after`, those that the messages have."""
    schema_first: bool = False
    """Whether they begin with the schema, up to the first `,"payload":`, as Connect's converter writes them."""
    shape: Shape = "with schema"
    others: Others = "ignore"
    """What becomes of fields of a row that are no columns; of a message with its schema there are none."""
    called: tuple[tuple[str, str], ...] = ()
    """Of the columns, and the fields of the key, that the table calls otherwise: their name here, and there."""
    named: tuple[tuple[str, str], ...] = ()
    """Where each message is read for where it goes: by placeholder of the table's name, what these messages say."""
    source: tuple[str, str, str, str] | None = None
    """The connector's name, the database, the schema and the table that it says it is of; None where it does not say."""

    def in_table(self, name: str) -> str:
        """The name that the table has for a column, or for a field of the key."""
        return next((called for one, called in self.called if one == name), name)

    @property
    def cost(self) -> int:
        """What its statement costs DuckDB to plan, in columns."""
        return sum(column.kind.cost for column in self.columns)


DOCUMENT_COLUMNS = (
    Column(documents.ID, Kind("STRING"), is_optional=False),
    Column(documents.DOCUMENT, Kind("STRING")),
)
DOCUMENT_SOURCE_FIELDS = frozenset({"name", "db", "table", "ts_ms"})
"""A collection is their table."""


def document_schema(source: Any, images: tuple[str, ...]) -> ChangeSchema:
    """What changes of documents look like; `source` is what one of them says of it. Raises SourceError."""
    source_schema, source_table = source_of(source)
    return ChangeSchema(
        DOCUMENT_COLUMNS,
        (documents.ID,),
        source_schema,
        source_table,
        DOCUMENT_SOURCE_FIELDS,
        images,
        shape="document",
        source=whole_source(source),
    )


def change_schema(value: str, key: str | None) -> ChangeSchema:
    """The schema of a message and of those like it.

    Raises:
        SchemaError: it is no Debezium change event with its schema.
    """
    message = json_object(value)
    try:
        fields = {field["field"]: field for field in message["schema"]["fields"]}
        source_schema, source_table = source_of(message["payload"]["source"])
        image = fields.get("after") or fields["before"]
        fields["op"]  # what has none is no change event
        images = tuple(name for name in ("before", "after") if name in fields)
        if image.get("type") == "string" and fields["source"].get("name") == documents.OF_DOCUMENTS.decode():
            return document_schema(message["payload"]["source"], images)
        columns = tuple(_column(field) for field in image["fields"])
        source_fields = frozenset(name_of_column(field["field"]) for field in fields["source"]["fields"])
    except KeyError as err:
        raise SchemaError(f"no Debezium change event with a schema ({err} is missing)") from err
    except (TypeError, AttributeError) as err:
        raise SchemaError(f"no Debezium change event with a schema ({err})") from err
    if not columns:
        raise SchemaError("a change event without columns")
    return ChangeSchema(
        checked(columns),
        key_fields(key),
        source_schema,
        source_table,
        source_fields,
        images,
        _is_schema_first(value),
        source=whole_source(_told(message["payload"]["source"], source_fields)),
    )


def _told(source: Any, fields: Collection[str]) -> Any:
    """What a source says in fields that its schema has: no other is read of each message."""
    return (
        {name: said for name, said in source.items() if name in fields}
        if isinstance(source, dict)
        else source
    )


def checked(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """The same columns, if a table can hold them side by side, and workers can plan for them. Raises SchemaError."""
    folded = [column.name.lower() for column in columns]
    if len(set(folded)) < len(folded):
        raise SchemaError("two columns differ by upper and lower case only, which a table cannot hold")
    cost = sum(column.kind.cost for column in columns)
    if cost > MAX_COST:
        raise SchemaError(
            f"{len(columns)} columns cost as much as {cost}, where {MAX_COST} is the most: each list counts twice what is in it"
        )
    return columns


class SourceError(SchemaError):
    """A change says no source that a table could be named for. Others of its schema may."""


def source_of(source: Any) -> tuple[str | None, str | None]:
    """The schema, or the database, and the table that a change says that it comes from, as `ChangeSchema` has them.

    Of a document that is its collection. Nothing is refused here: where a stream names its table itself, it does not matter
    what a source says.
    """
    if not isinstance(source, dict):
        return "", ""
    names = ("schema", "db", "table", "collection")
    schema, database, table, collection = (_name_in(source.get(name)) for name in names)
    return (database if schema == "" else schema), (collection if table == "" else table)


def whole_source(source: Any) -> tuple[str, str, str, str] | None:
    """All that a change says of where it comes from, as `ChangeSchema` has it."""
    schema, table = source_of(source)
    if not isinstance(source, dict) or schema is None or not table:
        return None
    name, database, schema = (_name_in(source.get(one)) for one in ("name", "db", "schema"))
    return None if name is None or database is None or schema is None else (name, database, schema, table)


def _name_in(said: object) -> str | None:
    if said is None:
        return ""
    return said if isinstance(said, str) and _is_text(said) else None


def names_a_table(source: Any) -> bool:
    """Whether a change says from which table it comes: what is learned from it counts for all others of its schema."""
    schema, table = source_of(source)
    return schema is not None and bool(table)


def _column(field: dict[str, Any]) -> Column:
    kind = kind_of(field)
    default = text_of_default(kind, field.get("default"))
    return Column(name_of_column(field["field"]), kind, bool(field.get("optional")), default)


def text_of_default(kind: Kind, default: object) -> str | None:
    """The text that a message has for a default, which is JSON; None where that is null, or no text at all."""
    if default is None:
        return None
    if kind.text == "JSON" or not isinstance(default, str):
        default = json.dumps(default, separators=(",", ":"), ensure_ascii=False)
    return default if _is_text(default) else None


def _is_schema_first(value: str) -> bool:
    schema, found, _ = value.partition(PAYLOAD)
    if not found or not value.startswith(SCHEMA):
        return False
    try:
        json.loads(schema + "}")
    except ValueError:  # the word is in the schema, too
        return False
    return True


def key_fields(key: str | None) -> tuple[str, ...]:
    """The fields of a message key with its schema; empty where there is none, or nobody can read it."""
    try:
        return tuple(name_of_column(field["field"]) for field in json_object(key or "")["schema"]["fields"])
    except (SchemaError, KeyError, TypeError):
        return ()


def name_of_column(name: object) -> str:
    """The name of a column, as SQL and a table can take it. Raises SchemaError."""
    if not isinstance(name, str) or not name or "\0" in name:
        raise SchemaError(f"{name!r} cannot be the name of a column")
    return _text(name)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a pair
        return False
    return "\0" not in text


def _text(name: object) -> str:
    try:
        return str(name).encode().decode()
    except UnicodeEncodeError as err:  # half of a pair
        raise SchemaError(f"{name!r} is no text") from err


def json_object(text: str) -> dict[str, Any]:
    """What a text says. Raises SchemaError: it is no JSON object."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as err:
        raise SchemaError(f"not JSON: {err}") from err
    if not isinstance(data, dict):
        raise SchemaError("not a JSON object")
    return data
