"""What PyIceberg works out of schemas again for each Avro file, and what comes to the same each time: worked out once.

A story of the simulation writes and reads hundreds of small manifests of one schema, and many other tests write some.
It begins when this module is imported.
"""

import json
from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, Final

from pyiceberg.avro import file
from pyiceberg.manifest import ManifestWriter
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

MOST: Final = 200
"""What is remembered of each."""


def remember(owner: Any, name: str, key: Callable[..., Hashable]) -> None:
    """Have a function of a library give again what it gave for the same key."""
    work: Any = getattr(owner, name)
    known: dict[Hashable, Any] = {}

    @wraps(work)
    def remembering(*values: Any, **named: Any) -> Any:
        asked = key(*values, **named)
        if asked not in known:
            if len(known) >= MOST:
                known.clear()
            # With the values, so that none of their ids comes to mean another one.
            known[asked] = work(*values, **named), values, named
        return known[asked][0]

    setattr(owner, name, remembering)


def _by_id(*values: Any, **named: Any) -> Hashable:
    return tuple(map(id, values)), tuple((name, id(value)) for name, value in named.items())


remember(AvroSchemaConversion, "avro_to_iceberg", lambda _, schema: json.dumps(schema))
remember(
    AvroSchemaConversion,
    "iceberg_to_avro",
    lambda _, schema, schema_name=None: (id(schema), schema_name),
)
remember(
    file,
    "resolve_reader",
    lambda schema, wanted, types=None, enums=None: (
        id(schema), id(wanted), str(types), str(enums),
    ),
)  # fmt: skip
remember(file, "resolve_writer", _by_id)
remember(file, "construct_writer", _by_id)
remember(
    ManifestWriter,
    "_with_partition",
    lambda writer, version: (id(writer._spec), id(writer._schema), version),  # noqa: SLF001 (PyIceberg's own)
)
