"""Decoding in Spark's Python workers: Arrow batches of raw messages in, decoded rows out.

The decoders travel to the workers as plain data. A worker that is forked has all of this imported (`warm_workers`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from isotherm_ingest.decode.changes import MESSAGES, Decoder


def decode_in_workers(
    decoders: Mapping[tuple[str, int], Decoder],
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What Spark's `mapInArrow` calls; the decoders are of one table, by topic and schema."""

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for group, messages in _groups(batch):
                decoder, told = decoders[group], messages.select(MESSAGES.names)
                yield decoder.decode(told)
                if (left := decoder.left(told)).num_rows:
                    yield left

    return decode


def _groups(batch: pa.RecordBatch) -> Iterator[tuple[tuple[str, int], pa.RecordBatch]]:
    """The messages of each topic and schema."""
    topics, schemas = batch.column("topic"), batch.column("_schema")
    for topic in pc.unique(topics).to_pylist():
        of_topic = pc.equal(topics, topic)
        found = pc.unique(schemas.filter(of_topic)).to_pylist()
        for schema in found:
            wanted = pc.and_(of_topic, pc.equal(schemas, schema))
            yield (topic, schema), batch if pc.all(wanted).as_py() else batch.filter(wanted)
