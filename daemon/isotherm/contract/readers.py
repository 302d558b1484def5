"""The contract between readers and daemons: up to where somebody has read a table, so that expiry keeps what follows.

A record on a compacted topic of its own (`<control topic>.readers`), under `<uuid of the table>/<name of the reader>`. A
reader says it before it begins and whenever it has come further, and takes it back with a tombstone. It is believed about
nothing but what it needs: a snapshot that the table does not have says nothing.
"""

import json
from typing import Annotated

from pydantic import Field, ValidationError

from isotherm.contract.events import Long, Name, TimeMs, Value, complaint

MAX_RECORD_BYTES = 16_384
"""A larger record is nobody's."""

ReaderName = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f/]+$")]
"""A stable name: of a job, or of a streaming query. Who is called the same takes the place of the other."""


class ReadPosition(Value):
    """That a reader has read a table up to a snapshot: it needs this one, and all that came later."""

    table_uuid: Name
    table: Name
    reader: ReaderName
    snapshot_id: Long
    at_ms: TimeMs
    """When it said so."""

    @property
    def key(self) -> str:
        """Under which it stands on the topic."""
        return f"{self.table_uuid}/{self.reader}"


def encode_position(position: ReadPosition) -> bytes:
    """The position as a record of the topic."""
    return json.dumps(position.model_dump(mode="json"), separators=(",", ":"), sort_keys=True).encode()


def decode_position(key: str, value: bytes) -> ReadPosition:
    """The position in a record of the topic.

    Raises:
        ValueError: the record is none that we can read, or stands under another key.
    """
    if len(value) > MAX_RECORD_BYTES:
        raise ValueError(f"a record of {len(value)} bytes, more than {MAX_RECORD_BYTES}")
    try:
        position = ReadPosition.model_validate_json(value)
    except ValidationError as err:
        raise ValueError(complaint(err)) from err
    if position.key != key:
        raise ValueError(f"it speaks of {position.key}")
    return position
