"""The fields of a table's partition specs as our values, and whether files of older specs can be written in the current one."""

from collections.abc import Mapping

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import IdentityTransform, TimeTransform, VoidTransform
from pyiceberg.types import DateType, IcebergType, TimestampType, TimestamptzType

from isotherm.core.model.tables import PartitionField

TOTAL, ADDED = "total-equality-deletes", "added-equality-deletes"
"""What a snapshot's summary says of them."""
TIMES = (DateType, TimestampType, TimestamptzType)
"""The types of columns whose time is computed here."""


def partition_fields(metadata: TableMetadata) -> tuple[PartitionField, ...]:
    """The unified partition type: the fields of all specs."""
    fields: dict[int, PartitionField] = {}
    current = {
        part.field_id for part in metadata.spec().fields if not isinstance(part.transform, VoidTransform)
    }
    for spec in metadata.partition_specs:
        for part in spec.fields:
            if isinstance(part.transform, VoidTransform):
                continue
            fields[part.field_id] = PartitionField(
                part.field_id,
                part.name,
                str(part.transform),
                _source_type(metadata, part.source_id),
                is_current=part.field_id in current,
                source_id=part.source_id,
            )
    return tuple(fields[field_id] for field_id in sorted(fields))


def why_not_moved(metadata: TableMetadata) -> str:
    """Why files of older specs cannot be written in the current one, or empty where they can."""
    if len(metadata.partition_specs) < 2:
        return ""
    parts = [part for part in metadata.spec().fields if not isinstance(part.transform, VoidTransform)]
    if len(parts) != 1:
        fields = "is not divided" if not parts else f"has {len(parts)} fields"
        return f"the current one {fields}, and only one with a single field of time is written"
    (part,) = parts
    column = next(
        (field for field in metadata.schema().fields if field.field_id == part.source_id),
        None,
    )
    if column is None:
        return f"the column of {part.name}, the field of the current one, is dropped, or lies within another"
    if not _is_time(part.transform, column.field_type):
        return (
            f"{part.name}, the field of the current one, is no time ({part.transform} of {column.field_type})"
        )
    return "" if (by := upserted_by(metadata)) is None else f"rows of the table are replaced by key ({by})"


def upserted_by(metadata: TableMetadata) -> str | None:
    """What says that rows of a table are, or may be, replaced by key; None where nothing does.

    Such a writer keeps the spec that the table had when it began, and its equality deletes apply to files of that spec alone.
    What was moved from under it would stay beside each new version. Nothing tells which spec a writer holds.
    """
    if metadata.schema().identifier_field_ids:
        return "its schema has identifier fields"
    if metadata.properties.get("write.upsert.enabled", "").strip().lower() == "true":
        return "write.upsert.enabled"
    head = metadata.current_snapshot()
    if head is not None and TOTAL not in _said(head):
        # Once one commit does not count them, those after it cannot either.
        return f"or may be: snapshot {head.snapshot_id} does not count equality deletes"
    for one in reversed(metadata.snapshots):
        if any(_said(one).get(name, "0") != "0" for name in (TOTAL, ADDED)):
            return f"snapshot {one.snapshot_id} has equality deletes"
    return None


def _said(snapshot: Snapshot) -> Mapping[str, str]:
    return {} if snapshot.summary is None else snapshot.summary.additional_properties


def _is_time(transform: object, source: IcebergType) -> bool:
    if isinstance(transform, IdentityTransform):
        return isinstance(source, DateType)
    return isinstance(transform, TimeTransform) and isinstance(source, TIMES)


def _source_type(metadata: TableMetadata, source_id: int) -> str:
    """Iceberg's name of a source column's type, also of one that was dropped since."""
    for schema in reversed(metadata.schemas):
        try:
            return str(schema.find_type(source_id))
        except ValueError:
            continue
    return "unknown"
