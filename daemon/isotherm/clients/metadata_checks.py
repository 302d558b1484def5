"""What metadata must not say, whatever catalog gave it: PyIceberg reads on where Java's parser refuses."""

from collections.abc import Iterator
from itertools import chain

from pyiceberg.exceptions import ValidationError
from pyiceberg.table.metadata import TableMetadata

LARGEST = 2**63
"""Iceberg's numbers are below it: they are Java's long."""
LARGEST_COUNT = 2**62
"""Times and sequence numbers are below it: the next snapshot's are greater, spans are added to times, and all of that must
be Java's long too. Times in nanoseconds are a third of it."""


def check(metadata: TableMetadata) -> None:
    """Refuse metadata that contradicts itself, or has numbers that cannot be kept.

    Raises:
        ValidationError: it does.
    """
    _check_refs(metadata)
    _check_numbers(metadata)


def _check_refs(metadata: TableMetadata) -> None:
    """Refuse metadata whose head, a branch or a tag is a snapshot that is not in it.

    PyIceberg takes such a table for an empty one. Then nothing would seem to reach its files.

    Raises:
        ValidationError: it has one.
    """
    there = {snapshot.snapshot_id for snapshot in metadata.snapshots}
    named = {name: ref.snapshot_id for name, ref in metadata.refs.items()}
    if metadata.current_snapshot_id is not None:
        named["the current one"] = metadata.current_snapshot_id
    for name, snapshot_id in named.items():
        if snapshot_id not in there:
            raise ValidationError(f"its metadata has no snapshot {snapshot_id}, which is {name}")


def _check_numbers(metadata: TableMetadata) -> None:
    """Refuse metadata with numbers that Java, or a store of ours, cannot keep, or not those that come after them.

    Raises:
        ValidationError: it has one.
    """
    for what, number, limit in _numbers(metadata):
        if not -limit <= number < limit:
            raise ValidationError(f"its metadata has a number of {len(str(number))} digits as {what}")


def _numbers(metadata: TableMetadata) -> Iterator[tuple[str, int, int]]:
    """The numbers of metadata by what they are, each with its limit."""
    yield "last-updated-ms", metadata.last_updated_ms, LARGEST_COUNT
    # Versions 1 and 2 do not have them all.
    yield "last-sequence-number", getattr(metadata, "last_sequence_number", 0), LARGEST_COUNT
    yield "next-row-id", getattr(metadata, "next_row_id", None) or 0, LARGEST_COUNT
    for snapshot in metadata.snapshots:
        yield "a snapshot-id", snapshot.snapshot_id, LARGEST
        yield "a snapshot's sequence-number", snapshot.sequence_number or 0, LARGEST_COUNT
        yield "a snapshot's timestamp-ms", snapshot.timestamp_ms, LARGEST_COUNT
    for at_ms in chain(
        (entry.timestamp_ms for entry in metadata.snapshot_log),
        (entry.timestamp_ms for entry in metadata.metadata_log),
    ):
        yield "the timestamp-ms of a log", at_ms, LARGEST_COUNT
