"""What of a table keeps its rows from being rewritten, as far as its metadata tells."""

from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata, TableMetadataV3
from pyiceberg.types import TimestampNanoType, TimestamptzNanoType, UnknownType
from pyiceberg.utils.properties import property_as_int

from isotherm.core.model.tables import COMPACTED
from isotherm.iceberg.row_ids import FIELDS

MOST_SAID = 100
"""Characters of a name: each partition's verdict repeats it."""
_NO_TYPES = (TimestampNanoType, TimestamptzNanoType, UnknownType)
"""Types of which no value is written here: of format 3, as far as PyIceberg knows its types at all."""


def unsupported(metadata: TableMetadata) -> str:
    """Why nothing of a table can be compacted yet, or nothing where it can."""
    if metadata.format_version not in COMPACTED:
        return f"format version {metadata.format_version} is followed, not yet rewritten"
    if why := _garbage(metadata):
        return why
    return _of_version_3(metadata) if isinstance(metadata, TableMetadataV3) else ""


def _garbage(metadata: TableMetadata) -> str:
    """That a property which whoever commits must read is no number: no commit comes through, and each would leave its files."""
    name = TableProperties.METADATA_PREVIOUS_VERSIONS_MAX
    try:
        property_as_int(metadata.properties, name)
    except ValueError:
        said = metadata.properties[name][:MOST_SAID]
        return f"the table's property {name} is {said!r}, which is no number, though whoever commits reads it: mend it"
    return ""


def _of_version_3(metadata: TableMetadataV3) -> str:
    if metadata.next_row_id is None:
        return "its metadata is of format version 3, and says no next-row-id"
    schema = metadata.schema()
    reserved = {field.name for field in FIELDS}
    for field_id in schema.field_ids:
        field = schema.find_field(field_id)
        if isinstance(field.field_type, _NO_TYPES):
            return f"column {field.name[:MOST_SAID]} has type {field.field_type}, which cannot be written yet"
    names = [field.name for field in schema.fields if field.name in reserved]
    return f"column {names[0]} has a name that is Iceberg's own for the ids of rows" if names else ""
