"""What PyIceberg's own catalogs are asked to check, and do not check by themselves."""

from typing import Literal

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import ValidatableTableRequirement

from isotherm.iceberg.manifests.writing import next_row_id
from isotherm.iceberg.values import name_mapping_of


class AssertUnmoved(ValidatableTableRequirement):
    """For catalogs that PyIceberg itself updates: no commit on any branch came in between, and no other name mapping.

    Their update would else be applied to newer metadata: an error, or on version 3 the same sequence number twice.
    A REST catalog assigns for itself and knows no such requirement.
    """

    type: Literal["assert-unmoved"] = "assert-unmoved"
    next_sequence_number: int
    next_row_id: int | None
    name_mapping: str
    stamped_at_ms: int
    """Of the snapshot: metadata that somebody made younger since would go back in time, and Java would not load it."""

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]
        """Compare with the metadata that is about to be replaced."""
        found = base_metadata.next_sequence_number() if base_metadata is not None else None
        if found != self.next_sequence_number:
            raise CommitFailedException(
                f"the next sequence number is {found}, no longer {self.next_sequence_number}"
            )
        if base_metadata is not None and (other := next_row_id(base_metadata)) != self.next_row_id:
            raise CommitFailedException(f"the next row id is {other}, no longer {self.next_row_id}")
        if base_metadata is not None and base_metadata.last_updated_ms >= self.stamped_at_ms:
            raise CommitFailedException(f"the table was updated at {base_metadata.last_updated_ms}")
        if base_metadata is not None and name_mapping_of(base_metadata) != self.name_mapping:
            raise CommitFailedException(f"{TableProperties.DEFAULT_NAME_MAPPING} is another by now")
