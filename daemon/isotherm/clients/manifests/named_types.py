"""Named types in the Avro schemas of manifests. A schema explains a name once, and means that type wherever the name comes again.

A spec with two fields of `decimal(9, 2)`, or of UUIDs, has one name twice. Iceberg's Java writes the second as a mere name,
which PyIceberg does not understand; PyIceberg explains it twice, which Java refuses. What gives each its own name everybody
reads: what kind a fixed type is tells its logical type, and not its name.
"""

from typing import Any


def explained(schema: Any) -> Any:
    """A schema in which each fixed type says itself what it is."""
    return _walked(schema, {}, is_named_apart=False)


def named_apart(schema: Any) -> Any:
    """A schema of which no two fixed types have one name."""
    return _walked(schema, {}, is_named_apart=True)


def _walked(schema: Any, known: dict[str, Any], *, is_named_apart: bool) -> Any:
    """A part of a schema, in the order in which Avro reads it: that of its text."""
    match schema:
        case str():
            return schema if is_named_apart else known.get(schema, schema)
        case list():
            return [_walked(one, known, is_named_apart=is_named_apart) for one in schema]
        case {"type": "fixed", "name": str(name)} if is_named_apart:
            known[name] = times = known.get(name, 0) + 1
            return schema if times == 1 else {**schema, "name": f"{name}_{times}"}
        case {"type": "fixed", "name": str(name)}:
            # Records are not kept: one that names itself would have no end. A manifest explains each of its own once.
            return known.setdefault(name, schema)
        case dict():
            parts = ("type", "fields", "items", "values")
            return {
                key: _walked(value, known, is_named_apart=is_named_apart) if key in parts else value
                for key, value in schema.items()
            }
        case _:
            return schema
