"""The name of the table that a message goes to."""

from isotherm_ingest.dead_letter_topic import MAX_PROBLEM
from isotherm_ingest.decode.debezium_schema import ChangeSchema, SourceError
from isotherm_ingest.name_template import NO_NAMES, PLACEHOLDER, filled, is_name, of_topic
from isotherm_ingest.streams import Stream, StreamsConfig


def table_name(template: str, topic: str, schema: ChangeSchema) -> str:
    """The table's name for a change, from a stream's template.

    Raises:
        SourceError: the source that the change says has no name that a table could have.
    """
    of_source = {"table": schema.source_table, "schema": schema.source_schema}
    for part in PLACEHOLDER.findall(template):
        if part in of_source and of_source[part] is None:
            raise SourceError(f"the {part} that a change says it comes from is no name")
    values = {
        "table": schema.source_table or "",
        "schema": schema.source_schema or "",
        "topic": of_topic(topic),
        **dict(schema.named),
    }
    name = filled(template, values)
    is_nameless = not values["table"] and "table" in PLACEHOLDER.findall(template)
    if is_nameless or not is_name(name):
        raise SourceError(f"{name!r} cannot be the name of a table")
    return name


def no_route(stream: Stream, schema: ChangeSchema) -> str | None:
    """Why no value of a field can be a table's name for messages of a schema, or None where it can.

    The rows of a mirror could leave their table. Only where a message key has the field, Debezium makes a delete and an insert
    of an update that changes it: the one goes to the old table, the other to the new one. Of events the stream's own key
    tells, and is checked when it is read.
    """
    types = {column.name: column.kind.type for column in schema.columns}
    keys = {name.lower() for name in schema.key}
    for field in stream.fields:
        kind = types.get(field, "")
        if kind.startswith(NO_NAMES):
            return f"no_route:field {field!r} is {kind}, whose values are no names of tables"
        if stream.mode == "mirror" and not stream.has_events and field.lower() not in keys:
            return (
                f"no_route:field {field!r} is none of the messages' key {list(schema.key)}: a row of a mirror whose value "
                "changes would stay in the old table, too"
            )[:MAX_PROBLEM]
    return None


def namespaces(config: StreamsConfig) -> frozenset[str] | None:
    """The namespaces that streams and queries write to, or None where the data decides."""
    tables = [*(one.table for one in config.streams), *(one.table for one in config.queries)]
    found = {table.rpartition(".")[0] for table in tables}
    return None if any(PLACEHOLDER.search(one) for one in found) else frozenset(found)
