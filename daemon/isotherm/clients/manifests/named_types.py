"""Named types in the Avro schemas of manifests: a name is explained once, and is only named where it comes again.

A spec with two fields of `decimal(9, 2)`, or of UUIDs, has such a schema. Iceberg's Java writes it so and reads nothing else;
PyIceberg neither understands a name without its explanation nor leaves the second explanation out.
"""

from typing import Any


def explained(schema: Any) -> Any:
    """A schema in which each fixed type says itself what it is."""
    return _walked(schema, {}, is_named_again=False)


def named(schema: Any) -> Any:
    """A schema in which each fixed type is explained where it comes first, and only named afterwards."""
    return _walked(schema, {}, is_named_again=True)


def _walked(schema: Any, known: dict[str, Any], *, is_named_again: bool) -> Any:
    """A part of a schema, in the order in which Avro reads it: that of its text."""
    match schema:
        case str():
            return known.get(schema, schema)
        case list():
            return [_walked(one, known, is_named_again=is_named_again) for one in schema]
        case {"type": "fixed", "name": str(name)} if name in known:
            return name if is_named_again else schema
        case {"type": "fixed", "name": str(name)}:
            # Records are not kept: one that names itself would have no end. A manifest explains each of its own once.
            known[name] = name if is_named_again else schema
            return schema
        case dict():
            parts = ("type", "fields", "items", "values")
            return {
                key: _walked(value, known, is_named_again=is_named_again) if key in parts else value
                for key, value in schema.items()
            }
        case _:
            return schema
