"""Messages of Iceberg's sink: those that were recorded, and more of the same make."""

import json
from io import BytesIO
from pathlib import Path
from uuid import UUID

from fastavro import parse_schema, schemaless_reader, schemaless_writer

from isotherm.contract.identity import levels_of

RECORDED = {path.stem: path.read_bytes() for path in (Path(__file__).parent / "kafka-connect").glob("*.avro")}
COMMIT = RECORDED["commit-to-table"]


def parted(message: bytes) -> tuple[bytes, bytes]:
    """The schema in front of a message, and what stands behind it."""
    end = 4 + int.from_bytes(message[2:4], "big")
    return message[4:end], message[end:]


def joined(schema: object, body: bytes) -> bytes:
    """A message with any schema, as text or as JSON, and any bytes behind it."""
    text = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    return b"\xc2\x01" + len(text).to_bytes(2, "big") + text + body


def commit_to_table(table: str, snapshot_id: int | None, uuid: str | None = None) -> bytes:
    """What the sink says after a commit to a table: the recorded message with other values."""
    text, body = parted(COMMIT)
    # fastavro does not find a type of the empty namespace from within another one, which Avro's own library writes.
    schema = parse_schema(json.loads(text.replace(b'"namespace":"",', b"")))
    event = schemaless_reader(BytesIO(body), schema, None)
    *namespace, name = levels_of(table)
    event["payload"]["table_reference"] |= {
        "namespace": namespace,
        "name": name,
        "table_uuid": None if uuid is None else UUID(uuid).bytes,
    }
    event["payload"]["snapshot_id"] = snapshot_id
    out = BytesIO()
    schemaless_writer(out, schema, event)
    return joined(text, out.getvalue())
