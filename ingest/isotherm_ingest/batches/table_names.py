"""The names that a stream's template gives to its tables."""

import re

from isotherm.contract.identity import name_from
from isotherm_ingest.decode.debezium_schema import ChangeSchema, SourceError
from isotherm_ingest.streams import PLACEHOLDER, StreamsConfig


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
        "topic": re.sub(r"[^A-Za-z0-9_]", "_", topic),
    }
    # A dot in one of these divides levels; what looks like one that does not is text.
    name = PLACEHOLDER.sub(lambda match: name_from(values[match[1]].split(".")), template)
    is_nameless = not values["table"] and "table" in PLACEHOLDER.findall(template)
    if is_nameless or not re.fullmatch(r"[^.\s`]+(\.[^.\s`]+)+", name):
        raise SourceError(f"{name!r} cannot be the name of a table")
    return name


def may_be(template: str, name: str) -> bool:
    """Whether a stream's template can give this name."""
    parts = PLACEHOLDER.split(template)  # texts and the names of placeholders, in turn
    pattern = "".join(
        re.escape(part) if place % 2 == 0 else _VALUES.get(part, _OTHER_VALUE)
        for place, part in enumerate(parts)
    )
    return re.fullmatch(pattern, name) is not None


def namespaces(config: StreamsConfig) -> frozenset[str] | None:
    """The namespaces that streams and queries write to, or None where the data decides."""
    tables = [*(one.table for one in config.streams), *(one.table for one in config.queries)]
    found = {table.rpartition(".")[0] for table in tables}
    return None if any(PLACEHOLDER.search(one) for one in found) else frozenset(found)


_VALUES = {"topic": r"[^.\s`]+"}
_OTHER_VALUE = r"[^\s`]*"
"""A source's own names may have dots, of which each divides levels, and it may have none of some kind."""
