"""A stream's template for the names of its tables: `shop.{table}_{field:region}`. Only values here, which also travel.

`{table}` and `{schema}` are the names of a change's source, `{topic}` the topic, and `{field:region}` what a row says in a
field of that name.
"""

import re
from collections.abc import Mapping

from isotherm.contract.identity import name_from

PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
SOURCE_PARTS = frozenset({"table", "schema"})
PARTS = ("table", "schema", "topic")
_FIELD = re.compile(r"field:([A-Za-z_][A-Za-z0-9_]*)")
LONGEST = 64
"""Letters of a value that becomes a part of a name. What is longer is a text, and no name of anything."""
NO_NAMES = ("ARRAY", "BINARY", "DECIMAL")
"""How types begin whose values are no names as messages have them: lists, and bytes in base64."""
_VALUES = {"topic": r"[^.\s`]+"}
_OTHER_VALUE = r"[^\s`]*"
"""A source's own names may have dots, of which each divides levels, and it may have none of some kind."""


def field_in(part: str) -> str | None:
    """The field that a placeholder asks for, or None where it asks for something else."""
    found = _FIELD.fullmatch(part)
    return None if found is None else found[1]


def fields_of(template: str) -> tuple[str, ...]:
    """The fields of rows that a template asks for."""
    asked = map(field_in, PLACEHOLDER.findall(template))
    return tuple(dict.fromkeys(one for one in asked if one is not None))


def unknown_part(template: str) -> str | None:
    """The first placeholder that nobody knows."""
    parts = PLACEHOLDER.findall(template)
    return next((one for one in parts if one not in PARTS and field_in(one) is None), None)


def of_topic(topic: str) -> str:
    """A topic as a part of a name."""
    return re.sub(r"[^A-Za-z0-9_]", "_", topic)


def of_value(text: str) -> str:
    """A value of a field as a part of a name."""
    return re.sub(r"[^a-z0-9_]", "_", text.lower())


def filled(template: str, values: Mapping[str, str]) -> str:
    """The text that a template becomes; `values` has one for each placeholder."""
    # A dot in one of these divides levels; what looks like one that does not is text.
    return PLACEHOLDER.sub(lambda match: name_from(values[match[1]].split(".")), template)


def is_name(text: str) -> bool:
    """Whether a table can have it for a name."""
    return re.fullmatch(r"[^.\s`]+(\.[^.\s`]+)+", text) is not None


def may_be(template: str, name: str) -> bool:
    """Whether a template can give this name."""
    parts = PLACEHOLDER.split(template)  # texts and the names of placeholders, in turn
    pattern = "".join(
        re.escape(part) if place % 2 == 0 else _pattern(part) for place, part in enumerate(parts)
    )
    return re.fullmatch(pattern, name) is not None


def _pattern(part: str) -> str:
    if field_in(part) is not None:
        return rf"[a-z0-9_]{{1,{LONGEST}}}"
    return _VALUES.get(part, _OTHER_VALUE)
