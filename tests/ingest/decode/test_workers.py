"""One worker decodes the messages of all topics and schemas of a table, each by its own decoder."""

import pickle

import pyarrow as pa

from isotherm_ingest.decode.workers import decode_in_workers
from support.wire import ID, decoder_of, message, raw

NAMED = [ID, {"field": "name", "type": "string"}]
TABLE = {"id": "BIGINT", "name": "STRING"}


def test_each_message_goes_to_the_decoder_of_its_topic_and_schema():
    decoders = {
        ("shop.public.orders", 1): decoder_of(NAMED, table=TABLE),
        ("shop.public.orders", 2): decoder_of([ID], table=TABLE),
    }
    values = [
        message(NAMED, after={"id": 0, "name": "n"}),
        message([ID], after={"id": 1}),
        b"poison",
        message(NAMED, after={"id": 3, "name": "m"}),
    ]
    schemas = pa.array([1, 2, 2, 1], pa.int64())
    batch = raw(*values).append_column("_schema", schemas)

    # The decoders travel to a worker.
    work = decode_in_workers(pickle.loads(pickle.dumps(decoders)))  # noqa: S301 (our own)
    found = [
        (change["offset"], row and (row["id"], row["name"]), change["problem"] is None)
        for decoded in work([batch, batch.slice(0, 0), batch.slice(3, 1)])
        for row, change in zip(*(decoded.column(name).to_pylist() for name in ("row", "change")), strict=True)
    ]
    assert sorted(found, key=str) == [
        (0, (0, "n"), True), (1, (1, None), True), (2, None, False), (3, (3, "m"), True), (3, (3, "m"), True),
    ]  # fmt: skip
