"""AWS Glue, where no property of a table moves the pointer to its metadata, and where a commit keeps what people wrote there.

A table's entry in Glue names its metadata.json in a parameter, `metadata_location`. PyIceberg sets that parameter, and then
writes the table's own properties over it. So a property of that name would take the place of the pointer: the first commit of
ours would bring an old version back, and everybody's commits since would be gone. Java and Spark write no such parameters
from properties, so nothing shows before.

PyIceberg also leaves out of the entry what Iceberg does not keep: the owner, the description and the comments on columns.
Iceberg's Java keeps them, and so does this. What else is in an entry (a SerDe, for instance) goes, as with Java.
"""

from copy import deepcopy
from threading import local
from typing import Any

from pyiceberg.catalog import METADATA_LOCATION, PREVIOUS_METADATA_LOCATION, TABLE_TYPE
from pyiceberg.catalog.glue import GlueCatalog
from pyiceberg.exceptions import BadRequestError
from pyiceberg.table import StagedTable

RESERVED = frozenset({METADATA_LOCATION, PREVIOUS_METADATA_LOCATION, TABLE_TYPE, "EXTERNAL"})
"""Parameters of an entry by which engines find the table; as properties of a table they mean nothing."""
KEPT = ("Description", "Owner", "Retention")


class PointingGlueCatalog(GlueCatalog):
    """Glue, where an entry points to the metadata that was written last, whatever properties the table has."""

    def __init__(self, name: str, **properties: Any) -> None:
        super().__init__(name, **properties)
        self._here = _Here()

    def _get_glue_table(self, database_name: str, table_name: str) -> Any:
        entry = super()._get_glue_table(database_name, table_name)
        self._here.entry = deepcopy(entry)  # PyIceberg writes into the one that it has
        return entry

    def _update_and_stage_table(self, *args: Any, **kwargs: Any) -> StagedTable:
        staged = super()._update_and_stage_table(*args, **kwargs)
        self._here.staged = staged.metadata_location
        return _Staged(
            identifier=staged.name(),
            metadata=staged.metadata,
            metadata_location=staged.metadata_location,
            io=staged.io,
            catalog=staged.catalog,
        )

    def _update_glue_table(
        self, database_name: str, table_name: str, table_input: Any, version_id: str
    ) -> None:
        named = table_input["Parameters"].get(METADATA_LOCATION)
        if named != self._here.staged:
            raise BadRequestError(
                f"nothing was sent: the entry of {database_name}.{table_name} would name {named}, and what was written "
                f"is {self._here.staged}"
            )
        _keep(self._here.entry, table_input)
        super()._update_glue_table(database_name, table_name, table_input, version_id)


class _Here(local):
    """What the commit on this thread began with, and where it wrote."""

    entry: Any = None
    staged: str | None = None


class _Staged(StagedTable):
    """A table to be committed: its properties are those that may become parameters of its entry."""

    @property
    def properties(self) -> dict[str, str]:
        """Its properties without the names that are Glue's; its metadata has all of them."""
        return {name: text for name, text in super().properties.items() if name not in RESERVED}


def _keep(entry: Any, table_input: Any) -> None:
    """Take over from an entry what people wrote there, where the table itself says nothing else."""
    for name in KEPT:
        if name in entry:
            table_input.setdefault(name, entry[name])
    columns = entry.get("StorageDescriptor", {}).get("Columns", ())
    comments = {column["Name"]: column["Comment"] for column in columns if "Comment" in column}
    for column in table_input["StorageDescriptor"]["Columns"]:
        if column["Name"] in comments:
            column.setdefault("Comment", comments[column["Name"]])
