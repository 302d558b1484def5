"""The ids of rows, and when each was last written (format version 3), as columns like all others.

A row that nobody moved has them of its file: the id of the first row and its position, and the file's sequence number. In
a file of ours rows of many files lie together, so it says both for each row (specification, "Row Lineage").
"""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import LongType, NestedField

from isotherm.core.model.files import LiveFile
from isotherm.core.model.tables import WITH_ROW_IDS

ROW_ID, LAST_UPDATED = 2147483540, 2147483539
FIELDS = (
    NestedField(ROW_ID, "_row_id", LongType(), required=False),
    NestedField(LAST_UPDATED, "_last_updated_sequence_number", LongType(), required=False),
)


def with_row_ids(metadata: TableMetadata) -> TableMetadata:
    """A table as if the ids of its rows were columns of its current schema; as it is where they have none."""
    if metadata.format_version < WITH_ROW_IDS:
        return metadata
    present = metadata.schema()
    schema = Schema(*present.fields, *FIELDS, schema_id=present.schema_id)
    others = [one for one in metadata.schemas if one.schema_id != present.schema_id]
    return metadata.model_copy(update={"schemas": [*others, schema]})


def filled(rows: pa.RecordBatch, file: LiveFile, positions: pa.Array) -> pa.RecordBatch:
    """Rows of a file with the ids that they inherit from it, where they have columns for them.

    Args:
        rows: these, with what the file itself says.
        file: where they lie.
        positions: where in it, row by row.
    """
    if file.first_row_id is None:
        return rows  # they have none yet: their new file gives them some
    inherited = {
        ROW_ID: pc.add(positions, pa.scalar(file.first_row_id, pa.int64())),
        LAST_UPDATED: pa.scalar(file.sequence_number, pa.int64()),
    }
    for field in FIELDS:
        place = rows.schema.get_field_index(field.name)
        if place >= 0:
            told = pc.coalesce(rows.column(place), inherited[field.field_id])
            rows = rows.set_column(place, rows.schema.field(place), told)
    return rows


def inherited_sql(file: LiveFile) -> Mapping[int, str]:
    """The same as DuckDB finds it: by field id, what holds where a row says nothing. `position` is the row's."""
    if file.first_row_id is None:
        return {}
    return {ROW_ID: f"({file.first_row_id} + position)", LAST_UPDATED: str(file.sequence_number)}
