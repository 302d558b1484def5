"""Whether a table is written at all, by the folders that it names."""

from pyiceberg.table.metadata import TableMetadata

from isotherm.contract.paths import misplaced


def misplaced_table(metadata: TableMetadata) -> str:
    """Why nothing is written to a table with such folders, or nothing where it may be.

    Its owner may choose its location too. Where the table really is, its newest manifest list says: one on a disk was read
    there, and whoever moves a table of a store to a disk has nothing there.
    """
    head = metadata.current_snapshot()
    lies = metadata.location if head is None else head.manifest_list
    return misplaced(metadata.location, metadata.properties, lies)
