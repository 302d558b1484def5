"""Truncates among the decoded changes of a mirror: found, told, and what is of before them left out."""

import pyarrow as pa
import pyarrow.compute as pc

from isotherm_ingest.decode.debezium_schema import TRUNCATE
from isotherm_ingest.plan.topic_partition import Position
from isotherm_ingest.plan.truncates import UNORDERED, Emptied


def truncates_in(changes: pa.RecordBatch) -> dict[Position, int]:
    """By Kafka partition, the offset of the last one."""
    if not pc.any(those := _are_truncates(changes)).as_py():
        return {}
    change = changes.column("change").filter(those)
    columns = (change.field(name).to_pylist() for name in ("topic", "partition", "offset"))
    found: dict[Position, int] = {}
    for topic, partition, offset in zip(*columns, strict=True):
        found[topic, partition] = max(offset, found.get((topic, partition), offset))
    return found


def with_truncates(problems: pa.Array, changes: pa.RecordBatch, why_not: str) -> pa.Array:
    """The problems of changes, where truncates are some too."""
    is_new = pc.and_(pc.is_null(problems), _are_truncates(changes))
    return pc.if_else(is_new, pa.scalar(f"{UNORDERED}:{why_not}"), problems)


def not_before(changes: pa.RecordBatch, emptied: Emptied) -> pa.RecordBatch:
    """Without what is of before the truncates by which the table is emptied."""
    change = changes.column("change")
    for (topic, partition), offset in emptied.below.items():
        is_there = pc.and_(
            pc.equal(change.field("topic"), topic), pc.equal(change.field("partition"), partition)
        )
        is_before = pc.and_(is_there, pc.less(change.field("offset"), offset))
        if pc.any(is_before).as_py():
            changes = changes.filter(pc.invert(is_before))
            change = changes.column("change")
    return changes


def without_truncates(changes: pa.RecordBatch) -> pa.RecordBatch:
    """The changes of rows."""
    those = _are_truncates(changes)
    return changes.filter(pc.invert(those)) if pc.any(those).as_py() else changes


def _are_truncates(changes: pa.RecordBatch) -> pa.Array:
    return pc.fill_null(pc.equal(changes.column("change").field("op"), TRUNCATE), fill_value=False)
