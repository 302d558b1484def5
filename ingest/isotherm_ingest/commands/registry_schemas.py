"""The schemas that the registry has for topics: the newest version of the subjects `<topic>-value` and `<topic>-key`.

No message is read, so a table that is named for its source is named by the name of the schema, as Debezium gives it.
"""

import json
from collections.abc import Callable

from isotherm_ingest.batches.owners import why_not
from isotherm_ingest.batches.table_names import table_name
from isotherm_ingest.commands.topic_schemas import TopicLook
from isotherm_ingest.decode.avro import Avro
from isotherm_ingest.decode.avro_schema import parsed
from isotherm_ingest.decode.debezium_schema import ChangeSchema
from isotherm_ingest.decode.kinds import SchemaError
from isotherm_ingest.registry import Registry, RegistryAwayError, Subject
from isotherm_ingest.streams import Stream, StreamsConfig
from isotherm_ingest.tables.portion import Group

SAFE = "FULL_TRANSITIVE"
"""Of a registry's levels, the one by which each version of a schema can be read with each other one, by a table too."""


def in_registry(
    config: StreamsConfig, registry: Registry, topic: str, owner: Callable[[str, Stream], Stream]
) -> TopicLook:
    """The schemas of a topic's subjects. `owner` says whose a table is, as for `Routing`."""
    stream = config.stream_of(topic)
    form = None if stream is None else stream.message_format(config.registry)
    if stream is None or not isinstance(form, Avro):
        return TopicLook(topic, notes=("its messages say their schemas themselves: see --against topics",))
    if stream.fields:
        return TopicLook(topic, notes=("a field of each message says its table: see --against topics",))
    try:
        value, key = registry.subject(f"{topic}-value"), registry.subject(f"{topic}-key")
        if value is None:
            return TopicLook(topic, notes=(f"the registry has no subject {topic}-value",))
        levels = {one.name: registry.compatibility(one.name) for one in (value, key) if one is not None}
    except RegistryAwayError as err:
        return TopicLook(topic, trouble=str(err))
    notes = tuple(
        f"{name} is {level or 'of an unknown level'}, not {SAFE}"
        for name, level in levels.items()
        if level != SAFE
    )
    looked_at = ", ".join(f"{one.name} version {one.version}" for one in (value, key) if one is not None)
    try:
        schema = _change_schema(form, value, key)
        names = [(table_name(one.table, topic, schema), one) for one in stream.per_table]
    except SchemaError as err:
        return TopicLook(topic, (), (f"no_schema:{err}",), notes, looked_at=looked_at)
    except Exception as err:  # noqa: BLE001 (as of a driver: a schema that nobody foresaw is told of its topic alone)
        return TopicLook(topic, (), (f"no_schema:{type(err).__name__}: {err}",), notes, looked_at=looked_at)
    owners = [(name, one, owner(name, one)) for name, one in names]
    refused = tuple(why for name, one, mine in owners if (why := why_not(name, mine, one, topic)))
    groups = tuple(
        (Group(topic, value.number, schema), name, mine)
        for name, one, mine in owners
        if not why_not(name, mine, one, topic)
    )
    return TopicLook(topic, groups, refused, notes, looked_at=looked_at)


def _change_schema(form: Avro, value: Subject, key: Subject | None) -> ChangeSchema:
    """What messages of a value and a key would look like. A key that is none of Avro counts as none.

    Raises:
        SchemaError: nobody could read them.
    """
    schemas = {value.number: value.avro()}
    ids = [value.number]
    if key is not None and form.has_envelope:
        try:
            parsed(key.avro())
        except SchemaError:
            pass
        else:
            schemas[key.number] = key.avro()
            ids.append(key.number)
    told = {"ids": ids, "source": _source_of(schemas[value.number])}
    return form.with_schemas(schemas).schema(json.dumps(told), None)


def _source_of(schema: str) -> dict[str, str]:
    """The source that a schema is named for: Debezium calls a change `<prefix>.<schema>.<table>.Envelope`."""
    try:
        data = json.loads(schema)
        full = str(data.get("connect.name") or f"{data.get('namespace', '')}.{data.get('name', '')}")
    except (ValueError, AttributeError, RecursionError):
        return {}
    *_, of, table = ("", "", *full.removesuffix(".Envelope").split("."))
    return {"schema": of, "table": table}
